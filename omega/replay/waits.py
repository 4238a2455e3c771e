"""Wait, response and bounded slowdown of jobs and tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.replay.columns import Columns, Jobs, State
from omega.replay.machines import SECOND

THRESHOLD_SECONDS = 10.0
"""Run times below this one count as long as it in the bounded slowdown."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Times:
    """Times of jobs in seconds, an entry for each; not a number where a job has none (residents, unfinished jobs)."""

    wait: Floats
    """Submission to the start of the first task."""
    first_attempt: Floats
    """Submission to the first attempt of a scheduler: the wait of Omega §4."""
    response: Floats
    """Submission to the end of the last task."""
    run: Floats
    """Start of the first task to the end of the last one."""
    slowdown: Floats
    """Bounded slowdown."""


def bounded_slowdown(wait: Floats, run: Floats, threshold: float = THRESHOLD_SECONDS) -> Floats:
    """Return max(1, (wait + run) ÷ max(run, threshold)), times in seconds.

    As Feitelson et al. define it (Theory and Practice in Parallel Job Scheduling, JSSPP 1997).
    """
    return np.maximum(1.0, (wait + run) / np.maximum(run, threshold))


def times_of(columns: Columns) -> Times:
    """Return the times of every job."""
    jobs = columns.jobs
    arrived = ~jobs.resident & (jobs.state != State.ABSENT)
    wait = _between(jobs.submitted, jobs.first_start, arrived)
    run = _between(jobs.first_start, jobs.end, arrived)
    tried = _between(jobs.submitted, columns.records.first_attempt, arrived)
    response = _between(jobs.submitted, jobs.end, arrived)
    return Times(wait=wait, first_attempt=tried, response=response, run=run, slowdown=bounded_slowdown(wait, run))


def _between(first: NDArray[np.int64], then: NDArray[np.int64], valid: NDArray[np.bool_]) -> Floats:
    known = valid & (first >= 0) & (then >= 0)
    return np.where(known, (then - first) / SECOND, np.nan)


def spread(values: Floats) -> dict[str, Any]:
    """Return number, mean, median, 90th and 99th percentile and maximum of the values that are numbers."""
    known = values[~np.isnan(values)]
    if not len(known):
        return {"jobs": 0, "mean": None, "median": None, "p90": None, "p99": None, "max": None}
    median, p90, p99 = (float(each) for each in np.percentile(known, (50, 90, 99)))
    return {
        "jobs": len(known), "mean": float(known.mean()), "median": median, "p90": p90, "p99": p99,
        "max": float(known.max()),
    }  # fmt: skip


def by_kind(columns: Columns, times: Times) -> dict[str, Mapping[str, Any]]:
    """Return counts and times of the arrived jobs of each kind, and of all."""
    jobs = columns.jobs
    kinds = np.array([each.job.kind for each in columns.records.jobs], dtype=object)
    arrived = ~jobs.resident & (jobs.state != State.ABSENT)
    found = dict[str, Mapping[str, Any]]()
    for kind in [*sorted(set(kinds[arrived])), "all"]:
        which = arrived if kind == "all" else arrived & (kinds == kind)
        found[kind] = {**_counts(jobs, which), **_spreads(times, which)}
    return found


def _counts(jobs: Jobs, which: NDArray[np.bool_]) -> dict[str, Any]:
    states = jobs.state[which]
    return {
        "jobs": int(which.sum()),
        "states": {state.name.lower(): int((states == state).sum()) for state in State if state is not State.ABSENT},
        "jobs_never_started": int((jobs.first_start[which] < 0).sum()),
        "tasks": int(jobs.tasks[which].sum()),
        "tasks_started": int(jobs.started[which].sum()),
        "tasks_finished": int(jobs.finished[which].sum()),
        "evictions": int(jobs.evicted[which].sum()),
        "losses": int(jobs.lost[which].sum()),
    }


def _spreads(times: Times, which: NDArray[np.bool_]) -> dict[str, Any]:
    return {
        "wait_s": spread(times.wait[which]),
        "first_attempt_s": spread(times.first_attempt[which]),
        "response_s": spread(times.response[which]),
        "bounded_slowdown": spread(times.slowdown[which]),
    }
