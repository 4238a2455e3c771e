"""A cell in memory with the state of a recording's picture; changes that are not judged, as the log states them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.events import End, Join, MachineEvent, Place, Resize, SpanEvent, Submit, events_in
from omega.cellstate.logged_settings import read_pools
from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.jobs import enter
from omega.cellstate.memory.machines import equip, new_machine
from omega.cellstate.memory.state import EVERY_RANK, GroupRow, MachineRow
from omega.cellstate.memory.tasks import book, count_admitted, occupy, put_back
from omega.cellstate.model import Gang, Job, JobSpec, JobState, MachineState, TaskGroup
from omega.cellstate.ranges import NONE, Flat, span_add, span_count, span_read, span_split, span_take
from omega.cellstate.resources import Dimensions
from omega.recording.job_rows import spec_of
from omega.recording.recording import Segment

NOBODY = "recording"
_ENDED = {"finished": "finished", "failed": "failed", "stopped": "stopped"}


class Restored:
    """A recorded cell at one version; `guessed`: jobs whose groups are known from their placements only."""

    def __init__(self, segment: Segment, dimensions: Dimensions) -> None:
        """Build the state of the picture. Raises ValueError when the picture contradicts itself."""
        self.segment, self.size = segment, len(dimensions)
        self.cell = MemoryCell("recording", dimensions, mailboxes=False)
        self.guessed: set[str] = set()
        self.delayed: dict[tuple[str, int], Flat] = {}
        self._needs = _needs_in(segment)
        picture = segment.picture
        if (pools := read_pools(picture, 0)) is not None and pools.configured:
            self.cell.pools.set(pools, None, 0, NOBODY)
        for kind, (jobs, precedence, amounts) in picture["limits"].items():
            self.limit(kind, [jobs, *precedence, *amounts])
        self._build_machines()
        for job in sorted(segment.jobs.values(), key=lambda each: each.order):
            self._build_job(job)
        self._build_runs()
        self.cell.placements, self.cell.version = int(picture["placements"]), int(picture["version"])

    # The picture

    def _build_machines(self) -> None:
        for index, name, number, state, executor, capacity, *_ in self.segment.machines:
            m = self._machine(index, name)
            equip(m, tuple(capacity))
            m.number, m.state, m.executor = number, MachineState(state), executor

    def _machine(self, index: int, name: str) -> MachineRow:
        """Return a new machine; those of lower indices that are not known, without a name, are gone."""
        while len(self.cell.M) <= index:
            new_machine(self.cell, "").state = MachineState.GONE
        m = self.cell.M[index]
        m.name, self.cell.indices[name] = name, index
        return m

    def _build_job(self, job: Job) -> None:
        try:
            j = enter(self.cell, spec_of(job), job.submitted_ms, "", held=False)
        except (BadInput, KeyError):
            self.guessed.add(job.id)
            groups = tuple(TaskGroup(each.need, max(1, each.total), optional=each.optional) for each in job.groups)
            j = enter(
                self.cell, JobSpec(job.id, job.name, job.kind, groups, precedence=job.precedence), 0, "", held=False
            )
        j.state, j.unplaced = job.state, 0
        for g, status in zip(j.groups, job.groups, strict=False):
            g.replaced = status.replaced
            g.total, g.indices = status.total, max(status.indices, status.total)
            g.waiting = span_read(status.waiting)
            g.unplaced, g.placed = span_count(g.waiting), 0
            g.finished, g.failed, g.stopped = status.finished, status.failed, status.stopped
            j.unplaced += g.unplaced
        j.complete = job.state is JobState.DONE or not (job.unplaced or job.placed)

    def _build_runs(self) -> None:
        for machine, placement, job_id, group, tasks, leaving, _ in self.segment.runs:
            if not leaving:
                self._stand(machine, placement, job_id, group, span_read(tasks))
        for index, name, _, _, _, _, used, _ in self.segment.machines:
            if self.used(index) != tuple(used):
                raise ValueError(f"machine {name} holds {self.used(index)}, by its record {tuple(used)}")

    def _stand(self, machine: int, placement: int, job_id: str, group: int, tasks: Flat) -> None:
        m, j = self.cell.M[machine], self.cell.J[job_id]
        g, count, before = j.groups[group], span_count(tasks), j.placed
        occupy(m, g, count)
        book(self.cell, g, count)
        m.runs[placement] = g, tasks
        g.runs[placement] = machine
        g.placed, j.placed = g.placed + count, before + count
        count_admitted(self.cell, j, before)

    # What is known of machines

    def used(self, index: int) -> tuple[int, ...]:
        """Return the allocated amounts of a machine."""
        m = self.cell.M[index]
        return m.allocated

    # Changes as the log states them

    def submit(self, event: Submit) -> None:
        """Add a job: by its record, else by what was placed of it."""
        job_id, total = event.job, event.total
        job = self.segment.submitted.get(job_id)
        if job is None:
            self._guess(event)
            return
        spec = spec_of(job)
        if spec.total != total:
            one = sum(not group.copies for group in spec.groups) == 1
            if not one or spec.gang is not job.gang:  # it was resized before its record was read
                self.guessed.add(job_id)
            groups = tuple(
                replace(each, count=0 if each.copies else total if one else each.count) for each in spec.groups
            )
            spec = replace(spec, groups=groups)
        enter(self.cell, spec, 0, "", held=False)

    def _guess(self, event: Submit) -> None:
        self.guessed.add(event.job)
        needs = self._needs.get(event.job, {})
        groups = tuple(
            TaskGroup(needs.get(i, (0,) * self.size), max(1, event.total)) for i in range(max(needs, default=0) + 1)
        )
        spec = JobSpec(event.job, event.name, event.kind, groups, precedence=event.precedence, gang=Gang.NO)
        enter(self.cell, spec, 0, "", held=False)

    def limit(self, kind: str, words: list[Any]) -> None:
        """Set the limits of a kind: jobs, lowest and highest precedence, amounts; None for none."""
        jobs, lowest, highest, *amounts = words
        precedence = EVERY_RANK if lowest is None or highest is None else (lowest, highest)
        self.cell.kind(kind).restrict((jobs, None, *amounts), precedence)

    def place(self, event: Place, stamp: int) -> None:
        """Place tasks without judging them."""
        m, j = self.cell.M[event.machine], self.cell.J[event.job]
        g, tasks = j.groups[event.group], span_read(event.tasks)
        inside, g.waiting = span_split(g.waiting, tasks)
        count = span_count(inside)
        g.unplaced, j.unplaced = g.unplaced - count, j.unplaced - count
        self.cell.touch(m, stamp)
        self._stand(event.machine, event.placement, event.job, event.group, tasks)
        self.cell.placements = event.placement

    def end(self, event: End, stamp: int) -> None:
        """Take tasks off their machine. Raises KeyError for tasks that are not there."""
        how, placement, job_id, group = event.word, event.placement, event.job, event.group
        m, j = self.cell.M[event.machine], self.cell.J[job_id]
        g, tasks = m.runs[placement]
        gone, rest = span_split(tasks, span_read(event.tasks))
        count, before = span_count(gone), j.placed
        self.cell.touch(m, stamp)
        occupy(m, g, -count)
        book(self.cell, g, -count)
        if rest:
            m.runs[placement] = g, rest
        else:
            del m.runs[placement], g.runs[placement]
        g.placed, j.placed = g.placed - count, before - count
        count_admitted(self.cell, j, before)
        lasting = how in ("finished", "stopped") or j.state > JobState.HELD
        if g.copies or (g.optional and not lasting):
            g.total -= count  # an optional task is dropped
        elif how in _ENDED or j.state > JobState.HELD:
            name = _ENDED.get(how, "stopped")
            setattr(g, name, getattr(g, name) + count)
        elif how == "evicted":
            self.requeue(g, gone)
        else:
            self.delayed[job_id, group] = span_add(self.delayed.get((job_id, group), NONE), gone)

    def requeue(self, g: GroupRow, tasks: Flat) -> None:
        """Put tasks back among those that wait."""
        held = self.delayed.pop((g.job.id, g.number), NONE)
        self.delayed[g.job.id, g.number] = span_split(held, tasks)[1] if held else NONE
        put_back(g, tasks)

    def drop(self, job_id: str, group: int, tasks: Flat | None) -> None:
        """Take tasks out of those that wait, or of the delayed ones: they failed, or were dropped."""
        j = self.cell.J[job_id]
        g = j.groups[group]
        if tasks is None:
            return
        inside, g.waiting = span_split(g.waiting, tasks)
        count = span_count(inside)
        g.unplaced, j.unplaced = g.unplaced - count, j.unplaced - count
        if held := self.delayed.get((job_id, group)):
            self.delayed[job_id, group] = span_split(held, tasks)[1]

    def resize(self, event: Resize) -> None:
        """Set the total of a group, after running tasks ended. Added tasks have the next numbers, or those it takes.

        To remove more than wait, lost tasks whose delay has not ended wait first.
        """
        j, change = self.cell.J[event.job], event.added
        g = j.groups[event.group]
        if event.stopped - change > g.unplaced and (held := self.delayed.get((event.job, event.group))):
            self.requeue(g, held)
        if event.taken:
            g.waiting, g.indices = span_add(g.waiting, span_read(event.taken)), event.given
        elif change > 0:
            g.waiting = span_add(g.waiting, (g.indices, g.indices + change - 1))
            g.indices += change
        elif change < 0:
            g.waiting, _ = span_take(g.waiting, max(0, g.unplaced + change))
        g.unplaced, j.unplaced, g.total = g.unplaced + change, j.unplaced + change, event.total

    def update(self, job_id: str) -> None:
        """Add the groups of a new version of a job, without tasks. Raises KeyError without a record of the job."""
        j, job = self.cell.J[job_id], self.segment.updated[job_id]
        for number, group in enumerate(spec_of(job).groups):
            if number >= len(j.groups):
                j.groups.append(GroupRow(j, number, group, 0))

    def stop(self, job_id: str, state: JobState) -> None:
        """Stop a job: nothing of it waits any more."""
        j = self.cell.J[job_id]
        j.state, j.unplaced = state, 0
        for g in j.groups:
            g.stopped += g.unplaced
            g.unplaced, g.waiting = 0, NONE

    def machine(self, event: Join | MachineEvent, attributes: Mapping[str, Any]) -> None:
        """Add or change a machine: its number is that of the fact."""
        index = event.machine
        if isinstance(event, Join):
            m = self.cell.M.get(index)
            if m is None or not m.name:
                m = self._machine(index, event.name)
            equip(m, event.capacity)
            m.state, m.attributes, m.number = MachineState.UP, attributes.get(event.name, {}), event.number
            return
        m = self.cell.M[index]
        self.cell.touch(m, self.cell.stamp)
        match event.what:
            case "state":
                m.state = MachineState(event.new_number)
            case "capacity":
                equip(m, event.new_capacity)
            case "tree":
                m.tree = event.new_tree
            case "attributes":
                m.attributes = attributes.get(m.name, m.attributes)
        m.number = event.number


def _needs_in(segment: Segment) -> dict[str, dict[int, tuple[int, ...]]]:
    """Return what tasks need by job and group, of the jobs whose records are missing."""
    needs: dict[str, dict[int, tuple[int, ...]]] = {}
    nothing = (0,) * len(segment.machines[0][5]) if segment.machines else ()
    if not segment.missing:
        return needs
    for event in (event for entry in segment.entries for event in events_in(entry.facts)):
        if isinstance(event, Place) and event.job in segment.missing:
            needs.setdefault(event.job, {})[event.group] = event.need
        elif isinstance(event, SpanEvent | Resize) and event.job in segment.missing:
            needs.setdefault(event.job, {}).setdefault(event.group, nothing)
    return needs
