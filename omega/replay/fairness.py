"""Fairness among users: how long the jobs of each one took, and how equal that is."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.replay.columns import Columns, State
from omega.replay.machines import SECOND
from omega.replay.waits import Floats, Times

NO_USER = "(none)"
"""Name of the user of jobs that name none."""


@dataclass(frozen=True, slots=True)
class OfUser:
    """The jobs of one user that arrived. Means are over its jobs that have the value; None without one."""

    user: str
    jobs: int
    finished: int
    tasks: int
    share: float
    """Part of the amount × time that arrived tasks held, in the dimension of which they held the largest part."""
    wait_mean: float | None
    slowdown_mean: float | None


@dataclass(frozen=True, slots=True)
class Fairness:
    """Users, those with the most jobs first. `jain` is None without a finished job."""

    users: list[OfUser]
    jain: float | None
    """Jain's index of the users' mean bounded slowdowns: 1 if all are equal, 1/n if one of n has it all."""


def jain_index(values: Floats) -> float | None:
    """Return (Σx)² ÷ (n · Σx²), the index of Jain, Chiu and Hawe (DEC-TR-301, 1984); None without values."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else None


def fairness_of(columns: Columns, times: Times) -> Fairness:
    """Return the table of users and the index of a run."""
    jobs = columns.jobs
    names = [str(each.job.spec.get("user") or NO_USER) for each in columns.records.jobs]
    known, user = np.unique(np.array(names, dtype=str), return_inverse=True)
    user = user.reshape(-1)
    arrived = ~jobs.resident & (jobs.state != State.ABSENT)
    of_user = np.zeros((len(known), len(columns.workload.dimensions)))
    for block in columns.blocks():
        held = block.need * ((block.until - block.started) / SECOND)[:, None]
        held[jobs.resident[block.job]] = 0.0
        for d in range(held.shape[1]):
            of_user[:, d] += np.bincount(user[block.job], held[:, d], minlength=len(known))
    whole = of_user.sum(axis=0)
    share = np.divide(of_user, whole, out=np.zeros_like(of_user), where=whole > 0).max(axis=1, initial=0.0)

    def count(which: NDArray[Any]) -> Floats:
        return np.bincount(user, which.astype(np.float64), minlength=len(known)).astype(np.float64)

    def mean(values: Floats) -> Floats:
        has = ~np.isnan(values)
        sums, numbers = count(np.where(has, values, 0.0)), count(has)
        return np.where(numbers > 0, sums / np.maximum(numbers, 1), np.nan)

    submitted, finished = count(arrived), count(arrived & (jobs.state == State.FINISHED))
    tasks, wait, slowdown = count(np.where(arrived, jobs.tasks, 0)), mean(times.wait), mean(times.slowdown)
    order = [int(i) for i in np.lexsort((np.arange(len(known)), -submitted)) if submitted[i]]
    users = [
        OfUser(
            str(known[i]), int(submitted[i]), int(finished[i]), int(tasks[i]), float(share[i]), _known(wait[i]),
            _known(slowdown[i]),
        )
        for i in order
    ]  # fmt: skip
    return Fairness(users, jain_index(slowdown[~np.isnan(slowdown)]))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
