"""Every rule that a configuration of pools must satisfy, and its message."""

import re

import pytest

from omega import pools
from omega.cellstate.errors import BadInput
from omega.cellstate.job_demands import LEAST_WEIGHT, MOST_WEIGHT
from omega.cellstate.pools import ROOT, Integral, Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.pools.records import pack, unpack_pool, unpack_trees
from omega.cellstate.pools.rules import check

RESOURCES = ("cpu", "memory")


def refused(message: str, *pools: Pool, trees: tuple[PoolTree, ...] = (PoolTree(),)) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        check(Pools(pools, trees), RESOURCES)


@pytest.mark.parametrize(
    ("message", "pool"),
    [
        ("pool name 'a b'", Pool("a b")),
        ("pool a: weight 0; weights are from 0.001", Pool("a", weight=0)),
        ("pool a: weight -1", Pool("a", weight=-1)),
        ("pool a: weight nan", Pool("a", weight=float("nan"))),
        ("pool a: weight 1e+308; weights are from 0.001 to 100,000", Pool("a", weight=1e308)),
        ("pool a: weight 1e-09; weights are from 0.001 to 100,000", Pool("a", weight=1e-9)),
        (
            "pool a: starvation_tolerance 1.5; want a part",
            Pool("a", preemption=PreemptionSettings(starvation_tolerance=1.5)),
        ),
        ("pool a: mode 'lifo'; one of fair_share, fifo", Pool("a", mode="lifo")),
        ("pool a: sort key 'age'", Pool("a", sort_keys=("age",))),
        ("pool a: its parent 'nobody' is no pool; other pools: none", Pool("a", "nobody")),
        ("pool a: is below itself: a < a", Pool("a", "a")),
        ("pool a: tree 'gpu' is unknown", Pool("a", tree="gpu")),
        ("pool a: guarantee: names 'gpu'", Pool("a", guarantee={"gpu": 1})),
        ("pool a: guarantee: cpu is -1", Pool("a", guarantee={"cpu": -1})),
        ("pool a: limits: cpu is 1.5", Pool("a", limits={"cpu": 1.5})),
        ("pool a: limits: names 'slots'; known: cpu, memory, tasks, jobs", Pool("a", limits={"slots": 1})),
        ("pool a: integral guarantee 'much'", Pool("a", integral=Integral("much"))),
        ("pool a: relaxed_multiplier 11", Pool("a", integral=Integral("relaxed", relaxed_multiplier=11))),
        ("pool a: reclaim 'always'", Pool("a", reclaim="always")),
        ("pool a: a user without a name", Pool("a", users=("",))),
        ("pool a: starvation_timeout -1", Pool("a", preemption=PreemptionSettings(starvation_timeout=-1))),
        (
            "pool a: aggressive_threshold 1.5 is above threshold 1",
            Pool("a", preemption=PreemptionSettings(aggressive_threshold=1.5)),
        ),
    ],
)
def test_a_pool_that_breaks_a_rule_is_refused(message: str, pool: Pool) -> None:
    refused(message, pool)


@pytest.mark.parametrize("weights", [(LEAST_WEIGHT, MOST_WEIGHT), (MOST_WEIGHT, MOST_WEIGHT, LEAST_WEIGHT)])
def test_fair_shares_are_exact_for_the_weights_that_are_accepted(weights: tuple[float, ...]) -> None:
    names = [f"p{i}" for i in range(len(weights))]
    check(Pools(tuple(Pool(name, weight=each) for name, each in zip(names, weights, strict=True))), RESOURCES)
    elements = [pools.Pool(name, weight=each) for name, each in zip(names, weights, strict=True)]
    tree = pools.Tree({"cpu": 8}, elements, [pools.Job(f"j{name}", name, {"cpu": 8}) for name in names])
    shares = pools.fair_shares(tree)
    found = [float(shares.pools[tree.numbers[name]][0]) for name in names]
    assert found == pytest.approx([each / sum(weights) for each in weights], rel=1e-9)


def test_trees_of_pools_are_trees() -> None:
    refused("pool a: is there twice", Pool("a"), Pool("a"))
    refused("pool a: is below itself: a < b < a", Pool("a", "b"), Pool("b", "a"))
    refused("pool b: its parent a is a FIFO pool, which holds jobs only", Pool("a", mode="fifo"), Pool("b", "a"))
    refused("pool b: is in the tree of its parent a", Pool("a"), Pool("b", "a", tree="default"))
    deep = [Pool(f"p{n}", f"p{n - 1}" if n else ROOT) for n in range(17)]
    refused("pool p16: is more than 16 levels deep", *deep)
    check(Pools(tuple(deep[:16])), RESOURCES)


def test_guarantees_of_children_fit_into_the_parent() -> None:
    parent = Pool("a", guarantee={"cpu": 10})
    refused(
        "pool a: the pools below it have a guarantee of cpu 11m together, it has 10m",
        parent, Pool("b", "a", guarantee={"cpu": 6}), Pool("c", "a", guarantee={"cpu": 5}),
    )  # fmt: skip
    check(Pools((parent, Pool("b", "a", guarantee={"cpu": 6, "memory": 99}))), RESOURCES)  # memory is inferred
    refused("have a guarantee of memory 1Mi together", Pool("a"), Pool("b", "a", guarantee={"memory": 1}))
    refused(
        "pool a: the pools below it have a flow of cpu 3m together, it has 2m",
        Pool("a", integral=Integral("burst", flow={"cpu": 2})),
        Pool("b", "a", integral=Integral("relaxed", flow={"cpu": 3})),
    )  # fmt: skip
    check(Pools((Pool("a", guarantee={"cpu": 10}, limits={"cpu": 5}),)), RESOURCES)  # the limit wins


def test_thresholds_are_checked_as_they_are_inherited() -> None:
    high = PreemptionSettings(aggressive_threshold=0.9)
    refused(
        "pool b: aggressive_threshold 0.9 is above threshold 0.5",
        Pool("a", preemption=high), Pool("b", "a", preemption=PreemptionSettings(threshold=0.5)),
    )  # fmt: skip
    refused(
        "pool a: aggressive_threshold 2",
        Pool("a"),
        trees=(PoolTree(preemption=PreemptionSettings(aggressive_threshold=2)),),
    )


@pytest.mark.parametrize(
    ("message", "trees"),
    [
        ("pool trees: none", ()),
        ("pool tree 'a': is there twice", (PoolTree("a", "x == 1"), PoolTree("a"))),
        ("pool trees a, b: each would take the machines of no other tree", (PoolTree("a"), PoolTree("b"))),
        ("pool tree default: default_parent 'z' is no pool", (PoolTree(default_parent="z"),)),
        ("pool tree default: default_parent 'f' is a FIFO pool", (PoolTree(default_parent="f"),)),
        ("default_parent 'p' is in another tree", (PoolTree(), PoolTree("gpu", "gpu == 1", default_parent="p"))),
        ("pool tree 'default': smooth_period 0", (PoolTree(smooth_period=0),)),
        ("pool tree 'default': relaxed_multiplier 0.5", (PoolTree(relaxed_multiplier=0.5),)),
    ],
)
def test_trees_that_break_a_rule_are_refused(message: str, trees: tuple[PoolTree, ...]) -> None:
    refused(message, Pool("p"), Pool("f", mode="fifo"), trees=trees)


def test_settings_in_force_come_from_ancestors_and_the_tree() -> None:
    trees = (PoolTree(preemption=PreemptionSettings(starvation_timeout=5)),)
    pools = Pools(
        (
            Pool("a", limits={"cpu": 9}, users=("ada", "bob"),
                 preemption=PreemptionSettings(threshold=2.0, starvation_tolerance=0.5)),
            Pool("b", "a", preemption=PreemptionSettings(threshold=1.5), users=("ada", "cy")),
            Pool("c", "b", limits={"tasks": 1}),
        ),
        trees,
    )  # fmt: skip
    found = pools.preemption("c")
    assert (found.threshold, found.starvation_tolerance, found.starvation_timeout) == (1.5, 0.5, 5)
    assert found.allocation_timeout is None, "the grace of jobs"
    assert pools.preemption("of a user").starvation_timeout == 5
    assert [pool.name for pool in pools.chain("c")] == ["c", "a"]
    closed = [pools.closed_to("c", user) for user in ("ada", "bob", "cy")]
    assert [pool.name if pool else None for pool in closed] == [None, "b", "a"]
    assert pools.admitted("c") == ("ada",)
    assert pools.leaves == {"c"}


def test_records_are_read_back() -> None:
    pool = Pool(
        "a",
        "b",
        number=7,
        weight=2,
        integral=Integral("burst", flow={"cpu": 1}),
        preemption=PreemptionSettings(backoff=1),
    )
    assert unpack_pool(pack(pool)) == pool
    trees = (PoolTree("x", "gpu == 1", operators_from=5), PoolTree())
    assert unpack_trees(pack(trees)) == trees
