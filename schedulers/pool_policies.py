"""The policies of a scheduler that follows the pools of its cell (docs/pools.md)."""

from omega.schedulers.ordering.fair_pools import FairPools
from omega.schedulers.policies import Ordering, Preemption
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.preemption.precedence import PrecedencePreemption


def between_pools(own: Preemption) -> tuple[Ordering, Preemption]:
    """Return the ordering and the preemption between pools; within a pool `own` evicts, unless it reads use itself."""
    within = own if own.evicts and not own.follows_use else PrecedencePreemption()
    return FairPools(), FairSharePreemption(within)
