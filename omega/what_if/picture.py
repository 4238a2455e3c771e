"""The picture of an answer: waits of jobs, and use of the first resource over time."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omega.experiments.plots.style import GREY, PALETTE, below, handle, save, sheet, styled, titled

if TYPE_CHECKING:
    from omega.what_if.answers import Answers

MOST_LINES = 4
"""Changes that are drawn."""
LEAST_WAIT = 0.001
"""Waits below this many seconds are drawn at it."""


def draw(answers: "Answers", path: Path) -> None:
    """Draw what happened, the run as recorded and the first changes. Raises BadInput for a file it cannot write."""
    lines = [("happened", answers.happened, GREY, "-"), ("as recorded", answers.base.measured, PALETTE[0], "-")]
    for i, run in enumerate(answers.runs[:MOST_LINES]):
        lines.append((run.change.label, run.measured, PALETTE[(i + 1) % len(PALETTE)], "--"))
    resource = answers.trace.workload.dimensions.names[0]
    with styled():
        figure, ((left, right),) = sheet(1, 2, width=3.8)
        for _, measured, colour, style in lines:
            waits = np.maximum(np.array(measured.waits), LEAST_WAIT)
            if len(waits):
                share = np.arange(1, len(waits) + 1) / len(waits)
                left.step([waits[0], *waits], [0.0, *share], where="post", color=colour, linestyle=style)
            right.plot(measured.times, 100 * np.array(measured.use), color=colour, linestyle=style)
        left.set(xscale="log", xlabel="wait until the first task runs (s)", ylabel="cumulative fraction of jobs")
        left.set_ylim(0, 1.02)
        right.set(xlabel="time (s)", ylabel=f"{resource} in use (%)")
        right.set_ylim(bottom=0)
        below(figure, [handle(label, colour, linestyle=style) for label, _, colour, style in lines])
        more = len(answers.runs) - MOST_LINES
        details = (
            f"cell {answers.recording.cell} · {answers.trace.seconds:.0f} s · {answers.seeds} seeds, the first drawn"
        )
        titled(figure, "What if", details + (f" · {more} more changes not drawn" if more > 0 else ""))
        save(figure, path)
