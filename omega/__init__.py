"""Layer 2: workloads, simulation, live cells; and the public names for authors of schedulers.

    import omega

    class Coldest(omega.Placement):
        def place(self, work, snapshot, rng): ...

    cold = omega.Scheduler("cold", placement=Coldest())
    omega.simulate(cold, days=1).table()

Every name is imported when it is first used, so that `import omega` costs nothing.
"""

from importlib import import_module

TYPE_CHECKING = False  # as checkers of types read it; importing typing would take longer than all of this
if TYPE_CHECKING:
    from cellstate.errors import BadInput, Duplicate, OmegaError, Overtaken, Refused, StoreError
    from cellstate.model import After, Gang, JobSpec, MachineSpec, TaskGroup
    from cellstate.residents import Resident
    from cellstate.snapshot import Snapshot
    from cellstate.transaction import Claim, Detection, Mode, Outcome, Transaction
    from cellstate.usage import Usage
    from omega import testing
    from omega.client.asynchronous import AsyncClient
    from omega.client.client import Client
    from omega.trial import Trial, simulate
    from omega.workload.workload import Arrival, Workload
    from schedulers.instruments import Figures, Instrument
    from schedulers.ordering.fair import WeightedFair
    from schedulers.ordering.fair_pools import FairPools, PoolSettings
    from schedulers.ordering.fifo import Fifo
    from schedulers.ordering.precedence import PrecedenceFifo
    from schedulers.ordering.rejoin import Rejoin
    from schedulers.ordering.shortest import ShortestFirst
    from schedulers.placement.constrained import Constrained
    from schedulers.placement.first_fit import RandomFirstFit as FirstFit
    from schedulers.placement.random_fit import RandomFit
    from schedulers.placement.scored import BestFit
    from schedulers.placement.service import Service
    from schedulers.policies import Ordering, Placement, Preemption, Sizing
    from schedulers.preemption.none import NoPreemption
    from schedulers.preemption.precedence import Precedence
    from schedulers.retry_policy import RetryPolicy
    from schedulers.scheduler import Scheduler
    from schedulers.work import Work

__all__ = [
    "After",
    "Arrival",
    "AsyncClient",
    "BadInput",
    "BestFit",
    "Claim",
    "Client",
    "Constrained",
    "Detection",
    "Duplicate",
    "FairPools",
    "Fifo",
    "Figures",
    "FirstFit",
    "Gang",
    "Instrument",
    "JobSpec",
    "MachineSpec",
    "Mode",
    "NoPreemption",
    "OmegaError",
    "Ordering",
    "Outcome",
    "Overtaken",
    "Placement",
    "PoolSettings",
    "Precedence",
    "PrecedenceFifo",
    "Preemption",
    "RandomFit",
    "Refused",
    "Rejoin",
    "Resident",
    "RetryPolicy",
    "Scheduler",
    "Service",
    "ShortestFirst",
    "Sizing",
    "Snapshot",
    "StoreError",
    "TaskGroup",
    "Transaction",
    "Trial",
    "Usage",
    "WeightedFair",
    "Work",
    "Workload",
    "simulate",
    "testing",
]

_HOMES = {
    "cellstate.errors": ("BadInput", "Duplicate", "OmegaError", "Overtaken", "Refused", "StoreError"),
    "cellstate.model": ("After", "Gang", "JobSpec", "MachineSpec", "TaskGroup"),
    "cellstate.residents": ("Resident",),
    "cellstate.transaction": ("Claim", "Detection", "Mode", "Outcome", "Transaction"),
    "cellstate.usage": ("Usage",),
    "cellstate.snapshot": ("Snapshot",),
    "omega.client.asynchronous": ("AsyncClient",),
    "omega.client.client": ("Client",),
    "omega.trial": ("Trial", "simulate"),
    "omega.workload.workload": ("Arrival", "Workload"),
    "schedulers.instruments": ("Figures", "Instrument"),
    "schedulers.ordering.fair": ("WeightedFair",),
    "schedulers.ordering.fair_pools": ("FairPools", "PoolSettings"),
    "schedulers.ordering.fifo": ("Fifo",),
    "schedulers.ordering.precedence": ("PrecedenceFifo",),
    "schedulers.ordering.rejoin": ("Rejoin",),
    "schedulers.ordering.shortest": ("ShortestFirst",),
    "schedulers.retry_policy": ("RetryPolicy",),
    "schedulers.placement.constrained": ("Constrained",),
    "schedulers.placement.random_fit": ("RandomFit",),
    "schedulers.placement.scored": ("BestFit",),
    "schedulers.placement.service": ("Service",),
    "schedulers.policies": ("Ordering", "Placement", "Preemption", "Sizing"),
    "schedulers.preemption.none": ("NoPreemption",),
    "schedulers.preemption.precedence": ("Precedence",),
    "schedulers.scheduler": ("Scheduler",),
    "schedulers.work": ("Work",),
}
_PLACES = {
    **{name: (home, name) for home, names in _HOMES.items() for name in names},
    "FirstFit": ("schedulers.placement.first_fit", "RandomFirstFit"),
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used."""
    if name == "testing":  # a package of its own, which needs pytest
        return import_module("omega.testing")
    if name not in _PLACES:
        raise AttributeError(f"module 'omega' has no attribute {name!r}")
    home, own = _PLACES[name]
    found: object = getattr(import_module(home), own)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
