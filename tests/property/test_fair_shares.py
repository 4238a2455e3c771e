"""Laws of fair shares, held by an oracle that knows only the definitions: no curves, plain search by halving."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from omega.cellstate.pools import ROOT, Pool, PoolTree
from omega.schedulers.fairshare.curves import Curve, Floats, by_suggestion, chains, join, totals
from omega.schedulers.fairshare.tree import Job, Tree
from omega.schedulers.fairshare.update import Shares, fair_shares

RESOURCES = ("cpu", "memory")
CLOSE = 1e-7
Element = dict[str, Any]

steps = st.integers(0, 8).map(lambda number: number / 8)
vectors = st.tuples(steps, steps)


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    """A monotone curve on [0, 1] with jumps and plateaus."""
    points = sorted(draw(st.lists(st.tuples(steps, steps, steps), min_size=1, max_size=6)))
    x = [0.0, *(point[0] for point in points)]
    y = np.maximum.accumulate(np.array([(0.0, 0.0), *(point[1:] for point in points)]), axis=0)
    ends = [at for at in range(len(x)) if x.index(x[at]) == at or at == len(x) - 1 or x[at + 1] != x[at]]
    return Curve(np.array(x)[ends], y[ends])


def last_where(holds: Callable[[float], bool], high: float) -> float:
    """The largest f in [0, high] up to which `holds`, a condition that once false stays false."""
    if holds(high):
        return high
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def reaches(curve: Curve, column: int, bound: float, factor: float) -> bool:
    return bool(curve.at(factor)[column] <= bound)


def largest_factor(curve: Curve, guarantee: Floats, limit: Floats, suggestion: float) -> float:
    """M by its definition, component by component."""
    end = float(curve.x[-1])
    limits = np.clip(limit, curve.y[0], curve.y[-1])
    floors = np.clip(guarantee, curve.y[0], limits)
    found = end
    for column in range(curve.y.shape[1]):
        bound = floors[column] + suggestion
        if suggestion == 0 or bound > limits[column] + 1e-12:
            top = floors[column] if suggestion == 0 else limits[column]
            found = min(found, last_where(partial(reaches, curve, column, top + 1e-12), end))
        else:
            found = min(found, last_where(partial(reaches, curve, column, bound - 1e-12), end))
    return found


@given(curve=curves(), guarantee=vectors, limit=vectors, suggestion=steps)
@settings(max_examples=120, deadline=None)
def test_suggestions_follow_the_definition(
    curve: Curve, guarantee: tuple[float, float], limit: tuple[float, float], suggestion: float
) -> None:
    own = by_suggestion(join([curve]), np.array([guarantee]), np.array([limit])).curve(0)
    built = own.at(suggestion)
    factor = largest_factor(curve, np.array(guarantee), np.array(limit), suggestion)
    slightly = curve.at(max(0.0, factor - 1e-9))
    exact = curve.at(factor)
    assert (built[:-1] >= slightly - CLOSE).all()
    assert (built[:-1] <= exact + CLOSE).all()


@given(several=st.lists(curves(), min_size=1, max_size=5), at=steps, data=st.data())
@settings(max_examples=100, deadline=None)
def test_sums_are_pointwise_and_left_continuous(several: Sequence[Curve], at: float, data: st.DataObject) -> None:
    squeeze = np.array([data.draw(st.sampled_from((0.25, 0.5, 1.0))) for _ in several])
    summed = totals(join(list(several)), squeeze, np.zeros(len(several), np.int64), 1).curve(0)
    expected = sum(curve.at(at / part) for curve, part in zip(several, squeeze, strict=True))
    np.testing.assert_allclose(summed.at(at), expected, atol=1e-12)
    if at:
        np.testing.assert_allclose(summed.at(at - 1e-10), summed.at(at), atol=1e-6)


@given(several=st.lists(curves(), min_size=1, max_size=4), at=steps, index=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_chains_serve_one_after_the_other(several: Sequence[Curve], at: float, index: int) -> None:
    index = min(index, len(several) - 1)
    before = sum((curve.at(1.0) for curve in several[:index]), np.zeros(2))
    if at:
        np.testing.assert_allclose(
            chains(join(list(several)), np.zeros(len(several), np.int64), 1).curve(0).at(index + at),
            before + several[index].at(at),
            atol=1e-12,
        )


amounts = st.integers(0, 12)


@st.composite
def trees(draw: st.DrawFn, *, gangs: bool = False) -> Tree:
    """Pools up to three levels deep, jobs with usage, limits, guarantees within the parent's; gangs on request."""
    pools: list[Pool] = []
    names = [ROOT]
    room = {ROOT: 12}
    for number in range(draw(st.integers(0, 5))):
        parent = draw(st.sampled_from(names))
        promised = draw(st.integers(0, room[parent] // 2))
        room[parent] -= promised
        fifo = draw(st.booleans()) and draw(st.booleans())
        limits = {"memory": draw(amounts)} if draw(st.booleans()) and draw(st.booleans()) else {}
        pools.append(
            Pool(
                f"p{number}",
                parent,
                weight=draw(st.sampled_from((None, 1, 2, 3))),
                guarantee={"cpu": promised},
                limits=limits,
                mode="fifo" if fifo else "fair_share",
            )
        )
        room[f"p{number}"] = promised
        if not fifo:
            names.append(f"p{number}")
    homes = [ROOT, *(pool.name for pool in pools)]
    jobs = []
    for number in range(draw(st.integers(0, 6))):
        demand = dict(zip(RESOURCES, (draw(amounts), draw(amounts)), strict=True))
        usage = {name: draw(st.integers(0, value)) for name, value in demand.items()}
        home, weight = draw(st.sampled_from(homes)), draw(st.sampled_from((None, 2)))
        jobs.append(Job(f"j{number}", home, demand, usage=usage, weight=weight, gang=gangs and draw(st.booleans())))
    options = PoolTree(gang_steps=gangs, improved_fit_factor=draw(st.booleans()))
    return Tree(dict.fromkeys(RESOURCES, 12), pools, jobs, options)


def check_tree(tree: Tree, shares: Shares) -> None:
    """Children within their parent, everybody within demand and limits, components that add up."""
    for number in range(len(tree.numbers)):
        below = shares.pools[tree.subpools[number]].sum(0) + shares.jobs[tree.pool_of == number].sum(0)
        assert (below <= shares.pools[number] + CLOSE).all(), (number, below, shares.pools[number])
        assert (shares.pools[number] <= shares.limits[number] + CLOSE).all()
    assert (shares.jobs <= shares.job_demand + CLOSE).all()
    assert (shares.jobs >= -CLOSE).all()
    assert (shares.strong + shares.integral <= shares.pools + CLOSE).all()


@given(tree=trees() | trees(gangs=True))
@settings(max_examples=150, deadline=None)
def test_shares_stay_within_parents_demands_and_limits(tree: Tree) -> None:
    check_tree(tree, fair_shares(tree))


@given(tree=trees())
@settings(max_examples=100, deadline=None)
def test_some_component_reaches_guarantee_demand_or_limit(tree: Tree) -> None:
    """Without jumps and overcommit each pool gets its guarantee in some component, unless it wants or may have less."""
    shares = fair_shares(tree)
    if not any(pool.fifo or pool.limits for pool in tree.pools):
        for number, pool in enumerate(tree.pools, 1):
            bound = np.minimum(np.minimum(shares.limits[number], shares.pool_demand[number]), shares.guaranteed[number])
            assert (shares.pools[number] >= bound - CLOSE).any(), pool.name


def water(demand: Floats, weight: Floats) -> Floats:
    """Weighted DRF of users that all need all resources: one level for all, cut by own demand."""
    peak = demand.max(1)

    def given_at(level: float) -> Floats:
        found: Floats = demand * np.minimum(1.0, level * weight / peak)[:, None]
        return found

    return given_at(last_where(lambda level: bool((given_at(level).sum(0) <= 1).all()), float((peak / weight).max())))


@given(
    rows=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4)), min_size=1, max_size=6),
    improved=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_a_flat_tree_without_jumps_is_weighted_drf(rows: list[tuple[int, int, int]], improved: bool) -> None:
    jobs = [
        Job(f"j{number}", ROOT, {"cpu": cpu, "memory": memory}, weight=weight)
        for number, (cpu, memory, weight) in enumerate(rows)
    ]
    shares = fair_shares(Tree(dict.fromkeys(RESOURCES, 12), [], jobs, PoolTree(improved_fit_factor=improved)))
    demand = np.array([row[:2] for row in rows], float) / 12
    np.testing.assert_allclose(shares.jobs, water(demand, np.array([row[2] for row in rows], float)), atol=CLOSE)


@given(rows=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=2, max_size=5), more=st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_in_a_flat_tree_more_weight_gives_no_less(rows: list[tuple[int, int]], more: int) -> None:
    def first(weight: int) -> Floats:
        jobs = [
            Job(f"j{number}", ROOT, {"cpu": cpu, "memory": memory}, weight=weight if number == 0 else 1)
            for number, (cpu, memory) in enumerate(rows)
        ]
        found: Floats = fair_shares(Tree(dict.fromkeys(RESOURCES, 12), [], jobs)).jobs[0]
        return found

    assert (first(more) >= first(1) - CLOSE).all()


def test_guarantees_as_vectors_alone_do_not_bound_the_share() -> None:
    """Guarantee (0.5 cpu, 0.1 memory) and equal demand: the memory that is guaranteed stops the pool."""
    tree = Tree(
        dict.fromkeys(RESOURCES, 1000),
        [Pool("a", guarantee={"cpu": 500, "memory": 100}), *(Pool(f"b{number}") for number in range(99))],
        [
            Job("j", "a", dict.fromkeys(RESOURCES, 1000)),
            *(Job(f"k{n}", f"b{n}", dict.fromkeys(RESOURCES, 1000)) for n in range(99)),
        ],
    )
    np.testing.assert_allclose(fair_shares(tree).pools[1], 0.109, atol=1e-9)


def test_a_gang_alone_gets_its_demand_either_way() -> None:
    for improved in (False, True):
        tree = Tree(
            {"cpu": 10},
            [Pool("a")],
            [Job("g", "a", {"cpu": 6}, gang=True)],
            PoolTree(gang_steps=True, improved_fit_factor=improved),
        )
        np.testing.assert_allclose(fair_shares(tree).jobs, [[0.6]])
        np.testing.assert_allclose(fair_shares(tree).pools[1], [0.6])
