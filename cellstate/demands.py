"""What the jobs of a cell hold and want at one version: the input of fair shares."""

from typing import NamedTuple

from omega.cellstate.resources import Resources

Need = tuple[Resources, int, int]
"""A task group: the need of a task, unplaced tasks, placed tasks."""


class JobDemand(NamedTuple):
    """A live job. `pool` and `user` are "" where it names none; `waits`: it may not be placed now, so it wants
    nothing beyond what it holds.
    """

    id: str
    pool: str
    user: str
    precedence: int
    order: int
    gang: bool
    waits: bool
    groups: tuple[Need, ...]
