"""Jobs of Google's 2011 trace as jobs of a workload: one per job and minute of submission, grouped by request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.model import MOST_PRECEDENCE, JobSpec, TaskGroup
from omega.cellstate.resources import Resources
from omega.traces.csv_blocks import Bools, Floats, Ints
from omega.traces.google_events import Jobs, taken
from omega.traces.google_tasks import ARRIVES, Tasks
from omega.traces.trace import Defects, Service
from omega.workload.quantiles import pairs, quantiles
from omega.workload.workload import Arrival

BURST_US = 60_000_000
"""Tasks of one job submitted closer together than this arrive as one job."""
PRODUCTION = 9
"""Priorities from here on are production jobs in the trace's documentation."""
NO_REQUEST, NO_END, NEVER_RAN = "no-request", "no-end", "never-ran"


def kind_of(precedence: int, scheduling_class: int, service: Service = "priority") -> str:
    """``service`` for production jobs, else ``batch``: the split of Omega §2.1 (footnote 1), by priority alone.

    With ``class``, only those that want low latency: the split of the simulator published with the paper.
    """
    latency = service == "priority" or scheduling_class >= 2
    return "service" if precedence >= PRODUCTION and latency else "batch"


@dataclass(frozen=True, eq=False, slots=True)
class Units:
    """Tasks in order of unit, which becomes a job; `first` is the place of each unit's first task."""

    tasks: Tasks
    first: Ints
    number: Ints
    """Of each unit: 0 for the job as first submitted, then 1, 2 … for tasks it got more than a minute later."""
    at: Ints
    """When each unit is submitted, in microseconds."""

    @property
    def unit(self) -> Ints:
        """The unit of each task."""
        return np.repeat(np.arange(len(self.first)), np.diff(self.first, append=len(self.tasks.job)))

    def only(self, wanted: Bools) -> "Units":
        """Return some of the units."""
        sizes = np.diff(self.first, append=len(self.tasks.job))[wanted]
        tasks = taken(self.tasks, wanted[self.unit])
        return Units(tasks, np.cumsum(sizes) - sizes, self.number[wanted], self.at[wanted])


def resident_units(tasks: Tasks, chosen: Bools) -> Units:
    """Return the tasks that are there at the beginning, by job."""
    there = taken(tasks, chosen)
    first = np.flatnonzero(np.diff(there.job, prepend=-1))
    return Units(there, first, np.zeros_like(first), np.zeros_like(first))


def arriving_units(tasks: Tasks) -> Units:
    """Return the tasks that arrive, by job and burst."""
    old = np.zeros(int(tasks.job.max(initial=-1)) + 1, dtype=np.int64)
    old[tasks.job[tasks.state != ARRIVES]] = 1
    arriving = taken(tasks, tasks.state == ARRIVES)
    arriving = taken(arriving, np.lexsort((arriving.index, arriving.submitted, arriving.job)))
    new_job = np.diff(arriving.job, prepend=-1) != 0
    new_unit = new_job | (np.diff(arriving.submitted, prepend=0) > BURST_US)
    first = np.flatnonzero(new_unit)
    job = arriving.job[first]
    count = np.arange(len(first))
    starts = np.maximum.accumulate(np.where(new_job[first], count, 0)) if len(first) else count
    return Units(arriving, first, count - starts + old[job], arriving.submitted[first])


def first_tasks(units: Units, wanted: int | None, seconds: float | None) -> Units:
    """Return the units that begin before `wanted` tasks have arrived and within `seconds`: they stay whole."""
    keep = np.ones(len(units.first), dtype=bool)
    if seconds is not None:
        keep &= units.at <= seconds * 1e6
    if wanted is not None:
        rank = np.empty(len(units.tasks.job), dtype=np.int64)
        rank[np.argsort(units.tasks.submitted, kind="stable")] = np.arange(len(rank))
        keep &= rank[units.first] < wanted
    return units if keep.all() else units.only(keep)


@dataclass(frozen=True, slots=True)
class JobMaker:
    """Makes jobs of units."""

    jobs: Jobs
    largest: Resources
    service: Service
    places: Mapping[int, int]
    """Place of each machine, by number."""
    conditions: list[tuple[str, ...]] = field(default_factory=lambda: [()])
    """Sets of constraints of tasks; the first one is empty."""

    def kinds(self, units: Units) -> list[str]:
        """Return the kind of each unit: by its first task's priority and its job's scheduling class."""
        first, job = units.first, units.tasks.job[units.first]
        known = self.jobs.scheduling_class[job]
        classes = np.where(known >= 0, known, units.tasks.scheduling_class[first])
        rows = zip(units.tasks.priority[first].tolist(), classes.tolist(), strict=True)
        return [kind_of(priority, scheduling_class, self.service) for priority, scheduling_class in rows]

    def requests(self, units: Units, kinds: Sequence[str], defects: Defects) -> tuple[Floats, Floats]:
        """Return cpu and memory of each task as shares of the largest machine.

        A task without a request has that of its unit's first task with one, else the median of its kind.
        """
        cpu, memory = units.tasks.cpu.copy(), units.tasks.memory.copy()
        lacking = np.isnan(cpu) | np.isnan(memory)
        defects.add(NO_REQUEST, int(lacking.sum()))
        unit = units.unit
        for each in np.unique(unit[lacking]).tolist():
            rows = np.flatnonzero(unit == each)
            known = rows[~lacking[rows]]
            median = pairs(f"{kinds[each]}_requests").median
            instead = (cpu[known[0]], memory[known[0]]) if len(known) else median
            for column, value in ((cpu, instead[0]), (memory, instead[1])):
                column[rows[np.isnan(column[rows])]] = value
        return cpu, memory

    def durations(self, units: Units, kinds: Sequence[str], defects: Defects) -> Ints:
        """Return how long each task runs, in µs: as seen, else the longer of its seen run and its kind's median.

        A run that was not seen to end is a microsecond longer than was seen, so that it lasts beyond the window.
        """
        ran, seen = units.tasks.ran, units.tasks.seen
        medians = {kind: round(1e6 * quantiles(f"{kind}_task_seconds").quantile(0.5)) for kind in set(kinds)}
        median = np.array([medians[kind] for kind in kinds], dtype=np.int64)[units.unit]
        defects.add(NO_END, int(((ran < 0) & (seen > 0)).sum()))
        defects.add(NEVER_RAN, int(((ran < 0) & (seen == 0)).sum()))
        return np.where(ran >= 0, ran, np.maximum(seen + 1, median))

    def arrivals(
        self, units: Units, defects: Defects, *, scale: tuple[float, float] | None = None, placed: bool = False,
        condition: NDArray[np.int32] | None = None,
    ) -> list[Arrival]:  # fmt: skip
        """Return the units as jobs; `scale` multiplies requests, `placed` tells where residents run."""
        if not len(units.first):
            return []
        kinds, tasks, unit = self.kinds(units), units.tasks, units.unit
        cpu, memory = _needs(self.requests(units, kinds, defects), self.largest, scale)
        chosen = np.zeros(len(unit), dtype=np.int32) if condition is None else condition
        waits = self.machine_places(tasks.machine) < 0 if placed else np.zeros(len(unit), dtype=bool)
        order = np.lexsort((tasks.index, waits, chosen, tasks.apart, memory, cpu, unit))
        keys = np.column_stack((unit, cpu, memory, tasks.apart, chosen))[order]
        starts = np.flatnonzero(np.r_[True, (np.diff(keys, axis=0) != 0).any(axis=1)])
        counts = np.diff(starts, append=len(order))
        lasting = self.durations(units, kinds, defects)[order]
        means = np.maximum(1, np.rint(np.add.reduceat(lasting, starts) / counts / 1000)).astype(np.int64)
        where = self.machine_places(tasks.machine[order]) if placed else None
        groups: list[list[TaskGroup]] = [[] for _ in kinds]
        spans: list[list[slice]] = [[] for _ in kinds]
        listed = zip(keys[starts].tolist(), starts.tolist(), counts.tolist(), means.tolist(), strict=True)
        for (of, need_cpu, need_memory, apart, condition_of), start, count, mean in listed:
            spec = self._spec(bool(apart), condition_of)
            groups[of].append(TaskGroup((need_cpu, need_memory), count, mean, spec))
            spans[of].append(slice(start, start + count))
        specs = self._jobs(units, kinds, groups)
        return [
            Arrival(
                at / 1e6, spec, tuple(lasting[each] for each in slices),
                () if where is None else tuple(where[each] for each in slices),
            )
            for at, spec, slices in zip(units.at.tolist(), specs, spans, strict=True)
        ]  # fmt: skip

    def _spec(self, apart: bool, condition: int) -> dict[str, object]:  # noqa: FBT001
        spec: dict[str, object] = {"different_machines": True} if apart else {}
        if condition:
            spec["constraints"] = list(self.conditions[condition])
        return spec

    def machine_places(self, numbers: Ints) -> NDArray[np.int32]:
        """Return the places of machines by their numbers; -1: unknown, or none."""
        distinct, inverse = np.unique(numbers, return_inverse=True)
        places = np.array([self.places.get(number, -1) for number in distinct.tolist()], dtype=np.int32)
        return places[inverse.reshape(-1)]

    def _jobs(self, units: Units, kinds: Sequence[str], groups: Sequence[Sequence[TaskGroup]]) -> list[JobSpec]:
        jobs, found = units.tasks.job[units.first].tolist(), []
        priorities = units.tasks.priority[units.first].tolist()
        for job, number, kind, of, priority in zip(jobs, units.number.tolist(), kinds, groups, priorities, strict=True):
            google = int(self.jobs.number[job])
            suffix = f"-{number}" if number else ""
            fields = {"user": str(self.jobs.user[job]), "logical_name": str(self.jobs.logical_name[job])}
            found.append(
                JobSpec(
                    id=f"{google:012x}{suffix}",
                    name=f"google2011/{google}{suffix}",
                    kind=kind,
                    groups=tuple(of),
                    precedence=min(priority, MOST_PRECEDENCE),
                    spec={name: value for name, value in fields.items() if value},
                )
            )
        return found


def _needs(shares: tuple[Floats, Floats], largest: Resources, scale: tuple[float, float] | None) -> tuple[Ints, Ints]:
    """Return requests in whole units: rounded up, at least 1; scaled ones rounded down, so that they fit."""
    found = []
    for at, (share, of) in enumerate(zip(shares, largest, strict=True)):
        whole = np.ceil(np.round(share * of, 6))
        if scale is not None:
            whole = np.floor(np.round(whole * scale[at], 9))
        found.append(np.maximum(1, whole).astype(np.int64))
    return found[0], found[1]
