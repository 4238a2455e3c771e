"""Blocked jobs are woken by what may let them fit, each kind of it, and nobody is tried for nothing."""

from typing import Any

from cellstate.model import JobSpec, Limits, TaskGroup
from schedulers.constraints.looking import Look
from schedulers.preemption.precedence import Precedence
from schedulers.presets import batch
from schedulers.scheduler import Scheduler
from tests.unit.schedulers.drive import Driver, copy, group, job, say
from tests.unit.schedulers.rig import Rig, spec


def demanding(job_id: str, need: tuple[int, int] = (100, 100), **extra: Any) -> JobSpec:
    return JobSpec(job_id, job_id, "batch", (TaskGroup(need, 1, 0, extra),))


def asleep(found: Rig, number: int) -> None:
    """Until so many jobs sleep, and all others have had their turn."""
    found.until(lambda: len(found.scheduler.waking) == number)
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
    assert [run.machine for run in found.other.runs([0, 1]) if run.job == "near"] == [1]
    found.check()


def test_a_job_that_keeps_apart_from_another_is_placed_when_that_has_moved() -> None:
    found = Rig((1000, 1000))
    found.submit(JobSpec("noisy", "noisy", "service", (TaskGroup((100, 100), 1),)))
    found.foreign("noisy", 0, 1)
    found.submit(demanding("quiet", apart_from="noisy"))
    asleep(found, 1)
    found.end("noisy")
    found.until_placed("quiet")


def test_an_attribute_set_on_a_machine_that_is_up_wakes_who_waits_for_it() -> None:
    found = Rig((1000, 1000), (1000, 1000))
    found.submit(demanding("a", constraints=["gpu == 'yes'"]))
    asleep(found, 1)
    found.submit(spec("busy", 4))
    found.until_placed("busy")
    found.other.set_machine_attributes(1, {"gpu": "yes"}, 0, "ada")
    found.until_placed("a")
    assert [run.machine for run in found.other.runs([0, 1]) if run.job == "a"] == [1]


def test_jobs_that_a_limit_keeps_out_wait_for_it_and_are_not_tried_meanwhile() -> None:
    found = Rig((100_000, 100_000))
    found.other.set_limits("batch", Limits((300, None)), 0, "ada")
    found.submit(*(spec(f"j{i}") for i in range(40)))
    asleep(found, 37)
    before, now = commits(found), found.clock.seconds
    found.until(lambda: found.clock.seconds > now + 4)
    assert commits(found) == before
    found.other.set_limits("batch", Limits((500, None)), 0, "ada")
    asleep(found, 35)
    assert commits(found) == before + 2, "as many as it admits"
    found.end(*[job_id for job_id, (_, placed) in found.counts().items() if placed][:1])
    asleep(found, 34)
    assert commits(found) == before + 3, "one for the room that one left"
    found.other.set_limits("batch", Limits((None, None)), 0, "ada")
    asleep(found, 0)
    found.check()


def test_an_important_job_is_tried_again_when_others_have_moved_whom_it_may_evict() -> None:
    found = Rig((200, 200), scheduler=Scheduler("batch", preemption=Precedence()))
    found.submit(JobSpec("same", "same", "batch", (TaskGroup((100, 100), 2),), 9))
    found.until_placed("same")
    found.submit(JobSpec("high", "high", "batch", (TaskGroup((150, 150), 1),), 9))
    asleep(found, 1)
    runs = [run for run in found.other.runs([0]) if run.job == "same"]
    found.submit(JobSpec("low", "low", "service", (TaskGroup((100, 100), 1),), 1))
    found.end("same")
    assert runs
    found.foreign("low", 0, 1)  # somebody was faster: the room is gone, but for less than it is worth
    found.until_placed("high")
    assert [fact[2] for fact in found.facts("evicted")] in ([], ["low"])


def test_ten_thousand_blocked_jobs_and_one_freed_machine_cost_one_attempt() -> None:
    found = Scheduler("batch", batch=16)
    driver = Driver(found, copy((0, 0), (0, 0)))
    driver.arrive(*(job(f"j{i}", group((2, 2), 1), order=i) for i in range(10_000))).idle(100_000)
    attempts = sum(work.attempts for each in found.sleepers.by_shape.values() for work in each.values())
    assert (len(found.sleepers), attempts) == (10_000, 10_000)
    say(driver.view, 1, 3, 3)
    driver.step()
    driver.idle()
    attempts = sum(work.attempts for each in found.sleepers.by_shape.values() for work in each.values())
    assert (len(found.sleepers), attempts) == (9_999, 9_999), "one was tried, and placed; nobody else"


def test_nothing_is_looked_at_when_nobody_waits_for_it() -> None:
    found = Rig((100, 100), scheduler=batch("quiet"))
    found.submit(spec("runs"))
    found.until_placed("runs")
    found.submit(spec("sleeps", 5))
    asleep(found, 1)
    now = found.clock.seconds
    found.until(lambda: found.clock.seconds > now + 3)
    assert [effect for effect, _ in found.answers if isinstance(effect, Look)] == []
