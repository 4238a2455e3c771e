"""The twin with the state of a recording's picture; changes of it that are not judged, as the log states them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput
from omega.cellstate.logged_facts import fact_words
from omega.cellstate.logged_settings import read_pools
from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.jobs import enter
from omega.cellstate.memory.machines import equip
from omega.cellstate.memory.ranges import NONE, Spans, span_add, span_count, span_split, spans
from omega.cellstate.memory.records import GroupRow, JobRow, MachineRow, allocated
from omega.cellstate.memory.tasks import book, count_admitted, occupy
from omega.cellstate.model import Gang, Job, JobSpec, JobState, MachineState, TaskGroup
from omega.cellstate.resources import Dimensions
from omega.recording.job_rows import spec_of
from omega.recording.recording import Segment

NOBODY = "recording"
_ENDED = {"finished": "finished", "failed": "failed", "stopped": "stopped"}


class Restored:
    """The twin of a recorded cell at one version; `guessed`: jobs whose groups are known from their placements only."""

    def __init__(self, segment: Segment, dimensions: Dimensions) -> None:
        """Build the state of the picture. Raises ValueError when the picture contradicts itself."""
        self.segment, self.size = segment, len(dimensions)
        self.cell = MemoryCell("recording", dimensions, mailboxes=False)
        self.ledger = self.cell.ledger
        self.guessed: set[str] = set()
        self.delayed: dict[tuple[str, int], Spans] = {}
        self._needs = _needs_in(segment)
        picture = segment.picture
        if (pools := read_pools(picture, 0)) is not None and pools.configured:
            self.cell.set_pools(pools, None, 0, NOBODY)
        for kind, (jobs, precedence, amounts) in picture["limits"].items():
            self.limit(kind, [jobs, *precedence, *amounts])
        self._build_machines()
        for job in sorted(segment.jobs.values(), key=lambda each: each.order):
            self._build_job(job)
        self._build_runs()
        self.ledger.placements, self.ledger.version = int(picture["placements"]), int(picture["version"])

    # The picture

    def _build_machines(self) -> None:
        for index, name, number, state, executor, capacity, *_ in self.segment.machines:
            self._machine(index, name)
            self._set_capacity(self.ledger.M[index], tuple(capacity))
            m = self.ledger.M[index]
            m.number, m.state, m.executor = number, MachineState(state), executor

    def _machine(self, index: int, name: str) -> MachineRow:
        ledger = self.ledger
        while len(ledger.free) <= index:
            ledger.free.append(ledger.guards)
            ledger.numbers.append(0)
        m = MachineRow(index, name, 0, ledger.free, ledger.numbers)
        m.capacity = (0,) * self.size
        ledger.M[index] = m
        ledger.indices[name] = index
        return m

    def _set_capacity(self, m: MachineRow, capacity: tuple[int, ...]) -> None:
        equip(m, capacity)

    def _build_job(self, job: Job) -> None:
        try:
            j = enter(self.ledger, spec_of(job), job.submitted_ms, held=False)
        except (BadInput, KeyError):
            self.guessed.add(job.id)
            groups = tuple(TaskGroup(each.need, max(1, each.total), optional=each.optional) for each in job.groups)
            j = enter(
                self.ledger, JobSpec(job.id, job.name, job.kind, groups, precedence=job.precedence), 0, held=False
            )
        j.state, j.unplaced = job.state, 0
        for g, status in zip(j.groups, job.groups, strict=False):
            g.replaced = status.replaced
            g.total, g.indices = status.total, max(status.indices, status.total)
            g.waiting = NONE if status.waiting == "-" else spans(status.waiting)
            g.unplaced, g.placed = span_count(g.waiting), 0
            g.finished, g.failed, g.stopped = status.finished, status.failed, status.stopped
            j.unplaced += g.unplaced
        j.complete = job.state is JobState.DONE or not (job.unplaced or job.placed)

    def _build_runs(self) -> None:
        for machine, placement, job_id, group, tasks, leaving, _ in self.segment.runs:
            if not leaving:
                self._stand(machine, placement, job_id, group, spans(tasks))
        for index, name, _, _, _, _, used, _ in self.segment.machines:
            if self.used(index) != tuple(used):
                raise ValueError(f"machine {name} holds {self.used(index)}, by its record {tuple(used)}")

    def _stand(self, machine: int, placement: int, job_id: str, group: int, tasks: Spans) -> None:
        m, j = self.ledger.M[machine], self.ledger.J[job_id]
        g, count, before = j.groups[group], span_count(tasks), j.placed
        occupy(m, g, count)
        book(self.ledger, j.kind, g, count)
        m.runs[placement] = g, tasks
        g.runs[placement] = machine
        g.placed, j.placed = g.placed + count, before + count
        count_admitted(self.ledger, j, before)

    # What is known of machines

    def used(self, index: int) -> tuple[int, ...]:
        """Return the allocated amounts of a machine."""
        m = self.ledger.M[index]
        return allocated(m.capacity, m.free)

    # Changes as the log states them

    def submit(self, job_id: str, name: str, kind: str, precedence: int, total: int) -> None:
        """Add a job: by its record, else by what was placed of it."""
        job = self.segment.submitted.get(job_id)
        if job is None:
            self._guess(job_id, total, name=name, kind=kind, precedence=precedence)
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
        enter(self.ledger, spec, 0, held=False)

    def _guess(self, job_id: str, total: int, *, name: str = "", kind: str = "batch", precedence: int = 0) -> JobRow:
        self.guessed.add(job_id)
        needs = self._needs.get(job_id, {})
        groups = tuple(
            TaskGroup(needs.get(i, (0,) * self.size), max(1, total)) for i in range(max(needs, default=0) + 1)
        )
        spec = JobSpec(job_id, name or job_id, kind, groups, precedence=precedence, gang=Gang.NO)
        return enter(self.ledger, spec, 0, held=False)

    def limit(self, kind: str, words: list[Any]) -> None:
        """Set the limits of a kind: jobs, lowest and highest precedence, amounts; None for none."""
        k = self.ledger.kind(kind)
        jobs, lowest, highest, *amounts = words
        k.max_jobs, k.limit = jobs, tuple(amounts)
        k.lowest, k.highest = lowest, highest
        k.limited = any(amount is not None for amount in k.limit)
        k.unrestricted = not k.limited and k.max_jobs is None and k.lowest is None

    def place(self, words: tuple[str, ...], stamp: int) -> None:
        """Place tasks without judging them."""
        placement, machine, job_id, group = int(words[1]), int(words[2]), words[3], int(words[4])
        m, j = self.ledger.M[machine], self.ledger.J[job_id]
        g, tasks = j.groups[group], spans(words[5])
        inside, g.waiting = span_split(g.waiting, tasks)
        count = span_count(inside)
        g.unplaced, j.unplaced = g.unplaced - count, j.unplaced - count
        self.ledger.touch(m, stamp)
        self._stand(machine, placement, job_id, group, tasks)
        self.ledger.placements = placement

    def end(self, words: tuple[str, ...], stamp: int) -> None:
        """Take tasks off their machine. Raises KeyError for tasks that are not there."""
        how, placement, machine, job_id, group = words[0], int(words[1]), int(words[2]), words[3], int(words[4])
        m, j = self.ledger.M[machine], self.ledger.J[job_id]
        g, tasks = m.runs[placement]
        gone, rest = span_split(tasks, spans(words[5]))
        count, before = span_count(gone), j.placed
        self.ledger.touch(m, stamp)
        occupy(m, g, -count)
        book(self.ledger, j.kind, g, -count)
        if rest:
            m.runs[placement] = g, rest
        else:
            del m.runs[placement], g.runs[placement]
        g.placed, j.placed = g.placed - count, before - count
        count_admitted(self.ledger, j, before)
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

    def requeue(self, g: GroupRow, tasks: Spans) -> None:
        """Put tasks back among those that wait."""
        held = self.delayed.pop((g.job.id, g.number), NONE)
        self.delayed[g.job.id, g.number] = span_split(held, tasks)[1] if held else NONE
        g.waiting = span_add(g.waiting, tasks)
        count = span_count(tasks)
        g.unplaced, g.job.unplaced = g.unplaced + count, g.job.unplaced + count

    def drop(self, job_id: str, group: int, tasks: Spans | None) -> None:
        """Take tasks out of those that wait, or of the delayed ones: they failed, or were dropped."""
        j = self.ledger.J[job_id]
        g = j.groups[group]
        if tasks is None:
            return
        inside, g.waiting = span_split(g.waiting, tasks)
        count = span_count(inside)
        g.unplaced, j.unplaced = g.unplaced - count, j.unplaced - count
        if held := self.delayed.get((job_id, group)):
            self.delayed[job_id, group] = span_split(held, tasks)[1]

    def resize(
        self, job_id: str, group: int, *, total: int, change: int, stopped: int, taken: Sequence[str] = ()
    ) -> None:
        """Set the total of a group; its waiting tasks change by `change`, after `stopped` running ones ended.

        Added tasks have the next numbers, or are `taken`: theirs, and how many the group has given out then.

        To remove more than wait, lost tasks whose delay has not ended wait first.
        """
        j = self.ledger.J[job_id]
        g = j.groups[group]
        if stopped - change > g.unplaced and (held := self.delayed.get((job_id, group))):
            self.requeue(g, held)
        if taken:
            g.waiting, g.indices = span_add(g.waiting, spans(taken[0])), int(taken[1])
        elif change > 0:
            g.waiting = span_add(g.waiting, (g.indices, g.indices + change - 1))
            g.indices += change
        elif change < 0:
            left = ranges.take(ranges.spell(_pairs(g.waiting)), max(0, g.unplaced + change))[0]
            g.waiting = NONE if left == ranges.EMPTY else spans(left)
        g.unplaced, j.unplaced, g.total = g.unplaced + change, j.unplaced + change, total

    def update(self, job_id: str) -> None:
        """Add the groups of a new version of a job, without tasks. Raises KeyError without a record of the job."""
        j, job = self.ledger.J[job_id], self.segment.updated[job_id]
        for number, group in enumerate(spec_of(job).groups):
            if number >= len(j.groups):
                j.groups.append(GroupRow(j, number, group, 0))

    def stop(self, job_id: str, state: JobState) -> None:
        """Stop a job: nothing of it waits any more."""
        j = self.ledger.J[job_id]
        j.state, j.unplaced = state, 0
        for g in j.groups:
            g.stopped += g.unplaced
            g.unplaced, g.waiting = 0, NONE

    def machine(self, words: tuple[str, ...], attributes: Mapping[str, Any], executor: int | None) -> None:
        """Add or change a machine: its number is that of the fact."""
        index = int(words[1])
        if words[0] == "join":
            m = self.ledger.M.get(index) or self._machine(index, words[2])
            self._set_capacity(m, tuple(map(int, words[4 : 4 + self.size])))
            m.state, m.attributes, m.number = MachineState.UP, attributes.get(words[2], {}), int(words[3])
            m.executor = m.executor if executor is None else executor
            return
        m = self.ledger.M[index]
        self.ledger.touch(m, self.ledger.stamp)
        if words[2] == "state":
            m.state = MachineState(int(words[3]))
        elif words[2] == "capacity":
            self._set_capacity(m, tuple(map(int, words[3].split(","))))
        elif words[2] == "tree":
            m.tree = None if words[3] == "-" else int(words[3])
        elif words[2] == "attributes":
            m.attributes = attributes.get(m.name, m.attributes)
        m.number = int(words[4])


def _pairs(flat: Spans) -> list[tuple[int, int]]:
    return [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]


def _needs_in(segment: Segment) -> dict[str, dict[int, tuple[int, ...]]]:
    """Return what tasks need by job and group, of the jobs whose records are missing."""
    needs: dict[str, dict[int, tuple[int, ...]]] = {}
    nothing = (0,) * len(segment.machines[0][5]) if segment.machines else ()
    if not segment.missing:
        return needs
    for entry in segment.entries:
        for line in entry.facts.split("\n"):
            words = fact_words(line)[0] if line else ("",)
            if words[0] == "place" and words[3] in segment.missing:
                needs.setdefault(words[3], {})[int(words[4])] = tuple(map(int, words[6:]))
            elif words[0] in ("requeue", "fail", "resize") and words[1] in segment.missing:
                needs.setdefault(words[1], {}).setdefault(int(words[2]), nothing)
    return needs
