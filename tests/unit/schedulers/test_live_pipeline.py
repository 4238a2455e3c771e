"""The order of steps around a call to the store: the store waits for none that could be done later."""

from collections.abc import Sequence
from typing import Any

import fakeredis
import pytest

from omega.cellstate.redis.schedulers import RedisSchedulers
from omega.cellstate.replies import PendingJob
from omega.cellstate.transaction import Verdict
from omega.schedulers.loop import Committed, Note, Sync
from omega.schedulers.presets import batch
from tests.unit.schedulers.rig import Rig, spec


def test_the_next_call_is_sent_before_the_jobs_of_the_last_reply_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batch("early")
    found.jobs_per_call = 1
    rig = Rig(*[(1_000, 1_000)] * 10, scheduler=found)
    rig.submit(*(spec(f"j{i}") for i in range(60)))
    sent, read = list[int](), RedisSchedulers._read_jobs

    def read_jobs(schedulers: RedisSchedulers, reply: list[Any]) -> Sequence[PendingJob]:
        sent.append(rig.cell.link.sent)
        return read(schedulers, reply)

    rig.until(lambda: rig.figures.transactions > 2)
    monkeypatch.setattr(RedisSchedulers, "_read_jobs", read_jobs)
    brought = 0
    while rig.figures.transactions < 50:
        rig.until_commit()
        in_flight, before = rig.live._flight, rig.cell.link.sent
        sent.clear()
        rig.step()
        assert rig.cell.link.sent == before + 1
        if in_flight and in_flight.asks:
            brought += 1
            assert sent == [before + 1], "the jobs are read behind the next call"
            assert rig.live._flight is not None
            assert not rig.live._flight.asks, "what the last reply brings is not requested again"
    assert brought > 1
    rig.until_placed(*(f"j{i}" for i in range(60)))
    rig.check()


def test_the_log_has_the_version_and_the_time_that_a_call_was_decided_on() -> None:
    """The version is that of the snapshot when the attempt began, not that of the last reply, which came meanwhile."""
    found = batch("noted")
    found.jobs_per_call = 1
    rig = Rig(*[(1_000, 1_000)] * 10, scheduler=found)
    rig.live.ahead = 77.0
    rig.submit(*(spec(f"j{i}") for i in range(12)))
    decided: dict[str, tuple[int, int]] = {}
    while len(decided) < 12:
        rig.until(lambda: isinstance(rig.effect, Sync))
        rig.step()
        seen = rig.live.snapshot.position.version, round((rig.clock.seconds + 77.0) * 1000)
        rig.clock.pause(0.25)  # the decision takes time
        for transaction in rig.until_commit().transactions:
            decided[transaction.job] = seen
        rig.step()
    rig.rest()
    facts = [fact for fact in rig.other.log.facts() if fact.event[0] == "place"]
    assert {fact.event[3]: fact.basis and fact.basis[:2] for fact in facts} == decided
    assert {fact.basis and fact.basis.ahead_ms for fact in facts} == {77_000}
    behind = [fact.version - 1 - (fact.basis.since if fact.basis else 0) for fact in facts]
    assert max(behind) > 0, "some were decided while the call before was in flight"


def test_the_times_of_the_log_are_those_of_the_servers_clock() -> None:
    server = fakeredis.FakeServer()
    seconds, micros = fakeredis.FakeRedis(server=server).time()
    rig = Rig((1_000, 1_000), server=server)
    rig.submit(spec("j"))
    rig.until_placed("j")
    (placed,) = (fact for fact in rig.other.log.facts() if fact.event[0] == "place")
    assert seconds * 1000 + micros // 1000 - 1 <= (placed.basis.began_ms if placed.basis else 0) <= rig.other.store_ms()
    assert placed.at_ms < 2_000_000, "the rig's own clock is far behind"


def test_while_conflicts_are_frequent_nothing_is_decided_before_the_reply_has_come() -> None:
    """Others take the room that each of its first transactions claims; later they leave it alone."""
    found = batch("crowded")
    found.jobs_per_call = 1
    rig = Rig(*[(100, 100)] * 60, scheduler=found)
    rig.submit(*(spec(f"j{i}") for i in range(40)), *(spec(f"theirs{i}") for i in range(8)))
    taken, in_flight = 0, list[bool]()
    while rig.left("j39"):
        transaction = rig.until_commit().transactions[0]
        if taken < 8:
            assert rig.foreign(f"theirs{taken}", transaction.claims[0].machine, 1) is Verdict.PLACED
            taken += 1
        answer = rig.step()
        assert isinstance(answer, Committed)
        in_flight.append(answer.in_flight)
    assert rig.figures.conflicts > 5
    first = in_flight.index(False)
    assert all(in_flight[:first])
    assert in_flight[-1], "conflicts became rare again"
    rig.check()


def test_an_attempt_in_vain_is_not_noted_when_the_job_is_placed_soon() -> None:
    """A note is a call of its own: they are collected for a tenth of a second."""
    found = batch("soon")
    found.jobs_per_call = 1
    rig = Rig(*[(100, 100)] * 40, scheduler=found)
    rig.submit(*(spec(f"j{i}") for i in range(20)), spec("theirs"))
    machine = rig.until_commit().transactions[0].claims[0].machine
    assert rig.foreign("theirs", machine, 1) is Verdict.PLACED
    rig.until(lambda: rig.figures.conflicts == 1)
    assert rig.left("j0") == 1
    rig.until_placed(*(f"j{i}" for i in range(20)))
    rig.clock.pause(1.0)
    rig.submit(spec("last"))
    rig.until_placed("last")
    assert not [job.id for job in rig.other.jobs.all() if job.begun], "another scheduler placed what was tried in vain"
    rig.check()


def test_attempts_in_vain_are_noted_together_when_a_tenth_of_a_second_has_passed() -> None:
    found = batch("noting")
    found.jobs_per_call = 1
    rig = Rig(*[(100, 100)] * 40, scheduler=found)
    big = [spec(f"big{i}", 1, (200 + i, 200 + i)) for i in range(3)]
    rig.submit(*big, *(spec(f"j{i}") for i in range(9)))
    rig.until_placed(*(f"j{i}" for i in range(9)))
    assert not any(job.begun for job in rig.other.jobs.all())
    rig.clock.pause(0.11)
    rig.submit(spec("last"))
    rig.until_placed("last")
    assert [job.id for job in rig.other.jobs.all() if job.begun] == ["big0", "big1", "big2"]
    assert [effect.jobs for effect, _ in rig.answers if isinstance(effect, Note)] == [("big0", "big1", "big2")]


def test_a_scheduler_that_ends_notes_its_attempts_first() -> None:
    found = batch("ending")
    rig = Rig((100, 100), scheduler=found)
    rig.submit(spec("big", 1, (200, 200)), spec("j"))
    rig.until_placed("j")
    assert not any(job.begun for job in rig.other.jobs.all())
    rig.live.stopping = True
    rig.live.run()
    assert [job.id for job in rig.other.jobs.all() if job.begun] == ["big"]
