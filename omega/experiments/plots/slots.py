"""The figures of the page on delay scheduling: medians over the seeds."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

from omega.experiments.plots.style import GREY, PALETTE, below, handle, save, sheet, styled, titled
from omega.experiments.slot_report import FIGURES
from omega.experiments.slot_runs import BinResult, macro, sensitivity
from omega.experiments.sticky_slots import JOBS, bound, sticky

_NUMBERS = range(1, 10)
_WAITS, _BEATS = (0.0, 1.0, 5.0, 10.0), (3.0, 5.0, 10.0)


def draw(folder: Path, seeds: Sequence[int]) -> None:
    """Draw all figures of the page as SVG. Raises BadInput when a file cannot be written."""
    drawn = {"delay-bins": _bins, "delay-sticky": _sticky, "delay-w1": _waits}
    with styled():
        for name, title in FIGURES.items():
            figure = drawn[name](seeds)
            titled(figure, title, f"medians over {len(seeds)} seeds, simulated slots")
            save(figure, folder / f"{name}.svg")


def _over(seeds: Sequence[int], measure: Callable[[int], float]) -> float:
    return median(measure(seed) for seed in seeds)


def _mean(seed: int, policy: str, at: int) -> float:
    return macro(seed, policy)[at].mean


def _node(result: BinResult) -> float:
    return result.node


def _bins(seeds: Sequence[int]) -> Figure:
    figure, ((left, right),) = sheet(1, 2, width=3.6)
    for policy, colour, marker in (("fifo", GREY, "s"), ("fair", PALETTE[1], "o"), ("delay", PALETTE[0], "^")):
        nodes = [_over(seeds, lambda seed, p=policy, i=i: macro(seed, p)[i].node) for i in range(9)]  # type: ignore[misc]
        left.plot(_NUMBERS, nodes, color=colour, marker=marker)
        if policy != "fifo":
            gains = [
                _over(seeds, lambda seed, p=policy, i=i: _mean(seed, "fifo", i) / _mean(seed, p, i))  # type: ignore[misc]
                for i in range(9)
            ]
            right.plot(_NUMBERS, gains, color=colour, marker=marker)
    right.axhline(1.0, color=GREY, linestyle=":", linewidth=1.0)
    left.set(xlabel="bin", ylabel="maps with their block", ylim=(0, 1.05))
    right.set(xlabel="bin", ylabel="times as fast as under FIFO", ylim=(0, None))
    names = (("FIFO", GREY, "s"), ("fair", PALETTE[1], "o"), ("fair with delay", PALETTE[0], "^"))
    below(figure, [handle(*each) for each in names])
    return figure


def _sticky(seeds: Sequence[int]) -> Figure:
    figure, ((left, right),) = sheet(1, 2, width=3.6)
    found = {jobs: [sticky(jobs, seed) for seed in seeds] for jobs in JOBS}
    without = [median(each.without for each in found[jobs]) for jobs in JOBS]
    late = [median(each.with_delay for each in found[jobs]) for jobs in JOBS]
    left.plot(JOBS, without, color=PALETTE[1], marker="o")
    left.plot(JOBS, late, color=PALETTE[0], marker="^")
    left.plot(JOBS, [bound(jobs) for jobs in JOBS], color=GREY, linestyle=":")
    right.plot(JOBS, [median(each.gain for each in found[jobs]) for jobs in JOBS], color=PALETTE[0], marker="^")
    right.plot(JOBS, [median(each.expected_gain for each in found[jobs]) for jobs in JOBS], color=GREY, linestyle="--")
    left.set(xlabel="concurrent jobs", ylabel="maps with their block", ylim=(0, 1.05))
    right.set(xlabel="concurrent jobs", ylabel="gain by delay", ylim=(0, None))
    below(
        figure,
        [
            handle("without delay", PALETTE[1], "o"),
            handle("with delay", PALETTE[0], "^"),
            handle("bound without delay", GREY, "", ":"),
            handle("p + (1 − p)k", GREY, "", "--"),
        ],
    )
    return figure


def _waits(seeds: Sequence[int]) -> Figure:
    figure, ((left, right),) = sheet(1, 2, width=3.6)
    for maps, colour, marker in ((4, PALETTE[1], "o"), (12, PALETTE[0], "^")):
        local = [_over(seeds, lambda seed, m=maps, w=w: sensitivity(seed, m, w)) for w in _WAITS]  # type: ignore[misc]
        left.plot(_WAITS, local, color=colour, marker=marker)
        local = [_over(seeds, lambda seed, m=maps, b=b: sensitivity(seed, m, 1.0, b)) for b in _BEATS]  # type: ignore[misc]
        right.plot(_BEATS, local, color=colour, marker=marker)
    left.set(xlabel="W1 in seconds", ylabel="maps with their block", ylim=(0, 1.05))
    right.set(xlabel="interval of heartbeats in seconds, W1 = 1 s", ylim=(0, 1.05))
    below(figure, [handle("jobs of 4 maps", PALETTE[1], "o"), handle("jobs of 12 maps", PALETTE[0], "^")])
    return figure
