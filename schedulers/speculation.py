"""When a running task gets a copy: by a fixed time, and by comparison with its siblings (semantics 41).

Both rules read elapsed times alone. The store keeps the budgets, and that a task has one copy at most.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, TypeVar

from omega.cellstate.errors import BadInput

Task = TypeVar("Task")
FIELD = "speculation"
"""The field of a job's specification: ``{after, factor, quantile, finished, copies}``, `after` in seconds."""
SHARE = 0.1
"""Copies of a job at once, as a share of its tasks, unless it states a number; one at least."""
CELL_SHARE, CELL_LEAST = 0.1, 8
"""Copies of a cell at once, as a share of its machines, and the least such number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """The rules of a job.

    `after`: a task that has run so long (seconds) gets a copy; None: no such rule. Once the part `finished` of a group
    has finished, so does a task that has run `factor` times as long as the `quantile` of the finished ones.
    `copies`: maximum number of copies of the job at once; 0: `SHARE` of its tasks.
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
        """Return the rules of a job by its specification; None when its tasks get no copies."""
        said = spec.get(FIELD)
        return cls(**said) if isinstance(said, Mapping) else None

    def limit(self, finished: Sequence[float], total: int) -> float | None:
        """Return how long a task may run (seconds), given how long finished ones of its group ran; None: no limit."""
        limits = [] if self.after is None else [self.after]
        if finished and len(finished) >= self.finished * total:
            ordered = sorted(finished)
            limits.append(self.factor * ordered[ceil(self.quantile * len(ordered)) - 1])
        return min(limits, default=None)

    def slow(
        self, running: Iterable[tuple[float, Task]], finished: Sequence[float], total: int
    ) -> list[tuple[float, Task]]:
        """Return those of some running tasks, with their elapsed times, that are to get a copy, the slowest first."""
        most = self.limit(finished, total)
        found = [each for each in running if most is not None and each[0] > most]
        return sorted(found, key=lambda each: -each[0])

    def budget(self, total: int) -> int:
        """Return the maximum number of copies of a job of so many tasks at once."""
        return self.copies or max(1, int(SHARE * total))


def cell_budget(machines: int) -> int:
    """Return the maximum number of copies at once in a cell of so many machines."""
    return max(CELL_LEAST, int(CELL_SHARE * machines))
