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
    from omega import pools as pools, testing as testing
    from omega.cellstate.errors import (
        BadInput as BadInput,
        Duplicate as Duplicate,
        JobLost as JobLost,
        OmegaError as OmegaError,
        Overtaken as Overtaken,
        Refused as Refused,
        StoreError as StoreError,
    )
    from omega.cellstate.fairness import (
        Assertion as Assertion,
        PoolLoss as PoolLoss,
        Threshold as Threshold,
        is_below as is_below,
        is_legal as is_legal,
    )
    from omega.cellstate.model import (
        After as After,
        Gang as Gang,
        JobSpec as JobSpec,
        MachineSpec as MachineSpec,
        TaskGroup as TaskGroup,
    )
    from omega.cellstate.snapshot import Resident as Resident, Snapshot as Snapshot
    from omega.cellstate.transaction import (
        Claim as Claim,
        Detection as Detection,
        Mode as Mode,
        Outcome as Outcome,
        Transaction as Transaction,
    )
    from omega.cellstate.usage import Usage as Usage
    from omega.client.asynchronous import AsyncClient as AsyncClient
    from omega.client.client import Client as Client
    from omega.live.runners.containers import Docker as Docker, Podman as Podman
    from omega.live.runners.runner import Runner as Runner, RunnerCommand as RunnerCommand, RunnerTask as RunnerTask
    from omega.many_cells.policy import CellOffer as CellOffer, CellPolicy as CellPolicy, FitsFirst as FitsFirst
    from omega.schedulers.comparisons.file_pools import FairPools as FairPools, PoolSettings as PoolSettings
    from omega.schedulers.constrained import Constrained as Constrained
    from omega.schedulers.gates import Gate as Gate
    from omega.schedulers.instruments import Figures as Figures, Instrument as Instrument
    from omega.schedulers.job_fields import JobField as JobField
    from omega.schedulers.ordering.cell_pools import CellPools as CellPools
    from omega.schedulers.ordering.without_pools import (
        FairUsers as FairUsers,
        Fifo as Fifo,
        PrecedenceFifo as PrecedenceFifo,
        Rejoin as Rejoin,
        ShortestFirst as ShortestFirst,
    )
    from omega.schedulers.placement.delay import Delay as Delay, DelayReset as DelayReset, DelayRule as DelayRule
    from omega.schedulers.placement.first_fit import FirstFit as FirstFit, RandomFit as RandomFit
    from omega.schedulers.placement.service import BestFit as BestFit, ServicePlacement as ServicePlacement
    from omega.schedulers.policies import (
        NoPreemption as NoPreemption,
        Ordering as Ordering,
        Peers as Peers,
        Placement as Placement,
        Preemption as Preemption,
        Sizing as Sizing,
    )
    from omega.schedulers.preemption.precedence import PrecedencePreemption as PrecedencePreemption
    from omega.schedulers.preemption.victims import (
        Victim as Victim,
        with_victims as with_victims,
        without_needless as without_needless,
    )
    from omega.schedulers.retrying import RetryPolicy as RetryPolicy
    from omega.schedulers.scheduler import Scheduler as Scheduler
    from omega.schedulers.sizing import Phase as Phase, Profile as Profile, Totals as Totals
    from omega.schedulers.work import Work as Work, fitting as fitting
    from omega.trial import Trial as Trial, simulate as simulate
    from omega.workload.workload import Arrival as Arrival, Workload as Workload

_HOMES = {
    "omega.cellstate.errors": ("BadInput", "Duplicate", "JobLost", "OmegaError", "Overtaken", "Refused", "StoreError"),
    "omega.cellstate.fairness": ("Assertion", "PoolLoss", "Threshold", "is_below", "is_legal"),
    "omega.cellstate.model": ("After", "Gang", "JobSpec", "MachineSpec", "TaskGroup"),
    "omega.cellstate.transaction": ("Claim", "Detection", "Mode", "Outcome", "Transaction"),
    "omega.cellstate.usage": ("Usage",),
    "omega.cellstate.snapshot": ("Resident", "Snapshot"),
    "omega.client.asynchronous": ("AsyncClient",),
    "omega.client.client": ("Client",),
    "omega.live.runners.containers": ("Docker", "Podman"),
    "omega.live.runners.runner": ("Runner", "RunnerCommand", "RunnerTask"),
    "omega.many_cells.policy": ("CellOffer", "CellPolicy", "FitsFirst"),
    "omega.trial": ("Trial", "simulate"),
    "omega.workload.workload": ("Arrival", "Workload"),
    "omega.schedulers.instruments": ("Figures", "Instrument"),
    "omega.schedulers.gates": ("Gate",),
    "omega.schedulers.job_fields": ("JobField",),
    "omega.schedulers.comparisons.file_pools": ("FairPools", "PoolSettings"),
    "omega.schedulers.ordering.cell_pools": ("CellPools",),
    "omega.schedulers.ordering.without_pools": ("FairUsers", "Fifo", "PrecedenceFifo", "Rejoin", "ShortestFirst"),
    "omega.schedulers.retrying": ("RetryPolicy",),
    "omega.schedulers.constrained": ("Constrained",),
    "omega.schedulers.placement.delay": ("Delay", "DelayReset", "DelayRule"),
    "omega.schedulers.placement.first_fit": ("FirstFit", "RandomFit"),
    "omega.schedulers.placement.service": ("BestFit", "ServicePlacement"),
    "omega.schedulers.policies": ("NoPreemption", "Ordering", "Peers", "Placement", "Preemption", "Sizing"),
    "omega.schedulers.preemption.precedence": ("PrecedencePreemption",),
    "omega.schedulers.preemption.victims": ("Victim", "with_victims", "without_needless"),
    "omega.schedulers.scheduler": ("Scheduler",),
    "omega.schedulers.sizing": ("Phase", "Profile", "Totals"),
    "omega.schedulers.work": ("Work", "fitting"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = ("pools", "testing")
"""Packages of names of their own: the calculator of shares, and the contracts of policies, which need pytest."""
if not TYPE_CHECKING:  # checkers of types take the names that are imported under themselves, and refuse others
    __all__ = [*_HOME_OF, *_PACKAGES]  # noqa: PLE0604 - they are strings

    def __getattr__(name: str) -> object:
        """Import a name when it is first used."""
        if name in _PACKAGES:
            return import_module(f"omega.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'omega' has no attribute {name!r}")
        found: object = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_PACKAGES})
