"""A simulated executor: the tasks that it starts, holds, ends and acknowledges."""

import pytest

from omega.cellstate.model import JobSpec, JobState, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.live.simulated import executor as module
from omega.live.simulated.executor import SimulatedExecutor
from tests.unit.omega.live.yard import Yard, held_at_b, steps

WAIT = 0.5

# Playing


@pytest.mark.parametrize("speed", [1.0, 20.0])
def test_tasks_end_after_their_duration_by_the_speed(speed: float) -> None:
    yard = Yard(speed=speed)
    executor = yard.executors["a"]
    yard.run("j", 3, seconds=10.0)
    assert executor.step(0) == 0
    yard.clock.seconds += 10.0 / speed - 0.001
    assert executor.step(0) == 0
    assert yard.counts("j") == (0, 3, 0)
    yard.clock.seconds += 0.002
    assert executor.step(0) == 3
    assert (yard.counts("j"), yard.job("j").state) == ((0, 0, 3), JobState.DONE)
    assert executor.ended == 3
    assert executor.step(0) == 0
    yard.check()


def test_it_waits_for_messages_and_no_longer_than_until_the_next_end(yard: Yard, executor: SimulatedExecutor) -> None:
    executor.step(WAIT)
    assert yard.clock.pauses == [WAIT]
    yard.run("j", 1, seconds=0.7)
    executor.step(WAIT)
    assert yard.clock.pauses == [WAIT], "there was a message"
    executor.step(WAIT)
    assert executor.step(WAIT) == 1
    assert yard.clock.pauses == [WAIT, WAIT, pytest.approx(0.2)]


def test_what_ends_at_once_ends_in_the_step_that_hears_of_it(yard: Yard, executor: SimulatedExecutor) -> None:
    yard.run("j", 5, seconds=0.0)
    assert executor.step(WAIT) == 5
    yard.check()


def test_ends_are_sent_in_batches(yard: Yard, executor: SimulatedExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDINGS", 2)
    for i in range(5):
        yard.run(f"j{i}", 1, seconds=0.0)
    assert [executor.step(0) for _ in range(4)] == [2, 2, 1, 0]
    yard.check()


def test_machines_join_in_chunks_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOIN_CHUNK", 2)
    yard, joined = Yard(), list[int]()
    executor = yard.executor("b")
    executor.join([MachineSpec(f"b{i}", (1, 1)) for i in range(5)], joined.append)
    assert joined == [2, 2, 1]
    assert [m.name for m in yard.cell.machines.all() if m.executor == executor.number] == [f"b{i}" for i in range(5)]


# Leaving and holding


def test_stopped_tasks_are_acknowledged_and_do_not_finish(yard: Yard, executor: SimulatedExecutor) -> None:
    yard.run("j", 3)
    executor.step(0)
    yard.take_back("j", "0-1", EndKind.STOPPED)
    assert yard.leaving() == ["j"]
    assert steps(executor) == 0
    assert yard.leaving() == []
    executor.step(WAIT)
    assert yard.clock.pauses == [WAIT], "said once, then it waits again"
    yard.clock.seconds += 10
    assert executor.step(0) == 1, "the one that was left to run"
    assert yard.job("j").groups[0].stopped == 2
    assert executor.ended == 1
    yard.check()


def test_a_run_that_left_altogether_never_finishes(yard: Yard, executor: SimulatedExecutor) -> None:
    yard.run("j", 2)
    executor.step(0)
    yard.take_back("j")
    steps(executor)
    yard.clock.seconds += 20
    assert steps(executor) == 0
    assert yard.counts("j") == (2, 0, 0)
    yard.check()


def test_what_was_placed_in_the_room_of_another_starts_when_that_is_gone(
    yard: Yard, executor: SimulatedExecutor
) -> None:
    yard.run("low", 10)
    executor.step(0)
    yard.submit("high", 10, seconds=5.0, precedence=9)
    yard.place("high", (0, 10), evict=((yard.placed("low").placement, 10),))
    yard.clock.seconds += 1.0
    executor.step(0)  # hears of both, acknowledges the one
    assert yard.leaving() == []
    yard.clock.seconds += 3.0
    executor.step(WAIT)
    assert yard.clock.pauses == [], "while something is held it does not sleep"
    yard.clock.seconds += 4.9
    assert executor.step(0) == 0, "its time began when it started"
    yard.clock.seconds += 0.2
    assert executor.step(0) == 10
    assert yard.counts("high") == (0, 0, 10)
    yard.check()


def test_a_task_placed_again_starts_when_it_is_gone_from_another_executors_machine() -> None:
    yard = Yard("a", "b")
    a, b = yard.executors.values()
    yard.run("low", 1, seconds=5.0)
    a.step(0)
    yard.take_back("low")
    yard.place("low", (2, 1))
    for _ in range(3):
        b.step(0)
        yard.clock.seconds += 10
    assert yard.counts("low") == (0, 1, 0), "it still runs on the other machine"
    a.step(0)
    b.step(0)
    yard.clock.seconds += 4.9
    assert b.step(0) == 0
    yard.clock.seconds += 0.2
    assert b.step(0) == 1
    yard.check()


def test_a_held_run_that_is_taken_back_is_forgotten() -> None:
    yard = Yard("a", "b")
    b = yard.executors["b"]
    held_at_b(yard, "j", seconds=10.0)
    b.step(0)
    yard.take_back("j")
    steps(b)
    assert (b._held, b._runs) == ({}, {})
    assert yard.counts("j") == (1, 0, 0)


def test_part_of_a_held_run_is_taken_back() -> None:
    yard = Yard("a", "b")
    a, b = yard.executors.values()
    yard.run("j", 4, seconds=0.0)
    yard.take_back("j")
    yard.place("j", (2, 4))
    b.step(0)
    yard.take_back("j", "1-2", EndKind.STOPPED)
    b.step(0)
    a.step(0)
    assert steps(b) == 2
    assert yard.job("j").groups[0].stopped == 2
    yard.check()


def test_those_that_wait_long_do_not_keep_others_from_being_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ASKED", 2)
    yard = Yard("a", "b", "c")
    b = yard.executors["b"]
    held_at_b(yard, "one", "two")  # until executor a acknowledges, which it never does
    yard.run("three", 1, machine=4, seconds=0.0)
    yard.take_back("three")
    yard.place("three", (2, 1))
    b.step(0)
    yard.executors["c"].step(0)
    assert steps(b) == 1
    assert yard.counts("three") == (0, 0, 1)
    assert len(b._held) == 2


def test_each_placement_of_a_message_has_the_time_limit() -> None:
    yard = Yard()
    yard.cell.jobs.submit(
        [JobSpec("j", "j", "batch", (TaskGroup((100, 100), 2, 60_000, {"time_limit": 2_000}),))], 0, "ada"
    )
    claims = (Claim(0, 0, 1, seen=0), Claim(1, 0, 1, seen=0))
    yard.cell.schedulers.commit(CommitRequest(yard.member, 1, [Transaction("j", claims)], Position(), 0))
    yard.executors["a"].step(0)
    yard.clock.seconds += 2.1
    assert yard.executors["a"].step(0) == 2
    assert [(group.finished, group.failed) for group in yard.job("j").groups] == [(0, 2)]


def test_the_time_limit_of_an_update_ends_its_new_tasks() -> None:
    yard = Yard()
    yard.cell.jobs.submit([JobSpec("j", "j", "batch", (TaskGroup((100, 100), 1, 60_000),))], 0, "ada")
    yard.cell.schedulers.commit(
        CommitRequest(yard.member, 1, [Transaction("j", (Claim(0, 0, 1, seen=0),))], Position(), 0)
    )
    yard.executors["a"].step(0)
    new = TaskGroup((100, 100), 0, 60_000, {"time_limit": 2_000})
    yard.cell.jobs.update("j", [new], {"groups": [{}, {"time_limit": 2_000}]}, 1, "ada")
    yard.cell.jobs.resize("j", {1: 1}, 1, "ada")
    yard.cell.schedulers.commit(
        CommitRequest(yard.member, 2, [Transaction("j", (Claim(1, 1, 1, seen=0),))], Position(), 0)
    )
    yard.executors["a"].step(0)
    yard.clock.seconds += 2.1
    yard.executors["a"].step(0)
    assert [(group.placed, group.failed) for group in yard.job("j").groups] == [(1, 0), (0, 1)]


@pytest.mark.parametrize("speed", [1.0, 20.0])
def test_a_task_over_its_time_limit_fails_then(speed: float) -> None:
    yard = Yard(speed=speed)
    executor = yard.executors["a"]
    groups = [TaskGroup((100, 100), 1, seconds * 1000, {"time_limit": 4_000}) for seconds in (10, 3)]
    yard.cell.jobs.submit([JobSpec("j", "j", "batch", tuple(groups))], 0, "ada")
    claims = (Claim(0, 0, 1, seen=0), Claim(1, 1, 1, seen=0))
    yard.cell.schedulers.commit(CommitRequest(yard.member, 1, [Transaction("j", claims)], Position(), 0))
    executor.step(0)
    again = yard.executor()
    again.resume()
    yard.clock.seconds += 3.1 / speed
    assert executor.step(0) == 1
    yard.clock.seconds += 1.0 / speed
    assert executor.step(0) == 1
    assert [(group.finished, group.failed) for group in yard.job("j").groups] == [(0, 1), (1, 0)]
    assert any("time limit of 4 s" in " ".join(fact.event) for fact in yard.cell.log.facts())
    assert again.step(0) == 0, "the executor that read its machines afresh knows the limit, and the end is known"
    yard.check()
