"""Losses of tasks, and failures after which they are placed again (semantics 26)."""

from typing import NamedTuple


class Retried(NamedTuple):
    """Failures of tasks after all restarts on a machine, and the last of these machines (-1: none)."""

    failures: int = 0
    machine: int = -1


class TaskLoss(NamedTuple):
    """Losses of tasks of a group (semantics 26): `tasks` were lost `times` times.

    `due_ms` is when they may be placed again, in ms of the server's clock, 0 once they are pending or run again;
    `placement` is the id that they were lost with, 0 when a later placement of them has ended since.
    """

    tasks: str
    times: int
    due_ms: int
    placement: int
    retried: Retried = Retried()

    @property
    def restarts(self) -> int:
        """How often each of the tasks was placed again after a loss or a failure, or will be."""
        return self.times + self.retried.failures
