"""How long the tasks of a recording last, also those whose end was not recorded.

* A task that finished or failed in the recording lasts as long as its last run did.
* A task that was stopped, or still ran at the end, is censored. It lasts for the stated duration of its group, times
  the median ratio of measured to stated durations, where that is longer than what was seen of it; else beyond the end.
* A task that never ran lasts for the stated duration, likewise; without one for the median of its group's finished
  tasks, or of its kind's; without these beyond the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from omega.cellstate.model import Job
from omega.recording.history import ENDED, History
from omega.workload.workload import Microseconds

MILLISECOND = 1_000
"""Microseconds of a millisecond."""


@dataclass(slots=True, kw_only=True)
class DurationCounts:
    """Tasks by how their duration is known."""

    measured: int = 0
    censored_stated: int = 0
    censored_open: int = 0
    never_ran: int = 0


@dataclass
class Durations:
    """Durations of tasks; `counts` grows with each group that is asked for."""

    length_ms: int
    """Length of the recording: a task of open length lasts this much longer than was seen."""
    ended: Mapping[tuple[str, int], Mapping[int, int]]
    """By job and group, task: how long its last run lasted (ms) that finished or failed."""
    seen: Mapping[tuple[str, int], Mapping[int, int]]
    """Likewise of all other tasks that ran: the longest time that one of its runs was seen."""
    ratio: float
    """Median of measured ÷ stated durations."""
    by_kind: Mapping[str, float]
    """Median duration of a kind's finished tasks (ms)."""
    counts: DurationCounts = field(default_factory=DurationCounts)

    def of(self, job: Job, group: int, tasks: Iterable[int]) -> Microseconds:
        """Return how long each of these tasks of a group lasts."""
        stated = job.groups[group].duration_ms * self.ratio
        ended, seen = self.ended.get((job.id, group), {}), self.seen.get((job.id, group), {})
        usual = median(ended.values()) if ended else self.by_kind.get(job.kind, 0.0)
        return np.array([self._task(ended.get(i), seen.get(i), stated, usual) for i in tasks], dtype=np.int64)

    def _task(self, ended: int | None, seen: int | None, stated: float, usual: float) -> int:
        counts = self.counts
        if ended is not None:
            counts.measured += 1
            return ended * MILLISECOND
        if seen is None:
            counts.never_ran += 1
            return round((stated or usual or self.length_ms) * MILLISECOND)
        if stated > seen:
            counts.censored_stated += 1
            return round(stated * MILLISECOND)
        counts.censored_open += 1
        return (seen + self.length_ms) * MILLISECOND


def durations_of(history: History) -> Durations:
    """Return the durations of a recording's tasks; those of residents count from the beginning of the recording."""
    ended: dict[tuple[str, int], dict[int, int]] = {}
    seen: dict[tuple[str, int], dict[int, int]] = {}
    ratios, of_kind = list[float](), dict[str, list[int]]()
    for run in history.runs:
        job_id, group, task = run.task
        start = max(run.start_ms, history.begin_ms)
        lasted = (run.end_ms if run.end_ms >= 0 else history.end_ms) - start
        if run.how not in ENDED:
            others = seen.setdefault((job_id, group), {})
            others[task] = max(others.get(task, 0), lasted)
            continue
        ended.setdefault((job_id, group), {})[task] = lasted
        job = history.job(job_id)
        if job is not None and not run.resident and group < len(job.groups):
            of_kind.setdefault(job.kind, []).append(lasted)
            if run.how == "finished" and job.groups[group].duration_ms:
                ratios.append(lasted / job.groups[group].duration_ms)
    return Durations(
        max(1, history.end_ms - history.begin_ms), ended, seen, median(ratios) if ratios else 1.0,
        {kind: median(values) for kind, values in of_kind.items()},
    )  # fmt: skip
