"""The schedulers that come with Omega; ``pyproject.toml`` offers them by kind (schedulers/registry.py)."""

from random import Random

from schedulers.constraints.grammar import prepare
from schedulers.placement.constrained import Constrained
from schedulers.placement.first_fit import RandomFirstFit
from schedulers.placement.service import Service
from schedulers.preemption.precedence import Precedence
from schedulers.scheduler import Scheduler
from schedulers.sizing.relative_size import RelativeSize

BATCH_JOBS = 32
"""Jobs per round trip of the batch preset (docs/decisions/0003): past that only conflicts grow."""


def batch(seed: str = "0") -> Scheduler:
    """Fast and cheap: randomised first fit where constraints allow, several jobs per round trip."""
    return Scheduler("batch", placement=Constrained(RandomFirstFit()), batch=BATCH_JOBS, rng=Random(seed))


def service(seed: str = "0") -> Scheduler:
    """Slow and careful: constraints, failure domains, every machine given points, one job at a time, preemption."""
    prepare()
    return Scheduler("service", placement=Service(), preemption=Precedence(), batch=1, rng=Random(seed))


def mapreduce(seed: str = "0") -> Scheduler:
    """Jobs that can use any number of workers: up to four times those asked for while there is room (Omega §6)."""
    placement = Constrained(RandomFirstFit())
    return Scheduler("mapreduce", placement=placement, sizing=RelativeSize(), batch=1, rng=Random(seed))
