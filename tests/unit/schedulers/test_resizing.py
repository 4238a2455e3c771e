"""Jobs that grow while there is room and give their surplus back: sizes on submission and while they run."""

from typing import Any

import pytest

from omega.cellstate.errors import Refused
from omega.cellstate.model import Gang, JobSpec, MachineState, TaskGroup
from omega.cellstate.shards import TRIES, Worker
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.schedulers.failing import FailingJobs
from omega.schedulers.policies import Sizing
from omega.schedulers.presets import mapreduce
from omega.schedulers.resizing import LOOK_SECONDS, REST_SECONDS, Resize, Resized, resize
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import Ownership
from omega.schedulers.sizing import PLAN, AsAsked, GlobalCap, MaxParallelism, RelativeSize
from tests.unit.schedulers.rig import Rig, spec

HUNDRED = [(1_000, 1_000)] * 10
"""Room for a hundred workers."""


def job(job_id: str = "a", asked: int = 5, maps: int = 60, reduces: int = 10, **more: Any) -> JobSpec:
    workers = TaskGroup((100, 100), asked)
    surplus = TaskGroup((100, 100), 0, optional=True)
    extra = {PLAN: {"maps": maps, "reduces": reduces}}
    return JobSpec(job_id, more.pop("name", "words"), "mapreduce", (workers, surplus), spec=extra, **more)


def scheduler(sizing: Sizing) -> Scheduler:
    found = mapreduce("rig")
    found.sizing = sizing
    return found


def rig(sizing: Sizing, machines: list[tuple[int, int]] | None = None) -> Rig:
    found = Rig(*(HUNDRED if machines is None else machines), scheduler=scheduler(sizing), member="mapreduce/0")
    learn(found)
    return found


def learn(found: Rig, name: str = "words") -> None:
    """Know an earlier run: maps took 10 s, reduces 5 s."""
    found.submit(job("before-" + name, 1, 1, 1, name=name))
    found.until_placed("before-" + name)
    (run,) = found.other.machines.runs(range(10))
    worker = Worker(run.machine, run.placement, 0)
    for phase, milliseconds in (("map", 10_000), ("reduce", 5_000)):
        found.other.shards.claim("before-" + name, worker, 1, 1, 0)
        found.other.shards.end("before-" + name, name, worker, phase, 0, milliseconds)
    found.end("before-" + name)


def sizes(found: Rig, job_id: str = "a") -> tuple[int, int, int, int]:
    """Of the workers asked for, and of the surplus: how many wait, how many are placed."""
    workers, surplus = found.job(job_id).groups
    return workers.unplaced, workers.placed, surplus.unplaced, surplus.placed


def pass_looks(found: Rig, seconds: float = 3 * LOOK_SECONDS) -> None:
    """Let so much time pass, with what is due in it."""
    until = found.clock.seconds + seconds
    found.until(lambda: found.clock.seconds >= until)
    found.rest()


@pytest.mark.parametrize(
    ("sizing", "surplus"),
    [
        (AsAsked(), 0),
        (RelativeSize(), 15),
        (RelativeSize(2), 5),
        (GlobalCap(), 55),
        (GlobalCap(30), 25),
        (MaxParallelism(), 55),
    ],
    ids=str,
)
def test_a_job_is_sized_when_it_is_submitted(sizing: Sizing, surplus: int) -> None:
    found = rig(sizing)
    found.submit(job())
    found.until_placed("a")
    assert sizes(found) == (0, 5, 0, surplus)
    found.check()


def test_one_transaction_places_the_workers_and_the_surplus() -> None:
    found = rig(MaxParallelism())
    before = found.figures.transactions
    found.submit(job())
    found.until_placed("a")
    assert found.figures.transactions == before + 1


def test_nobody_knows_better_before_anything_was_measured() -> None:
    found = rig(MaxParallelism())
    found.submit(job(name="new"))
    found.until_placed("a")
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 0)
    run = next(run for run in found.other.machines.runs(range(10)) if run.job == "a")
    worker = Worker(run.machine, run.placement, int(run.tasks[0]))
    found.other.shards.claim("a", worker, 60, 10, 0)
    found.other.shards.end("a", "new", worker, "map", 0, 1_000)
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 54)


def test_more_asked_for_than_of_use_is_cut_before_it_runs() -> None:
    found = rig(MaxParallelism())
    found.submit(job(asked=80, maps=20))
    found.until_placed("a")
    assert sizes(found) == (0, 20, 0, 0)


def test_it_grows_when_room_appears() -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)])
    found.submit(job())
    found.until_placed("a")
    assert sizes(found) == (0, 5, 0, 5)
    found.join((1_000, 1_000))
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 15)
    found.check()


def test_several_jobs_do_not_count_on_the_same_room() -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)] * 2)
    learn(found, "letters")
    found.submit(job("a", 2), job("b", 2, name="letters"))
    pass_looks(found)
    assert sizes(found, "a") == (0, 2, 0, 16)
    assert sizes(found, "b") == (0, 2, 0, 0)


def test_the_workers_another_job_asked_for_come_before_surplus() -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)] * 2)
    found.submit(job())
    found.until_placed("a")
    assert sizes(found) == (0, 5, 0, 15)
    found.submit(job("b", 6, name="letters"))
    pass_looks(found)
    assert (sizes(found), sizes(found, "b")) == ((0, 5, 0, 9), (0, 6, 0, 0))


def test_surplus_that_is_evicted_is_not_pending() -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)])
    found.submit(job())
    found.until_placed("a")
    run = next(run for run in found.other.machines.runs([0]) if run.group == 1)
    found.other.machines.set_state(0, MachineState.DRAINED, 0, "ada")
    found.other.executors.end([TaskEnd(run.machine, run.placement, EndKind.EVICTED, reason="drain")], 0, "simulated")
    assert sizes(found) == (0, 5, 0, 0)
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 0)
    found.check()


def test_workers_that_were_asked_for_are_waited_for() -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)])
    found.submit(job(asked=12))
    found.until(lambda: sizes(found)[1] == 10)
    pass_looks(found)
    assert sizes(found) == (2, 10, 0, 0)
    found.join((500, 500))
    pass_looks(found)
    assert sizes(found) == (0, 12, 0, 3)


def test_surplus_that_finds_no_machine_is_given_up_for_a_while() -> None:
    """The sums have room for seven, the machines for none: each has half of what a worker takes."""
    found = rig(MaxParallelism(), [(1_000, 1_000), *[(50, 50)] * 14])
    found.submit(job(asked=10))
    found.until_placed("a")
    pass_looks(found)
    assert sizes(found) == (0, 10, 0, 0)
    resizes = len(found.facts("resize"))
    pass_looks(found, REST_SECONDS / 2)
    assert len(found.facts("resize")) == resizes
    found.join((1_000, 1_000))
    pass_looks(found, REST_SECONDS)
    assert sizes(found) == (0, 10, 0, 10)
    assert len(found.scheduler.queue.blocked) == 0


def test_surplus_is_given_back_when_others_wait_for_room() -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)] * 2)
    found.submit(job())
    found.until_placed("a")
    assert sizes(found) == (0, 5, 0, 15)
    found.submit(spec("other", 8))
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 7)
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 7), "what was given back is idle for the other job, and stays so"
    found.submit(spec("more", 40))
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 0), "but what was asked for is kept"


@pytest.mark.parametrize("reason", ["CONSTRAINT", "TOO_LARGE", "LIMIT", "NO_EXECUTOR"])
def test_a_job_that_room_does_not_help_takes_no_surplus_away(reason: str) -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)] * 2)
    found.submit(job())
    found.until_placed("a")
    batch = found.other.schedulers.register("batch/9", "n", 600_000, 0)
    found.submit(spec("other", 8))
    found.other.schedulers.renew(batch, 600_000, {"reasons": {"other": [[1, "RESOURCES"], [2, reason]]}})
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 15)
    found.other.schedulers.renew(batch, 600_000, {"reasons": {"other": [[2, reason], [3, "RESOURCES"]]}})
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 7)


def test_surplus_is_given_back_to_jobs_of_another_scheduler_of_the_kind() -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)] * 2)
    second = found.other.schedulers.register("mapreduce/1", "n", 600_000, 0)
    own = found.live.ownership = Ownership("mapreduce/0", ("mapreduce/0", "mapreduce/1"))
    mine, theirs = (next(f"q{i}" for i in range(100) if own.owns(f"q{i}", "") is each) for each in (True, False))
    found.submit(job(mine))
    found.until_placed(mine)
    pass_looks(found)
    assert sizes(found, mine) == (0, 5, 0, 15)
    found.submit(job(theirs, 3, name="others"))
    found.other.schedulers.renew(second, 600_000, {"reasons": {theirs: [[1, "RESOURCES"]]}})
    pass_looks(found)
    assert sizes(found, mine) == (0, 5, 0, 12)
    assert sizes(found, theirs)[0] == 3, "its own scheduler places it"


def test_under_a_cap_surplus_is_given_back_when_the_cell_fills() -> None:
    found = rig(GlobalCap(60), [(1_000, 1_000)] * 2)
    found.submit(job())
    found.until_placed("a")
    assert sizes(found) == (0, 5, 0, 7)
    found.submit(spec("other", 4))
    room = [
        machine.index for machine in found.other.machines.all() if machine.capacity[0] - machine.allocated[0] >= 400
    ]
    assert found.foreign("other", room[0], 4).name == "PLACED"
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 3)


def test_surplus_is_not_stopped_for_being_of_no_more_use() -> None:
    """Late in a job fewer workers would do; which of them has nothing to do it knows itself."""
    found = rig(MaxParallelism())
    found.submit(job(maps=20, reduces=2))
    found.until_placed("a")
    assert sizes(found) == (0, 5, 0, 15)
    runs = [run for run in found.other.machines.runs(range(10)) if run.job == "a" and run.group == 0]
    worker = Worker(runs[0].machine, runs[0].placement, int(runs[0].tasks[0]))
    for shard in range(20):
        assert found.other.shards.claim("a", worker, 20, 2, 0).shard == shard
        found.other.shards.end("a", "words", worker, "map", shard, 1_000)
    pass_looks(found)
    assert sizes(found) == (0, 5, 0, 15)


@pytest.mark.parametrize("why", ["its own workers failed", "a shard failed too often"])
def test_a_job_that_cannot_be_done_gets_no_more_surplus(why: str) -> None:
    found = rig(RelativeSize(2))
    found.submit(job())
    found.until_placed("a")
    runs = [run for run in found.other.machines.runs(range(10)) if run.job == "a"]
    own, surplus = ([run for run in runs if run.group == group] for group in (0, 1))
    if why == "a shard failed too often":
        machines = {run.machine: run for run in own + surplus}
        for run in [*machines.values(), *machines.values()][:TRIES]:
            worker = Worker(run.machine, run.placement, int(run.tasks[0]))
            assert found.other.shards.claim("a", worker, 1, 1, 10**6).shard == 0
            assert found.other.shards.end("a", "words", worker, "map", 0, 1, failed_ms=0)
        progress = found.other.shards.progress("a")
        assert progress is not None
        assert progress.failed
        own = []
    endings = [TaskEnd(run.machine, run.placement, EndKind.FAILED) for run in own]
    endings += [TaskEnd(run.machine, run.placement, EndKind.FAILED, run.tasks[0]) for run in surplus[:1]]
    found.other.executors.end(endings, 0, "e0")
    left = sizes(found)[2:]
    pass_looks(found)
    assert sizes(found)[2:] == left


def test_workers_that_still_wait_when_all_is_done_are_not_waited_for() -> None:
    found = rig(AsAsked(), [(200, 200)])
    found.submit(job(asked=5, maps=1, reduces=1))
    found.until(lambda: sizes(found)[1] == 2)
    (run,) = [run for run in found.other.machines.runs([0]) if run.job == "a"]
    found.other.machines.set_state(0, MachineState.DRAINED, 0, "ada")
    worker = Worker(run.machine, run.placement, 0)
    for phase in ("map", "reduce"):
        found.other.shards.claim("a", worker, 1, 1, 0)
        found.other.shards.end("a", "words", worker, phase, 0, 1)
    pass_looks(found)
    assert sizes(found) == (3, 2, 0, 0), "nobody has given the answer out yet"
    found.other.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED, "0")], 0, "e0")
    pass_looks(found)
    assert sizes(found) == (0, 1, 0, 0)


def test_a_job_that_ended_is_forgotten() -> None:
    found = rig(MaxParallelism())
    found.submit(job())
    found.until_placed("a")
    assert list(found.scheduler.elastic.jobs) == ["a"]
    found.end("a")
    pass_looks(found)
    assert found.scheduler.elastic.jobs == {}
    assert found.scheduler.next_due() is None


def test_one_that_takes_over_looks_after_what_runs() -> None:
    found = rig(MaxParallelism(), [(1_000, 1_000)])
    found.submit(job())
    found.until_placed("a")
    found.expire("mapreduce/0")
    found.live.lapsed = found.live.membership
    found.scheduler.elastic.forget("a")
    found.scheduler.elastic.strangers = False
    heir = Rig(scheduler=scheduler(MaxParallelism()), server=found.server, member="mapreduce/1")
    heir.join((1_000, 1_000))
    pass_looks(heir)
    assert list(heir.scheduler.elastic.jobs) == ["a"]
    assert sizes(heir) == (0, 5, 0, 15)


def test_jobs_without_a_plan_are_placed_as_they_are() -> None:
    found = rig(MaxParallelism())
    found.submit(JobSpec("a", "plain", "mapreduce", (TaskGroup((100, 100), 3),)))
    found.until_placed("a")
    assert "a" not in found.scheduler.elastic.jobs
    assert found.placed("a") == 3


def test_without_sizing_nobody_asks() -> None:
    found = Rig((1_000, 1_000))
    found.rest()
    assert all(type(effect).__name__ not in ("Measure", "Resize") for effect, _ in found.answers)


def refusing(found: Rig, monkeypatch: pytest.MonkeyPatch) -> str:
    """Submit a gang that may not grow: its room would let it have more workers than fit in one transaction."""
    monkeypatch.setattr("omega.cellstate.redis.jobs.MOST_CLAIMS", 5)
    found.submit(job(gang=Gang.YES))
    found.until_placed("a")
    pass_looks(found)
    return "job a: a gang of more than 5000 tasks; that is the most in one transaction"


def test_a_size_that_the_store_refuses_is_shown_until_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rig(MaxParallelism())
    found.scheduler.failing = FailingJobs()
    text = refusing(found, monkeypatch)
    (jobs,) = found.scheduler.elastic.refusals().values()
    assert (list(found.scheduler.elastic.refusals()), list(jobs), sizes(found)) == ([text], ["a"], (0, 5, 0, 0))
    asked = len([effect for effect, _ in found.answers if isinstance(effect, Resize)])
    pass_looks(found, REST_SECONDS / 2)
    assert len([effect for effect, _ in found.answers if isinstance(effect, Resize)]) == asked, "it rests"
    monkeypatch.undo()
    pass_looks(found, REST_SECONDS)
    assert (found.scheduler.elastic.refusals(), sizes(found)) == ({}, (0, 5, 0, 55))
    found.check()


def test_a_size_that_the_store_refuses_ends_a_scheduler_of_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rig(MaxParallelism())
    with pytest.raises(Refused, match="a gang of more than"):
        refusing(found, monkeypatch)


@pytest.mark.parametrize("how", [EndKind.FINISHED, EndKind.FAILED])
@pytest.mark.parametrize("tasks", ["*", "0"])
def test_workers_that_end_before_a_new_size_are_no_fault(how: EndKind, tasks: str) -> None:
    found = rig(RelativeSize(2))
    found.submit(job(asked=3, maps=3))
    found.until_placed("a")
    runs = [run for run in found.other.machines.runs(range(10)) if run.job == "a"]
    found.other.executors.end(
        [TaskEnd(run.machine, run.placement, how, tasks) for run in runs if run.group == 0], 0, "e0"
    )
    assert resize(Resize({"a": {0: 0}, "gone": {0: 1}}), found.other, 0, "mapreduce/0") == Resized([])


def test_a_group_that_is_not_there_is_refused() -> None:
    found = rig(AsAsked())
    found.submit(job())
    refused = resize(Resize({"a": {2: 1}}), found.other, 0, "mapreduce/0").refused
    assert refused == {"a": "job a: has 2 task groups, numbered from 0; see omega job status a"}
