"""The state of a live cell, exact at one version."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from omega.cellstate import ranges
from omega.cellstate.inspection import ChangedRecords, Damage
from omega.cellstate.model import Described, Job, Run
from omega.cellstate.ports import Audited
from omega.cellstate.replies import KindUse
from omega.cellstate.transaction import Position

Told = Callable[[str], object]
"""Called with what is being read or checked."""
ROUNDS = 200
"""Maximum number of reads of changes before a cell counts as changing too fast."""


class Held(NamedTuple):
    """A run and its tasks as (first, last) pairs, with their number."""

    run: Run
    spans: ranges.Spans
    size: int


def held(run: Run) -> Held:
    """Count the tasks of a run."""
    return Held(run, *_tasks(run.tasks))


@lru_cache(maxsize=1 << 16)
def _tasks(text: str) -> tuple[ranges.Spans, int]:
    """Read a set of tasks; equal sets are one object, because most runs of a cell have one of a few."""
    spans = ranges.spans(text)
    return spans, sum(last - first + 1 for first, last in spans)


@dataclass
class CellState:
    """The audited records, at `version`."""

    size: int
    """Number of resources."""
    _: KW_ONLY
    version: int = 0
    placements: int = 0
    first: int = 1
    length: int = 0
    rows: dict[int, list[int]] = field(default_factory=dict)
    """Machine records by index, gone machines included; columns as in replies.Rows."""
    described: dict[int, Described] = field(default_factory=dict)
    """Names and attributes of the machines on which jobs with constraints were placed."""
    runs: dict[int, list[Run]] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)
    """Jobs that were submitted during the reading: without what only schedulers and executors read."""
    queues: dict[str, list[str]] = field(default_factory=dict)
    """The kinds with a queue entry of each job."""
    names: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, KindUse] = field(default_factory=dict)

    def amounts(self, row: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return capacity and allocated amounts of a machine's record."""
        return tuple(row[4 : 4 + self.size]), tuple(row[4 + self.size :])

    def take(self, shot: ChangedRecords) -> None:
        """Replace records by newer ones."""
        for row in shot.rows.tolist():
            self.rows[row[0]] = row
            self.runs[row[0]] = []
        for run in shot.runs:
            self.runs.setdefault(run.machine, []).append(run)
        for job in shot.jobs:
            known = self.jobs.get(job.id)
            if known is None:
                self.bare.add(job.id)
            self.jobs[job.id] = job if known is None else replace(job, spec=known.spec)
            self.queues[job.id] = [job.kind] if job.id in shot.queued else []
        for job_id in shot.absent:
            self.jobs.pop(job_id, None)
            self.queues.pop(job_id, None)
        if shot.absent:
            self.names = {name: job_id for name, job_id in self.names.items() if job_id not in shot.absent}
        self.names.update(shot.holders)
        self.version, self.placements, self.kinds = shot.version, shot.placements, dict(shot.kinds)
        self.first, self.length = shot.first, shot.length

    def set_aside(self) -> list[Damage]:
        """Leave out jobs and runs with unreadable sets of tasks; return them with the reasons."""
        damaged: list[Damage] = []
        for job in list(self.jobs.values()):
            for group in job.groups:
                if why := _not_a_set(group.waiting):
                    damaged.append(Damage("jobs", job.id, why))
                    self.jobs.pop(job.id, None)
        for index, runs in self.runs.items():
            for run in list(runs):
                if why := _not_a_set(run.tasks):
                    damaged.append(Damage("runs", str(index), why))
                    runs.remove(run)
        return damaged

    @cached_property
    def groups(self) -> dict[tuple[str, int], list[Held]]:
        """The runs on machines by job and task group."""
        groups: dict[tuple[str, int], list[Held]] = {}
        for run in chain.from_iterable(self.runs.values()):
            groups.setdefault((run.job, run.group), []).append(held(run))
        return groups

    @cached_property
    def by_placement(self) -> dict[int, tuple[Run, ...]]:
        """Return the runs on machines by placement id: a live one, a leaving one, or both."""
        placements: dict[int, tuple[Run, ...]] = {}
        for run in chain.from_iterable(self.runs.values()):
            placements[run.placement] = (*placements.get(run.placement, ()), run)
        return placements


def placed_amounts(jobs: Iterable[Job], size: int) -> list[int]:
    """Return what the placed tasks of some jobs hold together."""
    groups = [group for job in jobs for group in job.groups]
    return [sum(group.need[d] * group.placed for group in groups) for d in range(size)]


def _not_a_set(text: str) -> str:
    if text.isdecimal():
        return ""
    try:
        pieces = ranges.spans(text)
    except ValueError:
        return f"{text!r} is no set of tasks"
    return "" if all(first <= last for first, last in pieces) else f"{text!r} is no ascending set of tasks"


def read(cell: Audited, told: Told = str) -> CellState | None:
    """Read a cell that may be changing; None when it changes faster than it can be read.

    The chunks have different versions, all of them `since` or later. Records changed after `since` are then read again,
    in one call, until such a read is up to date: all other records did not change since they were read.
    """
    since = cell.changed_records(0, 0).version
    told("machines")
    rows = {row[0]: row for row in cell.sync(Position()).rows.tolist()}
    cell_state = CellState(len(cell.dimensions), rows=rows, runs={index: [] for index in rows})
    for run in cell.runs(sorted(rows)):
        cell_state.runs[run.machine].append(run)
    told("jobs")
    cell_state.jobs = {job.id: job for job in cell.jobs()}
    for kind, ids in cell.pending().items():
        for job_id in ids:
            cell_state.queues.setdefault(job_id, []).append(kind)
    cell_state.names = dict(cell.job_names())
    told("changes meanwhile")
    for _ in range(ROUNDS):
        shot = cell.changed_records(since)
        if shot.first > since + 1 or shot.version < since:
            return None  # facts about changed records are missing
        cell_state.take(shot)
        if shot.seen == shot.version:
            return cell_state
        since = shot.seen
    return None
