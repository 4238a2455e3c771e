"""Constraints, spread and different machines hold with every policy that pages show or packages register."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

import omega
from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.transaction import Outcome, Transaction
from omega.queries.working_copy import as_work, look_up, working_copy
from omega.schedulers.comparisons.hadoop_preemption import HadoopPreemption
from omega.schedulers.dry_run import DryRun
from omega.schedulers.scheduler import Scheduler
from tests.tiers import one_of
from tests.tutorial.policies import schedulers
from tests.unit.schedulers.rig import Rig

FOUND = schedulers()
MACHINES: tuple[dict[str, str], ...] = tuple(
    {"rack": f"r{i // 2}", "slot": f"{i % 2}", **({"gpu": "yes"} if i == 3 else {})} for i in range(6)
)
SIZE = (4_000, 4_096)
SLOT = (1_000, 1_024)
NEAR_GPU = {"job": "gpu", "domain": "rack", "required": True}
"""A relation that waits for the other job, so that the order in which a policy takes the jobs does not matter."""
ALL = {"tied", "gpu", "kept", "wide", "apart", "beside"}
"""The jobs that some machines may run."""
NEVER_FOR_GANGS = {"YoungestOverShare": {"kept"}, "HadoopPreemption": {"kept"}}
"""The first evicts for one task of a machine at a time and looks up no machine for a gang; Hadoop has no gangs."""
Where = dict[int, int]
"""Tasks of a job by machine."""


def demanding(
    kind: str, name: str, count: int, *, precedence: int = 0, gang: Gang = Gang.NO, **demands: Any
) -> JobSpec:
    """A job of one group with some demands."""
    return JobSpec(name, name, kind, (TaskGroup(SLOT, count, 3_600_000, demands),), precedence, gang, {"user": name})


def asked(kind: str, precedence: int = 0) -> list[JobSpec]:
    return [
        demanding(kind, "tied", 3, precedence=precedence, constraints=["rack == 'r0'", "slot < 1"]),
        demanding(kind, "gpu", 1, precedence=precedence, constraints=["has gpu"]),
        demanding(kind, "kept", 2, precedence=precedence, gang=Gang.YES, constraints=["rack != 'r2'", "slot == '1'"]),
        demanding(kind, "wide", 3, precedence=precedence, spread=[{"domain": "rack", "most": 1}]),
        demanding(kind, "apart", 3, precedence=precedence, different_machines=True),
        demanding(kind, "beside", 2, precedence=precedence, near=NEAR_GPU, apart_from="gpu"),
        demanding(kind, "never", 1, precedence=precedence, constraints=["rack == 'r9'"]),
    ]


def broken(name: str, where: Where) -> str:
    """What is wrong with the machines of a job, "" when nothing is; written without the code under test."""
    racks = Counter[str]()
    for machine, count in where.items():
        racks[MACHINES[machine]["rack"]] += count
    slots = {MACHINES[machine]["slot"] for machine, count in where.items() if count}
    holds = {
        "tied": set(racks) <= {"r0"} and slots <= {"0"},
        "gpu": all("gpu" in MACHINES[machine] for machine in where),
        "kept": "r2" not in racks and slots <= {"1"} and sum(where.values()) in (0, 2),
        "wide": max(racks.values(), default=0) <= 1,
        "apart": max(where.values(), default=0) <= 1,
        "beside": set(where) <= {2},
        "never": not where,
    }
    return "" if holds[name] else f"{name} runs on {where}"


class Machines(omega.Instrument):
    """The tasks of each job by machine, as the store accepted them."""

    def __init__(self) -> None:
        self.of: dict[str, Where] = {}

    def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        for claim, (placed, _) in zip(transaction.claims, outcome.claims, strict=True):
            where = self.of.setdefault(transaction.job, {})
            where[claim.machine] = where.get(claim.machine, 0) + placed


def live(scheduler: Scheduler) -> Rig:
    """The scheduler on six machines."""
    rig = Rig(scheduler=scheduler, member=f"{scheduler.kind}/0")
    rig.other.executors.register("simulated", "n", 600_000, 0)
    rig.other.machines.join("simulated", [MachineSpec(f"m{i}", SIZE, has) for i, has in enumerate(MACHINES)], 0)
    return rig


def check(placed: dict[str, Where], names: Iterable[str]) -> None:
    """Nothing is placed against its demands, and what can be placed is."""
    assert [what for name, where in placed.items() if name in names and (what := broken(name, where))] == []


def run(rig: Rig, jobs: Sequence[JobSpec]) -> dict[str, Where]:
    """Submit jobs, let the scheduler try them, and return their machines."""
    rig.submit(*jobs)
    names = {job.id for job in jobs}
    for step in range(600):
        if step % 20 == 0 and not any(rig.left(name) for name in names - {"never"}):
            break
        rig.step()
    placed: dict[str, Where] = {}
    for each in rig.other.machines.runs(range(len(MACHINES))):
        if each.job in names and not each.leaving:
            where = placed.setdefault(each.job, {})
            low, _, high = each.tasks.partition("-")
            where[each.machine] = where.get(each.machine, 0) + int(high or low) - int(low) + 1
    return placed


@pytest.mark.parametrize("found", one_of(3, FOUND))
def test_live(found: str) -> None:
    scheduler = FOUND[found].fresh("live")
    rig, jobs = live(scheduler), asked(scheduler.kind)
    placed = run(rig, jobs)
    check(placed, {job.id for job in jobs})
    assert placed.keys() == ALL, "what may run somewhere runs there"
    rig.check()


@pytest.mark.parametrize("found", [name for name, each in FOUND.items() if each.preemption.evicts])
def test_live_in_room_that_evictions_make(found: str) -> None:
    scheduler = FOUND[found].fresh("evicts")
    if isinstance(scheduler.preemption, HadoopPreemption):
        scheduler.preemption.fair_timeout = 0.0  # its default of 600 s is longer than this test
    rig = live(scheduler)
    low = demanding(scheduler.kind, "low", 24)
    assert sum(run(rig, [low])["low"].values()) == 24
    jobs = asked(scheduler.kind, precedence=9)
    placed = run(rig, jobs)
    check(placed, {job.id for job in jobs})
    assert placed.keys() >= ALL - NEVER_FOR_GANGS.get(type(scheduler.preemption).__name__, set())


@pytest.mark.parametrize("found", FOUND)
def test_dry(found: str) -> None:
    scheduler = FOUND[found].fresh("dry")
    rig = live(scheduler)
    run(rig, [job for job in asked(scheduler.kind) if job.id == "gpu"])
    copy = working_copy(rig.other)
    placed: dict[str, Where] = {}
    for order, spec in enumerate(asked(scheduler.kind)):
        work = as_work(spec, order)
        look_up(rig.other, copy, [work])
        for claim in DryRun(scheduler, copy, rig.other).plan(work).claims:
            where = placed.setdefault(spec.id, {})
            where[claim.machine] = where.get(claim.machine, 0) + claim.count
    check(placed, placed)
    assert placed.keys() == ALL


@pytest.mark.parametrize("architecture", ["shared-state", "two-level"])
@pytest.mark.parametrize("found", one_of(3, FOUND))
def test_simulated(found: str, architecture: str) -> None:
    scheduler, seen = FOUND[found].fresh("simulated"), Machines()
    if architecture == "two-level" and (scheduler.preemption.evicts or scheduler.sizing is not None):
        pytest.skip("a two-level architecture accepts no such scheduler")
    scheduler.instruments.append(seen)
    scheduler.t_job = 0.1
    arrivals = [omega.Arrival(1.0 + i, job) for i, job in enumerate(asked(scheduler.kind))]
    machines = [MachineSpec(f"m{i}", SIZE, has) for i, has in enumerate(MACHINES)]
    workload = omega.Workload(machines, [], arrivals, "demands")
    omega.simulate(scheduler, workload, days=0.001, architecture=architecture, takes=scheduler.kind, share=1)
    check(seen.of, seen.of)
    assert {name for name, where in seen.of.items() if where} == ALL


def test_the_search_finds_the_policies_of_readme_pages_examples_and_packages() -> None:
    for expected in ("README.md:mine.last", "write-a-scheduler.md:coldest.Coldest", "examples:youngest.fair",
                     "examples:delay.Delay", "placement:random-fit", "schedulers:service"):  # fmt: skip
        assert expected in FOUND
