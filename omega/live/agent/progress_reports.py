"""Reports of how far an agent's tasks have come (docs/speculation.md, Progress).

A task of a job whose tasks may have copies writes the part that it has done, 0 to 1, to a file. The agent reads the
files every few seconds, and reports a job's tasks to the store when one has come a percent further.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import TaskProgress
from omega.live.agent.kept import Kept
from omega.live.agent.lease_file import now
from omega.live.agent.places import PlacementKey

PROGRESS = ".omega-progress"
"""Name of the file, in the task's own directory."""
EVERY_SECONDS = 10.0
MOST_BYTES = 32
"""Bytes of a file that are read."""


@dataclass(slots=True)
class ProgressReports:
    """What an agent reported of its tasks' progress."""

    _told: dict[str, frozenset[TaskProgress]] = field(default_factory=dict)
    """The last report about each job."""
    _may: dict[PlacementKey, bool] = field(default_factory=dict)
    """Whether the tasks that wrote a file were asked to, by their orders."""
    _last: dict[PlacementKey, TaskProgress] = field(default_factory=dict)
    """What each task reported last."""
    _looked: float = 0.0

    def due(self, kept: Iterable[Kept]) -> bool:
        """Return whether there is new progress that may be reported now."""
        return now() - self._looked >= EVERY_SECONDS and self._read(kept) != self._told

    def report(self, cell: RedisCell, machine: int, kept: Mapping[PlacementKey, Kept]) -> None:
        """Report the jobs with new progress, and those of which nothing runs any more. Raises StoreError."""
        if now() - self._looked < EVERY_SECONDS:
            return
        self._looked = now()
        for known in (self._may, self._last):
            for key in known.keys() - kept.keys():
                del known[key]
        found = self._read(kept.values())
        for job_id in sorted(found.keys() | self._told.keys()):
            tasks = found.get(job_id, frozenset())
            if tasks != self._told.get(job_id):
                cell.tasks.report_progress(job_id, machine, sorted(tasks))
                self._told[job_id] = tasks
                if not tasks:
                    del self._told[job_id]

    def _read(self, kept: Iterable[Kept]) -> dict[str, frozenset[TaskProgress]]:
        found = defaultdict[str, set[TaskProgress]](set)
        for each in kept:
            if not self._is_asked(each):
                continue
            key, file = each.key, each.place / "work" / PROGRESS
            percent = read_percent(file)
            if percent is not None:
                self._last[key] = TaskProgress(key.group, key.task, percent)
            elif key in self._last and not file.exists():
                del self._last[key]  # another attempt began
            if key in self._last and not each.leaving and not each.unlisted:
                found[key.job].add(self._last[key])
        return {job_id: frozenset(tasks) for job_id, tasks in found.items()}

    def _is_asked(self, kept: Kept) -> bool:
        if kept.key not in self._may:
            with suppress(OSError, ValueError):
                self._may[kept.key] = bool(kept.order.get("progress"))
        return self._may.get(kept.key, False)


def read_percent(file: Path) -> int | None:
    """Return the part that a task wrote, in percent; None without a number from 0 to 1.

    The file is the task's: a link is not followed, a pipe not waited for, and no more than a number is read.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        part = float(os.read(handle, MOST_BYTES)) if stat.S_ISREG(os.fstat(handle).st_mode) else -1.0
    except (OSError, ValueError):
        return None
    finally:
        os.close(handle)
    return int(100 * part) if 0 <= part <= 1 else None
