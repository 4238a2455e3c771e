"""Policies that wrap those for pools keep their promises, with one scheduler and with several."""

import pytest

from omega.cellstate.pools import Pool
from omega.schedulers.scheduler import Scheduler
from tests.simulation.pool_ground import Ground, PoolRun
from tests.simulation.strangers import OwnPreemption, wrapped


def story(schedulers: int, *, own: bool) -> PoolRun:
    """Two pools of which one comes late, in a full cell; the late one starves."""
    ground = Ground([Pool("p0"), Pool("p1")], 15, schedulers=schedulers)
    if own:
        ground.compose = wrapped
    for i in range(2):
        for _ in range(10):
            ground.job(f"p{i}", 12, at=3.3 if i else 0.0)
    return ground.run(9)


@pytest.mark.parametrize("schedulers", [1, 3])
def test_wrapped_policies_decide_as_those_they_wrap(schedulers: int) -> None:
    plain, own = story(schedulers, own=False), story(schedulers, own=True)
    assert own.held("p1") == 30, "the late pool has its share"
    assert own.evicted > 0
    digests = [each.simulation.world.digest.hexdigest() for each in (plain, own)]
    assert digests[0] == digests[1]
    batch = [each.scheduler for each in own.simulation.simulated_schedulers if each.name.startswith("batch")]
    deciding = batch[:2]  # a third one has no pool
    assert [_number(each) for each in deciding] == [(number, schedulers) for number in range(len(deciding))]


def _number(scheduler: Scheduler) -> tuple[int, int]:
    preemption = scheduler.preemption
    assert isinstance(preemption, OwnPreemption)
    assert preemption.peers is not None
    return preemption.peers.number, preemption.peers.members
