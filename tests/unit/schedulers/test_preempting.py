"""A scheduler that may evict: it looks only when a job fits nowhere, in slices, and sleeps when nobody may go."""

import pytest

from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.schedulers.constraints.fetching import Fetch
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.scheduler import Scheduler
from tests.unit.schedulers.rig import Rig, spec


def rig(*machines: tuple[int, int], looks: int = 256) -> Rig:
    return Rig(*machines, scheduler=Scheduler("batch", preemption=PrecedencePreemption(looks=looks)))


def looked(found: Rig) -> list[tuple[int, ...]]:
    """Machines that were looked up, look by look."""
    return [effect.residents for effect, _ in found.answers if isinstance(effect, Fetch) and effect.residents]


def important(job_id: str, count: int = 1, precedence: int = 9, gang: Gang = Gang.NO) -> JobSpec:
    return JobSpec(job_id, job_id, "batch", (TaskGroup((100, 100), count),), precedence, gang)


def test_who_is_less_important_goes_and_is_pending_again() -> None:
    found = rig((100, 100), (100, 100))
    found.submit(spec("low", 2))
    found.until_placed("low")
    found.submit(important("high"))
    found.until_placed("high")
    assert found.counts() == {"low": (1, 1), "high": (0, 1)}
    assert [fact[-1] for fact in found.facts("evicted")] == ["precedence:high"]
    found.check()
    found.end("high")
    found.until(lambda: found.left("low") == 0)


def test_nothing_is_looked_up_while_jobs_fit_or_are_the_least_important() -> None:
    found = rig((100, 100))
    found.submit(important("a"))
    found.until_placed("a")
    found.submit(spec("b"))
    found.until(lambda: len(found.scheduler.queue.blocked) == 1)
    assert looked(found) == []
    assert found.counts()["b"] == (1, 0)


def test_it_looks_on_slice_by_slice_and_at_nothing_twice() -> None:
    found = rig(*[(100, 100)] * 7, looks=2)
    found.submit(*(important(f"same{i}") for i in range(6)))
    found.until_placed(*(f"same{i}" for i in range(6)))
    found.submit(spec("low"))
    found.until_placed("low")
    found.submit(important("high"))
    found.until_placed("high")
    seen = [machine for machines in looked(found) for machine in machines]
    assert len(seen) == len(set(seen))
    assert all(len(machines) <= 2 for machines in looked(found))
    assert found.left("low") == 1


def test_it_sleeps_when_all_are_as_important() -> None:
    found = rig((100, 100), (100, 100))
    found.submit(important("a", 2))
    found.until_placed("a")
    found.submit(important("b"))
    found.until(lambda: len(found.scheduler.queue.blocked) == 1)
    assert found.facts("evicted") == []
    found.end("a")
    found.until_placed("b")


@pytest.mark.parametrize("gang", [Gang.YES, Gang.STRICT])
def test_a_gang_evicts_for_all_of_it_or_for_none(gang: Gang) -> None:
    found = rig((100, 100), (100, 100), (100, 100))
    found.submit(spec("low", 1), important("same", 1), spec("late", 1))
    found.until_placed("low", "same", "late")
    found.submit(important("high", 3, gang=gang))
    found.until(lambda: len(found.scheduler.queue.blocked) == 1)
    assert found.counts()["high"] == (3, 0)
    assert found.facts("evicted") == []
    found.end("same")
    found.until_placed("high")
    assert {fact[2] for fact in found.facts("evicted")} == {"low", "late"}
    found.check()


def test_victims_that_went_away_meanwhile_cost_one_attempt_more() -> None:
    found = rig((100, 100), (100, 100))
    found.submit(spec("low", 2))
    found.until_placed("low")
    found.submit(important("high"))
    commit = found.until_commit()
    found.end("low")  # all of it, and somebody else takes the room
    other = important("other", 1, 50)
    found.other.jobs.submit([other], 0, "ada")
    victim = commit.transactions[0].claims[0].machine
    found.foreign("other", victim, 1)
    found.until_placed("high")
    assert found.counts() == {"low": (0, 0), "high": (0, 1), "other": (0, 1)}
    found.check()


@pytest.mark.parametrize("relation", ["near", "apart_from"])
def test_a_relation_that_comes_to_hold_permits_evictions_on_machines_that_did_not_change(relation: str) -> None:
    """All tasks on the first machine are known. The second, that of db, is too small for the job."""
    found = rig()
    found.other.executors.register("simulated", "n", 600_000, 0)
    sizes = [(300, 300), (150, 150)]
    found.other.machines.join("simulated", [MachineSpec(f"m{size[0]}", size, {"rack": "r"}) for size in sizes], 0)
    found.other.jobs.submit([spec("low", 2), important("firm"), spec("db")], 0, "ada")
    found.foreign("low", 0, 2)
    found.foreign("firm", 0, 1)
    wants: dict[str, object] = {"job": "db", "domain": "rack"}
    if relation == "near":
        wants["required"] = True
    else:
        found.foreign("db", 1, 1)
    looks = JobSpec("looks", "looks", "batch", (TaskGroup((300, 300), 1),), 5)
    job = JobSpec("job", "job", "batch", (TaskGroup((200, 200), 1, spec={relation: wants}),), 5)
    found.submit(looks, job)
    found.until(lambda: found.scheduler.queue.blocked_jobs == 2)
    found.rest()
    if relation == "near":
        found.foreign("db", 1, 1)
    else:
        found.end("db")
    found.until_placed("job")
    assert [machine for _, machine, _ in found.job("job").groups[0].runs] == [0]
    found.check()
