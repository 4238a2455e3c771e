"""The schedulers of Omega; ``pyproject.toml`` registers them by kind (schedulers/registry.py)."""

from random import Random

from omega.cellstate.constraints.grammar import prepare
from omega.schedulers.placement.first_fit import OwnPart
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sizing import RelativeSize

BATCH_JOBS = 32
"""Jobs per round trip of the batch preset (docs/decisions/0003): more would only raise conflicts."""


def batch(seed: str = "0") -> Scheduler:
    """Return a fast scheduler: first fit in its own part of the machines, several jobs per round trip."""
    return Scheduler("batch", placement=OwnPart(), jobs_per_call=BATCH_JOBS, follows_pools=True, rng=Random(seed))


def service(seed: str = "0") -> Scheduler:
    """Return a careful scheduler: constraints, failure domains, scored machines, one job at a time, preemption."""
    prepare()
    placement, preemption = ServicePlacement(), PrecedencePreemption()
    return Scheduler(
        "service", placement=placement, preemption=preemption, jobs_per_call=1, follows_pools=True, rng=Random(seed)
    )


def mapreduce(seed: str = "0") -> Scheduler:
    """Return a scheduler of elastic jobs: up to four times the requested workers while there is room (Omega §6)."""
    placement, sizing = OwnPart(), RelativeSize()
    return Scheduler(
        "mapreduce", placement=placement, sizing=sizing, jobs_per_call=1, follows_pools=True, rng=Random(seed)
    )
