"""Two-level scheduling: offers that hold everything while one scheduler thinks (Omega §4.2)."""

from collections.abc import Sequence

from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Experiment, Finding, Form, along, at, logarithmic, where
from omega.experiments.metrics import of
from omega.experiments.results import Record

ARCHITECTURES = ("two-level", "monolithic-multi", "shared-state")
SMALL = Form(days=0.012, points=2, cells=("A",), machines=40)


def sweep(form: Form) -> list[Configuration]:
    """Every cell and decision time, beside the architectures it is compared with."""
    return [
        form.start(cell, architecture=architecture, t_job_service=t_job)
        for cell in form.cells
        for architecture in ARCHITECTURES
        for t_job in logarithmic(0.1, 1000.0, form.points)
    ]


def line(records: Sequence[Record], cell: str, architecture: str) -> list[Record]:
    """The records of one architecture on a cell, by decision time."""
    return along(where(records, workload=cell, architecture=architecture), "t_job_service")


def _cells(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(at(record, "workload") for record in records))


def _busy(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        ours, shared = line(records, cell, "two-level"), line(records, cell, "shared-state")
        calm, slow, free = of(ours[0], "batch", "busyness"), of(ours[-1], "batch", "busyness"), of(
            shared[-1], "batch", "busyness"
        )  # fmt: skip
        multi = of(line(records, cell, "monolithic-multi")[-1], "batch", "no_conflict")
        holds = holds and slow > 1.5 * calm and slow > 1.5 * free
        said.append(
            f"{cell}: batch busyness {calm:.2f} at 0.1 s, {slow:.2f} at 1000 s; shared state {free:.2f}, "
            f"multi-path {multi:.2f} (batch and service together)"
        )
    return Finding.when(holds, "; ".join(said))


def _waits(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        ours, shared = (of(line(records, cell, name)[-1], "batch", "wait") for name in ("two-level", "shared-state"))
        holds = holds and ours > 1.5 * shared
        said.append(f"{cell}: batch wait at 1000 s {ours:,.2g} s, shared state {shared:.2g} s")
    return Finding.when(holds, "; ".join(said))


def _abandons(records: Sequence[Record]) -> Finding:
    ours = where(records, architecture="two-level")
    counts = {
        (cell, at(record, "t_job_service")): record["result"]["jobs"]["abandoned"]
        for cell in _cells(records)
        for record in line(ours, cell, "two-level")
    }
    shared = sum(record["result"]["jobs"]["abandoned"] for record in where(records, architecture="shared-state"))
    lost = ", ".join(f"{cell} {count:,} at {t:g} s" for (cell, t), count in counts.items() if count) or "none"
    holds = any(counts.values()) and not shared
    why = "no job failed 1,000 times: an attempt takes a decision time, and service jobs rarely hold the cell so long"
    return Finding.when(holds, f"two-level abandons: {lost}; shared state {shared}", why)


EXPERIMENTS = (
    Experiment(
        "offers-busy", "Two-level: batch is much busier than multi-path is with batch jobs, as t_job(service) grows",
        "Omega §4.2, fig. 7b", 7, "batch.busyness", "at 1000 s 1.5 times that at 0.1 s, and 1.5 times that of shared "
        "state, which takes as long for batch jobs as multi-path", sweep, _busy, SMALL,
    ),
    Experiment(
        "offers-wait", "Two-level: batch jobs wait longer as t_job(service) grows", "Omega §4.2, fig. 7a", 7,
        "batch.wait", "at 1000 s 1.5 times that of shared state", sweep, _waits, SMALL,
    ),
    Experiment(
        "offers-abandon", "Two-level abandons jobs at the limit of 1,000 attempts; shared state abandons none",
        "Omega §4.2, fig. 7c", 7, "jobs_abandoned", "some abandoned at some t_job, none by shared state",
        sweep, _abandons, SMALL,
    ),
)  # fmt: skip
