"""Trees that contradict themselves are refused with the element and the remedy; limits below guarantees are allowed."""

from collections.abc import Callable
from typing import Any

import pytest

from omega import pools
from omega.cellstate.errors import BadInput

POOL = {"id": "a", "kind": "pool"}


def tree(*elements: Any, **more: Any) -> dict[str, Any]:
    return {"total_resources": {"cpu": 10}, "tree": list(elements), **more}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (tree(POOL, POOL), "two elements are named 'a'"),
        (tree({"id": "a", "kind": "pool", "parent": "b"}), "'a' is below 'b', which is no pool"),
        (tree({**POOL, "parent": "b"}, {"id": "b", "kind": "pool", "parent": "a"}), "a, b form a circle"),
        (tree({**POOL, "parent": "a"}), "a form a circle"),
        (tree({**POOL, "mode": "fifo"}, {"id": "b", "kind": "pool", "parent": "a"}), "'b' is below the FIFO pool 'a'"),
        (tree({**POOL, "weight": 0}), "tree.0.weight (of 'a'): want at least 1e-09, not 0"),
        (tree({**POOL, "weight": -1}), "tree.0.weight (of 'a'): want at least 1e-09, not -1"),
        (tree({**POOL, "weight": 1e308}), "tree.0.weight (of 'a'): want at most 1e+09, not 1e+308"),
        (
            tree({**POOL, "weight": 1e8}, {"id": "j", "kind": "job", "weight": 0.5}),
            "tree.1 ('j'): the weight of 'a' is more than 1e+08 times its own",
        ),
        (tree({**POOL, "limits": {"gpu": 1}}), "limits of 'a' names 'gpu'; the tree has cpu"),
        (tree({**POOL, "limits": {"cpu": -1}}), "tree.0.limits.cpu (of 'a'): want at least 0, not -1"),
        (tree({**POOL, "limits": {"": 1}}), "tree.0.limits"),
        (tree({**POOL, "demand": {"cpu": 1}}), "tree.0 ('a'): demand is a field of jobs"),
        (tree({"id": "j", "kind": "job", "mode": "fifo"}), "tree.0 ('j'): mode is a field of pools"),
        (
            tree({"id": "j", "kind": "job", "demand": {"cpu": 1e14}}),
            "demand of cpu is 1e+14, more than 1e+12 × the total",
        ),
        (tree({"id": "j", "kind": "job", "demand": {"cpu": 1e308}}), "tree.0.demand.cpu (of 'j'): want at most 1e+24"),
        (tree({"id": "j", "kind": "job", "demand": {"cpu": True}}), "want a valid number, not True"),
        (tree({"id": "j", "kind": "job", "demand": {"cpu": "5"}}), "want a valid number, not '5'"),
        (tree({"id": "j", "kind": "job", "demand": [5]}), "demand (of 'j'): want a mapping of resources to amounts"),
        (
            tree({"id": "j", "kind": "job", "best_allocation_share": {"gpu": 1}}),
            "tree.0 ('j'): best_allocation_share names 'gpu'; the tree has cpu",
        ),
        (tree(POOL, options={"main_resource": "gpu"}), "options.main_resource names 'gpu'; the tree has cpu"),
        (tree(POOL, option={"improved_fit_factor": True}), "option: there is no such field; did you mean options?"),
        (tree(POOL, seconds_since_previous_update=1e308), "seconds_since_previous_update: want at most 1e+10"),
        (tree(POOL, options={"integral_smooth_period": 1e-320}), "integral_smooth_period: want at least 0.001"),
        ({"total_resources": {}, "tree": [POOL]}, "total_resources: names no resource"),
        ({"total_resources": {"cpu": -1}, "tree": [POOL]}, "total_resources.cpu: want at least 0, not -1"),
        ({"total_resources": {"cpu": 1e-320}, "tree": []}, "total_resources.cpu: want 0 or at least 1e-09, not 1e-320"),
        ({"total_resources": {"cpu": float("nan")}, "tree": []}, "total_resources.cpu: want a finite number"),
        (tree({**POOL, "fifo_sort_parameters": ["age"]}), "sort key 'age' of 'a'"),
        (
            tree({"id": "j", "kind": "job", "demand": {"cpu": 1}, "usage": {"cpu": 2}}),
            "'j' uses more cpu than its demand",
        ),
        (tree({"id": "j", "kind": "job", "demands": {"cpu": 1}}), "tree.0.demands (of 'j'): there is no such field"),
        (tree("a"), "tree.0: want a mapping of fields"),
        ({"tree": []}, "total_resources"),
        ([], "the document"),
    ],
)
def test_refused(document: Any, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        pools.from_document(document)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: pools.Tree({}, [], []), "the totals name no resource"),
        (lambda: pools.Tree({"cpu": -1}, [], []), "the total of cpu is -1; amounts are 0 or more"),
        (lambda: pools.Tree({"cpu": 1}, [pools.Pool("a", weight=0.0)], []), "weight 0.0 of 'a'"),
        (lambda: pools.Tree({"cpu": 1}, [pools.Pool("a", limits={"cpu": -1})], []), "cpu is -1; amounts are 0 or more"),
    ],
)
def test_refused_in_python(build: Callable[[], object], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        build()
    assert said in str(caught.value)


@pytest.mark.parametrize("method", pools.METHODS)
def test_a_chain_of_a_thousand_levels(method: str) -> None:
    """Each level has a job beside the next pool: parts of weight multiply to less than the smallest number."""
    elements: list[dict[str, Any]] = []
    for level in range(1_000):
        above = f"p{level - 1}" if level else pools.ROOT
        elements.append({"id": f"p{level}", "kind": "pool", "parent": above, "weight": 0.4})
        elements.append({"id": f"j{level}", "kind": "job", "parent": above, "demand": {"cpu": 4}})
    found = pools.computed(*pools.from_document(tree(*elements)), method=method)["elements"]
    assert [found[name]["fair_share"]["cpu"] for name in ("<Root>", "j0", "j1")] == pytest.approx(
        [1, 0.4, 0.4], abs=1e-9
    )


@pytest.mark.parametrize("method", pools.METHODS)
def test_no_machines(method: str) -> None:
    job = {"id": "j", "kind": "job", "parent": "a", "demand": {"cpu": 4}}
    given = pools.from_document({"total_resources": {"cpu": 0}, "tree": [POOL, job]})
    assert pools.computed(*given, method=method)["elements"]["j"]["fair_share"] == {"cpu": 0.0}


def test_a_limit_below_the_guarantee_wins() -> None:
    given = tree(
        {**POOL, "strong_guarantee": {"cpu": 8}, "limits": {"cpu": 3}},
        {"id": "j", "kind": "job", "parent": "a", "demand": {"cpu": 10}},
    )
    found = pools.computed(*pools.from_document(given))["elements"]["a"]
    assert found["fair_share"]["cpu"] == pytest.approx(0.3)
    assert found["strong"]["cpu"] == pytest.approx(0.3)


def test_guarantees_above_the_parents_are_reported_and_scaled() -> None:
    given = tree(
        {**POOL, "strong_guarantee": {"cpu": 4}},
        *({"id": name, "kind": "pool", "parent": "a", "strong_guarantee": {"cpu": 4}} for name in "bc"),
    )
    found = pools.computed(*pools.from_document(given))
    assert "below 'a' exceed its own: cpu" in found["errors"][0]
