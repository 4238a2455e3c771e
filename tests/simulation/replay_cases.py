"""Small runs for tests of metrics and exports, and what they hold recomputed microsecond by microsecond."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.tasks import EndKind
from omega.replay.columns import Columns, columns_of
from omega.simulation.records import RUNNING, TaskRecords
from omega.workload.workload import Arrival, MachineEvent, Workload, WorkloadEvent

HORIZON = 60
"""Microseconds of a small run, short enough to look at every one of them."""
MICRO = 1e-6


class Row(NamedTuple):
    """A placement. Times are microseconds; `ended` -1: it still ran."""

    job: int
    group: int
    task: int
    machine: int
    started: int
    ended: int
    how: int = EndKind.FINISHED


@dataclass(frozen=True)
class Case:
    """A run as rows of placements, which tests read one by one."""

    workload: Workload
    jobs: Sequence[Arrival]
    rows: Sequence[Row]
    horizon: int = HORIZON
    first_attempt: Sequence[int] = ()
    abandoned: Sequence[int] = ()

    @property
    def columns(self) -> Columns:
        """The run as the code under test has it."""
        return columns_of(self.workload, self.records, self.horizon)

    @property
    def records(self) -> TaskRecords:
        rows = sorted(self.rows, key=lambda row: row.started)
        field = {name: np.array([getattr(row, name) for row in rows], np.int64) for name in Row._fields}
        none = [-1] * len(self.jobs)
        return TaskRecords(
            jobs=self.jobs, first_attempt=np.array(self.first_attempt or none, np.int64),
            abandoned=np.array(self.abandoned or none, np.int64), job=field["job"].astype(np.int32),
            group=field["group"].astype(np.int32), task=field["task"].astype(np.int32),
            machine=field["machine"].astype(np.int32), started=field["started"], ended=field["ended"],
            how=field["how"].astype(np.int8),
        )  # fmt: skip

    def need(self, row: Row) -> tuple[int, ...]:
        return self.jobs[row.job].job.groups[row.group].need

    def until(self, row: Row) -> int:
        return row.ended if row.ended >= 0 else self.horizon

    def held(self, instant: int, machine: int | None = None) -> list[int]:
        """What tasks hold during one microsecond, on a machine or on all."""
        total = [0] * len(self.workload.dimensions)
        for row in self.rows:
            if row.started <= instant < self.until(row) and machine in (None, row.machine):
                total = [a + b for a, b in zip(total, self.need(row), strict=True)]
        return total

    def capacity(self, instant: int) -> dict[str, tuple[int, ...]]:
        """The machines there during one microsecond, and what they have."""
        there = {machine.name: machine.capacity for machine in self.workload.machines}
        for event in self.workload.events:
            if isinstance(event, MachineEvent) and round(event.at_seconds / MICRO) <= instant:
                there.pop(event.machine.name, None)
                if event.up:
                    there[event.machine.name] = event.machine.capacity
        return there


def arrival(number: int, at: int, *groups: TaskGroup, user: str = "", kind: str = "batch") -> Arrival:
    spec = {"user": user} if user else {}
    return Arrival(at * MICRO, JobSpec(f"j{number}", f"job/{number}", kind, groups, spec=spec))


def made(
    machines: Sequence[tuple[int, int]],
    residents: Sequence[Arrival],
    arrivals: Sequence[Arrival],
    rows: Sequence[Row],
    events: Sequence[WorkloadEvent] = (),
    **more: Sequence[int],
) -> Case:
    specs = [MachineSpec(f"m{i}", capacity) for i, capacity in enumerate(machines)]
    workload = Workload(specs, residents, arrivals, "made for a test", events=events)
    return Case(workload, [*residents, *arrivals], rows, **more)  # type: ignore[arg-type]


def drawn(seed: int, step: int = 1000) -> Case:
    """A random run that commits no machine too much. Requests are multiples of `step` millicores.

    It has evictions, restarts, tasks without duration or end, a machine that goes and comes back larger, and one that
    joins.
    """
    rng = Random(seed)
    machines = [(step * rng.randint(1, 6), 1000 * rng.randint(1, 6)) for _ in range(3)]
    away, back, joins = 20, 35, 10
    first, later = MachineSpec("m0", (machines[0][0] + step, machines[0][1])), MachineSpec("m3", (4 * step, 4000))
    events = [
        MachineEvent(joins * MICRO, later), MachineEvent(away * MICRO, MachineSpec("m0", machines[0]), up=False),
        MachineEvent(back * MICRO, first),
    ]  # fmt: skip
    jobs = [
        arrival(
            i, 0 if i < 2 else rng.randint(0, HORIZON),
            *(
                TaskGroup((step * rng.randint(0, 3), 100 * rng.randint(1, 20)), rng.randint(1, 3), 5)
                for _ in range(rng.randint(1, 2))
            ),
            user=rng.choice(("ada", "bob", "")), kind=rng.choice(("batch", "service")),
        )
        for i in range(9)
    ]  # fmt: skip
    jobs[2:] = sorted(jobs[2:], key=lambda job: job.at_seconds)
    case = made(machines, jobs[:2], jobs[2:], [], events)
    rows = list[Row]()
    for j, job in enumerate(jobs):
        for g, group in enumerate(job.job.groups):
            for t in range(group.count):
                rows += _placements(rng, Case(case.workload, jobs, rows), j, g, t)
    abandoned = [rng.choice((-1, -1, 50)) if round(job.at_seconds / MICRO) < 50 else -1 for job in jobs]
    return Case(case.workload, jobs, rows, abandoned=abandoned)


def _placements(rng: Random, case: Case, job: int, group: int, task: int) -> list[Row]:
    """Placements of one task: none, one, or more after evictions, wherever there is room."""
    made_rows, at = list[Row](), round(case.jobs[job].at_seconds / MICRO)
    for _ in range(6):
        start, length, machine = rng.randint(at, HORIZON), rng.choice((0, 0, 1, 5, 9, 60)), rng.randrange(4)
        how = rng.choice((EndKind.FINISHED, EndKind.EVICTED, EndKind.LOST))
        ended = start + length
        row = Row(job, group, task, machine, start, ended, how)
        if ended > HORIZON:
            row = row._replace(ended=-1, how=RUNNING)
        if start >= HORIZON or not _fits(Case(case.workload, case.jobs, [*case.rows, *made_rows, row]), row):
            continue
        made_rows.append(row)
        if row.how not in (EndKind.EVICTED, EndKind.LOST):
            break
        at = ended
    return made_rows


def _fits(case: Case, row: Row) -> bool:
    """Whether the machine has what its tasks hold at each instant of the row, and then each task without duration."""
    brief = [each for each in case.rows if each.machine == row.machine and each.started == each.ended]
    for instant in range(row.started, max(case.until(row), row.started + 1)):
        has = case.capacity(instant).get(f"m{row.machine}")
        held = case.held(instant, row.machine)
        for passing in [(0, 0), *(case.need(each) for each in brief if each.started == instant)]:
            if has is None or any(a + b > c for a, b, c in zip(held, passing, has, strict=True)):
                return False
    return True
