"""The part of the port of a cell that is about pools (docs/pools.md)."""

from collections.abc import Mapping
from typing import Protocol

from cellstate.pool_records import PoolUse
from cellstate.pools import Pools


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

    def pool_use(self) -> Mapping[str, PoolUse]:
        """Return the use of pools that carry limits, by name."""
