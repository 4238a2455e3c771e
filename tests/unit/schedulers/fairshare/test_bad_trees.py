"""Trees that contradict themselves are refused with the element and the remedy; limits below guarantees are allowed."""

from typing import Any

import pytest

from cellstate.errors import BadInput
from omega import pools

POOL = {"id": "a", "kind": "pool"}


def tree(*elements: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"total_resources": {"cpu": 10}, "tree": list(elements), **more}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (tree(POOL, POOL), "two elements are named 'a'"),
        (tree({"id": "a", "kind": "pool", "parent": "b"}), "'a' is below 'b', which is no pool"),
        (tree({**POOL, "parent": "b"}, {"id": "b", "kind": "pool", "parent": "a"}), "a, b form a circle"),
        (tree({**POOL, "parent": "a"}), "a form a circle"),
        (tree({**POOL, "mode": "fifo"}, {"id": "b", "kind": "pool", "parent": "a"}), "'b' is below the FIFO pool 'a'"),
        (tree({**POOL, "weight": 0}), "weight 0.0 of 'a'"),
        (tree({**POOL, "weight": -1}), "weight -1.0 of 'a'"),
        (tree({**POOL, "limits": {"gpu": 1}}), "limits of 'a' names 'gpu'; the tree has cpu"),
        (tree({**POOL, "limits": {"cpu": -1}}), "cpu is -1.0; amounts are 0 or more"),
        (tree({**POOL, "fifo_sort_parameters": ["age"]}), "sort key 'age' of 'a'"),
        (
            tree({"id": "j", "kind": "job", "demand": {"cpu": 1}, "usage": {"cpu": 2}}),
            "'j' uses more cpu than its demand",
        ),
        (tree({"id": "j", "kind": "job", "demands": {"cpu": 1}}), "tree.0.demands"),
        ({"tree": []}, "total_resources"),
        ([], "the document"),
    ],
)
def test_refused(document: Any, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        pools.from_document(document)
    assert said in str(caught.value)


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
