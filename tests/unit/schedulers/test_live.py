"""The live scheduler on a cell where nothing goes wrong but competition."""

from dataclasses import replace

import pytest

from omega.cellstate.errors import Duplicate
from omega.cellstate.model import Gang, JobState, Limits, MachineState
from omega.cellstate.tasks import EndKind
from omega.cellstate.transaction import Detection, Verdict
from omega.schedulers.live_driver import IDLE_SECONDS
from omega.schedulers.loop import Arrived, Commit, Committed, Receive, Reread
from omega.schedulers.presets import batch
from omega.schedulers.queue.intake import LEAST_AT_HAND
from omega.schedulers.sharing import Ownership, alone
from tests.unit.schedulers.rig import Rig, spec

ROOMY = [(1_000, 1_000)] * 10
NOTHING = Ownership("batch/0", ("batch/0", "batch/1"), {"": ("batch/1",)})
"""All jobs of nobody's pool belong to the other scheduler."""


def test_jobs_are_placed_whole() -> None:
    rig = Rig(*ROOMY)
    jobs = rig.submit(*(spec(f"j{i}", 3) for i in range(30)))
    rig.until_placed(*jobs)
    assert rig.figures.tasks == 90
    assert (rig.figures.jobs, rig.figures.finished_jobs, rig.figures.conflicts) == (30, 30, 0)
    rig.check()


def test_what_is_pending_when_it_starts_is_taken_up_at_once() -> None:
    rig = Rig(*ROOMY)
    jobs = rig.submit(spec("a"))
    rig.until_placed(*jobs)
    assert rig.clock.pauses == []


def test_it_waits_for_work_and_is_woken() -> None:
    rig = Rig(*ROOMY)
    rig.rest()
    rig.step()  # the wait that nobody interrupts
    assert rig.clock.pauses == [IDLE_SECONDS]
    rig.clock.after(0.5, lambda: rig.submit(spec("a")))
    rig.until(lambda: rig.counts() != {})
    rig.until_placed("a")
    assert sum(rig.clock.pauses) <= 2 * IDLE_SECONDS


def test_sleeping_jobs_are_tried_soon_after_room_is_freed() -> None:
    rig = Rig((300, 300))
    rig.submit(spec("first", 3), spec("second", 2))
    rig.until(lambda: len(rig.scheduler.queue.blocked) == 1)
    rig.rest()
    waited = len(rig.clock.pauses)
    for _ in range(20):
        rig.step()
    assert rig.left("second") == 2
    assert set(rig.clock.pauses[waited:]) == {IDLE_SECONDS}
    assert rig.figures.transactions == 1, "looking for room is no attempt"
    rig.end("first")
    rig.until_placed("second")
    rig.check()


def test_a_machine_that_joins_or_comes_back_is_room_freed() -> None:
    rig = Rig((100, 100))
    rig.other.machines.set_state(0, MachineState.DRAINED, 0, "ada")
    rig.submit(spec("a"), spec("b"))
    rig.until(lambda: len(rig.scheduler.queue.blocked) == 2)
    rig.join((100, 100))
    rig.until(lambda: rig.figures.tasks == 1)
    rig.other.machines.set_state(0, MachineState.UP, 0, "ada")
    rig.until_placed("a", "b")
    rig.check()


def test_one_commit_is_in_flight_while_the_next_jobs_are_decided() -> None:
    found = batch("one")
    found.jobs_per_call = 1
    rig = Rig(*ROOMY, scheduler=found)
    rig.submit(spec("a"), spec("b"))
    rig.until_commit()
    first = rig.step()
    assert isinstance(first, Committed)
    assert (list(first.results), first.in_flight) == ([], True)
    rig.until_commit()
    second = rig.step()
    assert isinstance(second, Committed)
    assert [transaction.job for transaction, _ in second.results] == ["a"]
    rig.until_placed("a", "b")
    rig.check()


def test_unless_it_is_told_to_wait_for_each() -> None:
    rig = Rig(*ROOMY, pipelined=False)
    rig.submit(spec("a"))
    rig.until_commit()
    answer = rig.step()
    assert isinstance(answer, Committed)
    assert ([outcome.placed for _, outcome in answer.results], answer.in_flight) == ([1], False)


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize("detection", list(Detection))
def test_alone_it_meets_no_conflict(detection: Detection, pipelined: bool) -> None:
    """Its own commits change the machines under claims decided meanwhile: that is no interference."""
    found = batch("own")
    found.detection, found.jobs_per_call = detection, 4
    rig = Rig((2_000, 2_000), (2_000, 2_000), scheduler=found, pipelined=pipelined)
    jobs = rig.submit(*(spec(f"j{i}") for i in range(40)))
    rig.until_placed(*jobs)
    assert rig.figures.conflicts == 0
    assert rig.figures.transactions == 40
    rig.check()


def test_a_change_by_others_is_a_move_even_between_two_of_its_own() -> None:
    found = batch("moved")
    found.detection, found.jobs_per_call = Detection.COARSE, 1
    rig = Rig((2_000, 2_000), scheduler=found)
    rig.submit(spec("a"), spec("b"), spec("theirs"))
    rig.scheduler.jobs_per_call = 1
    rig.until_commit()
    rig.step()  # a is in flight
    assert rig.foreign("theirs", 0, 1) is Verdict.PLACED
    rig.until_commit()
    rig.step()  # b was decided before that was known
    rig.until_placed("a", "b")
    assert rig.figures.conflicts >= 1
    rig.check()


def test_jobs_stay_in_the_store_until_there_is_time_for_them() -> None:
    found = batch("few")
    found.jobs_per_call = 2
    rig = Rig(*[(10_000, 10_000)] * 4, scheduler=found)
    jobs = rig.submit(*(spec(f"j{i}") for i in range(80)))
    most = 0
    for _ in range(20):
        rig.step()
        most = max(most, len(rig.scheduler.queue.ready))
    assert 0 < most <= 4 * LEAST_AT_HAND
    rig.until(lambda: all(rig.left(job) == 0 for job in jobs), 10_000)
    rig.rest()
    assert rig.figures.finished_jobs == 80


def test_jobs_blocked_by_a_limit_do_not_keep_others_out() -> None:
    found = batch("blocked")
    found.jobs_per_call = 2
    rig = Rig(*ROOMY, scheduler=found)
    rig.other.pools.set_limits("batch", Limits((None, None), precedence=(0, 5)), 0, "ada")
    blocked = rig.submit(*(spec(f"blocked{i}", precedence=9) for i in range(40)))
    rig.until(lambda: rig.figures.transactions >= 40)
    rig.submit(spec("small", precedence=1))
    rig.until_placed("small")
    assert rig.figures.conflicts == 0
    rig.other.pools.set_limits("batch", Limits((None, None)), 0, "ada")
    rig.until_placed(*blocked)
    rig.check()


def test_room_held_by_a_claim_that_is_refused_wakes_who_sleeps_for_it() -> None:
    rig = Rig((100, 100))
    rig.other.pools.set_limits("batch", Limits((None, None), precedence=(0, 5)), 0, "ada")
    rig.submit(spec("blocked", precedence=9), spec("sleeper"))
    rig.until_commit()
    assert len(rig.scheduler.queue.blocked) == 1, "the blocked job took the only room"
    rig.until_placed("sleeper")
    rig.check()


def test_a_gang_goes_whole_or_waits() -> None:
    rig = Rig((300, 300), (300, 300))
    rig.submit(spec("filler", 3))
    rig.until_placed("filler")
    rig.submit(spec("gang", 5, gang=Gang.YES))
    for _ in range(30):
        rig.step()
        assert rig.placed("gang") in (0, 5)
    assert rig.left("gang") == 5
    rig.end("filler")
    rig.until_placed("gang")
    rig.check()


# Sharing with others of its kind


def test_a_job_somebody_else_placed_in_part_is_read_anew() -> None:
    rig = Rig(*ROOMY)
    rig.submit(spec("shared", 6))
    rig.until_commit()
    assert rig.foreign("shared", 0, 4) is Verdict.PLACED
    rig.until_placed("shared")
    assert rig.placed("shared") == 6
    rig.check()
    assert (len(rig.scheduler.queue.ready), len(rig.scheduler.queue.blocked), rig.scheduler.working) == (0, 0, {})


def test_a_job_somebody_else_placed_is_dropped() -> None:
    rig = Rig(*ROOMY)
    rig.submit(spec("shared", 4))
    rig.until_commit()
    assert rig.foreign("shared", 0, 4) is Verdict.PLACED
    rig.rest()
    assert rig.figures.transactions == 1
    assert (len(rig.scheduler.queue.ready), len(rig.scheduler.queue.blocked), rig.scheduler.working) == (0, 0, {})
    rig.check()


def test_a_stopped_job_is_dropped() -> None:
    rig = Rig(*ROOMY)
    rig.submit(spec("stopped", 4))
    rig.until_commit()
    rig.other.jobs.stop("stopped", 0, "ada")
    rig.rest()
    assert (rig.placed("stopped"), len(rig.scheduler.queue.ready), rig.scheduler.working) == (0, 0, {})


def test_buckets_of_others_are_left_alone_and_come_back_when_those_leave() -> None:
    rig = Rig(*ROOMY)
    rig.rest()
    rig.live.ownership = Ownership("batch/0", ("batch/0", "batch/1"))
    jobs = rig.submit(*(spec(f"j{i}") for i in range(20)))
    mine = [job for job in jobs if rig.live.ownership.owns(job, "")]
    assert 0 < len(mine) < 20
    rig.until_placed(*mine)
    for _ in range(10):
        rig.step()
    assert rig.figures.tasks == len(mine)
    rig.live.ownership = alone("batch/0")
    rig.until_placed(*jobs)
    changes = [answer.owned for answer in rig.arrived() if answer.owned is not None]
    assert len(changes) == 3, "everything at the start, its share, everything again"
    rig.check()


@pytest.mark.parametrize("mine", [True, False])
@pytest.mark.parametrize("pool", ["", "a"])
def test_a_job_read_anew_is_tried_again_unless_it_is_others_by_now(mine: bool, pool: str) -> None:
    rig = Rig(*ROOMY)
    if pool:
        rig.live.ownership = Ownership("batch/0", ("batch/0", "batch/1"), {"": ("batch/1",), "a": ("batch/0",)})
    rig.submit(spec("shared", 6, spec={"pool": pool} if pool else {}))
    rig.until_commit()
    assert rig.foreign("shared", 0, 6) is Verdict.PLACED
    rig.until(lambda: rig.effect == Reread(("shared",), ()))
    rig.end("shared", how=EndKind.EVICTED)
    if not mine:
        rig.live.ownership = replace(NOTHING, owners={"": ("batch/1",), "a": ("batch/1",)})
    rig.step()
    rig.rest()
    assert rig.left("shared") == (0 if mine else 6)
    assert (len(rig.scheduler.queue.ready), rig.scheduler.working) == (0, {})


def test_jobs_asked_for_before_its_buckets_changed_are_not_taken() -> None:
    found = batch("asked")
    found.jobs_per_call = 1
    rig = Rig(*ROOMY, scheduler=found)
    jobs = rig.submit(*(spec(f"j{i}") for i in range(60)))
    rig.until(lambda: isinstance(rig.effect, Commit) and rig.live._intake().most > 0)
    before = sum(rig.placed(job) for job in jobs)
    rig.step()  # its reply will bring jobs of all buckets
    assert rig.live._flight is not None
    assert rig.live._flight.asks
    rig.live.ownership = NOTHING
    rig.step()
    rig.rest()
    assert sum(rig.placed(job) for job in jobs) - before <= 2, "what was in flight, and decided by then"
    assert len(rig.scheduler.queue.ready) == 0


def test_two_under_one_name_are_refused() -> None:
    rig = Rig(*ROOMY)
    with pytest.raises(Duplicate):
        Rig(server=rig.server)


# Giving up and leaving


def test_a_job_that_only_conflicts_is_abandoned_in_the_store() -> None:
    found = batch("hopeless")
    found.retry_limit = 3
    rig = Rig((200, 200), scheduler=found)
    rig.submit(spec("a"), *(spec(f"f{i}") for i in range(3)))
    for i in range(3):
        # Somebody is faster every time, and gone again when this scheduler looks.
        while not isinstance(rig.effect, Commit) or not rig.effect.transactions:
            rig.scheduler.disown(lambda job_id, _: job_id == "a")
            rig.step()
        rig.foreign(f"f{i}", 0, 1)
        rig.other.machines.set_capacity(0, (100, 100), 0, "ada")
        rig.step()
        rig.until(lambda: not rig.scheduler.working)
        rig.end(f"f{i}")
        rig.other.machines.set_capacity(0, (200, 200), 0, "ada")
    rig.until(lambda: rig.job("a").state is JobState.ABANDONED)
    assert rig.figures.abandoned_jobs == 1
    assert rig.facts("abandon") == [("a", "1")]


def test_a_job_to_be_abandoned_may_be_gone_already() -> None:
    rig = Rig(*ROOMY)
    rig.submit(spec("a"))
    assert rig.live.answer(Reread(("nobody",), ("nobody", "a"))) is None
    assert rig.job("a").state is JobState.ABANDONED


def test_an_abandoned_job_says_whether_its_tasks_run_on() -> None:
    rig = Rig(*ROOMY)
    rig.submit(spec("a", 2), spec("b", 2, spec={"on_abandon": "keep"}))
    for job_id in ("a", "b"):
        rig.foreign(job_id, 0, 1)
    rig.live.answer(Reread((), ("a", "b")))
    while rig.cell.jobs.housekeep(0, "batch/0").more:
        continue
    assert (rig.placed("a"), rig.placed("b")) == (0, 1)


def test_told_to_stop_it_finishes_the_attempt_in_hand_and_leaves() -> None:
    rig = Rig(*ROOMY)
    jobs = rig.submit(*(spec(f"j{i}") for i in range(5)))
    decided = rig.figures.decided

    def stop(seconds: float, now: float) -> None:
        decided(seconds, now)
        rig.live.stopping = True

    rig.scheduler.instruments[0].decided = stop  # type: ignore[method-assign]
    rig.live.run()
    assert all(rig.left(job) == 0 for job in jobs), "what was committed is settled"
    assert (rig.figures.tasks, rig.figures.finished_jobs) == (5, 5)
    assert rig.other.schedulers.members() == {}
    assert rig.facts("leave") == [("batch/0", "2")]


def test_told_to_stop_while_idle_it_leaves_without_waiting_again() -> None:
    rig = Rig(*ROOMY)
    rig.clock.after(0.1, lambda: setattr(rig.live, "stopping", True))
    rig.live.run()
    assert rig.clock.pauses == [IDLE_SECONDS]
    assert rig.other.schedulers.members() == {}


def test_it_says_when_it_waits_so_that_waiting_is_no_hang() -> None:
    rig, seen = Rig(*ROOMY), list[bool]()
    rig.rest()
    rig.clock.after(0.1, lambda: seen.append(rig.live.waiting))
    rig.step()
    assert (seen, rig.live.waiting) == ([True], False)


def test_a_back_off_is_waited_out_exactly() -> None:
    rig = Rig(*ROOMY)
    rig.rest()
    due = rig.clock.now() + 0.02
    answer = rig.live.answer(Receive(due))
    assert isinstance(answer, Arrived)
    assert rig.clock.now() == pytest.approx(due)
    assert rig.clock.pauses[-1] == pytest.approx(0.02)
    before = len(rig.clock.pauses)
    rig.live.answer(Receive(rig.clock.now() - 1))
    rig.live.answer(Receive(0.0))
    assert len(rig.clock.pauses) == before, "due already"


def test_the_wait_of_a_job_is_counted_once_by_whoever_tries_it() -> None:
    """Nothing of it is placed; then it is held and released, and another scheduler starts."""
    rig = Rig((300, 300))
    rig.submit(spec("large", need=(400, 400)))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs > 0)
    rig.rest()
    assert (rig.figures.wait.count, rig.left("large")) == (1, 1)
    rig.other.jobs.hold("large", 1, "ada")
    rig.other.jobs.release("large", 2, "ada")
    rig.rest()
    second = Rig(server=rig.server, member="batch/1")
    second.rest()
    assert (rig.figures.wait.count, second.figures.wait.count) == (1, 0)
    rig.check()
