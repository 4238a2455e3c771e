"""Google's 2011 trace (clusterdata-2011-2): any consecutive parts of it as a workload.

Machines are over-committed in the trace: the requests of their residents exceed the capacity of most. With ``keep``,
machines get `factor` times their capacity and residents stay where they are, also on machines that are still too small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, MachineSpec
from omega.cellstate.resources import Resources
from omega.traces import (
    csv_blocks,
    google_cell,
    google_constraints,
    google_events,
    google_jobs,
    google_parts,
    google_tasks,
)
from omega.traces.csv_blocks import Bools, Floats
from omega.traces.google_cell import GoogleCell, Translation, cell_of, overload
from omega.traces.google_constraints import WINDOW_CONSTRAINTS, synthetic_attributes, synthetic_condition
from omega.traces.google_jobs import JobMaker, Units, arriving_units, first_tasks, resident_units
from omega.traces.google_tasks import RUNS, WAITS
from omega.traces.google_window import GoogleTables, read_tables
from omega.traces.trace import FACTOR, Defects, Trace, TraceOptions, percentiles
from omega.workload.workload import Arrival, Workload, stream

NOT_PLACED = "on-unknown-machine"
INDEX_GAPS = "index-gaps"
NO_JOB_ROW = "no-job-row"
WAITING_LEFT_OUT = "waiting-left-out"
RULES = {
    **csv_blocks.RULES,
    google_parts.MISSING_PART: "parts missing between others: read without them",
    google_parts.PART_TWICE: "parts that are there plain and compressed: the compressed file is read",
    google_events.OUT_OF_ORDER: "rows earlier than the row before them: sorted by time",
    google_events.AFTER_END: "events after the end of the trace: left out",
    google_events.MISSING_INFO: "rows that the trace marks as reconstructed (missing info): used as they are",
    google_events.NO_PRIORITY: "events without a priority: priority 0",
    google_tasks.NO_SUBMISSION: "tasks without a row of their submission: they arrive with their job",
    google_tasks.EARLY_SCHEDULE: "tasks that start before their submission: run as long as the rows say",
    google_tasks.ONLY_END: "tasks of which the window has nothing but an end: left out",
    google_tasks.NO_RUN: "tasks that finish without a start: the finish is ignored",
    NO_JOB_ROW: "jobs that arrive, without a row of job_events: what their tasks say",
    INDEX_GAPS: "indices of tasks between others of a job that arrives, in no row: left out",
    google_jobs.NO_REQUEST: "tasks without a request: that of another task of the job, else the kind's median",
    google_jobs.NO_END: "tasks not seen to end: they run longer than was seen, at least the kind's median",
    google_jobs.NEVER_RAN: "tasks not seen to run: they run for the kind's median",
    NOT_PLACED: "tasks that run on machines without a row: they wait when the window begins",
    WAITING_LEFT_OUT: "tasks that wait when the window begins, with thinned residents: left out",
    **google_cell.MACHINE_RULES,
    **google_constraints.RULES,
}


NOT_SEEN = "tasks that run throughout the window without an event are in no part of it: fewer run than in the cell"
_NO_TABLE = ("the directory has no table of constraints: attributes of machines are not asked for",)
GUESSED_CONSTRAINTS = {
    ("trace", True): (),
    ("trace", False): _NO_TABLE,
    ("none", False): (),
    ("synthetic", False): (
        "attributes of machines and the constraints that name them are synthetic, drawn by the seed",
    ),
}
"""What is guessed of constraints, by the option and whether the trace has any."""


@dataclass(frozen=True, slots=True)
class _Residents:
    arrivals: list[Arrival]
    scale: tuple[float, float] | None
    facts: dict[str, Any]


class GoogleReader:
    """Reads directories of Google's 2011 trace."""

    name = "google-2011"
    title = "Google cluster trace 2011 (clusterdata-2011-2)"
    rules = RULES

    def recognises(self, path: Path) -> bool:
        """Return whether it is a directory with the trace's tables."""
        return google_parts.looks_like_google(path)

    def read(self, path: Path, options: TraceOptions) -> Trace:
        """Read the parts in a directory as one window. Raises BadInput with file and row."""
        defects = Defects(RULES)
        tables = read_tables(path, options, defects)
        return _Made(path, options, tables, defects).trace()


@dataclass(slots=True)
class _Made:
    """Makes the workload of tables."""

    path: Path
    options: TraceOptions
    tables: GoogleTables
    defects: Defects

    def trace(self) -> Trace:
        """Return the trace."""
        options, tables, window = self.options, self.tables, self.tables.window
        cell = cell_of(tables.machines, window, self.defects)
        if not cell.machines:
            raise BadInput(
                f"trace {self.path}: no machine is up at the beginning by machine_events; fetch the file again"
            )
        factor = options.factor or (FACTOR if options.residents == "keep" else 1.0)
        largest = (options.largest_cpu, options.largest_memory)
        begin = window.begin_us - window.snapshot
        translation = Translation(largest, factor, self._attributes(cell, begin))
        specs = [translation.machine(number, machine) for number, machine in cell.machines.items()]
        maker = JobMaker(tables.jobs, largest, options.service, {number: at for at, number in enumerate(cell.machines)})
        residents = self._residents(cell, maker, specs, factor)
        units = first_tasks(arriving_units(tables.tasks), options.tasks, options.seconds)
        arrivals = maker.arrivals(units, self.defects, condition=self._conditions(maker, units))
        arrivals.sort(key=lambda arrival: arrival.at_seconds)
        if not arrivals and not residents.arrivals:
            raise BadInput(f"trace {self.path}: no task is submitted or runs in task_events; fetch its first parts")
        self._gaps(units)
        seconds = (window.end_us - window.begin_us) / 1e6
        changes = [change for change in tables.constraints.changes if change.time > begin]
        events = translation.events(cell, specs, changes, window)
        facts = {**self._facts(seconds, len(events)), **residents.facts}
        about = _about(facts, self.options, specs, arrivals)
        workload = Workload(specs, residents.arrivals, arrivals, about, events=events)
        if options.constraints == "trace":
            facts["attributes"] = {name: original for original, name in sorted(tables.constraints.names.items())}
        facts["constrained_tasks"] = sum(
            group.count for each in arrivals for group in each.job.groups if "constraints" in group.spec
        )
        guessed = (
            *GUESSED_CONSTRAINTS[options.constraints, bool(tables.constraints.tasks)],
            *([] if window.snapshot else [NOT_SEEN]),
            f"1.0 of the trace is {options.largest_cpu} millicores and {options.largest_memory} MiB",
            "tasks not seen to end run longer than was seen, at least the median of their kind",
        )
        return Trace(GoogleReader.name, workload, self.defects.found(), facts, seconds, guessed)

    def _residents(self, cell: GoogleCell, maker: JobMaker, specs: Sequence[MachineSpec], factor: float) -> _Residents:
        """Return what is there at the beginning, in the form that the options want."""
        tasks, options = self.tables.tasks, self.options
        running, waiting = tasks.state == RUNS, tasks.state == WAITS
        units = resident_units(tasks, running | waiting)
        requests = maker.requests(units, maker.kinds(units), Defects(RULES))
        places = maker.machine_places(units.tasks.machine)
        there = places >= 0
        load = overload(cell, places[there], *(column[there] for column in requests))
        lost = int(running.sum() - there.sum())
        self.defects.add(NOT_PLACED, lost)
        asked = [float(column[there].sum()) for column in requests]
        facts: dict[str, Any] = {
            "running": int(running.sum()),
            "waiting": int(waiting.sum()),
            "on_unknown_machines": lost,
            "factor": factor,
            "machines_over": int((load > 1).sum()),
            "machines_over_factor": int((load > factor).sum()),
            "load": percentiles(load[np.isfinite(load)]),
            "requested": {
                name: amount / max(sum(getattr(each, name) for each in cell.machines.values()), 1e-9)
                for name, amount in zip(("cpu", "memory"), asked, strict=True)
            },
        }
        if options.residents == "thin":
            self.defects.add(WAITING_LEFT_OUT, int(waiting.sum()))
            all_units = resident_units(tasks, running)
            there_jobs = maker.arrivals(all_units, self.defects, condition=self._conditions(maker, all_units))
            kept, used = thinned([each.job for each in there_jobs], capacity_of(specs), options.fill, options.seed)
            chosen = [there_jobs[at] for at in kept]
            facts["kept"] = {"jobs": len(chosen), "tasks": sum(each.job.total for each in chosen), "requested": used}
            return _Residents(chosen, None, facts)
        conditions = self._conditions(maker, units)
        scale = _scale(requests, there, places, specs, maker.largest) if options.residents == "scale" else None
        facts["scale"] = None if scale is None else {"cpu": scale[0], "memory": scale[1]}
        return _Residents(
            maker.arrivals(units, self.defects, scale=scale, placed=True, condition=conditions), scale, facts
        )

    def _attributes(self, cell: GoogleCell, time_us: int) -> dict[int, dict[str, str]]:
        """Return what constraints can ask of machines, beside their platform."""
        if self.options.constraints == "synthetic":
            machines = {*cell.machines, *(number for _, number, _ in cell.changes)}
            return synthetic_attributes(sorted(machines), self.options.seed)
        return self.tables.constraints.attributes_at(time_us)

    def _conditions(self, maker: JobMaker, units: Units) -> NDArray[np.int32]:
        """Return the place of each task's condition among those of `maker`, which gets the new ones."""
        if self.options.constraints == "none":
            return np.zeros(len(units.tasks.job), dtype=np.int32)
        if self.options.constraints == "trace":
            maker.conditions[:] = self.tables.constraints.conditions
            found = self.tables.constraints.of(units.tasks)
            before = (found == 0) & (units.tasks.state != google_tasks.ARRIVES)
            if len(maker.conditions) > 1 and not self.tables.window.snapshot:
                self.defects.add(WINDOW_CONSTRAINTS, int(before.sum()))
            return found
        places = {condition: at for at, condition in enumerate(maker.conditions)}
        chosen = []
        for number in self.tables.jobs.number[units.tasks.job[units.first]].tolist():
            condition = synthetic_condition(number, self.options.seed)
            if condition not in places:
                places[condition] = len(maker.conditions)
                maker.conditions.append(condition)
            chosen.append(places[condition])
        return np.array(chosen, dtype=np.int32)[units.unit]

    def _gaps(self, units: Units) -> None:
        """Count indices that no row has between those of a job that arrives: its other tasks are not in the files."""
        tasks = self.tables.tasks
        known = np.bincount(tasks.job)
        most = np.zeros(len(known), dtype=np.int64)
        np.maximum.at(most, tasks.job, tasks.index.astype(np.int64) + 1)
        jobs = np.unique(units.tasks.job[units.first][units.number == 0])
        self.defects.add(NO_JOB_ROW, int((self.tables.jobs.submitted[jobs] < 0).sum()))
        lacking = np.maximum(most - known, 0)[jobs]
        numbers = self.tables.jobs.number[jobs[lacking > 0]][:5].tolist()
        self.defects.add(INDEX_GAPS, int(lacking.sum()), (f"job {number}" for number in numbers))

    def _facts(self, seconds: float, events: int) -> dict[str, Any]:
        tasks, rows = self.tables.tasks, self.tables.rows
        return {
            "begins_us": self.tables.window.begin_us,
            "snapshot": self.tables.window.snapshot,
            "seconds": seconds,
            "task_events": sum(rows.values()),
            "evictions": rows.get(str(google_events.EVICT), 0),
            "failures": rows.get(str(google_events.FAIL), 0),
            "lost": rows.get(str(google_events.LOST), 0),
            "resubmissions": max(0, rows.get(str(google_events.SUBMIT), 0) - len(tasks.job)),
            "different_machines": int((tasks.apart & (tasks.state == google_tasks.ARRIVES)).sum()),
            "machine_events": events,
            "recorded_wait": percentiles(tasks.waited[tasks.waited >= 0] / 1e6),
        }


def capacity_of(specs: Sequence[MachineSpec]) -> Resources:
    """Return what machines have together."""
    return tuple(sum(column) for column in zip(*(spec.capacity for spec in specs), strict=True))


def _demand(job: JobSpec) -> Resources:
    return tuple(sum(group.need[at] * group.count for group in job.groups) for at in (0, 1))


def thinned(jobs: Sequence[JobSpec], has: Resources, fill: float, seed: int) -> tuple[list[int], dict[str, float]]:
    """Return a random choice of whole jobs that requests at most `fill` of a cell in any dimension, and its parts."""
    order = list(range(len(jobs)))
    stream(seed, "residents").shuffle(order)
    kept, used = [], (0, 0)
    for index in order:
        cpu, memory = _demand(jobs[index])
        if used[0] + cpu <= fill * has[0] and used[1] + memory <= fill * has[1]:
            kept.append(index)
            used = (used[0] + cpu, used[1] + memory)
    return sorted(kept), {name: used[at] / has[at] if has[at] else 0.0 for at, name in enumerate(("cpu", "memory"))}


def _scale(
    requests: tuple[Floats, Floats], there: Bools, places: NDArray[np.int32], specs: Sequence[MachineSpec],
    largest: Resources,
) -> tuple[float, float]:  # fmt: skip
    """Return for cpu and memory the largest part of all residents' requests with which they fit every machine."""
    found = []
    for at in (0, 1):
        wants = np.ceil(np.round(requests[at][there] * largest[at], 6))
        load = np.bincount(places[there], np.maximum(1, wants), len(specs))
        has = np.array([spec.capacity[at] for spec in specs], dtype=float)
        some = load > 0
        found.append(min(1.0, float((has[some] / load[some]).min(initial=1.0))))
    return found[0], found[1]


def _about(
    facts: dict[str, Any], options: TraceOptions, machines: Sequence[MachineSpec], arrivals: Sequence[Arrival]
) -> str:
    total = sum(arrival.job.total for arrival in arrivals)
    span = arrivals[-1].at_seconds if arrivals else 0.0
    asked = " ".join(f"{part:.0%} {name}" for name, part in facts["requested"].items())
    lines = [
        f"Google's 2011 trace from {facts['begins_us'] / 1e6:,.0f} s on: {len(machines):,} machines up when it begins",
        f"1.0 of the trace is {options.largest_cpu} millicores, {options.largest_memory} MiB",
        f"arriving: {total:,} tasks in {len(arrivals):,} jobs within {span:,.0f} s",
        f"running at 0 s: {facts['running']:,} tasks, which request {asked} of the cell; waiting: {facts['waiting']:,}",
    ]
    if (kept := facts.get("kept")) is not None:
        parts = ", ".join(f"{part:.0%} {name}" for name, part in kept["requested"].items())
        lines.append(
            f"resident at 0 s: {kept['tasks']:,} of them in {kept['jobs']:,} jobs (chosen by seed {options.seed}),"
            f" {parts}, at most {options.fill:.0%}; the waiting ones are left out"
        )
    elif facts["scale"] is not None:
        scale = " and ".join(f"{name} × {part:.3f}" for name, part in facts["scale"].items())
        lines.append(f"requests of residents are scaled so that they fit: {scale}")
    else:
        lines.append(
            f"requests exceed the capacity of {facts['machines_over']:,} machines, and {facts['factor']:g} × the"
            f" capacity, which they have here, of {facts['machines_over_factor']:,}"
        )
    return "\n".join(lines)
