"""When a running task gets a copy: by a fixed time, and by comparison with its siblings (semantics 41).

Siblings are compared by elapsed times, and by progress where tasks report it: a task that has run for `elapsed` seconds
and has done a part of its work takes about `elapsed` ÷ part (LATE: Zaharia et al., OSDI 2008, §4). The store keeps the
budgets, and that a task has one copy at most.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Generic, NamedTuple, TypeVar

from omega.cellstate.errors import BadInput
from omega.cellstate.model import TaskGroup

Task = TypeVar("Task")
FIELD = "speculation"
"""The field of a job's specification: ``{after, factor, quantile, finished, copies}``, `after` in seconds."""
SHARE = 0.1
"""Copies of a job at once, as a share of its tasks, unless it states a number; one at least."""
LAG_SECONDS, STEP = 15.0, 0.01
"""Maximum age of the progress that a task reported, and the step in which it is reported."""
LEAST_PROGRESS = 0.1
"""Progress from which on a running task is one of those that others are compared with."""
CELL_SHARE, CELL_LEAST = 0.1, 8
"""Copies of a cell at once, as a share of its machines, and the least such number."""


class Running(NamedTuple, Generic[Task]):
    """A running task: for how long it has run (seconds), and the part of its work that it reported as done, if any."""

    elapsed: float
    task: Task
    progress: float | None = None

    @property
    def at_least(self) -> float:
        """How long it takes at least (seconds): it may be a step, or `LAG_SECONDS`, ahead of its report."""
        if self.progress is None:
            return self.elapsed
        return max(self.elapsed, (self.elapsed - LAG_SECONDS) / (self.progress + STEP))

    @property
    def left(self) -> float:
        """How long it runs on at least (seconds); without a report as long as it has run."""
        return self.elapsed if self.progress is None else self.at_least - self.elapsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """The rules of a job.

    `after`: a task that has run so long (seconds) gets a copy; None: no such rule. Once the part `finished` of a group
    has finished or reports progress, so does a task that takes `factor` times as long as the `quantile` of these; but
    none that will end before a copy would. `copies`: maximum number of copies of the job at once; 0: `SHARE` of its
    tasks.
    """

    after: float | None = None
    factor: float = 2.0
    quantile: float = 0.75
    finished: float = 0.5
    copies: int = 0

    def __post_init__(self) -> None:
        """Refuse rules that would copy every task. Raises BadInput."""
        if self.after is not None and self.after <= 0:
            raise BadInput(f"speculation: after {self.after:g} s; want more than 0")
        if self.factor < 1 or not 0 < self.quantile <= 1 or not 0 < self.finished <= 1 or self.copies < 0:
            raise BadInput("speculation: factor is at least 1, quantile and finished are above 0 and at most 1")

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Speculation | None":
        """Return the rules of a job by its specification; None when its tasks get no copies, or it has no valid rules.

        A client may have stored anything: it stops no scheduler.
        """
        said = spec.get(FIELD)
        with suppress(TypeError, BadInput):
            return cls(**said) if isinstance(said, Mapping) else None
        return None

    def typical(self, running: Iterable[Running[Task]], finished: Sequence[float], total: int) -> float | None:
        """Return how long tasks of a group of `total` take (seconds); None while too few finished or report progress.

        `finished`: how long finished ones ran. Until these are enough, those that report progress count with how long
        they take at most.
        """
        known = list(finished)
        if len(known) < self.finished * total:
            parts = ((each.elapsed, each.progress or 0.0) for each in running)
            known += [elapsed / part for elapsed, part in parts if part >= LEAST_PROGRESS]
        if not known or len(known) < self.finished * total:
            return None
        return sorted(known)[ceil(self.quantile * len(known)) - 1]

    def slow(self, running: Sequence[Running[Task]], finished: Sequence[float], total: int) -> list[Running[Task]]:
        """Return those of the running tasks of a group that are to get a copy, first those that run on the longest."""
        typical = self.typical(running, finished, total)
        found = [each for each in running if self._is_slow(each, typical)]
        return sorted(found, key=lambda each: -each.left)

    def _is_slow(self, task: Running[Task], typical: float | None) -> bool:
        if self.after is not None and task.elapsed > self.after:
            return True
        if typical is None or task.at_least <= self.factor * typical:
            return False
        return task.progress is None or task.left > typical

    def budget(self, total: int) -> int:
        """Return the maximum number of copies of a job of so many tasks at once."""
        return self.copies or max(1, int(SHARE * total))


def cell_budget(machines: int) -> int:
    """Return the maximum number of copies at once in a cell of so many machines."""
    return max(CELL_LEAST, int(CELL_SHARE * machines))


def with_copies(groups: Iterable[TaskGroup]) -> tuple[TaskGroup, ...]:
    """Return the task groups of a job whose tasks may have copies: behind each one, a group for its copies."""
    return tuple(each for group in groups for each in (group, replace(group, count=0, once=False, copies=True)))
