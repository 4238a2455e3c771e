"""A simulated executor that restarts, misses messages, receives them twice, or has a failing store loses nothing."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from omega.cellstate.errors import StoreError, Unreachable
from omega.cellstate.model import Job
from omega.live.simulated.executor import SimulatedExecutor
from tests.unit.omega.live.yard import Yard, held_at_b, steps

# Coming back


def test_an_executor_that_starts_again_plays_what_it_finds(yard: Yard, executor: SimulatedExecutor) -> None:
    yard.run("j", 4)
    executor.step(0)
    yard.take_back("j", "3")
    again = yard.executor()
    again.resume()
    assert yard.messages(again) == [], "what is read afresh needs no messages"
    again.step(0)
    assert yard.leaving() == []
    yard.clock.seconds += 10
    assert steps(again) == 3
    assert yard.counts("j") == (1, 0, 3)
    yard.check()


def test_after_a_mailbox_was_dropped_everything_is_read_afresh_and_known_tasks_keep_their_end(
    yard: Yard, executor: SimulatedExecutor
) -> None:
    yard.run("known", 1, seconds=10.0)
    executor.step(0)
    yard.clock.seconds += 8
    yard.run("unheard", 1, seconds=10.0)
    yard.run("left", 1, seconds=10.0)
    yard.take_back("left")
    yard.cell.client.delete(f"omega:1:{{c}}:box:{executor.number}")
    yard.message(executor, "!")
    executor.step(0)
    assert yard.leaving() == []
    yard.clock.seconds += 2
    assert executor.step(0) == 1
    assert yard.counts("known") == (0, 0, 1)
    yard.clock.seconds += 8
    assert steps(executor) == 1
    yard.check()


def test_a_full_read_reads_no_jobs_but_those_of_its_runs(
    yard: Yard, executor: SimulatedExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.run("mine", 1, seconds=0.0)
    yard.submit("queued", 5)
    read, jobs_by_id = list[str](), executor.cell.jobs.by_id

    def noted(ids: Sequence[str]) -> dict[str, Job]:
        read.extend(ids)
        return jobs_by_id(ids)

    monkeypatch.setattr(executor.cell.jobs, "by_id", noted)
    monkeypatch.setattr(executor.cell.jobs, "all", lambda: pytest.fail("a long queue takes seconds to read"))
    executor.resume()
    assert read == ["mine"]
    assert steps(executor) == 1


def test_machines_of_others_are_not_played() -> None:
    yard = Yard("a", "b")
    yard.run("theirs", 1, machine=2, seconds=0.0)
    executor = yard.executors["a"]
    executor.resume()
    assert steps(executor) == 0
    assert steps(yard.executors["b"]) == 1


def test_what_it_finds_in_the_room_of_what_leaves_is_held() -> None:
    yard = Yard("a", "b")
    b = yard.executors["b"]
    held_at_b(yard, "moved")  # still leaving a machine of executor a
    b.resume()
    assert steps(b) == 0
    assert len(b._held) == 1
    yard.executors["a"].step(0)
    assert steps(b) == 1


def test_a_job_that_comes_while_it_reads_runs_its_full_time(
    yard: Yard, executor: SimulatedExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = list[str]()

    def then(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*arguments: Any) -> Any:
            found = read(*arguments)
            if not came:
                came.append(yard.run("late", 1, seconds=10.0))
            return found

        return reading

    monkeypatch.setattr(executor.cell.machines, "runs", then(executor.cell.machines.runs))
    monkeypatch.setattr(executor.cell.jobs, "all", then(executor.cell.jobs.all))
    executor.resume()
    assert came == ["late"]
    assert steps(executor) == 0, "its duration is not known from jobs read before it came"
    yard.clock.seconds += 10
    assert steps(executor) == 1


def test_what_it_hears_twice_runs_once(yard: Yard, executor: SimulatedExecutor) -> None:
    yard.run("j", 2, seconds=5.0)
    told = yard.messages(executor)
    assert len(told) == 1
    yard.message(executor, *told)
    executor.step(0)
    yard.clock.seconds += 3
    yard.message(executor, *told)
    assert executor.step(0) == 0
    yard.clock.seconds += 2
    assert executor.step(0) == 2
    yard.message(executor, *told)  # as if from before it read afresh
    executor.step(0)
    yard.clock.seconds += 5
    assert steps(executor) == 0
    assert (executor.ended, yard.counts("j")) == (2, (0, 0, 2))
    yard.check()


# A store that fails


def test_a_store_that_is_away_loses_nothing(yard: Yard, executor: SimulatedExecutor) -> None:
    yard.run("ends", 2, seconds=1.0)
    yard.run("leaves", 2, machine=1)
    executor.step(0)
    yard.take_back("leaves")
    told = yard.messages(executor)
    yard.clock.seconds += 2
    yard.server.connected = False
    for _ in range(3):
        with pytest.raises(StoreError):
            executor.step(0)
    yard.server.connected = True
    assert yard.messages(executor) == told
    assert steps(executor) == 2
    assert (yard.leaving(), yard.counts("ends")) == ([], (0, 0, 2))
    yard.check()


@pytest.mark.parametrize("resumes", [True, False])
@pytest.mark.parametrize("acted", [True, False])
def test_an_end_whose_answer_is_lost_is_sent_again(
    yard: Yard, executor: SimulatedExecutor, acted: bool, resumes: bool
) -> None:
    yard.run("ends", 2, seconds=1.0)
    yard.run("leaves", 2, machine=1)
    executor.step(0)
    yard.take_back("leaves")
    yard.clock.seconds += 2
    end = executor.cell.executors.end

    def cut(*arguments: object) -> list[int]:
        executor.cell.executors.end = end  # type: ignore[method-assign]
        if acted:
            end(*arguments)  # type: ignore[arg-type]
        raise Unreachable("cut by the test")

    executor.cell.executors.end = cut  # type: ignore[method-assign, assignment]
    with pytest.raises(Unreachable):
        executor.step(0)
    if resumes:
        executor.resume()
    steps(executor)
    assert (yard.leaving(), yard.counts("ends")) == ([], (0, 0, 2))
    yard.clock.seconds += 10
    steps(executor)
    assert yard.counts("leaves") == (2, 0, 0)
    assert (executor._runs, executor._held) == ({}, {})
    yard.check()


def test_a_store_that_went_back_gives_its_placement_ids_to_other_tasks(yard: Yard, executor: SimulatedExecutor) -> None:
    kept = copy.deepcopy(dict(yard.server.dbs[0]))
    yard.run("lost", 1, seconds=5.0)
    executor.step(0)
    before = yard.placed("lost").placement
    with yard.server.lock:
        yard.server.dbs[0].clear()
        yard.server.dbs[0].update(kept)
    yard.commits = 0
    yard.run("new", 1, machine=1, seconds=30.0)
    assert yard.placed("new").placement == before
    executor.resume()
    yard.clock.seconds += 6
    assert steps(executor) == 0, "the end of the lost one is not that of the new one"
    yard.clock.seconds += 24
    assert steps(executor) == 1
    yard.check()
