"""Decision times per job and per task together, under four architectures (Omega §4.4, fig. 10)."""

from collections.abc import Sequence

from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Experiment, Finding, Form, at, logarithmic, where
from omega.experiments.metrics import of, unscheduled
from omega.experiments.results import Record

ARCHITECTURES = ("monolithic-single", "monolithic-multi", "two-level", "shared-state")
LOST = 0.01
"""A part of the workload counts as unscheduled from this share of its jobs on."""
SMALL = Form(days=0.01, points=2, cells=("B",), machines=60)


def sweep(form: Form) -> list[Configuration]:
    """The service scheduler's t_job and t_task, `points` values each."""
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


def _surface(records: Sequence[Record]) -> Finding:
    lost = {architecture: _lost(records, architecture) for architecture in ARCHITECTURES}
    points = len(where(records, architecture=ARCHITECTURES[0]))
    said = ", ".join(f"{name} {count}" for name, count in lost.items())
    holds = lost["monolithic-single"] > max(lost["monolithic-multi"], lost["shared-state"])
    holds = holds and lost["two-level"] >= lost["shared-state"]
    return Finding.when(holds, f"points of {points} with jobs left unscheduled: {said}")


def _two_level(records: Sequence[Record]) -> Finding:
    lost, worst = {}, {}
    for architecture in ("two-level", "shared-state"):
        these = where(records, architecture=architecture)
        lost[architecture] = _lost(records, architecture)
        worst[architecture] = max(unscheduled(record) for record in these)
    said = ", ".join(f"{name}: {lost[name]} points, at worst {worst[name]:.1%} of the jobs" for name in lost)
    why = (
        "small jobs fit what is freed while a service job holds the rest, only large ones have to wait for it: at "
        "t_job = 100 s and t_task = 1 s (whole cell, 0.04 days) 5 of 2,478 batch jobs are left over, of 213 tasks in "
        "the mean where all have 27. With t_job = 1000 s it is 510 jobs; at 100 s with the further rules of the "
        "authors' simulator (--offers authors) 187"
    )
    return Finding.when(lost["two-level"] > lost["shared-state"], said, why)


def _batch_flat(records: Sequence[Record]) -> Finding:
    busy = [of(record, "batch", "busyness") for record in where(records, architecture="shared-state")]
    corner = [at(record, "t_job_service") for record in where(records, architecture="shared-state")]
    return Finding.when(
        max(busy) < 1.05 * min(busy),
        f"batch busyness {min(busy):.3f} to {max(busy):.3f} up to t_job = {max(corner):g} s and t_task = 1 s",
    )


EXPERIMENTS = (
    Experiment(
        "surface", "Longer decisions leave work unscheduled first with one path, last with shared state",
        "Omega §4.4, fig. 10", 10, "jobs unscheduled", "more such points single-path than multi-path or shared state, "
        "and two-level no fewer than shared state", sweep, _surface, SMALL,
    ),
    Experiment(
        "surface-two-level", "Two-level could not schedule much of the mixed load", "Omega §4.4, fig. 10c", 10,
        "jobs unscheduled", "more points with work left over than under shared state", sweep, _two_level, SMALL,
    ),
    Experiment(
        "surface-batch", "Shared state: batch does not feel how long service decides", "Omega §4.4, fig. 10d", 10,
        "batch.busyness", "within 5 % over the whole surface", sweep, _batch_flat, SMALL,
    ),
)  # fmt: skip
