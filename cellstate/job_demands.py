"""What live jobs hold and want: the input of fair shares (semantics 34)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from omega.cellstate.lanes import Lane
from omega.cellstate.resources import Resources

Need = tuple[Resources, int, int]
"""A task group: the need of a task, unplaced tasks, placed tasks."""


class JobDemand(NamedTuple):
    """A live job. `waits`: it may not be placed now, so it wants nothing beyond what it holds.

    `commands`: its tasks run commands. `spec`: its fields that the store does not read, if tasks of it may be placed.
    `optional`: positions of the groups that a gang does not have to cover. `most`: the amounts that it could hold at
    once if nothing else ran, where that is less than its demand.
    """

    id: str
    lane: Lane
    order: int
    gang: bool
    waits: bool
    groups: tuple[Need, ...]
    commands: bool = False
    spec: Mapping[str, Any] = {}
    optional: tuple[int, ...] = ()
    most: Resources = ()

    @property
    def asks(self) -> bool:
        """Whether tasks of it may be placed."""
        return not self.waits and any(unplaced for _, unplaced, _ in self.groups)
