"""Output of tasks, read where they ran or from the store."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omega.cellstate import ranges
from omega.cellstate.errors import NotFound
from omega.embedded.places import state_directory
from omega.live.agent.output import StreamReader, last_lines
from omega.live.agent.places import all_places
from omega.live.waiting import patiently
from omega.queries.job_state import generations, group_names
from omega.queries.task_names import TaskNames
from omega.queries.task_results import group_of_output
from omega.schedulers.rolling import named_groups

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries


@dataclass
class TaskLog:
    """Output of one task: from its files on this computer, else its last output from the store."""

    cell: "Queries"
    job: "Job"
    group: int
    task: int
    stream: str
    reader: "StreamReader | None" = None
    _source: int = -1
    """The group under which the output is: that of the copies when the task's copy continued as the task."""
    _place: Path | None = None
    _last: bytes = field(default=b"")

    @property
    def cut(self) -> int:
        """Number of bytes before the shown part that are no longer stored."""
        return self.reader.cut if self.reader is not None else 0

    @classmethod
    def of(
        cls, cell: "Queries", job: "Job", task: int, group: str | None, stream: str, generation: int | None = None,
        index: int | None = None,
    ) -> "TaskLog":  # fmt: skip
        """Find the output of a task of the group of a name (None: the first), by default of its newest generation.

        With `index` that of the task with this index in the array. NotFound when there is no such task.
        """
        log = cls(cell, job, *task_of(job, task, group, generation, index), stream)
        log.find()
        return log

    @property
    def name(self) -> str:
        """The task in words: ``task 0 of crawl``, with its group when the job has several."""
        group = f", group {group_names(self.job)[self.group]}" if len(named_groups(self.job)) > 1 else ""
        all_of_it = generations(self.job)
        generation = f", generation {all_of_it[self.group]}" if max(all_of_it) > 1 else ""
        names = TaskNames.of(self.job)
        index = f" ({names.name(self.group, str(self.task))})" if names.is_array(self.group) else ""
        return f"task {self.task}{index} of {self.job.name}{group}{generation}"

    def as_json(self, lines: int | None = None) -> dict[str, Any]:
        """Return the output, or its last lines, as plain values."""
        text = b"".join(self.new(lines)).decode(errors="replace")
        about = {"cell": self.cell.name, "job": self.job.id, "group": self.group, "task": self.task}
        about |= TaskNames.of(self.job).as_json(self.group, str(self.task))
        about["generation"] = generations(self.job)[self.group]
        source = "files" if self.reader is not None else "store"
        return {**about, "stream": self.stream, "source": source, "cut_bytes": self.cut, "text": text}

    def find(self) -> None:
        """Find the files of its newest placement, unless it is on another machine by now."""
        source = patiently(lambda: group_of_output(self.cell, self.job, self.group, self.task))
        if source != self._source:
            self._source, self._last = source, b""
        newest = max(
            (
                (key.placement, places.task(key))
                for places in all_places(state_directory(), self.cell.name)
                for key in places.task_keys()
                if key[:3] == (self.job.id, source, self.task)
            ),
            default=None,
        )
        if newest is None or newest[0] < self._placement():
            self.reader = self._place = None
        elif newest[1] != self._place:
            self._place = newest[1]
            self.reader = StreamReader(newest[1], self.stream)

    def _placement(self) -> int:
        """Return the id of the task's live placement; 0 without one."""
        job = patiently(lambda: self.cell.job(self.job.id)) or self.job
        there = [machine for _, machine, leaving in job.groups[self.group].runs if not leaving]
        runs = patiently(lambda: self.cell.runs(there)) if there else []
        mine = (run for run in runs if (run.job, run.group, run.leaving) == (self.job.id, self.group, False))
        return max((run.placement for run in mine if self.task in ranges.indices(run.tasks)), default=0)

    def new(self, lines: int | None = None) -> Iterator[bytes]:
        """Yield its output since the last call, or only the last lines of that."""
        if lines is not None:
            yield last_lines(b"".join(self.new()), lines)
        elif self.reader is not None:
            yield from self.reader.more()
        else:
            last = patiently(lambda: self.cell.tail(self.job.id, self._source, self.task, self.stream)) or b""
            if last != self._last:
                # Some of it is no longer stored; skip the part that was shown.
                known = next((n for n in range(len(last), 0, -1) if self._last.endswith(last[:n])), 0)
                self._last = last
                yield last[known:]


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
