"""Live schedulers beside one another: which jobs each takes from its start, and what it does with those of others."""

import pytest

from omega.cellstate.model import Job
from omega.cellstate.redis import RedisCell
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Verdict
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.loop import Arrived, Receive, Reread
from omega.schedulers.presets import batch
from omega.schedulers.sharing import Ownership
from tests.unit.schedulers.rig import Rig, spec

ROOMY = [(1_000, 1_000)] * 10


def test_one_that_starts_beside_another_takes_its_share_from_the_first_request_on() -> None:
    first = Rig(*ROOMY)
    jobs = first.submit(*(spec(f"j{i}") for i in range(20)))
    cell, clock = RedisCell(first.client, "c", Dimensions()), first.clock
    second = LiveDriver(cell, batch("second"), "batch/1", clock.now, clock.pause)
    assert second.ownership == Ownership("batch/1", ("batch/0", "batch/1"))
    arrived = second.answer(Receive(0.0))
    assert isinstance(arrived, Arrived)
    assert {job.id for _, job in arrived.jobs} == {job for job in jobs if second.ownership.owns(job, "")}


def test_jobs_that_others_placed_are_dropped_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, read = Rig(*ROOMY), list[str]()
    jobs = rig.submit(*(spec(f"j{i}", 2) for i in range(6)))
    rig.until_commit()
    for job in jobs[:5]:
        assert rig.foreign(job, 0, 2) is Verdict.PLACED
    assert rig.foreign(jobs[5], 1, 1) is Verdict.PLACED
    whole = rig.cell.jobs.get

    def one(job_id: str) -> Job | None:
        read.append(job_id)
        return whole(job_id)

    monkeypatch.setattr(rig.cell.jobs, "get", one)
    rig.until(lambda: isinstance(rig.effect, Reread))
    rig.until_placed(jobs[5])
    rig.rest()
    assert set(read) <= {jobs[5]}, "only the one that is pending is read with all its fields"
    rig.check()
