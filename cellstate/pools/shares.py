"""The fair shares that schedulers publish: an epoch, its pools and leaves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import NamedTuple

from omega.cellstate.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShare:
    """A pool in an epoch. Shares by resource, in the order of the cell's resources, as parts of the tree's totals."""

    name: str
    parent: str
    tree: str
    weight: float
    fair_share: tuple[float, ...]
    demand: tuple[float, ...]
    usage: tuple[float, ...]
    guarantee: tuple[float, ...]
    """The strong guarantee after inference and adjustment."""
    integral: tuple[float, ...]
    limits: tuple[float, ...]
    promised: tuple[float, ...]
    estimated: tuple[float, ...]
    satisfaction: float
    """Usage ÷ fair share of the pool itself (docs/pool-rules.md, rule 8); infinite without a share."""
    volume: tuple[float, ...] = ()
    """Accumulated volume of an integral guarantee, in smallest units × seconds."""
    last_share: float = 0.0
    """The charge of the next epoch to the volume: the largest component of `integral`."""
    ephemeral: bool = False
    decayed_usage: float = 0.0
    """What the pool used before, as a part of the totals, by the half-life of its tree: its weight depends on it."""
    least_job: str = ""
    """Id of the least satisfied job of the pool or of a pool below it; empty without jobs."""
    least_satisfaction: float = inf


class Leaf(NamedTuple):
    """Equal jobs of a pool in an epoch: demand (usage included) and usage of each, in smallest units.

    `start` orders them, by precedence, then by submission; `pending` counts unplaced tasks. `most`: amounts that each
    could hold at once if nothing else ran; empty: its demand. `weight`: of each, among the jobs of its pool.
    `least`: the part of its demand below which a gang with a minimum does not run.
    """

    pool: str
    demand: Resources
    usage: Resources
    gang: bool
    start: int
    pending: int
    jobs: list[str]
    most: Resources = ()
    weight: float = 1.0
    least: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Fair shares, computed from the cell at `version` and published under `number` (semantics 34).

    `at_ms` is the server's time; `pools_version` the version of the pools that it was computed with; `totals` the
    amounts of each tree's machines that are up, by its name; `pools` the shares by pool, with those of ephemeral pools
    and, under ``TREE/<Root>``, of the roots; `leaf_shares` those of each job of a leaf, by tree, in the order of
    `leaves`. The rest is what it was computed from: leaves by tree, volume and last share of integral guarantees
    before, and the seconds since the epoch before (None: there was none). `published` is the cell's version right after
    the publication, `took_ms` the processor time that computing them took.
    """

    number: int
    version: int
    pools_version: int
    at_ms: int
    by: str
    totals: Mapping[str, Resources]
    pools: Mapping[str, PoolShare]
    leaf_shares: Mapping[str, Sequence[tuple[float, ...]]] = field(default_factory=dict)
    leaves: Mapping[str, Sequence[Leaf]] = field(default_factory=dict)
    before: Mapping[str, tuple[Sequence[float], float]] = field(default_factory=dict)
    seconds: float | None = None
    took_ms: int = 0
    published: int = 0

    @cached_property
    def jobs(self) -> dict[str, tuple[float, ...]]:
        """The fair share of every job that held or wanted something, by its id."""
        return {
            job: share
            for tree, leaves in self.leaves.items()
            for leaf, share in zip(leaves, self.leaf_shares[tree], strict=True)
            for job in leaf.jobs
        }
