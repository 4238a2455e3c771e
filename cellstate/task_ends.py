"""Ends of tasks, as executors report them."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, overload


class EndKind(IntEnum):
    """The reason for which tasks end. Evicted and stopped ones stay on the machine as leaving until acknowledged."""

    FINISHED = 0
    FAILED = 1
    LOST = 2
    EVICTED = 3
    STOPPED = 4
    LEFT = 5
    """The acknowledgement: leaving tasks are physically gone."""
    RETRIED = 6
    """Failed, after all restarts on its machine, and to be placed again after a delay, on another machine if it can."""


UNPLACING = frozenset({EndKind.LOST, EndKind.RETRIED, EndKind.EVICTED})
"""Ends after which tasks are placed again; the age of the placement decides which losses and failures still count."""


class TaskEnd(NamedTuple):
    """Tasks of a run end; `tasks` are ranges of indices, ``*`` for all of them.

    With its `job`, the end of a task that was declared lost meanwhile still counts (semantics 27). `submitted_ms` is
    the time at which that job was submitted: after a store lost versions, another job may have its id, and another
    placement its placement id (16). 0 when it is not known.
    """

    machine: int
    placement: int
    how: EndKind
    tasks: str = "*"
    reason: str = ""
    job: str = ""
    submitted_ms: int = 0


class FinishedRuns(Sequence[TaskEnd]):
    """Ends of whole runs that finished, in columns: their machines and placement ids, as text as messages have them."""

    __slots__ = ("machines", "placements")

    def __init__(self, machines: list[str], placements: list[str]) -> None:
        """Create the ends of these placements, each on its machine."""
        self.machines, self.placements = machines, placements

    def __len__(self) -> int:
        return len(self.machines)

    @overload
    def __getitem__(self, index: int) -> TaskEnd: ...

    @overload
    def __getitem__(self, index: slice) -> "FinishedRuns": ...

    def __getitem__(self, index: int | slice) -> "TaskEnd | FinishedRuns":
        """Return an end, or some of them."""
        if isinstance(index, slice):
            return FinishedRuns(self.machines[index], self.placements[index])
        return TaskEnd(int(self.machines[index]), int(self.placements[index]), EndKind.FINISHED)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))
