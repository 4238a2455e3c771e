"""A figure of the high-fidelity simulator, simulated: its records, its claims, and its table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omega.experiments import trace_claims as claims
from omega.experiments.bootstrap import Interval, interval, sums_of
from omega.experiments.experiment import at
from omega.experiments.judged import Judged
from omega.experiments.results import Record
from omega.experiments.trace_figures import (
    BATCH_SCHEDULERS,
    Saturation,
    Simulate,
    TraceFigure,
    TraceForm,
    lightweight,
    offered,
    overloaded,
    saturation,
)

VARIED = {
    11: ("t_job_service", "t_task_service"),
    12: ("t_job_service", "t_task_service"),
    13: ("batch", "t_job_batch"),
    14: ("simulator", "detection", "commit", "t_job_service"),
}
"""By figure: the parameters that distinguish its points."""
SHOWN = ("wait", "conflict_fraction", "busyness", "no_conflict")


@dataclass(frozen=True, slots=True)
class TraceOutcome:
    """A figure, its runs, and the claims that were judged on them."""

    figure: TraceFigure
    form: TraceForm
    records: Sequence[Record]
    light: Sequence[Record]
    """Runs of the lightweight simulator on the same cell (figure 14)."""
    found: Sequence[Saturation]
    """Where batch schedulers saturate (figure 13)."""
    judged: Sequence[Judged]

    @property
    def kind(self) -> str:
        """The kind of jobs that the figure is about."""
        return "batch" if self.figure.number == 13 else "service"

    @property
    def everything(self) -> list[Record]:
        """All records, each once."""
        searched = [record for each in self.found for record in each.records]
        return list({record["key"]: record for record in (*self.records, *searched, *self.light)}.values())

    def points(self) -> Iterator[tuple[dict[str, Any], int, dict[str, Interval], bool]]:
        """Yield each point: its parameters, jobs per run, metrics, and whether the schedulers are saturated."""
        names = VARIED[self.figure.number]
        for each in claims.points(self.everything, *names):
            metrics = {name: interval(name, each, self.kind) for name in SHOWN}
            full = any(overloaded(record, self.kind) for record in each)
            yield {name: at(each[0], name) for name in names}, sums_of(each, self.kind).jobs, metrics, full

    def as_json(self) -> dict[str, Any]:
        """Return points, saturation and claims as plain values."""
        return {
            "figure": self.figure.number,
            "title": self.figure.title,
            "kind": self.kind,
            "seeds": self.form.seeds,
            "simulations": len(self.everything),
            "points": [
                {**values, "jobs": jobs, "saturated": full, **{name: each.as_json() for name, each in metrics.items()}}
                for values, jobs, metrics, full in self.points()
            ],
            "saturation": [
                {
                    "batch": each.schedulers,
                    "low": each.low,
                    "high": None if each.high == float("inf") else each.high,
                    "by_decisions": offered(each).as_json(),
                }
                for each in self.found
            ],
            "claims": [each.as_json() for each in self.judged],
        }


def simulated_figure(figure: TraceFigure, form: TraceForm, simulate: Simulate) -> TraceOutcome:
    """Simulate a figure and judge its claims. Raises BadInput."""
    records, light = simulate(figure.runs(form)), list[Record]()
    found: list[Saturation] = []
    judged: list[Judged] = []
    if figure.number == 11:
        judged = claims.of_figure_11(records)
    elif figure.number == 12:
        judged = claims.of_figure_12(records)
    elif figure.number == 13:
        found = [saturation(form, number, simulate) for number in BATCH_SCHEDULERS]
        judged = claims.of_figure_13(records, found)
    else:
        light = list(simulate(lightweight(form)))
        judged = [*claims.of_figure_14(records), *claims.of_both_simulators(records, light)]
    return TraceOutcome(figure, form, records, light, found, judged)
