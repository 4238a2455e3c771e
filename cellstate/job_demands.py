"""What live jobs hold and want: the input of fair shares (semantics 34)."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from omega.cellstate.fairness import leaf_of
from omega.cellstate.lanes import Lane
from omega.cellstate.replies import Reply
from omega.cellstate.resources import Resources

LEAST_WEIGHT, MOST_WEIGHT = 0.001, 100_000.0
"""Bounds of the weight of a job in its pool, and of a pool: fair shares are exact for ratios of up to 10^8."""
Need = tuple[Resources, int, int]
"""A task group: the need of a task, unplaced tasks, placed tasks."""


def weight_of(spec: Mapping[str, Any]) -> float:
    """Return the weight of a job among the jobs of its pool; 1 without a valid one."""
    weight = spec.get("weight")
    if weight is None or isinstance(weight, bool) or not isinstance(weight, int | float):
        return 1.0
    return float(weight) if LEAST_WEIGHT <= weight <= MOST_WEIGHT else 1.0


class JobDemand(NamedTuple):
    """A live job. `waits`: it may not be placed now, so it wants nothing beyond what it holds.

    `commands`: its tasks run commands. `spec`: its fields that the store does not read.
    `optional`: positions of the groups that a gang does not have to cover. `most`: the amounts that it could hold at
    once if nothing else ran, where that is less than its demand. `gang`: its tasks run all together; `least`: at least
    so many of them do (0: any number). `alike`: the number of equal jobs that it stands for, this one included.
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
    least: int = 0
    alike: int = 1

    @property
    def weight(self) -> float:
        """Its part among the jobs of its pool."""
        return weight_of(self.spec)


class Demands(NamedTuple):
    """What jobs hold and want, at one version, and the machines that changed since another one.

    `asked` is what lanes count of each leaf pool (`fairness.leaf_of`), as snapshots do: also of jobs that wait for a
    person or for other jobs, which are not among the `jobs` while they hold nothing.
    """

    reply: Reply
    jobs: list[JobDemand]
    asked: dict[str, Resources]


def asked_by_leaves(lanes: Iterable[tuple[Lane, Resources, Resources]]) -> dict[str, Resources]:
    """Return what leaf pools hold and want together, from what their lanes hold and want."""
    asked: dict[str, Resources] = {}
    for lane, held, wanted in lanes:
        leaf = leaf_of(lane.pool, lane.user)
        asked[leaf] = tuple(map(sum, zip(held, wanted, asked.get(leaf, (0,) * len(held)), strict=True)))
    return asked
