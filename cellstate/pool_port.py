"""The part of the port of a cell that is about pools (docs/pools.md)."""

from collections.abc import Mapping
from typing import Protocol

from cellstate.pool_records import PoolUse
from cellstate.pools import Pools


class PoolPort(Protocol):
    """What operators and schedulers may ask of a cell's pools."""

    def set_pools(self, pools: Pools, check: int, at_ms: int, by: str) -> Pools:
        """Replace the pools of the cell; returns them with their numbers and their version.

        `check` is the version of the pools that the caller read: Overtaken when somebody changed them since. Refused
        when a pool with live jobs would be removed or get pools below it; BadInput for pools that break a rule of
        pool_rules.py. A pool that moves takes its running tasks along: what it holds counts below its new ancestors
        at once, and one whose limit is exceeded takes nothing until it is met again. Equal pools change nothing.
        """

    def pools(self) -> Pools:
        """The pools that operators configured."""

    def pool_use(self) -> Mapping[str, PoolUse]:
        """What the pools that carry limits hold, by name."""
