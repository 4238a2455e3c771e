"""Tasks that wait over time."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.tasks import EndKind
from omega.replay.columns import Columns, State
from omega.replay.machines import SECOND
from omega.replay.steps import Steps, steps
from omega.workload.workload import JobEvent, Microseconds

AGAIN = (EndKind.EVICTED, EndKind.LOST, EndKind.RETRIED)
"""Ends after which a task is placed again."""


def waiting(columns: Columns) -> Steps:
    """Return how many tasks wait for a placement: submitted and not placed, or evicted or lost and not placed again.

    Tasks of abandoned and stopped jobs wait until then.
    """
    records, jobs = columns.records, columns.jobs
    count = len(records.jobs)
    left = jobs.tasks.copy()  # at the end of the run
    for block in columns.blocks():
        left -= np.bincount(block.job[~np.isin(block.how, AGAIN)], minlength=count)
    stops = {
        each.job: round(each.at_seconds * SECOND)
        for each in columns.workload.events
        if isinstance(each, JobEvent) and each.what == "stop"
    }
    given_up = records.abandoned.copy()
    for place in np.flatnonzero(jobs.state == State.STOPPED).tolist():
        given_up[place] = stops.get(records.jobs[place].job.id, columns.horizon)
    ended = (given_up >= 0) & np.isin(jobs.state, (State.ABANDONED, State.STOPPED))
    return steps(_changes(columns, given_up[ended], left[ended]), 1)


def _changes(
    columns: Columns, given_up: Microseconds, left: NDArray[np.int64]
) -> Iterator[tuple[Microseconds, NDArray[np.int64]]]:
    """Yield how many more tasks wait, and when."""
    yield columns.jobs.submitted, columns.jobs.tasks[:, None]
    yield given_up, -left[:, None]
    for block in columns.blocks():
        again = block.until[np.isin(block.how, AGAIN)]
        change = np.concatenate((np.full(len(block.started), -1), np.ones(len(again), np.int64)))
        yield np.concatenate((block.started, again)), change[:, None]
