"""Decision times per job and per task together, under four architectures (Omega §4.4, fig. 10)."""

from collections.abc import Sequence
from functools import partial

from omega.experiments.configuration import Configuration
from omega.experiments.experiment import SEEDS, Experiment, Extent, logarithmic, where
from omega.experiments.finding import Measurements
from omega.experiments.metrics import of, unscheduled
from omega.experiments.results import Record

ARCHITECTURES = ("monolithic-single", "monolithic-multi", "two-level", "shared-state")
LOST = 0.01
"""A part of the workload counts as unscheduled from this share of its jobs on."""
SMALL = Extent(days=0.01, points=2, cells=("B",), machines=60)
FULL = Extent(days=0.12, points=2, cells=("B",), even=True, seeds=SEEDS)


def sweep(form: Extent) -> list[Configuration]:
    """Return the service scheduler's t_job and t_task, `points` values each."""
    return [
        form.start(cell, architecture=architecture, t_job_service=t_job, t_task_service=t_task)
        for cell in form.cells
        for architecture in ARCHITECTURES
        for t_job in logarithmic(0.1, 100.0, form.points)
        for t_task in logarithmic(0.005, 1.0, form.points)
    ]


def _lost(records: Sequence[Record], architecture: str) -> int:
    """Points of an architecture at which a part of the workload is not scheduled."""
    return sum(unscheduled(record) > LOST for record in where(records, architecture=architecture))


def _surface(measured: Measurements, records: Sequence[Record], _: int) -> None:
    single, multi, two_level, shared = (_lost(records, architecture) for architecture in ARCHITECTURES)
    measured.want(single > multi > shared and two_level > shared)
    measured.say(
        f"points of {len(where(records, architecture=ARCHITECTURES[0]))} with jobs left unscheduled: single-path "
        "{:.0f}, multi-path {:.0f}, two-level {:.0f}, shared state {:.0f}",
        single,
        multi,
        two_level,
        shared,
    )


def _two_level(measured: Measurements, records: Sequence[Record], _: int) -> None:
    lost = []
    for architecture in ("two-level", "shared-state"):
        lost.append(_lost(records, architecture))
        worst = max(unscheduled(record) for record in where(records, architecture=architecture))
        measured.say(f"{architecture}: {{:.0f}} points, at worst {{:.2%}} of the jobs", lost[-1], worst)
    measured.want(lost[0] > lost[1])


def _batch_flat(measured: Measurements, records: Sequence[Record], _: int) -> None:
    busy = [of(record, "batch", "busyness") for record in where(records, architecture="shared-state")]
    measured.equal(busy[0], busy[1:], 0.05)
    measured.say(
        "batch busyness {:.4f}, at most {:.2%} away up to t_job = 100 s and t_task = 1 s",
        busy[0],
        max(abs(value - busy[0]) for value in busy) / busy[0],
    )


_of_figure_10 = partial(Experiment, figure=10, sweep=sweep, small=SMALL, form=FULL, longer=3.0)

EXPERIMENTS = (
    _of_figure_10(
        name="surface",
        claim="Longer decisions leave work unscheduled first with one path, last with shared state",
        source="Omega §4.4, fig. 10",
        metric="jobs unscheduled",
        expectation="more such points single-path than multi-path, more multi-path than shared state, and more "
        "two-level than shared state",
        criterion=_surface,
        otherwise="two-level leaves as few jobs unscheduled as shared state: see surface-two-level",
    ),
    _of_figure_10(
        name="surface-two-level",
        claim="Two-level could not schedule much of the mixed load",
        source="Omega §4.4, fig. 10c",
        metric="jobs unscheduled",
        expectation="more points with work left over than under shared state",
        criterion=_two_level,
        otherwise="while a service job holds the offer, small jobs fit in freed room and only large jobs wait. At "
        "t_job = 100 s and t_task = 1 s (whole cell, 0.04 days) 5 of 2,478 batch jobs are left over. Their mean is "
        "213 tasks, that of all jobs 27. At t_job = 1000 s 510 jobs are left over; at 100 s with the further rules "
        "of the authors' simulator (--offers authors) 187",
    ),
    _of_figure_10(
        name="surface-batch",
        claim="Shared state: batch does not feel how long service decides",
        source="Omega §4.4, fig. 10d",
        metric="batch.busyness",
        expectation="equal over the whole surface, to within 5 % and to within the spread between seeds",
        criterion=_batch_flat,
    ),
)
