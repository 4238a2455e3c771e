"""Reader of recordings of live cells (``omega cell record``)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from omega.cellstate import events as log, ranges
from omega.cellstate.logged_settings import read_pools
from omega.cellstate.model import Gang, Job, JobSpec, Limits, MachineSpec, MachineState
from omega.cellstate.pools import Pools
from omega.recording.durations import Durations, durations_of
from omega.recording.file import is_recording
from omega.recording.history import History, history_of
from omega.recording.job_rows import spec_of
from omega.recording.recording import Recording, load
from omega.traces.trace import Defects, Trace, TraceOptions
from omega.workload.workload import Arrival, JobEvent, LimitEvent, MachineEvent, Workload, WorkloadEvent

RULES = {
    "cut": "the file is cut or has no end; it is read up to there",
    "gap": "versions are missing; the longest part without a gap is used",
    "deleted": "a job was deleted before its record was read; it is left out",
    "censored-stated": "a task's end was not recorded; it lasts for its stated duration",
    "censored-open": "a task's end was not recorded, and it outlasted its stated duration; it lasts beyond the end",
    "never-ran": "a task never ran; it lasts for its stated duration, or as others of its group or kind",
    "waited": "a job waited for others or was held; it arrives when it was released",
    "never-released": "a job waited for others or was held until the end; it is left out",
    "copies": "copies of slow tasks are left out",
    "drained": "a drained machine takes tasks in a replay",
    "pools": "pools changed; a replay keeps those of the beginning",
    "resized": "a job was resized; it has its size of when its record was read",
    "updated": "a job got a new version; it keeps its first one",
    "gang": "a gang ran at the beginning; it is no gang in a replay",
}
_UP = int(MachineState.UP)


class RecordingReader:
    """Reads recordings of this project."""

    name = "omega"
    title = "recordings of omega cell record"
    rules: Mapping[str, str] = RULES

    def recognises(self, path: Path) -> bool:
        """Return whether a file begins like a recording."""
        return is_recording(path)

    def read(self, path: Path, options: TraceOptions) -> Trace:
        """Read a recording. Raises BadInput."""
        recording = load(path)
        return trace_of(recording, history_of(recording.longest), options)


def trace_of(recording: Recording, history: History, options: TraceOptions | None = None) -> Trace:
    """Return a recording as a trace: its longest segment as a workload, and what a replay leaves out."""
    building = _Building(recording, history, options or TraceOptions())
    workload = building.workload()
    seconds = history.segment.seconds
    if options is not None and options.seconds is not None:
        seconds = min(seconds, options.seconds)
    return Trace("omega", workload, building.defects.found(), building.facts(), seconds)


class _Building:
    """Builds the workload of a recording."""

    def __init__(self, recording: Recording, history: History, options: TraceOptions) -> None:
        self.recording, self.history, self.options = recording, history, options
        self.defects = Defects(RULES)
        self.durations: Durations = durations_of(history)
        self.machines: dict[int, MachineSpec] = {}
        self.places: dict[int, int] = {}
        self.events: list[WorkloadEvent] = []

    def seconds(self, at_ms: int) -> float:
        return max(0, at_ms - self.history.begin_ms) / 1000

    def workload(self) -> Workload:
        segment = self.history.segment
        self._note_what_is_missing()
        self._read_machines()
        residents, early = self._residents()
        arrivals = sorted([*early, *self._arrivals()], key=lambda each: each.at_seconds)
        arrivals = self._limited(arrivals)
        for kind, (jobs, precedence, amounts) in segment.picture["limits"].items():
            limits = Limits(tuple(amounts), jobs, (precedence[0], precedence[1]))
            if limits != Limits((None,) * len(amounts)):
                self.events.append(LimitEvent(0.0, kind, limits))
        self._changes({each.job.id for each in (*residents, *arrivals)})
        counts = self.durations.counts
        for rule, count in (
            ("censored-stated", counts.censored_stated), ("censored-open", counts.censored_open),
            ("never-ran", counts.never_ran),
        ):  # fmt: skip
            self.defects.add(rule, count)
        about = f"recording of cell {self.recording.cell}, {segment.seconds:.1f} s, {self.recording.path}"
        return Workload(
            machines=[self.machines[index] for index in self.places], residents=residents, arrivals=arrivals,
            about="\n".join([about, *self.recording.notes()]), pools=read_pools(segment.picture, 0) or Pools(),
            dimensions=self.recording.dimensions, events=sorted(self.events, key=lambda each: each.at_seconds),
        )  # fmt: skip

    def _limited(self, arrivals: list[Arrival]) -> list[Arrival]:
        """Return the arrivals up to the wanted time and number of tasks, jobs whole."""
        kept, tasks = list[Arrival](), 0
        for each in arrivals:
            late = self.options.seconds is not None and each.at_seconds > self.options.seconds
            if late or (self.options.tasks is not None and tasks >= self.options.tasks):
                break
            kept.append(each)
            tasks += each.job.total
        return kept

    def facts(self) -> dict[str, Any]:
        """Return what else the recording has."""
        history, segment = self.history, self.history.segment
        schedulers = {name: each["settings"] for name, each in segment.picture["schedulers"].items() if each["lives"]}
        return {
            "cell": self.recording.cell, "versions": len(segment.entries), "segments": len(self.recording.segments),
            "schedulers": schedulers, "tasks_measured": self.durations.counts.measured,
            "stated_ratio": round(self.durations.ratio, 4),
            "transactions": {kind: each.transactions for kind, each in sorted(history.decisions.items())},
        }  # fmt: skip

    def _note_what_is_missing(self) -> None:
        recording = self.recording
        self.defects.add("cut", int(recording.cut or recording.end is None))
        self.defects.add("gap", len(recording.gaps))
        self.defects.add("deleted", len(self.history.segment.missing))

    # Machines

    def _read_machines(self) -> None:
        """Take the machines that are up, or have tasks: those that are not up come when they do."""
        occupied = {run[0] for run in self.history.segment.runs if not run[5]}
        for index, name, _, state, _, capacity, _, attributes in self.history.segment.machines:
            self.machines[index] = MachineSpec(name, tuple(capacity), attributes)
            if state == _UP or index in occupied:
                self.places[index] = len(self.places)
                self.defects.add("drained", int(state == MachineState.DRAINED))

    def _changes(self, jobs: set[str]) -> None:
        """Turn the facts about machines, limits and jobs into events."""
        away = {index for index in self.machines if index not in self.places}
        for at_ms, fact in self.history.facts:
            event, at = fact.event, self.seconds(at_ms)
            match event:
                case log.Join() | log.MachineEvent():
                    self._machine(event, at, away)
                case log.Limit():
                    self.events.append(LimitEvent(at, event.kind, _limits(event)))
                case log.JobEvent(word="hold" | "release" | "stop"):
                    if event.job in jobs and event.job not in self.history.waits:
                        self.events.append(JobEvent(at, event.job, event.word))
                case log.JobEvent(word="update"):
                    self.defects.add("updated")
                case log.Resize():
                    self.defects.add("resized")
                case log.Pool():
                    self.defects.add("pools")

    def _machine(self, event: log.Join | log.MachineEvent, at: float, away: set[int]) -> None:
        index = event.machine
        if isinstance(event, log.Join):
            attributes = self.machines[index].attributes if index in self.machines else {}
            spec = MachineSpec(event.name, event.capacity, attributes)
            known = self.machines.get(index)
            self.machines[index] = spec
            if known != spec or index in away:
                away.discard(index)
                self.events.append(MachineEvent(at, spec))
        elif event.what == "state":
            state = event.new_number
            if state == _UP and index in away:
                away.discard(index)
                self.events.append(MachineEvent(at, self.machines[index]))
            elif state == MachineState.DRAINED:
                self.defects.add("drained")
            elif state != _UP and index not in away and index in self.machines:
                away.add(index)
                self.events.append(MachineEvent(at, self.machines[index], up=False))
        elif event.what == "capacity" and index in self.machines:
            self.machines[index] = replace(self.machines[index], capacity=event.new_capacity)
            if index not in away:
                self.events.append(MachineEvent(at, self.machines[index]))

    # Jobs

    def _residents(self) -> tuple[list[Arrival], list[Arrival]]:
        """Return jobs with running tasks, and those that are pending as arrivals at 0 s."""
        where: dict[str, dict[int, dict[int, int]]] = {}
        for run in self.history.runs:
            if run.resident:
                job_id, group, task = run.task
                where.setdefault(job_id, {}).setdefault(group, {})[task] = self.places.get(run.machine, -1)
        residents, pending = [], []
        for job in self.history.segment.jobs.values():
            if job.id in where:
                residents.append(self._resident(job, where[job.id]))
            elif job.unplaced and job.state <= 1 and (arrival := self._arrival(job, 0.0, remaining=True)):
                pending.append(arrival)
        return [each for each in residents if each.job.groups], pending

    def _resident(self, job: Job, where: Mapping[int, Mapping[int, int]]) -> Arrival:
        groups, durations, machines = [], [], []
        for number, (group, status) in enumerate(zip(self._spec(job).groups, job.groups, strict=True)):
            running = sorted(where.get(number, {}))
            waiting = _indices(status.waiting) if job.state <= 1 else []
            if group.copies or not (running or waiting):
                self.defects.add("copies", int(group.copies and bool(running)))
                continue
            groups.append(replace(group, count=len(running) + len(waiting)))
            durations.append(self.durations.of(job, number, [*running, *waiting]))
            placed = [where[number][task] for task in running] if running else []
            machines.append(np.array(placed + [-1] * len(waiting), dtype=np.int32))
        self.defects.add("gang", int(job.gang is not Gang.NO))
        spec = replace(self._spec(job), groups=tuple(groups), gang=Gang.NO, gang_min=0) if groups else None
        return Arrival(0.0, spec or self._spec(job), tuple(durations), tuple(machines))

    def _arrivals(self) -> list[Arrival]:
        found = []
        for job_id, submitted_ms in self.history.submitted.items():
            job = self.history.segment.submitted.get(job_id)
            if job is None:
                continue
            at_ms = submitted_ms
            if job_id in self.history.waits:
                self.defects.add("waited")
                at_ms = self.history.freed.get(job_id, -1)
                if at_ms < 0:
                    self.defects.add("never-released")
                    continue
            if arrival := self._arrival(job, self.seconds(at_ms), remaining=False):
                found.append(arrival)
        return found

    def _arrival(self, job: Job, at: float, *, remaining: bool) -> Arrival | None:
        groups, durations = [], []
        for number, (group, status) in enumerate(zip(self._spec(job).groups, job.groups, strict=True)):
            if group.copies:
                self.defects.add("copies")
                continue
            tasks = _indices(status.waiting) if remaining else list(range(status.total))
            if tasks:
                groups.append(replace(group, count=len(tasks)))
                durations.append(self.durations.of(job, number, tasks))
        if not groups:
            return None
        return Arrival(at, replace(self._spec(job), groups=tuple(groups)), tuple(durations))

    @staticmethod
    def _spec(job: Job) -> JobSpec:
        spec = spec_of(job)
        words = {name: value for name, value in spec.spec.items() if name != "speculation"}
        return replace(spec, spec=words) if len(words) < len(spec.spec) else spec


def _indices(text: str) -> list[int]:
    return [] if text == "-" else ranges.indices(text)


def _limits(event: log.Limit) -> Limits:
    precedence = (event.lowest or 0, event.highest) if event.highest is not None else Limits(()).precedence
    return Limits(event.resources, event.jobs, precedence)
