"""How jobs stand within their pools: when one may evict another."""

import pytest

from omega.cellstate.model import GroupStatus, Job
from omega.cellstate.pools import Epoch, Leaf, Pool, Pools
from omega.schedulers.fairshare.job_standings import SETTLED_SECONDS, JobStandings
from omega.schedulers.fairshare.satisfaction import StarvationRules, Status
from omega.schedulers.fairshare.standings import EpochShares
from omega.schedulers.work import Work

RULES = StarvationRules(tolerance=1.0, timeout=2.0)


def shares() -> EpochShares:
    """A job of pool p that is due half of ten slots, and holds one."""
    leaf = Leaf("p", (10,), (1,), gang=False, start=0, pending=9, jobs=["j"])
    epoch = Epoch(
        number=1,
        version=1,
        pools_version=1,
        at_ms=0,
        by="batch/0",
        totals={"default": (10,)},
        pools={},
        leaf_shares={"default": [(0.5,)]},
        leaves={"default": [leaf]},
    )
    return EpochShares(Pools((Pool("p"),)), epoch)


def work(unplaced: int) -> Work:
    """The job as it arrives again when tasks of it were evicted."""
    group = GroupStatus(need=(1,), total=10, unplaced=unplaced, placed=10 - unplaced, waiting=f"0-{unplaced - 1}")
    return Work.of(Job(id="j", name="j", kind="batch", order=1, groups=[group]))


def test_a_job_below_its_share_may_evict_after_a_while() -> None:
    standings, known = JobStandings(), shares()
    assert standings.status(work(9), known, RULES, 10.0) is Status.NORMAL
    assert standings.due("j") == 10.0 + SETTLED_SECONDS
    assert standings.status(work(9), known, RULES, 10.0 + SETTLED_SECONDS - 0.1) is Status.NORMAL
    assert standings.status(work(9), known, RULES, 10.0 + SETTLED_SECONDS) is Status.STARVING


@pytest.mark.parametrize("evicted", [1, 4])
def test_a_job_that_loses_more_tasks_waits_again(evicted: int) -> None:
    """Else the tasks that were evicted last would start again at once, in the room of others: an eviction undone."""
    standings, known = JobStandings(), shares()
    standings.status(work(5), known, RULES, 10.0)
    assert standings.status(work(5 + evicted), known, RULES, 14.0) is Status.NORMAL
    assert standings.due("j") == 14.0 + SETTLED_SECONDS
    assert standings.status(work(5 + evicted), known, RULES, 16.0) is Status.NORMAL
    assert standings.status(work(5 + evicted), known, RULES, 14.0 + SETTLED_SECONDS) is Status.STARVING
    assert standings.status(work(4), known, RULES, 19.1) is Status.STARVING, "started tasks are no loss"
