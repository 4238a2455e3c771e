"""Trying out a scheduler: it decides on part of a measured workload, beside those that come with Omega."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omega.cellstate.cell import Cell
from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec
from omega.experiments.configuration import Configuration
from omega.schedulers.scheduler import Scheduler
from omega.simulation import Result, Settings, Simulation
from omega.simulation.run import SPREAD, spread_of
from omega.workload.workload import Workload

HEADINGS = (
    "kind",
    "jobs",
    "scheduled",
    "abandoned",
    "tasks",
    "evicted",
    "wait mean",
    "wait p90",
    "busyness",
    "conflict fraction",
)


class Text(str):
    """Text that shows itself as it is where Python would show it in quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Trial:
    """Simulation result; `result` has every figure (omega.simulation.Result)."""

    scheduler: str
    workload: str
    result: Result

    def table(self) -> Text:
        """Return the figures of Omega §4 by kind of job: waits in seconds, busyness as a share of the time."""
        rows = [HEADINGS, *(_row(kind, self.result.kinds[kind].as_json()) for kind in self.result.kinds)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
        return Text("\n".join(_line(row, widths) for row in rows))

    def as_json(self) -> dict[str, Any]:
        """As ``omega sim run --json``."""
        return self.result.as_json()

    def __repr__(self) -> str:
        return f"{self.scheduler}, simulated for {self.result.settings.days:g} days\n{self.table()}"


def _row(kind: str, of: dict[str, Any]) -> tuple[str, ...]:
    jobs = (of["jobs_submitted"], of["jobs_scheduled"], of["jobs_abandoned"])
    counts = (*jobs, of["tasks_scheduled"], of["tasks_evicted"])
    waits = (f"{of['wait_mean']:.3f} s", f"{of['wait_p90']:.3f} s")
    return (
        kind,
        *(f"{count:,}" for count in counts),
        *waits,
        f"{of['busyness_median']:.4f}",
        f"{of['conflict_fraction']:.4f}",
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join((row[0].ljust(widths[0]), *cells))


def simulate(  # noqa: PLR0913 - all but two by name
    scheduler: Scheduler | Sequence[Scheduler],
    cluster: str | Workload = "C",
    days: float = 1.0,
    *,
    takes: str = "batch",
    share: float = 0.5,
    seed: int = 0,
    machines: int | None = None,
    architecture: str = "shared-state",
    batch_schedulers: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Trial:
    """Simulate a scheduler, or several of different kinds, beside one service and `batch_schedulers` batch schedulers.

    `cluster` is a cell of the Omega paper (A, B, C), the path of a file.csv, or a workload; `machines` makes a cell of
    the paper smaller. A scheduler with its own kind decides on the jobs of that kind; when the workload has none, on a
    `share` of the jobs of the kind it `takes` (several share that equally), selected by their ids alone, so that the
    rest is a fair comparison. One of the kind batch or service decides on all jobs of that kind.
    `architecture` is one of ``omega sim run``; a single scheduler can be the monolithic one. Decisions take the
    scheduler's own `t_job` and `t_task`, or the paper's when it has none, and are made one by one. The schedulers
    themselves are not changed.

    Raises BadInput when a value makes no sense.
    """
    settings = Settings(days=days, seed=seed, architecture=architecture, batch_schedulers=batch_schedulers)
    given = [scheduler] if isinstance(scheduler, Scheduler) else list(scheduler)
    if isinstance(cluster, str):
        workload = Configuration(workload=cluster, days=days, seed=seed, machines=machines).make_workload()
    else:
        workload = cluster
    result = run(given, workload, settings, takes=takes, share=share, progress=progress)
    return Trial(", ".join(each.kind for each in given), workload.about, result)


def run(
    given: Sequence[Scheduler],
    workload: Workload,
    settings: Settings,
    *,
    takes: str = "batch",
    share: float = 0.5,
    cell: Cell | None = None,
    progress: Callable[[float], None] | None = None,
) -> Result:
    """Simulate schedulers on a workload as `simulate` does; `cell` as in Simulation. Raises BadInput."""
    if not settings.architecture.startswith("monolithic"):
        there = {arrival.job.kind for arrival in workload.arrivals}
        wanting = [each.kind for each in given if each.kind not in ("batch", "service") and each.kind not in there]
        if wanting or any(each.kind == takes for each in given):
            workload = share_out(workload, wanting, takes, share)
    own = [replace(each.fresh("trial"), jobs_per_call=1) for each in given]
    for each in own:
        if not (each.t_job or each.t_task or each.paths):
            each.t_job, each.t_task = settings.decision_time("batch")
    return Simulation(workload, settings, own=own, cell=cell, progress=progress).run()


def share_out(workload: Workload, wanting: Sequence[str], takes: str, share: float) -> Workload:
    """Return the workload with a share of the jobs of kind `takes` divided among the kinds `wanting`.

    Raises BadInput for a share that is none, and for a kind without jobs.
    """
    if not 0 < share <= 1:
        raise BadInput(f"simulate: a share of {share:g}; want more than 0, at most 1")
    kinds = {arrival.job.kind for arrival in workload.arrivals}
    if takes not in kinds:
        raise BadInput(f"simulate: takes {takes!r}; there are jobs of {', '.join(sorted(kinds))}")

    def given(job: JobSpec) -> JobSpec:
        part = spread_of(job.id) / SPREAD
        mine = wanting and job.kind == takes and part < share
        return replace(job, kind=wanting[int(part / share * len(wanting))]) if mine else job

    return replace(workload, arrivals=[replace(each, job=given(each.job)) for each in workload.arrivals])
