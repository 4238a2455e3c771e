"""The policies of a scheduler that follows the pools of its cell (docs/pools.md)."""

from typing import Protocol

from omega.schedulers.ordering.fair_pools import FairPools
from omega.schedulers.policies import Ordering, Preemption
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.preemption.precedence import PrecedencePreemption


class FollowingPools(Protocol):
    """A scheduler that uses the policies of the cell's pools while there are some."""

    ordering: Ordering
    preemption: Preemption
    without_pools: tuple[Ordering, Preemption] | None
    """The policies of its own, while those of the cell's pools are in use."""


def between_pools(own: Preemption) -> tuple[Ordering, Preemption]:
    """Return the ordering and the preemption between pools; within a pool `own` evicts, unless it reads use itself."""
    within = own if own.evicts and not own.follows_use else PrecedencePreemption()
    return FairPools(), FairSharePreemption(within)


def follow_pools(scheduler: FollowingPools) -> None:
    """Use the policies of the cell's pools, or its own again; jobs in the queue stay in it."""
    own = scheduler.without_pools
    if own is None:
        scheduler.without_pools = scheduler.ordering, scheduler.preemption
        scheduler.ordering, scheduler.preemption = between_pools(scheduler.preemption)
    else:
        (scheduler.ordering, scheduler.preemption), scheduler.without_pools = own, None
