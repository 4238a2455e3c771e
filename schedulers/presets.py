"""The schedulers that come with Omega, by kind."""

from collections.abc import Callable
from random import Random

from cellstate.errors import BadInput
from schedulers.constraints.grammar import prepare
from schedulers.placement.constrained import Constrained
from schedulers.placement.first_fit import RandomFirstFit
from schedulers.placement.service import Service
from schedulers.scheduler import Scheduler

BATCH_JOBS = 16
"""Jobs per round trip of the batch preset (docs/decisions/0003): more only raises conflicts."""


def batch(seed: str = "0") -> Scheduler:
    """Fast and cheap: randomised first fit where constraints allow, several jobs per round trip."""
    return Scheduler("batch", placement=Constrained(RandomFirstFit()), batch=BATCH_JOBS, rng=Random(seed))


def service(seed: str = "0") -> Scheduler:
    """Slow and careful: constraints, failure domains, every machine given points, one job at a time."""
    prepare()
    return Scheduler("service", placement=Service(), batch=1, rng=Random(seed))


PRESETS: dict[str, Callable[[str], Scheduler]] = {"batch": batch, "service": service}


def preset(kind: str, seed: str = "0") -> Scheduler:
    """Return a scheduler of a kind; BadInput names the kinds there are."""
    if kind not in PRESETS:
        raise BadInput(f"scheduler kind {kind!r}: there is {', '.join(sorted(PRESETS))}")
    return PRESETS[kind](seed)
