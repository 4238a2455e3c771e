"""A replay: a workload with its machines, events and residents, decided anew, and the metrics of that run."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from omega.cellstate.cell import Cell
from omega.replay.columns import Columns, columns_of
from omega.replay.fairness import Fairness, fairness_of
from omega.replay.fragmentation import fragmentation
from omega.replay.machines import SECOND
from omega.replay.utilisation import Utilisation, over_commit, utilisation_of
from omega.replay.waits import Times, by_kind, times_of
from omega.schedulers.scheduler import Scheduler
from omega.simulation import Result, Settings, Simulation
from omega.workload.resampled import drawn_independently
from omega.workload.workload import MachineEvent, Workload


@dataclass(frozen=True, eq=False)
class Replay:
    """A finished replay. Metrics are computed when they are read first."""

    result: Result
    columns: Columns

    @cached_property
    def times(self) -> Times:
        """Times of jobs."""
        return times_of(self.columns)

    @cached_property
    def utilisation(self) -> Utilisation:
        """Utilisation over time."""
        return utilisation_of(self.columns)

    @cached_property
    def fairness(self) -> Fairness:
        """Fairness among users."""
        return fairness_of(self.columns, self.times)

    def residents(self) -> dict[str, int]:
        """Return counts of resident tasks: all, placed at 0 s, and waiting then."""
        tasks, placed = self.result.residents, self.result.residents_placed
        return {"tasks": tasks, "placed": placed, "waiting": tasks - placed}

    def over_commit(self) -> dict[str, Any]:
        """Return how many machines held more than they had, by dimension and in any, and how much at most."""
        found, names = over_commit(self.columns), self.columns.workload.dimensions.names
        total = found[None]
        finite = total.largest if total.largest != float("inf") else None
        first = None
        if total.machines:
            first = {"machine": self.columns.machines.names[total.first], "at_s": total.at / SECOND}
        return {
            "machines": total.machines,
            "of": len(self.columns.machines.names),
            **{f"machines_{name}": found[name].machines for name in names},
            "largest_load": finite,
            "first": first,
        }

    def metrics(self) -> dict[str, Any]:
        """Return the standard metrics as plain values."""
        return {
            "jobs": by_kind(self.columns, self.times),
            "utilisation": {"mean": self.utilisation.mean(), "largest": self.utilisation.largest()},
            "fragmentation": fragmentation(self.columns),
            "fairness": {
                "jain_index": self.fairness.jain,
                "users": [asdict(each) for each in self.fairness.users],
            },
        }


def replay(
    workload: Workload,
    settings: Settings,
    schedulers: Sequence[Scheduler],
    *,
    cell: Cell | None = None,
    progress: Callable[[float], None] | None = None,
) -> Replay:
    """Run a workload; `cell` and `progress` as in Simulation. Raises BadInput."""
    result = Simulation(workload, settings, own=schedulers, cell=cell, progress=progress, records=True).run()
    assert result.records is not None  # noqa: S101 - they were requested
    return Replay(result, columns_of(workload, result.records, settings.horizon))


def without_failures(workload: Workload) -> tuple[Workload, int]:
    """Return the workload without the events of machines that go, and how many these are.

    Machines that come and change stay: in Omega §5 machines do not fail.
    """
    kept = [each for each in workload.events if not isinstance(each, MachineEvent) or each.up]
    return replace(workload, events=kept), len(workload.events) - len(kept)


def run_lightweight(workload: Workload, settings: Settings) -> Result:
    """Run the lightweight simulator (Omega §4, table 2) on a workload drawn from another one's distributions.

    Schedulers place tasks at random and ignore constraints.
    """
    drawn = drawn_independently(workload, settings.seed, settings.horizon / SECOND)
    return Simulation(drawn, settings).run()
