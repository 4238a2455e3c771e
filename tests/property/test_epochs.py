"""Fair shares of an epoch: equal jobs as one leaf get what each gets alone; an epoch can be computed again."""

import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.pools import Integral, Pool, Pools
from omega.schedulers.epochs import compute, epoch_of, leaf_shares, leaves_of, pool_shares, recomputed

RESOURCES = ("cpu", "memory")
TOTALS = {"default": (1000, 4000)}
weights = st.sampled_from([None, 0.5, 2.0, 7.0])
guarantees = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 400), max_size=2)
limits = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 2000), max_size=2)


@st.composite
def configured(draw: st.DrawFn) -> Pools:
    """A tree of two levels, some leaves FIFO, some with integral guarantees."""
    pools = [Pool("top", weight=draw(weights), guarantee={"cpu": 400, "memory": 400}, limits=draw(limits))]
    for name in ("a", "b", "c"):
        parent = draw(st.sampled_from(["top", "<Root>"]))
        mode = draw(st.sampled_from(["fair_share", "fair_share", "fifo"]))
        integral = draw(st.sampled_from([Integral(), Integral("burst", flow={"cpu": 0}, burst={"cpu": 200})]))
        guarantee = {} if parent == "top" else draw(guarantees)
        pools.append(Pool(name, parent, weight=draw(weights), guarantee=guarantee, limits=draw(limits), mode=mode,
                          integral=integral))  # fmt: skip
    return Pools(tuple(pools), version=3)


@st.composite
def demanded(draw: st.DrawFn) -> list[JobDemand]:
    """Jobs of few shapes, so that many are equal; some gangs, held ones and ones of several groups."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        pool = draw(st.sampled_from(["a", "a", "b", "c", ""]))
        need = draw(st.sampled_from([(10, 20), (10, 20), (30, 5), (1, 300)]))
        placed, unplaced = draw(st.sampled_from([(0, 5), (0, 5), (3, 2), (20, 0)]))
        groups = ((need, unplaced, placed),) * draw(st.sampled_from([1, 1, 1, 2]))
        gang, waits = draw(st.integers(0, 5)) == 0, draw(st.integers(0, 7)) == 0
        found.append(JobDemand(f"j{number}", Lane("batch", 0, pool, "ada"), number, gang, waits, groups))
    return [job for job in found if not job.waits or any(placed for _, _, placed in job.groups)]


@given(configured(), demanded())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_equal_jobs_as_one_leaf_get_what_each_gets_alone(pools: Pools, jobs: list[JobDemand]) -> None:
    together = epoch_of(pools, jobs, TOTALS, RESOURCES)
    alone = {
        tree: [leaf._replace(jobs=[job]) for leaf in leaves for job in leaf.jobs]
        for tree, leaves in leaves_of(pools, jobs).items()
    }
    found = compute(pools, alone, TOTALS, RESOURCES)
    for name, share in pool_shares(found, pools).items():
        assert together.pools[name].fair_share == pytest.approx(share.fair_share, abs=1e-9)
        assert together.pools[name].demand == pytest.approx(share.demand, abs=1e-9)
    for leaf, share_of_one in zip(alone["default"], leaf_shares(found)["default"], strict=True):
        assert together.jobs[leaf.jobs[0]] == pytest.approx(share_of_one, abs=1e-9)
    assert sum(len(leaf.jobs) for leaf in together.leaves["default"]) == len(jobs)


@given(configured(), demanded(), demanded())
@settings(max_examples=20, deadline=None, derandomize=True)
def test_an_epoch_is_computed_again_from_its_input(
    pools: Pools, before: list[JobDemand], jobs: list[JobDemand]
) -> None:
    first = epoch_of(pools, before, TOTALS, RESOURCES, at_ms=1_000)
    second = epoch_of(pools, jobs, TOTALS, RESOURCES, first, at_ms=3_500)
    assert (second.number, second.seconds) == (2, 2.5)
    assert recomputed(second, pools, RESOURCES) == second.pools
    assert set(second.jobs) == {job.id for job in jobs}


def test_slots_that_machines_declare_are_a_resource_as_any_other() -> None:
    pools = Pools((Pool("a", limits={"user_slots": 3}), Pool("b", guarantee={"user_slots": 4})), version=3)
    jobs = [
        JobDemand(f"j{name}", Lane("batch", 0, name, "ada"), 1, gang=False, waits=False, groups=(((1, 1, 1), 9, 0),))
        for name in "ab"
    ]
    epoch = epoch_of(pools, jobs, {"default": (16, 32, 8)}, (*RESOURCES, "user_slots"))
    assert epoch.pools["b"].fair_share[2] == pytest.approx(0.5 + 1 / 6)
    assert epoch.pools["a"].fair_share[2] == pytest.approx(1 / 3)
    assert epoch.pools["a"].limits[2] == pytest.approx(3 / 8)


def test_tasks_are_no_resource_of_shares() -> None:
    pools = Pools((Pool("a", limits={"tasks": 1}),), version=3)
    jobs = [JobDemand("j", Lane("batch", 0, "a", "ada"), 1, gang=False, waits=False, groups=(((1, 1), 9, 0),))]
    epoch = epoch_of(pools, jobs, {"default": (9, 9)}, RESOURCES)
    assert epoch.pools["a"].fair_share == pytest.approx((1, 1))
