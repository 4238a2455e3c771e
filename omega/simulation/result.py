"""Results of a run: the figures of Omega §4, by kind of job and by scheduler."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from omega.cellstate.model import JobSpec
from omega.simulation.drive import SimulatedScheduler
from omega.simulation.engine import SECOND
from omega.simulation.meter import DAY, Day, Meter
from omega.simulation.settings import KINDS, Settings
from omega.simulation.world import World
from omega.workload.workload import Workload

if TYPE_CHECKING:
    from omega.simulation.pool_history import PoolHistory
    from omega.simulation.records import TaskRecords


@dataclass(slots=True)
class Tally:
    """Counts of arrivals."""

    jobs: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    resident_tasks: int = 0
    residents_placed: int = 0

    def waits(self, kind: str, tasks: int) -> None:
        """Count a resident some tasks of which wait when the run begins."""
        self.jobs[kind] += 1
        self.tasks[kind] += tasks

    def submit(self, specs: Sequence[JobSpec]) -> None:
        """Count arriving jobs."""
        jobs: dict[str, list[int]] = {spec.kind: [] for spec in specs}
        for spec in specs:
            groups = spec.groups
            jobs[spec.kind].append(groups[0].count if len(groups) == 1 else spec.total)
        for kind, tasks in jobs.items():
            self.jobs[kind] += len(tasks)
            self.tasks[kind] += sum(tasks)


@dataclass(frozen=True, slots=True)
class Median:
    """The median of daily values, and their median absolute deviation."""

    median: float
    mad: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Median":
        """Return both statistics; 0 for no values."""
        if not values:
            return cls(0.0, 0.0)
        middle = float(np.median(values))
        return cls(middle, float(np.median(np.abs(np.array(values) - middle))))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfKind:
    """The figures of one kind of job; waits in seconds.

    Busyness is the mean over the schedulers that serve the kind: `useful` led to a transaction
    without a conflict, `wasted` to one with, `no_conflict` is the time of first attempts only.
    """

    jobs_submitted: int
    jobs_scheduled: int
    jobs_abandoned: int
    tasks_submitted: int
    tasks_scheduled: int
    wait_mean: float
    wait_p90: float
    busyness: Median
    useful: Median
    wasted: Median
    no_conflict: Median
    conflict_fraction: Median
    attempts: int
    no_fit_attempts: int
    tasks_evicted: int = 0
    """Tasks of the kind that were evicted, for jobs of any kind."""

    def as_json(self) -> dict[str, Any]:
        """Return a flat document with stable names."""
        flat: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                name = name if name in ("busyness", "conflict_fraction") else f"busyness_{name}"  # noqa: PLW2901 - shown so
                flat[name if name == "conflict_fraction" else f"{name}_median"] = value["median"]
                flat[f"{name}_mad"] = value["mad"]
            else:
                flat[name] = value
        return flat


@dataclass(frozen=True, slots=True)
class Result:
    """A run and its figures. `digest` is equal exactly for identical histories, on any store."""

    settings: Settings
    kinds: dict[str, OfKind]
    utilisation: dict[str, float]
    residents: int
    residents_placed: int
    events: int
    digest: str
    schedulers: dict[str, dict[str, Any]]
    pools: "PoolHistory | None" = None
    """How the pools stood, in a cell with pools."""
    records: "TaskRecords | None" = None
    """What happened to every task, of a run with records."""

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``omega sim run --json``, without the wall time."""
        kinds = self.kinds.values()
        return {
            "architecture": self.settings.architecture,
            "days": self.settings.days,
            "seed": self.settings.seed,
            "jobs": {
                "submitted": sum(kind.jobs_submitted for kind in kinds),
                "scheduled": sum(kind.jobs_scheduled for kind in kinds),
                "abandoned": sum(kind.jobs_abandoned for kind in kinds),
            },
            "tasks": {
                "submitted": sum(kind.tasks_submitted for kind in kinds),
                "scheduled": sum(kind.tasks_scheduled for kind in kinds),
                "resident": self.residents_placed,
            },
            **{name: kind.as_json() for name, kind in self.kinds.items()},
            "utilisation": self.utilisation,
            "schedulers": self.schedulers,
            **({} if self.pools is None else {"pools": self.pools.as_json()}),
            "events": self.events,
            "digest": self.digest,
            "settings": _settings(self.settings),
        }


def summed_up(
    workload: Workload, settings: Settings, world: World, tally: Tally,
    simulated_schedulers: Sequence[SimulatedScheduler], kinds: Sequence[str] = KINDS,
) -> Result:  # fmt: skip
    """Summarize the schedulers' meters by kind of job."""
    capacity = workload.capacity
    used = [amount / (has * world.horizon) if has else 0.0 for amount, has in zip(world.used, capacity, strict=True)]
    lengths = _lengths(world.horizon / SECOND)
    return Result(
        settings,
        {
            kind: _of_kind(
                kind, tally, [d for d in simulated_schedulers if _serves(d, kind)], lengths, world.evicted[kind]
            )
            for kind in kinds
        },
        dict(zip(workload.dimensions.names, used, strict=True)),
        tally.resident_tasks,
        tally.residents_placed,
        world.engine.events,
        world.digest.hexdigest(),
        {simulated.name: _of_scheduler(simulated, lengths) for simulated in simulated_schedulers},
    )


def _serves(simulated: SimulatedScheduler, kind: str) -> bool:
    return simulated.name.partition("/")[0] in (kind, "monolithic")


def _lengths(seconds: float) -> list[float]:
    """Return the lengths of a run's days; the last may be partial."""
    whole, rest = divmod(seconds, DAY)
    return [DAY] * int(whole) + ([rest] if rest > 0 else [])


def _of_kind(
    kind: str, tally: Tally, simulated_schedulers: Sequence[SimulatedScheduler], lengths: Sequence[float], evicted: int
) -> OfKind:
    meters = [simulated.meter for simulated in simulated_schedulers]
    waits = np.array([wait for meter in meters for wait in meter.waits[kind]])
    return OfKind(
        jobs_submitted=tally.jobs[kind],
        jobs_scheduled=sum(meter.scheduled[kind] for meter in meters),
        jobs_abandoned=sum(meter.given_up[kind] for meter in meters),
        tasks_submitted=tally.tasks[kind],
        tasks_scheduled=sum(meter.tasks[kind] for meter in meters),
        wait_mean=float(waits.mean()) if len(waits) else 0.0,
        wait_p90=float(np.percentile(waits, 90, method="lower")) if len(waits) else 0.0,
        busyness=_busyness(meters, lengths, lambda day: day.useful + day.wasted + day.fruitless),
        useful=_busyness(meters, lengths, lambda day: day.useful),
        wasted=_busyness(meters, lengths, lambda day: day.wasted),
        no_conflict=_busyness(meters, lengths, lambda day: day.first),
        conflict_fraction=_conflict_fraction(meters, lengths),
        attempts=sum(meter.attempts for meter in meters),
        no_fit_attempts=sum(meter.no_fits for meter in meters),
        tasks_evicted=evicted,
    )


def _busyness(meters: Sequence[Meter], lengths: Sequence[float], of: Callable[[Day], float]) -> Median:
    """Return daily means over schedulers of the share of the day given by `of`."""
    return Median.of([
        sum(of(meter.days[i]) for meter in meters) / len(meters) / length for i, length in enumerate(lengths)
    ])  # fmt: skip


def _conflict_fraction(meters: Sequence[Meter], lengths: Sequence[float]) -> Median:
    """Return daily conflicts ÷ transactions without one over all schedulers; skips days without either."""
    values = []
    for i in range(len(lengths)):
        accepted = sum(meter.days[i].accepted for meter in meters)
        conflicts = sum(meter.days[i].conflicts for meter in meters)
        if accepted or conflicts:
            values.append(conflicts / accepted if accepted else float(conflicts))
    return Median.of(values)


def _of_scheduler(simulated: SimulatedScheduler, lengths: Sequence[float]) -> dict[str, Any]:
    meters = [simulated.meter]
    waits = [wait for of_kind in simulated.meter.waits.values() for wait in of_kind]
    return {
        "wait_mean": sum(waits) / len(waits) if waits else 0.0,
        "busyness_median": _busyness(meters, lengths, lambda day: day.useful + day.wasted + day.fruitless).median,
        "busyness_wasted_median": _busyness(meters, lengths, lambda day: day.wasted).median,
        "conflict_fraction": _conflict_fraction(meters, lengths).median,
        "attempts": simulated.meter.attempts,
        "transactions": sum(day.accepted + day.conflicts for day in simulated.meter.days.values()),
        "conflicts": sum(day.conflicts for day in simulated.meter.days.values()),
        "jobs_scheduled": sum(simulated.meter.scheduled.values()),
        "jobs_abandoned": sum(simulated.meter.given_up.values()),
    }


def _settings(settings: Settings) -> dict[str, Any]:
    """Return settings as plain values; numbers of schedulers have the names of their options."""
    document: dict[str, Any] = asdict(settings)
    document |= {name: document[name].name.lower() for name in ("detection", "commit")}
    return {name.removesuffix("_schedulers"): value for name, value in document.items()}
