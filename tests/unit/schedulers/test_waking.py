"""Blocked jobs are woken by what may let them fit, each kind of it, and nobody is tried for nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omega.cellstate.model import After, Gang, JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Outcome, Transaction
from omega.schedulers import live_driver
from omega.schedulers.constraints.fetching import Fetch
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.presets import batch
from omega.schedulers.scheduler import Scheduler
from tests.unit.schedulers.drive import Driver, copy, group, job, say, validated
from tests.unit.schedulers.rig import Rig, spec


def demanding(job_id: str, need: tuple[int, int] = (100, 100), **extra: Any) -> JobSpec:
    return JobSpec(job_id, job_id, "batch", (TaskGroup(need, 1, 0, extra),))


def asleep(found: Rig, number: int) -> None:
    """Until so many jobs sleep, and all others have had their turn."""
    found.until(lambda: found.scheduler.queue.blocked_jobs == number)
    found.rest()


def commits(found: Rig) -> int:
    return found.figures.transactions


def test_a_job_that_wants_to_be_near_another_is_placed_when_that_appears() -> None:
    found = Rig((1000, 1000), (1000, 1000))
    found.submit(demanding("near", near={"job": "db", "required": True}))
    asleep(found, 1)
    other = JobSpec("db", "db", "service", (TaskGroup((100, 100), 1),))
    found.submit(other)
    found.foreign("db", 1, 1)
    found.until_placed("near")
    assert [run.machine for run in found.other.machines.runs([0, 1]) if run.job == "near"] == [1]
    found.check()


def test_a_job_that_keeps_apart_from_another_is_placed_when_that_has_moved() -> None:
    found = Rig((1000, 1000))
    found.submit(JobSpec("noisy", "noisy", "service", (TaskGroup((100, 100), 1),)))
    found.foreign("noisy", 0, 1)
    found.submit(demanding("quiet", apart_from="noisy"))
    asleep(found, 1)
    found.end("noisy")
    found.until_placed("quiet")


@pytest.mark.parametrize("jobs_per_call", [1, 8])
@pytest.mark.parametrize("pipelined", [False, True])
def test_a_job_keeps_apart_from_one_that_its_own_scheduler_has_just_placed(jobs_per_call: int, pipelined: bool) -> None:
    """In the same call, or in the one before, whose reply has not come."""
    found = Rig((1000, 1000), scheduler=replace(batch("rig"), jobs_per_call=jobs_per_call), pipelined=pipelined)
    found.submit(demanding("web"), demanding("quiet", apart_from="web"), demanding("beside", near="web"))
    found.until_placed("web")
    asleep(found, 1)
    assert {run.job for run in found.other.machines.runs([0])} == {"web", "beside"}
    found.end("web")
    found.until_placed("quiet")


def test_an_attribute_set_on_a_machine_that_is_up_wakes_who_waits_for_it() -> None:
    found = Rig((1000, 1000), (1000, 1000))
    found.submit(demanding("a", constraints=["gpu == 'yes'"]))
    asleep(found, 1)
    found.submit(spec("busy", 4))
    found.until_placed("busy")
    found.other.machines.set_attributes(1, {"gpu": "yes"}, 0, "ada")
    found.until_placed("a")
    assert [run.machine for run in found.other.machines.runs([0, 1]) if run.job == "a"] == [1]


def test_jobs_that_a_limit_keeps_out_wait_for_it_and_are_not_tried_meanwhile() -> None:
    found = Rig((100_000, 100_000))
    found.other.pools.set_limits("batch", Limits((300, None)), 0, "ada")
    found.submit(*(spec(f"j{i}") for i in range(40)))
    asleep(found, 37)
    before, now = commits(found), found.clock.seconds
    found.until(lambda: found.clock.seconds > now + 4)
    assert commits(found) == before
    found.other.pools.set_limits("batch", Limits((500, None)), 0, "ada")
    asleep(found, 35)
    assert commits(found) == before + 2, "as many as it admits"
    found.end(*[job_id for job_id, (_, placed) in found.counts().items() if placed][:1])
    asleep(found, 34)
    assert commits(found) == before + 3, "one for the room that one left"
    found.other.pools.set_limits("batch", Limits((None, None)), 0, "ada")
    asleep(found, 0)
    found.check()


def test_what_a_woken_job_cannot_use_of_a_limit_is_for_those_behind_it() -> None:
    found = Rig((1000, 1000), (300, 300))
    found.other.pools.set_limits("batch", Limits((None, None), 1), 0, "ada")
    found.submit(spec("runs", need=(300, 300)))
    found.until_placed("runs")
    found.submit(spec("wide", need=(700, 700)), spec("narrow", need=(300, 300)))
    asleep(found, 2)
    (run,) = found.other.machines.runs([0, 1])
    found.other.machines.set_state(0, MachineState.DRAINED, 0, "ada")
    found.other.machines.set_state(1, MachineState.UP, 0, "ada")
    found.other.executors.end([TaskEnd(run.machine, run.placement, EndKind.FINISHED)], 0, "simulated")
    found.until_placed("narrow")
    assert found.left("wide") == 1


def test_a_limit_that_keeps_one_group_out_lets_the_others_run() -> None:
    found = Rig((1000, 1000))
    found.other.pools.set_limits("batch", Limits((500, None)), 0, "ada")
    groups = (TaskGroup((900, 900), 1), TaskGroup((200, 200), 3))
    found.submit(JobSpec("mixed", "mixed", "batch", groups))
    asleep(found, 1)
    found.until(lambda: found.placed("mixed") == 2)
    asleep(found, 1)
    before, now = commits(found), found.clock.seconds
    found.until(lambda: found.clock.seconds > now + 5)
    assert commits(found) == before
    found.check()


def test_a_gang_that_the_limits_do_not_admit_is_not_tried() -> None:
    found = Rig((1000, 1000))
    found.other.pools.set_limits("batch", Limits((300, None)), 0, "ada")
    groups = (TaskGroup((200, 200), 1), TaskGroup((200, 200), 1))
    found.submit(JobSpec("gang", "gang", "batch", groups, gang=Gang.YES))
    asleep(found, 1)
    before, now = commits(found), found.clock.seconds
    found.until(lambda: found.clock.seconds > now + 5)
    assert commits(found) == before


def test_an_important_job_is_tried_again_when_others_have_moved_whom_it_may_evict() -> None:
    found = Rig((200, 200), scheduler=Scheduler("batch", preemption=PrecedencePreemption()))
    found.submit(JobSpec("same", "same", "batch", (TaskGroup((100, 100), 2),), 9))
    found.until_placed("same")
    found.submit(JobSpec("high", "high", "batch", (TaskGroup((150, 150), 1),), 9))
    asleep(found, 1)
    runs = [run for run in found.other.machines.runs([0]) if run.job == "same"]
    found.submit(JobSpec("low", "low", "service", (TaskGroup((100, 100), 1),), 1))
    found.end("same")
    assert runs
    found.foreign("low", 0, 1)  # somebody was faster: the room is gone, but for less than it is worth
    found.until_placed("high")
    assert [fact[2] for fact in found.facts("evicted")] in ([], ["low"])


def test_ten_thousand_blocked_jobs_and_one_freed_machine_cost_one_attempt() -> None:
    found = Scheduler("batch", jobs_per_call=16)
    driver = Driver(found, copy((0, 0), (0, 0)))
    driver.arrive(*(job(f"j{i}", group((2, 2), 1), order=i) for i in range(10_000))).idle(100_000)
    attempts = sum(work.attempts for work in found.queue.blocked.works())
    assert (len(found.queue.blocked), attempts) == (10_000, 1), "one of those alike is tried for all"

    def takes_room(transaction: Transaction) -> Outcome:
        say(driver.snapshot, 1, 1, 1)
        return validated(transaction)

    driver.validate = takes_room
    say(driver.snapshot, 1, 3, 3)
    driver.step()
    driver.idle()
    attempts = sum(work.attempts for work in found.queue.blocked.works())
    assert (len(found.queue.blocked), attempts) == (9_999, 0), "the one that was tried is placed; no other was tried"


def test_nothing_is_looked_at_when_nobody_waits_for_it() -> None:
    found = Rig((100, 100), scheduler=batch("quiet"))
    found.submit(spec("runs"))
    found.until_placed("runs")
    found.submit(spec("sleeps", 5))
    asleep(found, 1)
    now = found.clock.seconds
    found.until(lambda: found.clock.seconds > now + 3)
    assert [effect for effect, _ in found.answers if isinstance(effect, Fetch)] == []


LETS_IN: dict[str, Callable[[RedisCell], object]] = {
    "a task ends": lambda cell: cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 0, "simulated"),
    "a task is evicted": lambda cell: [
        cell.jobs.hold("runs", 0, "ada"),
        cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED)], 0, "simulated"),
    ],
    "a machine joins": lambda cell: cell.machines.join("simulated", [MachineSpec("new", (300, 300))], 0),
    "a machine comes up": lambda cell: cell.machines.set_state(1, MachineState.UP, 0, "ada"),
    "a machine is larger": lambda cell: cell.machines.set_capacity(0, (900, 900), 0, "ada"),
    "an attribute is set": lambda cell: cell.machines.set_attributes(2, {"gpu": "yes"}, 0, "ada"),
    "a limit is raised": lambda cell: cell.pools.set_limits("batch", Limits((None, None)), 0, "ada"),
    "others leave room within the limit": lambda cell: cell.executors.end(
        [TaskEnd(0, 1, EndKind.FINISHED)], 0, "simulated"
    ),
    "it is resized": lambda cell: cell.jobs.resize("waits", {0: 1}, 0, "ada"),
    "it is released": lambda cell: cell.jobs.release("waits", 0, "ada"),
    "what it waits for is done": lambda cell: cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 0, "simulated"),
}


@pytest.mark.parametrize("what", LETS_IN)
def test_who_waits_is_woken_and_does_not_poll(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll of a scheduler that nobody wakes comes far too late."""
    monkeypatch.setattr(live_driver, "IDLE_SECONDS", 1e6)
    found = Rig((300, 300), (300, 300), (300, 300))
    found.other.machines.set_state(1, MachineState.DRAINED, 0, "ada")
    count, more = 2 if what == "it is resized" else 1, dict[str, Any]()
    found.other.machines.set_state(2, MachineState.DRAINED, 0, "ada")
    found.submit(spec("runs", need=(200, 200)))
    found.until_placed("runs")
    if "limit" in what:
        found.other.pools.set_limits("batch", Limits((300, None)), 0, "ada")
        found.other.machines.set_state(1, MachineState.UP, 0, "ada")
    if what == "an attribute is set":
        found.other.machines.set_state(2, MachineState.UP, 0, "ada")
        more = {"constraints": ["gpu == 'yes'"]}
    after = (After("runs"),) if what.startswith("what it waits") else ()
    need = (100, 100) if count == 2 or what == "it is released" else (200, 200)
    tasks = (TaskGroup(need, count, 0, more),)
    held = what == "it is released"
    found.other.schedulers.members()
    waits = JobSpec("waits", "waits", "batch", tasks, gang=Gang.YES if count == 2 else Gang.NO, after=after)
    found.other.jobs.submit([waits], 0, "ada", held=held)
    found.until(lambda: found.clock.seconds > 5e6)
    found.rest()
    now = found.clock.seconds
    assert found.left("waits") == count
    found.other.schedulers.members()
    LETS_IN[what](found.other)
    found.until_placed("waits")
    assert found.clock.seconds < now + 1
