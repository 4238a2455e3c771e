"""Decision time of service jobs: one path, a fast path, shared state (Omega §4.1 to §4.3, §5.1)."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from omega.experiments.configuration import Configuration
from omega.experiments.experiment import SEEDS, Experiment, Extent, along, at, each_cell, logarithmic, where
from omega.experiments.finding import Measurements
from omega.experiments.metrics import of, saturated, unscheduled
from omega.experiments.results import Record
from omega.workload import presets
from omega.workload.quantiles import quantiles

ARCHITECTURES = ("monolithic-single", "monolithic-multi", "shared-state")
SLO_SECONDS = 30.0
DEFAULT_SECONDS = 0.1
"""The decision time of a job in the paper's simulations (Omega §4, table 2)."""
FRACTIONS = (0.25, 0.5, 0.75, 0.9, 1.1)
"""Decision times relative to the one at which one path saturates."""
SMALL = Extent(days=0.02, points=5, cells=("B",), machines=100)
FULL = Extent(days=0.55, points=5, cells=tuple(presets.PRESETS), even=True, seeds=SEEDS)
LONGER = 4.0
"""Long enough for 200 service jobs a run."""


def sweep(form: Extent) -> list[Configuration]:
    """Return every cell, architecture and decision time from 0.01 to 100 s."""
    return [
        form.start(cell, architecture=architecture, t_job_service=t_job)
        for cell in form.cells
        for architecture in ARCHITECTURES
        for t_job in logarithmic(0.01, 100.0, form.points)
    ]


def one_path(form: Extent) -> list[Configuration]:
    """One path at decision times around the one at which it saturates."""
    return [
        form.start(cell, architecture="monolithic-single", t_job_service=float(f"{share * saturation(cell):.4g}"))
        for cell in form.cells
        for share in FRACTIONS
    ]


def _line(records: Sequence[Record], architecture: str) -> list[Record]:
    return along(where(records, architecture=architecture), "t_job_service")


def _nearest(line: Sequence[Record], t_job: float) -> Record:
    """Return the record of a line with the nearest decision time."""
    return min(line, key=lambda record: abs(np.log(at(record, "t_job_service") / t_job)))


def saturation(cell: str) -> float:
    """Return the decision time at which one path has no time left: 1/λ − t_task × mean tasks (seconds)."""
    jobs = sum(1 / quantiles(f"{kind}_interarrival_seconds").mean for kind in ("batch", "service"))
    gap = 1 / jobs / presets.preset(cell).pace
    return gap - 0.005 * quantiles("batch_tasks_per_job").mean


@each_cell
def _linear(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    line = _line(records, "monolithic-single")
    below = [record for record in line if at(record, "t_job_service") < 0.8 * saturation(cell)]
    x = np.array([at(record, "t_job_service") for record in below])
    y = np.array([of(record, "batch", "busyness") for record in below])
    slope, start = np.polyfit(x, y, 1)
    worst, full = float(np.abs(y - (slope * x + start)).max()), of(line[-1], "batch", "busyness")
    measured.want(len(below) > 2 and slope > 0 and full > 0.97)
    measured.equal(float(y[-1]), [float(y[-1]) + worst], 0.02)
    measured.say(f"{cell}: at most {{:.4f}} off a straight line, {{:.2f}} beyond saturation", worst, full)


@each_cell
def _saturation(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    low, high = (of(record, "batch", "busyness") for record in _line(records, "monolithic-single")[-2:])
    measured.want(low < 0.97 <= high)
    measured.say(f"{cell}: busyness {{:.3f}} at 0.9 and {{:.3f}} at 1.1 times {saturation(cell):.2f} s", low, high)


@each_cell
def _same_wait(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    line = [r for r in _line(records, "monolithic-single") if not saturated(r, "batch")]
    busy = [r for r in line if of(r, "batch", "busyness") > 0.25] or line[-1:]
    batch, service = of(busy[-1], "batch", "wait"), of(busy[-1], "service", "wait")
    measured.equal(service, [batch], 0.25)
    measured.say(f"{cell} at {at(busy[-1], 't_job_service'):g} s: batch {{:.2f}} s, service {{:.2f}} s", batch, service)


@each_cell
def _diverges(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    line = _line(records, "monolithic-single")
    calm, full = of(line[0], "batch", "wait"), of(line[-1], "batch", "wait")
    measured.want(full > 100 * calm and full > 10 * SLO_SECONDS)
    measured.say(f"{cell}: {{:.2g}} s at {at(line[0], 't_job_service'):g} s, {{:,.0f}} s at 100 s", calm, full)


@each_cell
def _misses_slo(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    line = _line(records, "monolithic-single")
    default = _nearest(line, DEFAULT_SECONDS)
    wait = of(default, "batch", "wait")
    missed = [at(record, "t_job_service") for record in line if of(record, "batch", "wait") > SLO_SECONDS]
    measured.want(cell != "B" or wait > SLO_SECONDS)
    measured.say(
        f"{cell}: {{:.2f}} s at t_job = {at(default, 't_job_service'):g} s, above 30 s first at {{:g}} s",
        wait,
        min(missed, default=float("inf")),
    )


@each_cell
def _relief(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    single, multi = (_line(records, f"monolithic-{path}") for path in ("single", "multi"))
    slow = [(s, m) for s, m in zip(single, multi, strict=True) if at(s, "t_job_service") >= 1]
    measured.want(all(of(s, "batch", "busyness") > of(m, "batch", "busyness") for s, m in slow))
    measured.want(all(of(s, "batch", "wait") > of(m, "batch", "wait") for s, m in slow))
    s, m = slow[-1]
    measured.say(
        f"{cell} at {at(s, 't_job_service'):g} s: busyness {{:.2f}} to {{:.2f}}, batch wait {{:,.0f}} to {{:,.1f}} s",
        *(of(each, "batch", name) for name in ("busyness", "wait") for each in (s, m)),
    )


@each_cell
def _blocks(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    multi, shared = (_line(records, name) for name in ("monolithic-multi", "shared-state"))
    calm, slow, free = (of(r, "batch", "wait") for r in (multi[0], multi[-1], shared[-1]))
    measured.want(slow > 5 * calm and slow > 5 * free)
    measured.say(f"{cell}: batch wait {{:.2g}} s rises to {{:,.1f}} s; shared state {{:.2g}} s", calm, slow, free)


@each_cell
def _independent(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    shared = _line(records, "shared-state")
    for name, most, form in (("wait", 0.1, ".3g"), ("busyness", 0.05, ".4f")):
        values = [of(record, "batch", name) for record in shared]
        measured.equal(values[0], values[1:], most)
        measured.say(
            f"{cell}: {name} {{:{form}}}, at most {{:.2%}} away",
            values[0],
            max(abs(value - values[0]) for value in values) / values[0],
        )


@each_cell
def _few_conflicts(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    worst = 0.0
    for record in _line(records, "shared-state"):
        for kind in ("batch", "service"):
            more = of(record, kind, "busyness") - of(record, kind, "no_conflict")
            worst = max(worst, more if not saturated(record, kind) else 0.0)
    measured.want(worst < 0.1)
    measured.say(f"{cell}: at most {{:.4f}} of a day spent again because of conflicts", worst)


@each_cell
def _all_scheduled(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    shared = _line(records, "shared-state")
    lost = max(unscheduled(record) for record in shared)
    abandoned = sum(record["result"]["jobs"]["abandoned"] for record in shared)
    measured.want(abandoned == 0 and lost < 0.01)
    measured.say(f"{cell}: {{:.0f}} abandoned, at most {{:.2%}} not yet scheduled when the run ends", abandoned, lost)


_of = partial(Experiment, sweep=sweep, small=SMALL, form=FULL, longer=LONGER)

EXPERIMENTS = (
    _of(
        name="single-path-linear",
        figure=6,
        claim="Single-path: busyness grows linearly with t_job until it is 1",
        source="Omega §4.1, fig. 6a",
        metric="busyness",
        expectation="on a straight line up to 0.8 of saturation, equal to within 0.02; above 0.97 beyond saturation",
        criterion=_linear,
        sweep=one_path,
    ),
    _of(
        name="single-path-saturation",
        figure=6,
        claim="Single-path saturates when t_job reaches the mean gap between jobs",
        source="Omega §4.1, fig. 6a; exact points only in the plot",
        metric="busyness",
        expectation="below 0.97 at 0.9 times, at least 0.97 at 1.1 times 1/λ − t_task × mean tasks",
        criterion=_saturation,
        otherwise="jobs come in bursts and differ in size; a run as short as this may bring more or fewer",
        sweep=one_path,
    ),
    _of(
        name="single-path-wait",
        figure=5,
        claim="Single-path: wait diverges at saturation",
        source="Omega §4.1, fig. 5a",
        metric="wait",
        expectation="100 times the unloaded wait, and beyond 300 s, at t_job = 100 s",
        criterion=_diverges,
    ),
    _of(
        name="single-path-one-line",
        figure=5,
        claim="Single-path: service jobs wait as long as batch jobs",
        source="Omega §4.1, fig. 5a",
        metric="wait",
        expectation="equal at the last decision time before saturation, "
        "to within 25 % and to within the spread between seeds",
        criterion=_same_wait,
        otherwise="batch jobs arrive in bursts and wait for one another; service jobs arrive between the bursts. "
        "Over 3 days of C at t_job = 1.5 s batch and service jobs wait 2.0 and 1.3 s. With the same jobs at random "
        "times they wait 0.65 and 0.68 s, at 3 s 4.5 and 4.9 s",
    ),
    _of(
        name="slo-on-b",
        figure=5,
        claim="B already misses the 30 s of its batch jobs under single-path",
        source="Omega §5.1, fig. 5a",
        metric="batch.wait",
        expectation="B: a mean wait above 30 s at the paper's decision time of 0.1 s",
        criterion=_misses_slo,
        otherwise="the paper does not give the decision time at which B misses it. Here B is calibrated to keep up "
        "with 6 times its batch jobs at 0.1 s (fig. 8), so its jobs do not overload one scheduler at 0.1 s. Both "
        "statements can be true only for longer decisions",
    ),
    _of(
        name="multi-path-relief",
        figure=5,
        claim="A fast path lowers wait and busyness even for long t_job(service)",
        source="Omega §4.1, fig. 5b, 6b",
        metric="wait, busyness",
        expectation="both lower than single-path at every t_job from 1 s on",
        criterion=_relief,
    ),
    _of(
        name="multi-path-blocks",
        figure=5,
        claim="Multi-path: batch still waits in line behind slow service jobs",
        source="Omega §4.1, fig. 5b",
        metric="batch.wait",
        expectation="at 100 s 5 times the wait at 0.01 s, and 5 times that of shared state",
        criterion=_blocks,
    ),
    _of(
        name="shared-independent",
        figure=5,
        claim="Shared state: batch is independent of the service scheduler's decision time",
        source="Omega §4.3, fig. 5c, 6c",
        metric="batch.wait, batch.busyness",
        expectation="equal for all t_job: wait to within 10 %, busyness to within 5 %, "
        "both to within the spread between seeds",
        criterion=_independent,
    ),
    _of(
        name="shared-few-conflicts",
        figure=6,
        claim="Shared state: busyness shows that conflicts cost little",
        source="Omega §4.3, fig. 6c",
        metric="busyness, no_conflict",
        expectation="less than 0.1 above the no-conflict approximation while not saturated",
        criterion=_few_conflicts,
        otherwise="while one service job is decided for 100 s the cell changes under it; the fewer machines, the "
        "more it meets",
    ),
    _of(
        name="shared-schedules-all",
        figure=5,
        claim="Shared state schedules all jobs",
        source="Omega §4.3, fig. 5c",
        metric="jobs",
        expectation="none abandoned; less than 1 % unscheduled when the run ends",
        criterion=_all_scheduled,
        otherwise="service jobs arrive faster than one scheduler decides them: with seed 0 one every 7.6 s in A, 18 s "
        "in B, 57 s in C. Decisions of 100 s, in A of 10 s, saturate it, and its other jobs queue. No batch job is "
        "missing. The split of service jobs decides: by priority, as §2.1 has it, the trace has 429 in seven hours. "
        "By class, as the authors' simulator has it, there are 28, and all jobs are scheduled",
    ),
)
