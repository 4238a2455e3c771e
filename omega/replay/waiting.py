"""Tasks that wait over time."""

import numpy as np

from omega.cellstate.task_ends import EndKind
from omega.replay.columns import Columns, State
from omega.replay.machines import SECOND
from omega.replay.steps import Steps, steps
from omega.workload.workload import JobEvent

AGAIN = (EndKind.EVICTED, EndKind.LOST, EndKind.RETRIED)
"""Ends after which a task is placed again."""


def waiting(columns: Columns) -> Steps:
    """Return how many tasks wait for a placement: submitted and not placed, or evicted or lost and not placed again.

    Tasks of abandoned and stopped jobs wait until then.
    """
    records, jobs = columns.records, columns.jobs
    again = np.isin(records.how, AGAIN)
    count = len(records.jobs)
    left = (
        jobs.tasks - np.bincount(records.job, minlength=count) + np.bincount(records.job[again], minlength=count)
    )  # at the end of the run
    stops = {
        each.job: round(each.at_seconds * SECOND)
        for each in columns.workload.events
        if isinstance(each, JobEvent) and each.what == "stop"
    }
    given_up = records.abandoned.copy()
    for place in np.flatnonzero(jobs.state == State.STOPPED).tolist():
        given_up[place] = stops.get(records.jobs[place].job.id, columns.horizon)
    ended = (given_up >= 0) & np.isin(jobs.state, (State.ABANDONED, State.STOPPED))
    at = np.concatenate((jobs.submitted, records.started, records.ended[again], given_up[ended]))
    ones = np.ones(len(records.started), np.int64)
    change = np.concatenate((jobs.tasks, -ones, ones[again], -left[ended]))
    return steps(at, change[:, None])
