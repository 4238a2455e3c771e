"""Output of tasks: from files on this computer, from the agents that have them, or from the store."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omega.cellstate import ranges
from omega.cellstate.errors import Forbidden, NotFound
from omega.cellstate.tasks import MOST_OUTPUT, TAIL_BYTES, OutputPart, StoredTail
from omega.embedded.places import state_directory
from omega.live.agent.open_output import OpenOutput
from omega.live.agent.output import StreamReader, cut_line, last_lines
from omega.live.agent.places import all_places
from omega.live.agent_output import AWAY, EXPIRED, NEVER_RAN, OutputPlace, agent_part, find_output, missing
from omega.live.waiting import patiently
from omega.queries.job_state import ended, generations, group_names
from omega.queries.task_names import TaskNames
from omega.schedulers.rolling import named_groups

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.redis import RedisCell


@dataclass
class TaskLog:
    """Output of one task: from its files on this computer, else from the agent that has them, else from the store.

    `placement` is that of an earlier placement (-1: the one before the newest), 0 for the newest. `silent` are the
    mailboxes of agents that did not answer, None when no agent is to be asked.
    """

    cell: "RedisCell"
    job: "Job"
    group: int
    task: int
    stream: str
    _: KW_ONLY
    placement: int = 0
    silent: set[int] | None = field(default_factory=set)
    reader: "StreamReader | None" = None
    source: str = ""
    """Where the output comes from: files, agent, store; empty before it was read."""
    cut: int = 0
    """Number of bytes before the shown part that are not there."""
    why: str | None = None
    """Why it comes from the store."""
    _at: "OutputPlace | None" = None
    _place: Path | None = None
    _read: tuple[int, int] = (0, 0)
    """What the agent has answered so far: the placement, and the byte behind its output."""
    _last: bytes = field(default=b"")

    def __post_init__(self) -> None:
        self.find()

    @classmethod
    def of(
        cls, cell: "RedisCell", job: "Job", task: int, group: str | None, stream: str, generation: int | None = None,
        index: int | None = None, *, placement: int = 0,
    ) -> "TaskLog":  # fmt: skip
        """Find the output of a task of the group of a name (None: the first), by default of its newest generation.

        With `index` that of the task with this index in the array. NotFound when there is no such task or placement.
        """
        return cls(cell, job, *task_of(job, task, group, generation, index), stream, placement=placement)

    @property
    def name(self) -> str:
        """The task in words: ``task 0 of crawl``, with its group when the job has several."""
        group = f", group {group_names(self.job)[self.group]}" if len(named_groups(self.job)) > 1 else ""
        all_of_it = generations(self.job)
        generation = f", generation {all_of_it[self.group]}" if max(all_of_it) > 1 else ""
        names = TaskNames.of(self.job)
        index = f" ({names.name(self.group, str(self.task))})" if names.is_array(self.group) else ""
        return f"task {self.task}{index} of {self.job.name}{group}{generation}"

    @property
    def file_name(self) -> str:
        """A name for a file with the output: ``fetch.12.stdout``, by the group's name and the index of the task."""
        group, index = group_names(self.job)[self.group], TaskNames.of(self.job).indices(self.group, str(self.task))
        safe = group if re.fullmatch(r"[\w-][\w.-]*", group) else str(self.group)
        return f"{safe}.{index}.{self.stream}"

    @property
    def missing(self) -> str | None:
        """What is missing of the output, with its reason; None when nothing is."""
        whole = self._last and not self.cut and (ended(self.job) or self.why == EXPIRED)
        return missing(self.cut, None if whole else self.why, TAIL_BYTES if self.source == "store" else 0)

    def as_json(self, lines: int | None = None) -> dict[str, Any]:
        """Return the output, or its last lines, as plain values."""
        text = b"".join(self.new(lines)).decode(errors="replace")
        return {**self.about(), "text": text}

    def open(self) -> OpenOutput | None:
        """Open its files on this computer as they are now; None when it has none."""
        if self.reader is None:
            return None
        opened = OpenOutput.of(self.reader.place, self.reader.stream)
        self.source, self.why, self.cut = "files", None, opened.cut
        return opened

    def about(self) -> dict[str, Any]:
        """Return what is known of the output that was read, without its text."""
        about = {"cell": self.cell.name, "job": self.job.id, "group": self.group, "task": self.task}
        about |= TaskNames.of(self.job).as_json(self.group, str(self.task))
        about["generation"] = generations(self.job)[self.group]
        where = {"source": self.source, "cut_bytes": self.cut, "missing": self.missing}
        return {**about, "stream": self.stream, **where}

    def find(self) -> None:
        """Find the files of its newest placement, unless it is on another machine by now."""
        at = patiently(lambda: find_output(self.cell, self.job, self.group, self.task, self.placement))
        if self._at is None or at.source != self._at.source:
            self._last, self._read = b"", (0, 0)
        self._at = at
        if self._read[0] and self.silent and at.agent is not None:
            self.silent.discard(at.agent)  # it answered before
        newest = max(
            (
                (key.placement, places.task(key))
                for places in all_places(state_directory(), self.cell.name)
                for key in places.task_keys()
                if key[:3] == (self.job.id, at.source, self.task)
                and at.placement in (0, key.placement)
                and key.submitted_ms == self.job.submitted_ms
            ),
            default=None,
        )
        if newest is None or (not at.placement and newest[0] < self._live()):
            self.reader = self._place = None
        elif newest[1] != self._place:
            self._place = newest[1]
            shown = (
                self._read[1] if newest[0] == self._read[0] else 0
            )  # the agent was asked before its files were found
            self.reader = StreamReader(newest[1], self.stream, shown)

    def _live(self) -> int:
        """Return the id of the task's live placement; 0 without one."""
        job = patiently(lambda: self.cell.jobs.get(self.job.id)) or self.job
        there = [machine for _, machine, leaving in job.groups[self.group].runs if not leaving]
        runs = patiently(lambda: self.cell.machines.runs(there)) if there else []
        mine = (run for run in runs if (run.job, run.group, run.leaving) == (self.job.id, self.group, False))
        return max((run.placement for run in mine if self.task in ranges.indices(run.tasks)), default=0)

    def new(self, lines: int | None = None) -> Iterator[bytes]:
        """Yield its output since the last call, or only the last lines of that."""
        if lines is not None:
            if self.reader is None and (part := self._part(-MOST_OUTPUT)) and part.data.count(b"\n") > lines:
                self._read = part.placement, part.start + len(part.data)
                yield last_lines(part.data, lines)
            else:
                yield last_lines(b"".join(self.new()), lines)
        elif self.reader is not None:
            self.source, self.why = "files", None
            for piece in self.reader.more():
                self.cut = self.reader.cut
                yield piece
        elif (first := self._part(self._read[1])) is not None:
            yield from self._from_agent(first)
        elif not self._read[0]:
            yield self._from_store()

    def _from_agent(self, part: OutputPart | None) -> Iterator[bytes]:
        while part is not None:
            placement, at = self._read
            if placement and part.placement != placement and at:  # placed again meanwhile: it begins anew
                self._read = part.placement, 0
                part = self._part(0)
                continue
            if part.start > at:
                self.cut += part.start - at
                yield cut_line(part.start - at, at)
            self._read = part.placement, part.start + len(part.data)
            yield part.data
            part = self._part(self._read[1]) if part.data else None

    def _part(self, start: int) -> OutputPart | None:
        """Return output from a byte on, from the agent; None when it has none or does not answer."""
        at = self._at
        if at is None or self.silent is None or at.agent is None or at.agent in self.silent:
            self.why = AWAY if at is None or at.agent is not None else at.why
            return None
        try:
            part = patiently(lambda: agent_part(self.cell, at, self.stream, start))
        except Forbidden:  # the store's user has a role that may not ask
            part = None
        if part is None:
            self.silent.add(at.agent)
        elif part.placement:
            self.source, self.why = "agent", None
            return part
        self.why = AWAY if part is None else NEVER_RAN if self._live() else EXPIRED
        return None

    def _from_store(self) -> bytes:
        self.source = "store"
        at = self._at
        if at is None or at.placement:
            return b""  # the store has the end of the newest placement's output
        record = patiently(lambda: self.cell.tasks.tail(at.job, at.source, at.task, self.stream))
        self.cut, last = StoredTail.unpack(record)
        # Some of it is no longer stored; skip the part that was shown.
        known = next((n for n in range(len(last), 0, -1) if self._last.endswith(last[:n])), 0)
        self._last = last
        return last[known:]


def all_logs(
    cell: "RedisCell", job: "Job", streams: Sequence[str], group: str | None = None, generation: int | None = None
) -> Iterator[TaskLog]:
    """Yield the output of each task of a job, of each of its groups unless one is named; an agent is missed once."""
    groups = named_groups(job) if group is None and generation is None else [task_of(job, 0, group, generation)[0]]
    silent = set[int]()
    for number in groups:
        for task in range(job.groups[number].indices):
            for stream in streams:
                yield TaskLog(cell, job, number, task, stream, silent=silent)


def task_of(
    job: "Job", task: int, group: str | None, generation: int | None = None, index: int | None = None
) -> tuple[int, int]:
    """Return the numbers of the group and the task that are named as in `TaskLog.of`. Raises NotFound."""
    number = _group(job, group, generation)
    if index is not None:
        task = TaskNames.of(job).task(job, number, index)
    if not 0 <= task < job.groups[number].indices:
        raise NotFound(f"job {job.name}: has no task {task}; the last one is {job.groups[number].indices - 1}")
    return number, task


def _group(job: "Job", asked: str | None, generation: int | None) -> int:
    """Return the group of a name (None: the first) and a generation (None: the newest). Raises NotFound."""
    names, all_of_it = group_names(job), generations(job)
    current = named_groups(job)
    if asked is None:
        newest = current[0]
    elif asked in (now := [names[number] for number in current]):
        newest = current[now.index(asked)]
    else:
        raise NotFound(f"job {job.name}: has no task group {asked!r}; it has {', '.join(now)}")
    if generation is None:
        return newest
    alike = [i for i, name in enumerate(names) if len(current) == 1 or name == names[newest]]
    for i in alike:
        if all_of_it[i] == generation:
            return i
    raise NotFound(f"job {job.name}: has no generation {generation} of these tasks; the newest is {all_of_it[newest]}")
