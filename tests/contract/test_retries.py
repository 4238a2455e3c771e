"""A task that used up its restarts on a machine is placed again after a delay, without a budget (semantics 26)."""

from omega.cellstate.model import JobState
from omega.cellstate.replies import Housekept
from omega.cellstate.tasks import EndKind, Retried, TaskLoss
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Member
from tests.contract.test_losses import MINUTE, START, Clock, group, kept, last, submit

SECOND = 1_000


def retry(clock: Clock, machine: int = 0, tasks: str = "*") -> int:
    return clock.end(EndKind.RETRIED, last(clock.cell), machine, tasks)


def test_it_waits_thirty_seconds_then_a_minute(cell: AnyCell, member: Member) -> None:
    clock = Clock(cell)
    submit(cell)
    member.place("a", (0, 1))
    assert retry(clock) == 1
    assert group(cell).losses == (TaskLoss("0", 0, START + 30 * SECOND, 1, Retried(1, 0)),)
    assert (group(cell).failed, group(cell).delayed, kept(cell).state) == (0, 1, JobState.ACTIVE)
    assert clock.wait(30 * SECOND - 1) == Housekept(0, 0, more=False)
    assert clock.wait(1) == Housekept(0, 1, more=False)
    member.place("a", (1, 1))
    retry(clock, 1)
    assert group(cell).losses == (TaskLoss("0", 0, clock.now + MINUTE, 2, Retried(2, 1)),)
    assert verify(cell).ok
    assert ("retried", "2", "1", "a", "0", "0") in [fact.event[:6] for fact in cell.log.facts()]


def test_it_has_no_budget_and_at_most_an_hour_of_delay(cell: AnyCell, member: Member) -> None:
    clock = Clock(cell)
    submit(cell, budget=1)
    for number in range(1, 14):
        member.place("a", (0, 1))
        retry(clock)
        (loss,) = group(cell).losses
        assert (loss.retried.failures, loss.due_ms - clock.now) == (
            number,
            min(60 * MINUTE, 30 * SECOND * 2 ** (number - 1)),
        )
        clock.wait(60 * MINUTE)
    assert verify(cell).ok


def test_losses_and_failures_are_counted_apart(cell: AnyCell, member: Member) -> None:
    clock = Clock(cell)
    submit(cell, budget=1)
    for how in (EndKind.RETRIED, EndKind.LOST, EndKind.RETRIED):
        member.place("a", (0, 1))
        clock.end(how, last(cell))
        clock.wait(60 * MINUTE)
    assert group(cell).losses == (TaskLoss("0", 1, 0, 3, Retried(2, 0)),)
    member.place("a", (0, 1))
    clock.lose(last(cell))
    assert (group(cell).failed, kept(cell).state) == (1, JobState.DONE), "two losses are over the budget"
    assert verify(cell).ok


def test_a_task_that_ran_for_ten_minutes_begins_anew(cell: AnyCell, member: Member) -> None:
    clock = Clock(cell)
    submit(cell)
    member.place("a", (0, 1))
    retry(clock)
    clock.wait(MINUTE)
    member.place("a", (0, 1))
    for _ in range(12):
        clock.wait(MINUTE)
    retry(clock)
    assert [loss.retried.failures for loss in group(cell).losses] == [1]


def test_what_is_placed_at_most_once_fails(cell: AnyCell, member: Member) -> None:
    clock = Clock(cell)
    submit(cell, once=True)
    member.place("a", (0, 1))
    retry(clock)
    assert (group(cell).failed, group(cell).losses, kept(cell).state) == (1, (), JobState.DONE)
    assert ("fail", "a", "0", "0", "retried") in [fact.event for fact in cell.log.facts()]
    assert verify(cell).ok


def test_told_twice_it_counts_once(cell: AnyCell, member: Member) -> None:
    clock = Clock(cell)
    submit(cell, 3)
    member.place("a", (0, 3))
    assert [retry(clock, tasks="1"), retry(clock, tasks="1")] == [1, 0]
    assert group(cell).losses == (TaskLoss("1", 0, START + 30 * SECOND, 1, Retried(1, 0)),)
    cell.jobs.stop("a", 1, "ada")
    assert group(cell).losses == ()
    assert verify(cell).ok
