"""Figures 11 to 14 of the Omega paper from a trace: their simulations, and where batch schedulers saturate (§5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from omega.cellstate.errors import BadInput
from omega.experiments.bootstrap import Interval, saturating, sums_of
from omega.experiments.metrics import SATURATED_BUSYNESS, of
from omega.experiments.results import Record
from omega.experiments.trace_run import TraceRun
from omega.simulation.blocks import SUMS

Simulate = Callable[[Sequence[TraceRun]], Sequence[Record]]
BATCH_SCHEDULERS = (1, 3)
"""Batch schedulers compared by figure 13."""
SEARCHED = (0.5, 1.5)
"""Decision times between which saturation is searched for, as multiples of the expected one."""
HALVINGS = 6
MODES = (("fine", "incremental"), ("fine", "gang"), ("coarse", "incremental"), ("coarse", "gang"))
AT = 10.0
"""t_job(service) at which claims compare runs (seconds): the point that the paper describes (§5.1)."""
SLOW_TASK = 1.0
"""t_task(service) of a point of cell B that a claim is about (seconds); figure 12 does not draw it."""


@dataclass(frozen=True, slots=True)
class TraceForm:
    """Runs to start from, a coarse grid or a full one, and the number of seeds."""

    start: TraceRun
    quick: bool = False
    seeds: int = 1

    def each_seed(self, **values: object) -> list[TraceRun]:
        """Return the starting run with other values, once for each seed."""
        return [replace(self.start, **values, seed=self.start.seed + i) for i in range(self.seeds)]  # type: ignore[arg-type]

    def grid(self, coarse: Sequence[float], fine: Sequence[float]) -> Sequence[float]:
        """Return the values of an axis."""
        return coarse if self.quick else fine


@dataclass(frozen=True, slots=True)
class TraceFigure:
    """A figure: its title, its simulations, and the split of jobs that it uses unless another one is given."""

    number: int
    title: str
    runs: Callable[[TraceForm], list[TraceRun]]
    service: str = "priority"
    cell: str = "trace"


def _surface(form: TraceForm) -> list[TraceRun]:
    t_jobs = form.grid((0.1, 1.0, 10.0, 100.0), (0.01, 0.1, 1.0, 10.0, 100.0))
    t_tasks = form.grid((0.005, 0.07, 1.0), (0.001, 0.005, 0.03, 0.2, 1.0))
    return [
        run
        for t_job in t_jobs
        for t_task in t_tasks
        for run in form.each_seed(t_job_service=t_job, t_task_service=t_task)
    ]


def _decision_times(form: TraceForm) -> list[TraceRun]:
    t_jobs = form.grid((0.1, 1.0, AT, 100.0), (0.1, 0.3, 1.0, 3.0, AT, 30.0, 100.0))
    t_task = form.start.t_task if form.start.t_task_service is None else form.start.t_task_service
    line = [run for t_job in t_jobs for run in form.each_seed(t_job_service=t_job, t_task_service=t_task)]
    return [*line, *form.each_seed(t_job_service=0.1, t_task_service=SLOW_TASK)]


def _batch_schedulers(form: TraceForm) -> list[TraceRun]:
    shares = form.grid((0.25, 0.5, 0.75, 1.2), (0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.3))
    return [
        run
        for number in BATCH_SCHEDULERS
        for share in shares
        for run in form.each_seed(batch=number, t_job_batch=_rounded(share * expected(form.start, number)))
    ]


def _modes(form: TraceForm) -> list[TraceRun]:
    t_jobs = form.grid((1.0, AT, 100.0), (0.1, 1.0, AT, 30.0, 100.0))
    return [
        run
        for detection, commit in MODES
        for t_job in t_jobs
        for run in form.each_seed(t_job_service=t_job, detection=detection, commit=commit)
    ]


def lightweight(form: TraceForm) -> list[TraceRun]:
    """Return the runs of the lightweight simulator at the points of figure 14 with fine, incremental commits."""
    plain = {(run.t_job_service, run.seed): run for run in _modes(form)[: len(_modes(form)) // len(MODES)]}
    return [replace(run, simulator="lightweight") for run in plain.values()]


FIGURES = {
    each.number: each
    for each in (
        TraceFigure(11, "Service busyness over t_job and t_task", _surface),
        TraceFigure(12, "Interference over t_job(service), cell B", _decision_times, cell="B"),
        TraceFigure(13, "One and three batch schedulers", _batch_schedulers, service="class"),
        TraceFigure(14, "Gangs and coarse detection", _modes),
    )
}


def expected(run: TraceRun, schedulers: int) -> float:
    """Return the t_job(batch) at which so many batch schedulers have no time left: n/λ − t_task × mean tasks."""
    workload, seconds = run.workload()
    tasks = [each.job.total for each in workload.arrivals if each.job.kind == "batch"]
    if not tasks:
        raise BadInput(f"trace {run.trace}: no batch jobs arrive, and figure 13 is about them; use another trace")
    limit = schedulers * seconds / len(tasks) - run.t_task * sum(tasks) / len(tasks)
    if limit <= 0:
        raise BadInput(f"trace {run.trace}: {run.t_task:g} s a task saturate its batch schedulers without any t_job")
    return limit


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def load(record: Record, kind: str) -> float:
    """Return the decision time that arriving jobs need, as a share of the time that the schedulers of a kind have.

    Jobs without an attempt at the end need as much as the others took, retries included.
    """
    sums = sums_of([record], kind)
    jobs, begun, busy = (float(sums.blocks[:, SUMS.index(name)].sum()) for name in ("jobs", "begun", "busy"))
    left = max(0.0, jobs - begun) * (busy / begun if begun else 0.0)
    return (busy + left) / (len(sums.blocks) * sums.seconds * sums.schedulers)


def overloaded(record: Record, kind: str) -> bool:
    """Return whether the schedulers of a kind are saturated: they need more time than they have, or use all of it."""
    return load(record, kind) >= 1 or of(record, kind, "busyness") >= SATURATED_BUSYNESS


@dataclass(frozen=True, slots=True)
class Saturation:
    """The decision time at which batch schedulers saturate: the last that they sustain and the first that they do not.

    `low` is 0 and `high` infinite where none of the simulated times is one.
    """

    schedulers: int
    low: float
    high: float
    records: Sequence[Record]

    @property
    def seconds(self) -> float:
        """The middle of both; infinite when no simulated time saturates them."""
        return (self.low + self.high) / 2


def saturation(form: TraceForm, schedulers: int, simulate: Simulate, halvings: int = HALVINGS) -> Saturation:
    """Search for the saturation of so many batch schedulers by halving the interval around the expected one.

    Each step simulates one decision time. The first seed alone is simulated.
    """
    middle = expected(form.start, schedulers)
    low, high = (share * middle for share in SEARCHED)
    found, records = [0.0, float("inf")], list[Record]()

    def saturates(t_job: float) -> bool:
        record = simulate([replace(form.start, batch=schedulers, t_job_batch=_rounded(t_job))])[0]
        records.append(record)
        full = overloaded(record, "batch")
        found[full] = t_job
        return full

    for _ in range(halvings):
        between = (low + high) / 2
        low, high = (low, between) if saturates(between) else (between, high)
    # Unless the search moved both ends, one of them was never simulated.
    if found[0] == 0.0 and saturates(low):
        return Saturation(schedulers, 0.0, low, records)
    if found[1] == float("inf") and not saturates(high):
        return Saturation(schedulers, high, float("inf"), records)
    return Saturation(schedulers, found[0], found[1], records)


def offered(found: Saturation) -> Interval:
    """Return the saturation that follows from the decisions of the slowest run that is not saturated."""
    calm = [each for each in found.records if not overloaded(each, "batch")] or list(found.records)
    last = max(calm, key=lambda record: float(record["configuration"]["t_job_batch"]))
    times = last["configuration"]
    return saturating([last], "batch", times["t_job_batch"], times["t_task"])
