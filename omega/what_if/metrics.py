"""Metrics of what happened in a recording, and of a run of it, by one computation; the tolerance of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omega.recording.history import History
from omega.workload.workload import Workload

if TYPE_CHECKING:
    from omega.simulation.records import TaskRecords
    from omega.simulation.result import Result

SECOND = 1_000_000


class Tolerance(NamedTuple):
    """The larger one counts: an absolute bound, and a part of the value."""

    absolute: float
    relative: float

    def of(self, value: float) -> float:
        """Return the bound for a value."""
        return max(self.absolute, self.relative * abs(value))


TOLERANCES: Mapping[str, Tolerance] = {
    "wait_mean": Tolerance(0.25, 0.20), "wait_p90": Tolerance(0.5, 0.25), "response_mean": Tolerance(0.5, 0.10),
    "conflict_fraction": Tolerance(0.05, 0.25), "tasks_started": Tolerance(2, 0.02),
}  # fmt: skip
"""Committed before any run was compared with a recording (docs/decisions/0058); utilisation has `OF_UTILISATION`."""
OF_UTILISATION = Tolerance(0.03, 0.05)
UTILISATION = "utilisation_"


def tolerance(metric: str) -> Tolerance:
    """Return the tolerance of a metric."""
    return OF_UTILISATION if metric.startswith(UTILISATION) else TOLERANCES[metric]


class TaskSpan(NamedTuple):
    """A run of a task: its job, start and end (seconds since the beginning; the end at most the horizon), its need."""

    job: str
    start: float
    end: float
    need: tuple[int, ...]
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Metrics by name, and what pictures show: sorted waits of jobs, and use of the first resource over time."""

    metrics: Mapping[str, float]
    waits: Sequence[float]
    times: Sequence[float]
    use: Sequence[float]


POINTS = 200


def measure(workload: Workload, spans: Iterable[TaskSpan], horizon: float, conflicts: int, accepted: int) -> Measured:
    """Return the metrics of runs of tasks. A job waits from its arrival until its first task starts."""
    arrived = {each.job.id: each.at_seconds for each in workload.arrivals}
    totals = {each.job.id: each.job.total for each in workload.arrivals}
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    ends: dict[str, int] = {}
    held = np.zeros((POINTS, len(workload.dimensions)))
    edges = np.linspace(0.0, horizon, POINTS + 1)
    started = 0
    for span in spans:
        overlap = np.clip(np.minimum(span.end, edges[1:]) - np.maximum(span.start, edges[:-1]), 0.0, None)
        held += overlap[:, None] * np.array(span.need)
        if span.job in arrived:
            started += 1
            first[span.job] = min(first.get(span.job, span.start), span.start)
            if span.ended:
                ends[span.job] = ends.get(span.job, 0) + 1
                last[span.job] = max(last.get(span.job, 0.0), span.end)
    waits = sorted(max(0.0, at - arrived[job]) for job, at in first.items())
    responses = [last[job] - arrived[job] for job, count in ends.items() if count >= totals[job]]
    capacity = np.array(workload.capacity, dtype=float)
    use = held / (np.maximum(capacity, 1.0) * (horizon / POINTS))
    metrics = {
        "wait_mean": float(np.mean(waits)) if waits else 0.0,
        "wait_p90": float(np.percentile(waits, 90, method="lower")) if waits else 0.0,
        "response_mean": float(np.mean(responses)) if responses else 0.0,
        "conflict_fraction": conflicts / max(1, accepted),
        "tasks_started": float(started),
        **{f"{UTILISATION}{name}": float(use[:, d].mean()) for d, name in enumerate(workload.dimensions.names)},
    }
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    return Measured(metrics=metrics, waits=waits, times=middles, use=use[:, 0].tolist())


def happened(history: History, workload: Workload) -> Measured:
    """Return the metrics of what really happened."""
    horizon = (history.end_ms - history.begin_ms) / 1000
    spans = []
    for run in history.runs:
        job_id, group, _ = run.task
        job = history.job(job_id)
        if job is not None and group < len(job.groups):
            start = max(0, run.start_ms - history.begin_ms) / 1000
            end = horizon if run.end_ms < 0 else (run.end_ms - history.begin_ms) / 1000
            spans.append(TaskSpan(job_id, start, end, tuple(job.groups[group].need), run.how == "finished"))
    decisions = history.decisions.values()
    return measure(
        workload, spans, horizon, sum(each.conflicts for each in decisions), sum(each.accepted for each in decisions)
    )


def replayed(workload: Workload, result: "Result", horizon: float) -> Measured:
    """Return the metrics of a run with records."""
    records = result.records
    if records is None:
        raise ValueError("the run has no records")
    conflicts = sum(int(each["conflicts"]) for each in result.schedulers.values())
    transactions = sum(int(each["transactions"]) for each in result.schedulers.values())
    return measure(workload, _spans(records, horizon), horizon, conflicts, transactions - conflicts)


def _spans(records: "TaskRecords", horizon: float) -> Iterator[TaskSpan]:
    """Yield the runs of tasks one by one: all of them as objects would be larger than the records."""
    for job, group, start, end in zip(records.job, records.group, records.started, records.ended, strict=True):
        spec = records.jobs[job].job
        until = horizon if end < 0 else min(horizon, float(end) / SECOND)
        yield TaskSpan(spec.id, float(start) / SECOND, until, tuple(spec.groups[group].need), bool(end >= 0))
