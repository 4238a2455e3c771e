"""The plug-ins of docs/examples keep to their contracts and do what they are for, simulated and live."""

import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omega
import omega.testing
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.schedulers.sharing import Ownership
from tests.tiers import first
from tests.unit.schedulers.rig import Rig

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SLOT = (1_000, 1_024)


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


def example(module: str, name: str) -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        return getattr(import_module(module), name)
    finally:
        sys.path.remove(str(EXAMPLES))


class TestWeightedDrf(omega.testing.OrderingContract):
    policy = example("drf", "WeightedDrf")({"ada": 2.0})


class TestTwoChoices(omega.testing.PlacementContract):
    policy = example("two_choices", "TwoChoices")()


class TestEdf(omega.testing.OrderingContract):
    policy = example("edf", "Edf")()


class TestDelay(omega.testing.PlacementContract):
    policy = example("delay", "Delay")()


class TestYoungestOverShare(omega.testing.PreemptionContract):
    policy = example("youngest", "YoungestOverShare")()


def test_they_import_nothing_but_omega_and_what_it_needs() -> None:
    for path in sorted(EXAMPLES.glob("*.py")):
        lines = [line for line in path.read_text().splitlines() if line.startswith(("import", "from"))]
        assert {line.split()[1].partition(".")[0] for line in lines} <= {"omega", "numpy", "dataclasses", "two_choices"}
        assert len(path.read_text().splitlines()) <= 60


class Placed(omega.Instrument):
    """Counts tasks by user."""

    def __init__(self) -> None:
        self.users = Counter[str]()

    def committed(self, transaction: Any, outcome: Any, now: float) -> None:
        self.users[transaction.job.partition("-")[0]] += outcome.placed


def jobs(kind: str, users: tuple[str, ...], number: int, tasks: int, **more: Any) -> Iterator[JobSpec]:
    rng = Random(1)
    for i in range(number):
        for user in users:
            group = TaskGroup(SLOT, tasks, rng.randint(40_000, 80_000))
            yield JobSpec(f"{user}-{i}", f"{user}-{i}", kind, (group,), spec={"user": user}, **more)


def machines(number: int, slots: int) -> list[MachineSpec]:
    return [MachineSpec(f"m{i}", (1_000 * slots, 1_024 * slots)) for i in range(number)]


@pytest.mark.parametrize("schedulers", first(1, [1, 4]))
def test_drf_gives_two_to_one_in_a_full_simulated_cell(schedulers: int) -> None:
    placed, found = Placed(), example("drf", "drf")
    found = omega.Scheduler("batch", ordering=found.ordering, instruments=[placed], t_job=0.05, t_task=0.0)
    submitted = enumerate(jobs("batch", ("ada", "bob"), (260 if schedulers == 1 else 520), 5))
    arrivals = [omega.Arrival(0.01 * i, spec) for i, spec in submitted]
    workload = omega.Workload(machines(20, 5), [], arrivals, "two users")
    days = 0.012 if schedulers == 1 else 0.008
    omega.simulate(found, workload, days=days, takes="batch", share=1, batch_schedulers=schedulers)
    assert sum(placed.users.values()) > 1_000
    # Enough waits with every scheduler to the end: whoever has no job of a user at hand gives him no room.
    assert placed.users["ada"] / placed.users["bob"] == pytest.approx(2.0, rel=0.05 if schedulers == 1 else 0.10)


def test_the_earliest_deadline_is_first_in_a_full_live_cell() -> None:
    rig = Rig(SLOT, scheduler=omega.Scheduler("batch", ordering=example("edf", "Edf")(), jobs_per_call=1))
    group = (TaskGroup(SLOT, 1),)
    rig.other.jobs.submit([JobSpec("first", "first", "batch", group)], 0, "ada")
    rig.until(lambda: rig.placed("first") == 1)
    deadlines = {"day": None, "hour": 3_600.0, "week": 604_800.0, "minute": 60.0}  # without one: a day
    for name, seconds in deadlines.items():
        spec = {} if seconds is None else {"policy": {"deadline": seconds}}
        rig.other.jobs.submit([JobSpec(name, name, "batch", group, spec=spec)], 0, "ada")
    order: list[str] = []
    for _ in deadlines:
        rig.until(lambda: rig.scheduler.queue.blocked_jobs == 4 - len(order))
        (run,) = rig.other.machines.runs([0])
        rig.other.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED)], 0, "h")
        rig.until(lambda: bool(rig.other.machines.runs([0])))
        order.append(rig.other.machines.runs([0])[0].job)
    assert order == ["minute", "hour", "day", "week"]


@pytest.mark.chaos
def test_drf_gives_two_to_one_in_a_full_live_cell() -> None:
    found = omega.Scheduler("batch", ordering=example("drf", "drf").ordering, jobs_per_call=8)
    rig, rng = Rig((30_000, 30_720), scheduler=found), Random(1)
    for spec in jobs("batch", ("ada", "bob"), 60, 1):
        rig.other.jobs.submit([spec], 0, "ada")
    running = Counter[str]()
    rig.until(lambda: rig.scheduler.queue.blocked_jobs > 0)
    rig.rest()
    for turn in range(40):
        runs = [run for run in rig.other.machines.runs([0]) if not run.leaving]
        if turn >= 15:
            running.update(run.job.partition("-")[0] for run in runs)
        gone = rng.choice(runs)
        rig.other.schedulers.members()
        rig.other.executors.end([TaskEnd(0, gone.placement, EndKind.FINISHED)], 0, "simulated")
        rig.until(lambda: sum(placed for _, placed in rig.counts().values()) == 30)
    assert running["ada"] / running["bob"] == pytest.approx(2.0, rel=0.05)
    rig.check()


@pytest.mark.chaos
def test_drf_of_four_live_schedulers_gives_two_to_one_in_a_full_cell() -> None:
    """Each scheduler owns a part of the jobs; all see what users hold. `make chaos` runs it with processes."""
    found, names = example("drf", "drf"), [f"drf/{i}" for i in range(4)]
    first = Rig((30_000, 30_720), scheduler=found.fresh("0"), member=names[0])
    rigs = [first, *(Rig(scheduler=found.fresh(each), server=first.server, member=each) for each in names[1:])]
    for rig, name in zip(rigs, names, strict=True):
        rig.live.ownership = Ownership(name, tuple(names))
    for spec in jobs("drf", ("ada", "bob"), 400, 1):
        first.other.jobs.submit([spec], 0, "ada")

    def filled() -> bool:
        return sum(placed for _, placed in first.counts().values()) == 30

    running, rng = Counter[str](), Random(1)
    for turn in range(48):
        for _ in range(400):
            for rig in rng.sample(rigs, 4):
                rig.step()
            if filled():
                break
        assert filled()
        runs = [run for run in first.other.machines.runs([0]) if not run.leaving]
        if turn >= 8:
            running.update(run.job.partition("-")[0] for run in runs)
        first.other.schedulers.members()
        first.other.executors.end(
            [TaskEnd(0, run.placement, EndKind.FINISHED) for run in rng.sample(runs, 5)], 0, "simulated"
        )
    placed = [rig.figures.tasks for rig in rigs]
    assert min(placed) > 10, "all of them place"
    assert running["ada"] / running["bob"] == pytest.approx(2.0, rel=0.10)


def local_job(machine: str) -> JobSpec:
    return JobSpec("local", "local", "batch", (TaskGroup(SLOT, 1, 0, {"locality": {"machines": [machine]}}),))


def test_delay_waits_for_its_machine_and_then_takes_another() -> None:
    rig = Rig((1_000, 1_024), (1_000, 1_024), scheduler=omega.Scheduler("batch", placement=example("delay", "Delay")()))
    rig.submit(JobSpec("other", "other", "service", (TaskGroup(SLOT, 1),)))
    rig.foreign("other", 0, 1)
    name = rig.other.machines.described([0])[0][0]
    rig.submit(local_job(name))
    began = rig.clock.seconds
    rig.until_placed("local")
    assert [run.machine for run in rig.other.machines.runs([1])] == [1]
    assert 5.0 <= rig.clock.seconds - began < 7.5, "it waited, and was tried again at its time"


def test_delay_places_at_its_time_in_a_simulated_cell_where_nothing_else_happens() -> None:
    found = omega.Scheduler("batch", placement=example("delay", "Delay")(), t_job=0.1)
    busy = JobSpec("busy", "busy", "service", (TaskGroup(SLOT, 1, 10**8),))
    arrivals = [omega.Arrival(0.0, busy), omega.Arrival(10.0, local_job("m0"))]
    workload = omega.Workload([*machines(1, 1), MachineSpec("m1", (1_000, 1_024))], [], arrivals, "two machines")
    seen: list[float] = []

    class When(omega.Instrument):
        def placed(self, work: Any, now: float) -> None:
            seen.append(now)

    found.instruments.append(When())
    omega.simulate(found, workload, days=0.002, takes="batch", share=1)
    assert len(seen) == 1
    assert seen[0] < 10.5 or 15.0 <= seen[0] < 15.5, "at once on its machine, or when it waited five seconds"


def test_two_choices_prefers_the_machines_that_have_the_data() -> None:
    found = omega.Scheduler("batch", placement=example("two_choices", "TwoChoices")())
    rig = Rig(*[(9_000, 9_216)] * 6, scheduler=found)
    rig.submit(local_job(rig.other.machines.described([4])[0][0]))
    rig.until_placed("local")
    assert [run.machine for run in rig.other.machines.runs(range(6))] == [4]


def test_youngest_over_share_evicts_the_youngest_of_who_holds_more() -> None:
    found = omega.Scheduler("batch", preemption=example("youngest", "YoungestOverShare")())
    rig = Rig((4_000, 4_096), scheduler=found)
    for spec in jobs("batch", ("ada",), 4, 1):
        rig.other.jobs.submit([spec], 0, "ada")
    rig.until(lambda: sum(placed for _, placed in rig.counts().values()) == 4)
    rig.rest()
    rig.other.jobs.submit(
        [JobSpec("bob-0", "bob-0", "batch", (TaskGroup(SLOT, 1),), 5, spec={"user": "bob"})], 0, "bob"
    )
    rig.until_placed("bob-0")
    assert [fact[2] for fact in rig.facts("evicted")] == ["ada-3"]
    rig.check()


def test_an_eviction_shows_in_the_table_of_a_simulation() -> None:
    found = omega.Scheduler("batch", preemption=example("youngest", "YoungestOverShare")(), t_job=0.1)
    low = [omega.Arrival(0.0, spec) for spec in jobs("batch", ("ada",), 4, 1)]
    high = JobSpec("bob-0", "bob-0", "batch", (TaskGroup(SLOT, 1, 1_000),), 5, spec={"user": "bob"})
    workload = omega.Workload(machines(1, 4), [], [*low, omega.Arrival(20.0, high)], "two users")
    trial = omega.simulate(found, workload, days=0.001, takes="batch", share=1)
    assert trial.result.kinds["batch"].tasks_evicted == 1
    assert "evicted" in str(trial.table())


def test_a_workload_is_built_of_names_that_omega_exports() -> None:
    """Groups, precedence, gangs, dependencies, retries: nothing of it needs another import."""
    cell = [omega.MachineSpec(f"m{i}", (4_000, 4_096), {"rack": f"r{i % 2}"}) for i in range(4)]
    group = omega.TaskGroup((1_000, 1_024), 4, 60_000, {"locality": {"machines": ["m1"]}})
    first = omega.JobSpec("a", "a", "mine", (group,), 3, omega.Gang.YES)
    second = omega.JobSpec("b", "b", "mine", (group, group), after=(omega.After("a"),), spec={"user": "ada"})
    workload = omega.Workload(cell, [omega.Arrival(0.0, first)], [omega.Arrival(5.0, second)], "made of omega")
    mine = omega.Scheduler("mine", retry_policy=omega.RetryPolicy(seconds=1.0), t_job=0.1)
    result = omega.simulate(mine, workload, days=0.001).result
    assert result.kinds["mine"].jobs_submitted == 1
    assert {name for name in omega._HOME_OF if not hasattr(omega, name)} == set()


def test_a_job_for_a_test_has_what_a_job_file_may_give_it() -> None:
    work = omega.testing.work(
        (SLOT, 3),
        user="ada",
        pool="lab/x",
        expected=7.0,
        duration=2.5,
        precedence=4,
        submitted=9.0,
        spec={"groups": [{"locality": {"machines": ["m1"]}}]},
    )
    assert (work.user, work.pool, work.expected_seconds, work.submitted) == ("ada", "lab/x", 7.0, 9.0)
    assert (work.job.groups[0].duration_ms, work.job.precedence) == (2_500, 4)
    assert work.job.spec["groups"][0]["locality"] == {"machines": ["m1"]}
