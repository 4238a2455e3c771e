"""What happened to each task of a run, in columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.workload.workload import Arrival, Microseconds

RUNNING = -1
"""In `how`: the task still ran at the end of the run."""


@dataclass(frozen=True, eq=False, slots=True)
class TaskRecords:
    """Placements of tasks, one row each, in order of start.

    `jobs` are the residents and then the arrivals of the workload; `first_attempt` and `abandoned` have an entry for
    each of them: when its first attempt began (µs, -1: never; residents: 0), and when it was abandoned (µs, -1: not).
    A task that was evicted or lost and placed again has several rows. Times are microseconds since the beginning.
    """

    jobs: Sequence[Arrival]
    first_attempt: Microseconds
    abandoned: Microseconds
    job: NDArray[np.int32]
    """Place in `jobs`."""
    group: NDArray[np.int32]
    task: NDArray[np.int32]
    """Index of the task in its group."""
    machine: NDArray[np.int32]
    """Place in `Workload.machines`, or after them in order of arrival."""
    started: Microseconds
    ended: Microseconds
    """-1: it still ran at the end of the run."""
    how: NDArray[np.int8]
    """Value of `EndKind`, or `RUNNING`."""
