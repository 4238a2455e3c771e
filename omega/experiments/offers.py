"""Two-level scheduling: offers that hold everything while one scheduler decides (Omega §4.2)."""

from collections.abc import Sequence
from functools import partial

from omega.experiments.configuration import Configuration
from omega.experiments.experiment import SEEDS, Experiment, Extent, along, cells_in, each_cell, logarithmic, where
from omega.experiments.finding import Measurements
from omega.experiments.metrics import of
from omega.experiments.results import Record

LONGEST = 100.0
"""The end of the paper's range of t_job(service) (seconds)."""
SMALL = Extent(days=0.012, points=2, cells=("A",), machines=40)
FULL = Extent(days=0.3, points=3, cells=("A", "C"), even=True, seeds=SEEDS)


def sweep(form: Extent) -> list[Configuration]:
    """Return every cell and decision time from 0.01 to 100 s, beside the architectures it is compared with."""
    configurations = []
    for cell in form.cells:
        for architecture in ("two-level", "shared-state"):
            configurations += [
                form.start(cell, architecture=architecture, t_job_service=t_job)
                for t_job in logarithmic(0.01, LONGEST, form.points)
            ]
        configurations.append(form.start(cell, architecture="monolithic-multi", t_job_service=LONGEST))
    return configurations


def _line(records: Sequence[Record], architecture: str) -> list[Record]:
    return along(where(records, architecture=architecture), "t_job_service")


@each_cell
def _busy(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    ours, shared = _line(records, "two-level"), _line(records, "shared-state")
    calm, slow, free = (of(record, "batch", "busyness") for record in (ours[0], ours[-1], shared[-1]))
    multi = of(_line(records, "monolithic-multi")[-1], "batch", "busyness")
    measured.want(slow > 1.5 * calm and slow > 1.5 * free)
    measured.say(
        f"{cell}: batch busyness {{:.2f}} at 0.01 s, {{:.2f}} at 100 s; shared state {{:.2f}}, multi-path {{:.2f}} "
        "(batch and service together)",
        calm,
        slow,
        free,
        multi,
    )


@each_cell
def _waits(measured: Measurements, records: Sequence[Record], cell: str) -> None:
    ours, shared = (of(_line(records, name)[-1], "batch", "wait") for name in ("two-level", "shared-state"))
    measured.want(ours > 1.5 * shared)
    measured.say(f"{cell}: batch wait at 100 s {{:,.2g}} s, shared state {{:.2g}} s", ours, shared)


def _abandons(measured: Measurements, records: Sequence[Record], _: int) -> None:
    some = 0
    for cell in cells_in(records):
        ours = [record["result"]["jobs"] for record in _line(where(records, workload=cell), "two-level")]
        abandoned = [jobs["abandoned"] for jobs in ours]
        some += sum(abandoned)
        measured.say(
            f"{cell}: {{:.0f}} of {{:,.0f}} jobs at 100 s, {{:.0f}} at shorter t_job together",
            abandoned[-1],
            ours[-1]["submitted"],
            sum(abandoned[:-1]),
        )
    shared = sum(record["result"]["jobs"]["abandoned"] for record in where(records, architecture="shared-state"))
    measured.want(some > 0 and not shared)
    measured.say("shared state {:.0f}", shared)


_of_figure_7 = partial(Experiment, figure=7, sweep=sweep, small=SMALL, form=FULL, longer=2.0)

EXPERIMENTS = (
    _of_figure_7(
        name="offers-busy",
        claim="Two-level: batch is much busier than multi-path is with batch jobs, as t_job(service) grows",
        source="Omega §4.2, fig. 7b",
        metric="batch.busyness",
        expectation="at 100 s 1.5 times that at 0.01 s, and 1.5 times that of shared "
        "state, which takes as long for batch jobs as multi-path",
        criterion=_busy,
    ),
    _of_figure_7(
        name="offers-wait",
        claim="Two-level: batch jobs wait longer as t_job(service) grows",
        source="Omega §4.2, fig. 7a",
        metric="batch.wait",
        expectation="at 100 s 1.5 times that of shared state",
        criterion=_waits,
    ),
    _of_figure_7(
        name="offers-abandon",
        claim="Two-level abandons jobs at the limit of 1,000 attempts; shared state abandons none",
        source="Omega §4.2, fig. 7c",
        metric="jobs_abandoned",
        expectation="some abandoned at some t_job up to 100 s, none by shared state",
        criterion=_abandons,
        otherwise="few jobs fail 1,000 times. Each failed attempt takes a decision time. While a service job holds "
        "the offer, the tasks that end free enough room for most batch jobs. Most are abandoned beyond the paper's "
        "range: 2 of 6,111 at 1,000 s on 1,000 machines of C (0.3 days, seed 0), none with seed 2",
    ),
)
