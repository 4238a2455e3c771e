"""Numbers of papers, of a scheduler's tests and of an article, for every method that computes them."""

from collections.abc import Mapping
from typing import Any

import pytest

from omega import pools

HIERARCHICAL = ("min-satisfaction-hdrf", "naive-hdrf")
Tree = list[dict[str, Any]]


def pool(name: str, parent: str = pools.ROOT, weight: float = 1.0, **fields: Any) -> dict[str, Any]:
    return {"id": name, "kind": "pool", "parent": parent, "weight": weight, **fields}


def job(name: str, parent: str, tasks: int, cpu: float, memory: float = 0.0, **fields: Any) -> dict[str, Any]:
    return {
        "id": name, "kind": "job", "parent": parent, "demand": {"cpu": tasks * cpu, "memory": tasks * memory}, **fields
    }  # fmt: skip


def amounts(method: str, cpu: float, memory: float, tree: Tree, **more: Any) -> dict[str, tuple[float, float]]:
    total = {"cpu": cpu, "memory": memory}
    found = pools.computed(*pools.from_document({"total_resources": total, "tree": tree, **more}), method=method)
    return {
        name: (one["fair_share"]["cpu"] * cpu, one["fair_share"]["memory"] * memory)
        for name, one in found["elements"].items()
    }


def check(method: str, total: tuple[float, float], tree: Tree, wanted: Mapping[str, tuple[float, float]]) -> None:
    found = amounts(method, *total, tree)
    for name, vector in wanted.items():
        assert found[name] == pytest.approx(vector, abs=1e-6), (method, name)


@pytest.mark.parametrize("method", pools.METHODS)
@pytest.mark.parametrize(
    ("total", "demands", "wanted"),
    [
        # Ghodsi et al., NSDI 2011, section 4.1: three tasks of one user, two of the other.
        ((9, 18), [(1, 4), (3, 1)], [(3, 12), (6, 2)]),
        # The same paper's clusters for other policies, under its own: dominant shares of 1/2 and of 2/3.
        ((30, 30), [(1, 3), (1, 1)], [(5, 15), (15, 15)]),
        ((100, 100), [(16, 1), (1, 2)], [(66 + 2 / 3, 4 + 1 / 6), (33 + 1 / 3, 66 + 2 / 3)]),
    ],
)
def test_two_users(
    method: str, total: tuple[float, float], demands: list[tuple[float, float]], wanted: list[tuple[float, float]]
) -> None:
    tree = [job(str(number), pools.ROOT, 1000, *demand) for number, demand in enumerate(demands)]
    check(method, total, tree, {str(number): vector for number, vector in enumerate(wanted)})


@pytest.mark.parametrize("method", HIERARCHICAL)
def test_complementary_siblings_are_rescaled(method: str) -> None:
    """The case "rescaling" of the tests of Volcano (Apache-2.0)."""
    tree = [pool("sci", weight=50), pool("eng", weight=50), pool("dev", "eng", 50), pool("prod", "eng", 50)]
    tree += [job("1", "sci", 10, 1, 1), job("21", "dev", 10, 1), job("22", "prod", 10, 0, 1)]
    check(method, (10, 10), tree, {"1": (5, 5), "21": (5, 0), "22": (0, 5)})


@pytest.mark.parametrize("method", HIERARCHICAL)
def test_a_blocked_sibling_does_not_count(method: str) -> None:
    """The case "blocking nodes" of the tests of Volcano (Apache-2.0), from Bhattacharya et al., SoCC 2013."""
    tree = [pool(name, weight=25) for name in ("p1", "p2", "p3", "p4")] + [pool("p31", "p3"), pool("p32", "p3")]
    tree += [job("1", "p1", 30, 1), job("2", "p2", 30, 1), job("31", "p31", 30, 1), job("32", "p32", 30, 0, 1)]
    tree += [job("4", "p4", 30, 0, 1)]
    wanted = {"1": (10, 0), "2": (10, 0), "31": (10, 0), "32": (0, 15), "4": (0, 15)}
    check(method, (30, 30), tree, wanted)


@pytest.mark.parametrize("method", pools.METHODS)
def test_promises_multiply_down_the_tree(method: str) -> None:
    """A fifth of three tenths is 6 %, where all want one resource."""
    tree = [pool("a", weight=0.3), pool("b", weight=0.7), pool("research", "a", 0.2), pool("production", "a", 0.8)]
    tree += [job("r", "research", 100, 1), job("p", "production", 100, 1), job("o", "b", 100, 1)]
    check(method, (100, 100), tree, {"r": (6, 0), "p": (24, 0), "o": (70, 0)})


@pytest.mark.parametrize("method", pools.METHODS)
def test_a_light_sibling_distorts_nothing(method: str) -> None:
    """The tree of an issue of Volcano (1661): half to each branch, in one of them 100 : 1."""
    tree = [pool("alt"), pool("dev"), pool("side", "alt"), pool("big", "dev", 100), pool("little", "dev")]
    tree += [job(f"j{name}", name, 12, 1, 0.25) for name in ("side", "big", "little")]
    check(method, (12, 12), tree, {"alt": (6, 1.5), "dev": (6, 1.5), "big": (600 / 101, 150 / 101)})


COMPANY = [
    pool("company", strong_guarantee={"cpu": 24}),
    pool("development", "company", strong_guarantee={"cpu": 20}),
    pool("production", "development", strong_guarantee={"cpu": 16}),
    pool("testing", "development", strong_guarantee={"cpu": 4}),
    pool("analytics", "company", strong_guarantee={"cpu": 4}),
    pool("chyt", "analytics", strong_guarantee={"cpu": 4}),
    pool("bi", "analytics"),
]


@pytest.mark.parametrize(
    ("tree", "wanted"),
    [
        ([job(str(n), pools.ROOT, 3, 2) for n in range(6)], {str(n): 4 for n in range(6)}),
        ([job(str(w), pools.ROOT, 12, 1, weight=w) for w in (1, 2, 3)], {"1": 4, "2": 8, "3": 12}),
        (
            [pool("a"), pool("b")] + [job(f"{at}{w}", at, 12, 1, weight=w) for at in "ab" for w in (1, 2, 3)],
            {f"{at}{w}": 2 * w for at in "ab" for w in (1, 2, 3)},
        ),
        (
            [
                *COMPANY,
                job("p1", "production", 4, 1), job("c", "chyt", 4, 1), job("p2", "production", 12, 1),
                job("t", "testing", 8, 1), job("b", "bi", 4, 1),
            ],
            {"p1": 4, "p2": 12, "c": 4, "t": 4, "b": 0},
        ),
        ([pool("p", strong_guarantee={"cpu": 4}, limits={"cpu": 3}), job("j", "p", 10, 1)], {"j": 3}),
        ([pool("p"), job("old", "p", 20, 1), job("new", "p", 13, 1)], {"old": 12, "new": 12}),
        (
            [pool("p", mode="fifo")] + [job(str(n), "p", 5, 1, start_time=n / 10) for n in range(6)],
            {"0": 5, "1": 5, "2": 5, "3": 5, "4": 4, "5": 0},
        ),
    ],
    ids=["equal", "weights", "pools", "guarantees", "limit", "preemption", "fifo"],
)  # fmt: skip
def test_the_examples_of_an_article(tree: Tree, wanted: dict[str, float]) -> None:
    """Cores of 24 in examples 2 to 12 of an article on YTsaurus (Habr, in Russian)."""
    found = amounts("pool-tree", 24, 60, tree)
    assert {name: found[name][0] for name in wanted} == pytest.approx(wanted, abs=1e-9)


def test_vector_guarantees_of_the_article() -> None:
    tree = [
        pool("company", strong_guarantee={"cpu": 24, "memory": 54}),
        pool("analytics", "company", strong_guarantee={"cpu": 4, "memory": 16}),
        pool("chyt", "analytics", strong_guarantee={"cpu": 4, "memory": 16}),
    ]
    found = pools.computed(*pools.from_document({"total_resources": {"cpu": 24, "memory": 60}, "tree": tree}))
    shares = {name: found["elements"][name]["strong_guarantee_share"] for name in ("company", "analytics", "chyt")}
    small = {"cpu": 4 / 24, "memory": 16 / 60}
    assert shares["company"] == pytest.approx({"cpu": 1, "memory": 0.9})
    assert shares["analytics"] == shares["chyt"] == pytest.approx(small)


def test_a_pool_accumulates_its_flow() -> None:
    """Ten seconds at a core per second: the article's example 15."""
    tree = [
        pool("example", integral={"flow": {"cpu": 1}}),
        pool("integral", "example", integral={"type": "relaxed", "flow": {"cpu": 1}}),
    ]
    document = {"total_resources": {"cpu": 24, "memory": 60}, "tree": tree, "seconds_since_previous_update": 10}
    found = pools.computed(*pools.from_document(document))["elements"]["integral"]
    assert found["volume"] == pytest.approx({"cpu": 10, "memory": 25})
