"""The failure of naive hierarchical dominant resource fairness: a job that restarts beside a large sibling."""

from pathlib import Path
from typing import Any

from omega.experiments.hierarchies import METHODS, RESTART, STEPS, example, over_time
from omega.experiments.plots.style import GREY, PALETTE, below, handle, save, sheet, styled, titled

_LINES = (("n1", "gpu", PALETTE[0]), ("n2.1", "cpu", PALETTE[2]), ("n2.2", "gpu", PALETTE[1]))
_DASHES: dict[str, str] = {"n2.1": "--"}
_TITLES = {"naive-hdrf": "naive", "min-satisfaction-hdrf": "least satisfied descendant"}


def draw_failure(*paths: Path) -> None:
    """Draw the lecture's example under both forms. Raises BadInput when a file cannot be written."""
    restarts = [["n2.2"] if step == RESTART else [] for step in range(STEPS)]
    with styled():
        figure, grid = sheet(1, 2, width=4.0, height=2.6, sharey=True)
        for axes, method in zip(grid[0], METHODS, strict=True):
            shares = over_time(example(), method, restarts, 0.0)
            for name, resource, colour in _LINES:
                values = [each[name][resource] for each in shares]
                axes.plot(values, color=colour, drawstyle="steps-post", linestyle=_DASHES.get(name, "-"))
            axes.axvline(RESTART, color=GREY, linestyle=":", linewidth=1.0)
            axes.axhline(0.25, color=GREY, linestyle="--", linewidth=1.0)
            small: Any = {"color": GREY, "fontsize": 9, "ha": "right", "va": "bottom"}
            axes.annotate("promise of n2.2", (1, 0.25), xycoords=("axes fraction", "data"), **small)
            axes.set_title(_TITLES[method])
            axes.set_xlabel("steps")
            axes.set_xlim(0, STEPS - 1)
            axes.set_ylim(0, 1.05)
        grid[0][0].set_ylabel("share of its resource")
        below(
            figure,
            [handle(f"{name} ({res})", colour, linestyle=_DASHES.get(name, "-")) for name, res, colour in _LINES],
        )
        titled(
            figure,
            "Naive hierarchical fairness starves a job that restarts",
            "n1 beside the pool of n2.1 and n2.2, equal weights · at the dotted line n2.2 loses all its tasks",
        )
        save(figure, *paths)
