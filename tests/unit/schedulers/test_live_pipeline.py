"""The order of steps around a call to the store: the store waits for none that could be done later."""

from typing import Any

import pytest

from cellstate.cell import PendingJob
from cellstate.redis import RedisCell
from schedulers.presets import batch
from tests.unit.schedulers.rig import Rig, spec


def test_the_next_call_is_sent_before_the_jobs_of_the_last_reply_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batch("early")
    found.jobs_per_call = 1
    rig = Rig(*[(1_000, 1_000)] * 10, scheduler=found)
    rig.submit(*(spec(f"j{i}") for i in range(60)))
    sent, read = list[int](), RedisCell._read_jobs

    def read_jobs(cell: RedisCell, reply: list[Any]) -> list[PendingJob]:
        sent.append(rig.cell.link.sent)
        return read(cell, reply)

    rig.until(lambda: rig.figures.transactions > 2)
    monkeypatch.setattr(RedisCell, "_read_jobs", read_jobs)
    brought = 0
    while rig.figures.transactions < 50:
        rig.until_commit()
        in_flight, asked, before = rig.live._flight is not None, rig.live._asked.most, rig.cell.link.sent
        sent.clear()
        rig.step()
        assert rig.cell.link.sent == before + 1
        if in_flight and asked:
            brought += 1
            assert sent == [before + 1], "the jobs are read behind the next call"
            assert rig.live._asked.most == 0, "what the last reply brings is not requested again"
    assert brought > 1
    rig.until_placed(*(f"j{i}" for i in range(60)))
    rig.check()
