"""A figure of the high-fidelity simulator, drawn and written."""

from pathlib import Path

from omega.experiments.bootstrap import sums_of
from omega.experiments.experiment import at
from omega.experiments.plots import high_fidelity
from omega.experiments.plots.style import save, styled, titled
from omega.experiments.trace_figures import SLOW_TASK
from omega.experiments.trace_outcome import TraceOutcome

SERVICE = {"priority": "service jobs: priority 9 or more", "class": "service jobs: priority 9 or more, classes 2 and 3"}


def draw_trace(outcome: TraceOutcome, *paths: Path) -> None:
    """Draw a figure from its simulations, with their parameters above it. Raises BadInput."""
    number, start = outcome.figure.number, outcome.form.start
    details = [f"after figure {number} of the Omega paper", f"trace {Path(start.trace).name}"]
    hours = outcome.records[0]["result"]["days"] * 24
    jobs = sums_of(outcome.records[:1], outcome.kind).jobs
    details.append(f"{hours:.1f} hours with {jobs:,} {outcome.kind} jobs")
    details.append(f"seed {start.seed}" if outcome.form.seeds == 1 else f"{outcome.form.seeds} seeds")
    if sums_of(outcome.records[:1], "service").jobs:
        details.append(SERVICE[start.service])
    details += ["brackets and bars: 95 % bootstrap intervals"]
    details += [f"calibrated: the trace at another pace, as cell {start.cell}"] if start.cell != "trace" else []
    details += ["waits below 1 ms are drawn at 1 ms"] if number in (12, 13) else []
    with styled():
        if number == 11:
            figure = high_fidelity.surface(outcome.records)
        elif number == 12:
            figure = high_fidelity.decision_times(
                [each for each in outcome.records if at(each, "t_task_service") != SLOW_TASK]
            )
        elif number == 13:
            figure = high_fidelity.batch_schedulers(outcome.records, outcome.found)
        else:
            figure = high_fidelity.modes(outcome.records)
        titled(figure, outcome.figure.title, " · ".join(details))
        save(figure, *paths)
