"""More batch jobs: how far one batch scheduler goes, and several (Omega §4.3)."""

from collections.abc import Sequence
from itertools import pairwise

from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Experiment, Finding, Form, Judge, along, at, where
from omega.experiments.metrics import of, saturated
from omega.experiments.results import Record
from omega.workload import presets
from omega.workload.quantiles import quantiles

PAPER = {"A": 2.5, "B": 6.0, "C": 9.5}
"""Where the paper saw saturation, in times the arrivals (Omega §4.3, fig. 8)."""
RATES = {
    "A": (1.0, 1.5, 2.0, 2.25, 2.5, 2.75, 3.0), "B": (1.0, 2.0, 3.0, 4.0, 5.0, 5.5, 6.0, 6.5, 7.0),
    "C": (1.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.5, 11.0),
}  # fmt: skip
SCHEDULERS = (1, 2, 4, 8, 16, 32)
LOADS = (1.0, 2.0, 4.0, 6.0)
SMALL = Form(days=0.02, points=2, cells=("A",), machines=100)
SMALL_SHARED = Form(days=0.01, points=2, cells=("B",), machines=100)


def sweep(form: Form) -> list[Configuration]:
    """Every cell at its rates; `points` of them, the first, the last and between."""
    return [form.start(cell, rate=rate) for cell in form.cells for rate in _some(RATES[cell], form.points)]


def shared_sweep(form: Form) -> list[Configuration]:
    """One to 32 batch schedulers at several rates."""
    return [
        form.start(cell, rate=rate, batch=batch)
        for cell in form.cells
        for batch in _some(SCHEDULERS, form.points)
        for rate in _some(LOADS, form.points)
    ]


def _some(values: Sequence[float], points: int) -> list[float]:
    if points >= len(values):
        return list(values)
    return [values[round(i * (len(values) - 1) / (points - 1))] for i in range(points)]


def by_decisions(cell: str) -> float:
    """How many times the arrivals take all of one batch scheduler's time."""
    preset = presets.preset(cell)
    return quantiles("batch_interarrival_seconds").mean / preset.pace / presets.DECISION_SECONDS


def saturation(line: Sequence[Record]) -> tuple[float, float]:
    """The rate up to which all batch jobs are scheduled, and the first at which they are not."""
    below = 0.0
    for record in line:
        if saturated(record, "batch"):
            return below, float(at(record, "rate"))
        below = float(at(record, "rate"))
    return below, float("inf")


def _saturates(cell: str) -> Judge:
    def judge(records: Sequence[Record]) -> Finding:
        line = along(where(records, workload=cell), "rate")
        if not line:
            return Finding.when(False, "not simulated")
        low, high = saturation(line)
        paper, decisions = PAPER[cell], f"decision times alone allow {by_decisions(cell):.1f}x"
        first = next((record for record in line if saturated(record, "batch")), None)
        if first is None:
            return Finding.when(low < paper, f"all scheduled up to {low:g}x, the most simulated; {decisions}")
        used, busy = max(first["result"]["utilisation"].values()), of(first, "batch", "busyness")
        scarce = "time: the scheduler is busy all day" if busy > 0.97 else "room: jobs wait until tasks end"
        fitted = "" if presets.preset(cell).saturates_at is None else "calibrated to this: "
        measured = (
            f"{fitted}all scheduled up to {low:g}x, not at {high:g}x, with busyness {busy:.2f} and {used:.0%} of the "
            f"cell used on average; first scarce is {scarce}; {decisions}"
        )
        holds = low * 0.9 <= paper <= high * 1.1
        return Finding.when(holds, measured, REASONS.get(cell, ""))

    return judge


REASONS = {
    "C": "the cell is full first. Arriving tasks of the trace hold about 6 % of the cell (their durations seen for 7 "
    "hours), and 40 % is free: room for some 7 times the arrivals, whatever decisions take, and for less where large "
    "jobs weigh more (cells of 1,000 machines saturate between 4x and 5x). The paper's 9.5x lies between that and "
    "what decision times allow. With tasks that run half as long all jobs are scheduled at 9.5x (28,419 of 28,419, "
    "whole cell, 0.15 days): so it hangs on durations, of which the paper published none for its runs",
    "B": "close to where its batch scheduler's time ends the cell is nearly full as well",
}


FEW = (
    "some twenty service jobs arrive in such a run, one conflict more or less decides: with twenty times as many on B "
    "(whole cell, 0.083 days) their conflict fraction rises from 0.0019 at 1x to 0.0077 at 4x"
)


def _pays(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in dict.fromkeys(at(record, "workload") for record in records):
        line = along(where(records, workload=cell), "rate")
        first, last = line[0], line[-1]
        calm, full = of(first, "batch", "busyness"), of(last, "batch", "busyness")
        extra = [of(r, "service", "busyness") - of(r, "service", "no_conflict") for r in (first, last)]
        tries = [of(r, "service", "conflict_fraction") for r in (first, last)]
        holds = holds and full > 1.5 * calm and (tries[1] > tries[0] or extra[1] > extra[0])
        said.append(
            f"{cell}: batch busyness {calm:.2f} to {full:.2f}, service conflict fraction {tries[0]:.3f} to "
            f"{tries[1]:.3f}"
        )
    return Finding.when(holds, "; ".join(said), FEW)


def _many(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for rate in sorted({at(record, "rate") for record in records}):
        line = along(where(records, rate=rate), "batch")
        one, most = line[0], line[-1]
        conflicts = [of(record, "batch", "conflict_fraction") for record in line]
        busy = [of(record, "batch", "busyness") for record in line]
        rising = conflicts[-1] > conflicts[0] and conflicts[-1] >= 0.85 * max(conflicts)
        falling = all(a > b for a, b in pairwise(busy))
        if not any(saturated(record, "batch") for record in line):
            holds = holds and rising and falling
        said.append(
            f"{rate:g}x: conflict fraction {conflicts[0]:.3f} to {conflicts[-1]:.3f} and busyness {busy[0]:.3f} to "
            f"{busy[-1]:.3f} from {at(one, 'batch')} to {at(most, 'batch')} schedulers"
        )
    return Finding.when(holds, "; ".join(said))


def _similar_wait(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for rate in sorted({at(record, "rate") for record in records}):
        line = along(where(records, rate=rate), "batch")
        waits = [of(record, "batch", "wait") for record in line]
        if not any(saturated(record, "batch") for record in line):
            holds = holds and max(waits) <= 1.5 * waits[0]
        said.append(f"{rate:g}x: {waits[0]:.2g} s with 1, {min(waits):.2g} to {max(waits):.2g} s with more")
    return Finding.when(holds, "; ".join(said))


EXPERIMENTS = (
    *(
        Experiment(
            f"saturation-{cell.lower()}", f"Shared state on {cell} keeps up with {paper:g} times the batch jobs",
            "Omega §4.3, fig. 8", 8, "jobs scheduled, busyness",
            f"saturated between the rates around {paper:g}x, to within 10 %", sweep, _saturates(cell),
            Form(SMALL.days, SMALL.points, (cell,), SMALL.machines),
        )
        for cell, paper in PAPER.items()
    ),
    Experiment(
        "batch-by-arrivals", "More batch jobs: batch is limited by arrivals, service pays in conflicts",
        "Omega §4.3, fig. 8", 8, "batch.busyness, service.conflict_fraction",
        "batch busyness rises, and so do the service scheduler's conflicts", sweep, _pays, SMALL,
    ),
    Experiment(
        "many-schedulers", "More batch schedulers: conflict fraction rises, busyness of each falls, up to 32",
        "Omega §4.3, fig. 9", 9, "batch.conflict_fraction, batch.busyness",
        "conflict fraction with the most within 15 % of the highest and above that with one, busyness lower with each "
        "step, at every rate that is not saturated",
        shared_sweep, _many, SMALL_SHARED,
    ),
    Experiment(
        "many-schedulers-wait", "More batch schedulers: wait is similar or shorter", "Omega §4.3, fig. 9", 9,
        "batch.wait", "at most 1.5 times that of one scheduler, at every rate that is not saturated",
        shared_sweep, _similar_wait, SMALL_SHARED,
    ),
)  # fmt: skip
