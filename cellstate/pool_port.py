"""The part of the port of a cell that is about pools (docs/pools.md)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cellstate.demands import JobDemand
from cellstate.pool_records import PoolUse
from cellstate.pools import Epoch, Pools
from cellstate.transaction import Position

if TYPE_CHECKING:
    from cellstate.cell import Reply


class EpochMark(NamedTuple):
    """Number, server's time (ms) and version of publication of the epoch, 0 without one; versions of cell and pools,
    whether pools are configured, and the server's time now (ms).
    """

    number: int
    at_ms: int
    published: int
    version: int
    pools_version: int
    configured: bool
    now_ms: int


class PoolPort(Protocol):
    """Operations on a cell's pools, for operators and schedulers."""

    def set_pools(self, pools: Pools, check: int, at_ms: int, by: str) -> Pools:
        """Replace the pools of the cell; returns them with their numbers and their version.

        `check` is the version of the pools that the caller read: Overtaken when they were modified since. Refused when
        a pool with live jobs would be removed or get pools below it; BadInput for pools that break a rule of
        pool_rules.py. A pool that moves takes its running tasks along: its use counts below its new ancestors at once,
        and an ancestor above its limit takes nothing until the limit is met again. Equal pools change nothing.
        """

    def pools(self) -> Pools:
        """The pools that operators configured."""

    def demands(self, since: Position) -> "tuple[Reply, list[JobDemand]]":
        """What all live jobs hold and want, and what changed of the machines since a position: both at one version."""

    def epoch(self) -> Epoch | None:
        """The published fair shares, if there are any (semantics 34)."""

    def epoch_mark(self) -> EpochMark:
        """What tells whether there is a new epoch, or whether one is due."""

    def publish_epoch(self, epoch: Epoch, period_ms: int, at_ms: int) -> int:
        """Publish an epoch: the first of its number wins; returns the cell's version then, 0 when it is not taken.

        Nor is it within `period_ms` of the epoch before, or when the pools were changed since it was computed.
        """

    def pool_use(self) -> Mapping[str, PoolUse]:
        """Return the use of pools that carry limits, by name."""
