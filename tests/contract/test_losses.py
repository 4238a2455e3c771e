"""A loss is an attempt of its own: counted, delayed, with a budget; an end told late counts (semantics 26, 27)."""

import itertools

import pytest

from omega.cellstate.model import Gang, GroupStatus, Job, JobSpec, JobState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import Housekept, Membership
from omega.cellstate.tasks import EndKind, TaskEnd, TaskLoss
from omega.cellstate.transaction import Mode, Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Member, Stand, job

START = 10_000_000
MINUTE = 60_000


class Clock:
    """The server's time, set by the test; the twin takes the caller's."""

    def __init__(self, cell: AnyCell) -> None:
        self.cell, self.now = cell, START
        if isinstance(cell, RedisCell):
            cell.store_ms = lambda: self.now  # type: ignore[method-assign]

    def end(self, how: EndKind, placement: int, machine: int = 0, tasks: str = "*", job: str = "") -> int:
        """Tasks end; with their job even when they were taken for lost."""
        return self.cell.executors.end([TaskEnd(machine, placement, how, tasks, "drain", job)], self.now, "e0")[0]

    def lose(self, placement: int, machine: int = 0, tasks: str = "*") -> int:
        return self.end(EndKind.LOST, placement, machine, tasks)

    def wait(self, milliseconds: int) -> Housekept:
        """Time passes, then housekeeping looks."""
        self.now += milliseconds
        return self.cell.jobs.housekeep(self.now, "batch/0")


@pytest.fixture
def clock(cell: AnyCell) -> Clock:
    return Clock(cell)


def kept(cell: AnyCell, job_id: str = "a") -> Job:
    found = cell.jobs.get(job_id)
    assert found is not None
    return found


def group(cell: AnyCell, job_id: str = "a") -> GroupStatus:
    return kept(cell, job_id).groups[0]


def last(cell: AnyCell) -> int:
    return cell.counters()["placements"]


def submit(cell: AnyCell, count: int = 1, **words: object) -> None:
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), count, **words),))], 0, "ada")  # type: ignore[arg-type]


def test_a_lost_task_waits_a_second_then_two(cell: AnyCell, member: Member, clock: Clock) -> None:
    submit(cell, 3)
    member.place("a", (0, 3))
    clock.lose(1, tasks="1")
    found = group(cell)
    assert (found.unplaced, found.waiting, found.delayed, found.ready) == (1, "-", 1, 0)
    assert found.losses == (TaskLoss("1", 1, START + 1_000, 1),)
    assert (kept(cell).pending, cell.schedulers.pending()) == (False, {})
    assert member.place("a", (0, 1)).claims == ((0, Verdict.DUPLICATE),), "not placed before it is due"
    assert clock.wait(999) == Housekept(0, 0, more=False)
    assert clock.wait(1) == Housekept(0, 1, more=False)
    assert (group(cell).waiting, cell.schedulers.pending(), cell.jobs.chores()) == ("1", {"batch": ["a"]}, {})
    assert member.place("a", (1, 1)).accepted
    clock.lose(last(cell), 1)
    assert group(cell).losses == (TaskLoss("1", 2, clock.now + 2_000, 2),)
    assert group(cell).placed == 2, "the others run on"
    clock.end(EndKind.FINISHED, 1)
    clock.wait(2_000)
    member.place("a", (1, 1))
    clock.end(EndKind.FINISHED, last(cell), 1)
    assert (kept(cell).state, group(cell).losses) == (JobState.DONE, ())


def test_the_delay_doubles_up_to_five_minutes_and_the_budget_ends_it(
    cell: AnyCell, member: Member, clock: Clock
) -> None:
    submit(cell)
    delays = []
    for _ in range(10):
        assert member.place("a", (0, 1)).accepted
        clock.lose(last(cell))
        (loss,) = group(cell).losses
        delays.append(loss.due_ms - clock.now)
        assert clock.wait(delays[-1] - 1).queued == 0
        assert clock.wait(1).queued == 1
    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000]
    member.place("a", (0, 1))
    clock.lose(last(cell))
    assert (kept(cell).state, group(cell).failed, cell.jobs.chores()) == (JobState.DONE, 1, {})
    assert [fact.event for fact in cell.log.facts()][-2:] == [("fail", "a", "0", "0", "lost"), ("done", "a", "4")]


def test_a_placement_that_ran_for_ten_minutes_starts_the_count_anew(
    cell: AnyCell, member: Member, clock: Clock
) -> None:
    submit(cell, budget=1)
    member.place("a", (0, 1))
    clock.lose(1)
    clock.wait(1_000)
    member.place("a", (0, 1))
    for _ in range(12):
        clock.wait(MINUTE)
    clock.lose(2)
    assert group(cell).losses == (TaskLoss("0", 1, clock.now + 1_000, 2),)
    clock.wait(1_000)
    member.place("a", (0, 1))
    for _ in range(9):
        clock.wait(MINUTE)
    clock.lose(3)
    assert group(cell).failed == 1, "nine minutes are not enough"


@pytest.mark.parametrize(("age", "failed"), [(10 * MINUTE - 1, 1), (10 * MINUTE, 0)])
def test_ten_minutes_to_the_millisecond_reset_the_count(
    cell: AnyCell, member: Member, clock: Clock, age: int, failed: int
) -> None:
    submit(cell, budget=1)
    member.place("a", (0, 1))
    clock.lose(1)
    clock.wait(MINUTE)
    member.place("a", (0, 1))
    clock.wait(MINUTE)  # the age counts from the first record of the placement
    clock.now += age
    clock.lose(2)
    assert group(cell).failed == failed


def run_for_a_day(clock: Clock) -> None:
    for _ in range(24):
        clock.wait(60 * MINUTE)


def test_a_loss_after_a_day_resets_the_failures_too(cell: AnyCell, member: Member, clock: Clock) -> None:
    """Five failed starts, a day, a loss, a failed start: the next delay is that after a first failure."""
    submit(cell, budget=10)
    for _ in range(5):
        assert member.place("a", (0, 1)).accepted
        clock.end(EndKind.RETRIED, last(cell))
        clock.wait(60 * MINUTE)
    (loss,) = group(cell).losses
    assert loss.retried.failures == 5
    assert member.place("a", (0, 1)).accepted
    run_for_a_day(clock)
    clock.lose(last(cell))
    assert group(cell).losses == (TaskLoss("0", 1, clock.now + 1_000, last(cell)),)
    clock.wait(1_000)
    assert member.place("a", (0, 1)).accepted
    clock.end(EndKind.RETRIED, last(cell))
    (loss,) = group(cell).losses
    assert (loss.times, loss.retried.failures, loss.due_ms - clock.now) == (1, 1, 30_000)
    assert verify(cell).violations == ()


@pytest.mark.parametrize("runs", [True, False], ids=["a day", "a moment"])
@pytest.mark.parametrize("by", ["drain", "claim", "shrink"])
def test_a_placement_that_ran_for_a_day_and_is_evicted_resets_the_losses(
    cell: AnyCell, member: Member, clock: Clock, by: str, runs: bool
) -> None:
    """Budget 2: two losses, a placement that is evicted, one loss."""
    submit(cell, budget=2)
    for delay in (1_000, 2_000):
        assert member.place("a", (0, 1)).accepted
        clock.lose(last(cell))
        clock.wait(delay)
    assert member.place("a", (0, 1)).accepted
    if runs:
        run_for_a_day(clock)
    if by == "drain":
        clock.end(EndKind.EVICTED, last(cell))
    elif by == "claim":
        cell.jobs.submit([job("high", (4, 8), precedence=9)], 0, "ada")
        assert member.place("high", (0, 1), evict=((last(cell), 1),)).accepted
    else:
        cell.machines.set_capacity(0, (0, 0), clock.now, "ada", [(last(cell), 1)])
    assert group(cell).losses == (() if runs else (TaskLoss("0", 2, 0, 0),))
    assert member.place("a", (1, 1)).accepted
    clock.lose(last(cell), 1)
    found = group(cell)
    assert (found.failed, [loss.times for loss in found.losses]) == ((0, [1]) if runs else (1, []))
    assert verify(cell).violations == ()


@pytest.mark.parametrize("how", [EndKind.LOST, EndKind.EVICTED])
def test_a_task_that_is_placed_at_most_once_fails(cell: AnyCell, member: Member, clock: Clock, how: EndKind) -> None:
    submit(cell, 3, once=True)
    member.place("a", (0, 2))
    clock.end(how, 1, tasks="0")
    found = group(cell)
    assert (found.once, found.failed, found.unplaced, found.waiting, found.placed) == (True, 1, 1, "2", 1)
    assert (found.losses, cell.jobs.chores()) == ((), {})


def test_no_budget_means_a_lost_task_fails_and_an_evicted_one_waits(
    cell: AnyCell, member: Member, clock: Clock
) -> None:
    submit(cell, 2, budget=0)
    member.place("a", (0, 2))
    clock.end(EndKind.EVICTED, 1, tasks="0")
    clock.lose(1, tasks="1")
    assert (group(cell).waiting, group(cell).failed, group(cell).budget) == ("0", 1, 0)


@pytest.mark.parametrize("reaped", [False, True])
def test_tasks_of_an_executor_that_is_gone_are_lost(stand: Stand, cell: AnyCell, member: Member, reaped: bool) -> None:
    clock = Clock(cell)
    submit(cell, 2)
    member.place("a", (0, 2))
    if reaped:
        stand.expire_lease("e0")
    gone = Membership("e0", cell.executors.records()["e0"].incarnation)
    assert cell.executors.deregister(gone, clock.now, "batch/0", reaped=reaped)
    assert group(cell).losses == (TaskLoss("0-1", 1, START + 1_000, 1),)
    assert cell.jobs.chores() == {"a": START + 1_000}


def test_lost_tasks_of_a_gang_wait_for_one_another(cell: AnyCell, member: Member, clock: Clock) -> None:
    cell.jobs.submit([job("a", count=3, gang=Gang.YES)], 0, "ada")
    assert member.place("a", (0, 2), (1, 1), mode=Mode.GANG).accepted
    clock.lose(2, 1)
    clock.now += 500
    clock.lose(1, tasks="0")
    assert clock.wait(600).queued == 0
    assert clock.wait(400).queued == 2


def test_a_stopped_job_stops_its_delayed_tasks(cell: AnyCell, member: Member, clock: Clock) -> None:
    submit(cell)
    member.place("a", (0, 1))
    clock.lose(1)
    cell.jobs.stop("a", 1, "ada")
    assert (kept(cell).state, group(cell).stopped, group(cell).losses) == (JobState.STOPPED, 1, ())
    assert cell.jobs.chores() == {}


def test_a_job_that_shrinks_gives_up_delayed_tasks_before_running_ones(
    cell: AnyCell, member: Member, clock: Clock
) -> None:
    submit(cell, 4)
    member.place("a", (0, 3))
    clock.lose(1, tasks="0-1")
    cell.jobs.resize("a", {0: 2}, 1, "ada")
    found = group(cell)
    assert (found.placed, found.unplaced, found.waiting, found.stopped) == (1, 1, "0", 0)
    assert found.losses == (TaskLoss("0", 1, 0, 1),)


# Ends told late


@pytest.mark.parametrize("due", [False, True])
@pytest.mark.parametrize("how", [EndKind.FINISHED, EndKind.FAILED])
def test_an_end_that_is_told_after_the_loss_counts_while_the_task_waits(
    cell: AnyCell, member: Member, clock: Clock, how: EndKind, due: bool
) -> None:
    submit(cell, 2)
    member.place("a", (0, 2))
    clock.lose(1)
    clock.wait(1_000 * due)
    assert clock.end(how, 1, tasks="1", job="a") == 1
    found = group(cell)
    assert (found.finished, found.failed) == ((1, 0) if how is EndKind.FINISHED else (0, 1))
    assert (found.unplaced, found.ready) == (1, int(due))
    assert clock.end(how, 1, tasks="1", job="a") == 0, "once"
    assert clock.end(how, 1, job="a") == 1
    assert (kept(cell).state, cell.schedulers.pending(), cell.jobs.chores()) == (JobState.DONE, {}, {})
    assert verify(cell).violations == ()


def test_it_does_not_count_once_the_task_was_placed_again(cell: AnyCell, member: Member, clock: Clock) -> None:
    submit(cell, 2)
    member.place("a", (0, 2))
    clock.lose(1)
    clock.wait(1_000)
    member.place("a", (1, 1))
    assert clock.end(EndKind.FINISHED, 1, tasks="0", job="a") == 0
    clock.end(EndKind.EVICTED, last(cell), 1)
    assert clock.end(EndKind.FINISHED, 1, tasks="0", job="a") == 0, "a later placement has ended since"
    assert clock.end(EndKind.FINISHED, 1, tasks="1", job="a") == 1
    assert verify(cell).violations == ()


def test_it_does_not_count_of_another_placement_or_a_stopped_job(cell: AnyCell, member: Member, clock: Clock) -> None:
    submit(cell, 2)
    member.place("a", (0, 2))
    clock.lose(1, tasks="0")
    assert clock.end(EndKind.FINISHED, 2, tasks="0", job="a") == 0
    assert clock.end(EndKind.FINISHED, 1, tasks="0", job="nobody") == 0
    assert clock.end(EndKind.FINISHED, 1, tasks="0") == 0
    cell.jobs.stop("a", 1, "ada")
    assert clock.end(EndKind.FINISHED, 1, tasks="0", job="a") == 0
    assert group(cell).stopped == 1


def test_a_held_job_keeps_what_runs_and_counts_ends_that_are_told_late(
    cell: AnyCell, member: Member, clock: Clock
) -> None:
    submit(cell, 4)
    member.place("a", (0, 2), (1, 2))
    cell.jobs.hold("a", 1, "ada")
    clock.lose(1)
    assert clock.end(EndKind.FINISHED, 1, tasks="0", job="a") == 1
    assert clock.wait(1_000) == Housekept(0, 1, more=False)
    found = group(cell)
    assert (found.placed, found.ready, found.finished, found.stopped) == (2, 1, 1, 0)
    assert clock.end(EndKind.FINISHED, 1, tasks="1", job="a") == 1
    assert verify(cell).violations == ()


def test_ages_of_placements_are_recorded_by_the_minute_for_a_week(cell: AnyCell, member: Member, clock: Clock) -> None:
    submit(cell, 3)
    assert cell.log.placed_by() == ()
    member.place("a", (0, 1))
    clock.wait(0)
    assert cell.log.placed_by() == ((START, 1),)
    member.place("a", (0, 1))
    clock.wait(MINUTE - 1)
    assert cell.log.placed_by() == ((START, 1),), "once per minute"
    clock.wait(1)
    assert cell.log.placed_by() == ((START + MINUTE, 2), (START, 1))
    for _ in range(8 * 6):
        clock.wait(240 * MINUTE)
        ages = [clock.now - at for at, _ in cell.log.placed_by()]
        assert ages[0] == 0
        assert len(ages) <= 100
        gaps = [older - younger - 240 * MINUTE - older / 8 for younger, older in itertools.pairwise(ages)]
        assert max(gaps) <= 0, "an eighth of the age, and the time between two calls here"
    assert 6 * 24 * 60 * MINUTE <= ages[-1] <= 7 * 24 * 60 * MINUTE


def test_within_a_quarter_of_an_hour_every_minute_is_known(cell: AnyCell, member: Member, clock: Clock) -> None:
    for _ in range(40):
        clock.wait(MINUTE)
    ages = [(clock.now - at) // MINUTE for at, _ in cell.log.placed_by()]
    assert ages[:16] == list(range(16))
    assert all(older - younger <= max(1, older // 8) * 2 for younger, older in itertools.pairwise(ages))
    assert ages[-1] >= 35
