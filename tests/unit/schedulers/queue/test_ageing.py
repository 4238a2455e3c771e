"""Ageing on a real store with simulated machines: a stream of important jobs delays others only for a time."""

from collections.abc import Iterator

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect
from omega.live.simulated.executor import SimulatedExecutor
from omega.schedulers.ordering.without_pools import PrecedenceFifo
from omega.schedulers.presets import batch
from omega.schedulers.scheduler import Scheduler
from tests.unit.schedulers.rig import Rig

AGEING, PRECEDENCE = 5.0, 3
SECONDS = 50
"""The length of the stream; after each second two important jobs arrive, and the cell has room for one."""


@pytest.fixture
def url(store_url: str) -> Iterator[str]:
    yield store_url
    RedisCell(connect(store_url), "c", Dimensions()).delete()


def job(name: str, precedence: int) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((100, 100), 1, 1_000),), precedence)


def order_of(scheduler: Scheduler, url: str) -> list[str]:
    """The jobs in the order in which they ran, one a second."""
    rig = Rig((100, 100), scheduler=scheduler, connect=lambda: connect(url))
    executor, ran = SimulatedExecutor(rig.other, "simulated", rig.clock.now), list[str]()
    executor.resume()
    rig.submit(job("first", PRECEDENCE))
    for second in range(SECONDS):
        rig.until(lambda: len(rig.other.machines.runs([0])) == 1)
        (run,) = rig.other.machines.runs([0])
        ran.append(run.job)
        executor.step(0)
        if second == 0:
            rig.submit(job("low", 0))
        rig.submit(*(job(f"high{second}-{i}", PRECEDENCE) for i in range(2)))
        rig.clock.seconds += 1.001
        assert executor.step(0) == 1
    rig.check()
    return ran


def test_a_stream_of_important_jobs_starves_nobody_with_ageing(url: str) -> None:
    """An important job is ahead by three steps of five seconds: those of the first fifteen seconds run before."""
    scheduler = batch()
    scheduler.ordering = PrecedenceFifo(ageing=AGEING)
    ran = order_of(scheduler, url)
    before = ran.index("low")
    assert before == pytest.approx(2 * PRECEDENCE * AGEING, abs=3)
    assert ran[-1].startswith("high"), "important jobs wait to the end"


def test_a_stream_of_important_jobs_starves_others_without_ageing(url: str) -> None:
    assert "low" not in order_of(batch(), url)
