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
    from omega import testing
    from omega.cellstate.errors import BadInput, Duplicate, OmegaError, Overtaken, Refused, StoreError
    from omega.cellstate.model import After, Gang, JobSpec, MachineSpec, TaskGroup
    from omega.cellstate.residents import Resident
    from omega.cellstate.snapshot import Snapshot
    from omega.cellstate.transaction import Claim, Detection, Mode, Outcome, Transaction
    from omega.cellstate.usage import Usage
    from omega.client.asynchronous import AsyncClient
    from omega.client.client import Client
    from omega.schedulers.instruments import Figures, Instrument
    from omega.schedulers.ordering.fair_pools import FairPools, PoolSettings
    from omega.schedulers.ordering.fair_users import FairUsers
    from omega.schedulers.ordering.fifo import Fifo
    from omega.schedulers.ordering.precedence import PrecedenceFifo
    from omega.schedulers.ordering.rejoin import Rejoin
    from omega.schedulers.ordering.shortest import ShortestFirst
    from omega.schedulers.placement.constrained import Constrained
    from omega.schedulers.placement.first_fit import FirstFit
    from omega.schedulers.placement.random_fit import RandomFit
    from omega.schedulers.placement.scored import BestFit
    from omega.schedulers.placement.service import ServicePlacement
    from omega.schedulers.policies import Ordering, Placement, Preemption, Sizing
    from omega.schedulers.preemption.none import NoPreemption
    from omega.schedulers.preemption.precedence import PrecedencePreemption
    from omega.schedulers.retrying import RetryPolicy
    from omega.schedulers.scheduler import Scheduler
    from omega.schedulers.work import Work
    from omega.trial import Trial, simulate
    from omega.workload.workload import Arrival, Workload

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
    "FairUsers",
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
    "PrecedenceFifo",
    "PrecedencePreemption",
    "Preemption",
    "RandomFit",
    "Refused",
    "Rejoin",
    "Resident",
    "RetryPolicy",
    "Scheduler",
    "ServicePlacement",
    "ShortestFirst",
    "Sizing",
    "Snapshot",
    "StoreError",
    "TaskGroup",
    "Transaction",
    "Trial",
    "Usage",
    "Work",
    "Workload",
    "simulate",
    "testing",
]

_HOMES = {
    "omega.cellstate.errors": ("BadInput", "Duplicate", "OmegaError", "Overtaken", "Refused", "StoreError"),
    "omega.cellstate.model": ("After", "Gang", "JobSpec", "MachineSpec", "TaskGroup"),
    "omega.cellstate.residents": ("Resident",),
    "omega.cellstate.transaction": ("Claim", "Detection", "Mode", "Outcome", "Transaction"),
    "omega.cellstate.usage": ("Usage",),
    "omega.cellstate.snapshot": ("Snapshot",),
    "omega.client.asynchronous": ("AsyncClient",),
    "omega.client.client": ("Client",),
    "omega.trial": ("Trial", "simulate"),
    "omega.workload.workload": ("Arrival", "Workload"),
    "omega.schedulers.instruments": ("Figures", "Instrument"),
    "omega.schedulers.ordering.fair_users": ("FairUsers",),
    "omega.schedulers.ordering.fair_pools": ("FairPools", "PoolSettings"),
    "omega.schedulers.ordering.fifo": ("Fifo",),
    "omega.schedulers.ordering.precedence": ("PrecedenceFifo",),
    "omega.schedulers.ordering.rejoin": ("Rejoin",),
    "omega.schedulers.ordering.shortest": ("ShortestFirst",),
    "omega.schedulers.retrying": ("RetryPolicy",),
    "omega.schedulers.placement.constrained": ("Constrained",),
    "omega.schedulers.placement.first_fit": ("FirstFit",),
    "omega.schedulers.placement.random_fit": ("RandomFit",),
    "omega.schedulers.placement.scored": ("BestFit",),
    "omega.schedulers.placement.service": ("ServicePlacement",),
    "omega.schedulers.policies": ("Ordering", "Placement", "Preemption", "Sizing"),
    "omega.schedulers.preemption.none": ("NoPreemption",),
    "omega.schedulers.preemption.precedence": ("PrecedencePreemption",),
    "omega.schedulers.scheduler": ("Scheduler",),
    "omega.schedulers.work": ("Work",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a name when it is first used."""
    if name == "testing":  # a package of its own, which needs pytest
        return import_module("omega.testing")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'omega' has no attribute {name!r}")
    found: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
