"""Decision time of service jobs: one path, a fast path, shared state (Omega §4.1 to §4.3)."""

from collections.abc import Sequence

import numpy as np

from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Experiment, Finding, Form, Judge, along, at, logarithmic, where
from omega.experiments.metrics import of, saturated, unscheduled
from omega.experiments.results import Record
from omega.workload import presets
from omega.workload.quantiles import quantiles

ARCHITECTURES = ("monolithic-single", "monolithic-multi", "shared-state")
SLO_SECONDS = 30.0
SMALL = Form(days=0.02, points=4, cells=("B",), machines=100)


def sweep(form: Form) -> list[Configuration]:
    """Every cell, architecture and decision time."""
    return [
        form.start(cell, architecture=architecture, t_job_service=t_job)
        for cell in form.cells
        for architecture in ARCHITECTURES
        for t_job in logarithmic(0.01, 100.0, form.points)
    ]


def _cells(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(at(record, "workload") for record in records))


def _line(records: Sequence[Record], cell: str, architecture: str) -> list[Record]:
    return along(where(records, workload=cell, architecture=architecture), "t_job_service")


def expected_saturation(cell: str) -> float:
    """The decision time at which one path has no time left: 1/λ − t_task × mean tasks (seconds)."""
    jobs = sum(1 / quantiles(f"{kind}_interarrival_seconds").mean for kind in ("batch", "service"))
    gap = 1 / jobs / presets.preset(cell).pace
    return gap - 0.005 * quantiles("batch_tasks_per_job").mean


def _linear(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        below = [r for r in _line(records, cell, "monolithic-single") if of(r, "batch", "busyness") < 0.9]
        x = np.array([at(record, "t_job_service") for record in below])
        y = np.array([of(record, "batch", "busyness") for record in below])
        slope, start = np.polyfit(x, y, 1)
        worst = float(np.abs(y - (slope * x + start)).max())
        full = [
            r for r in _line(records, cell, "monolithic-single") if at(r, "t_job_service") > expected_saturation(cell)
        ]
        reach = min(of(record, "batch", "busyness") for record in full)
        holds = holds and worst < 0.02 and reach > 0.97
        said.append(f"{cell}: straight to within {worst:.3f} below 0.9, from {reach:.2f} beyond saturation")
    return Finding.when(holds, "; ".join(said))


def _same_wait(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        line = [r for r in _line(records, cell, "monolithic-single") if not saturated(r, "batch")]
        busy = [r for r in line if of(r, "batch", "busyness") > 0.25] or line[-1:]
        waits = [(of(r, "batch", "wait"), of(r, "service", "wait")) for r in busy]
        worst = max(max(batch, service) / max(min(batch, service), 1e-6) for batch, service in waits)
        holds = holds and worst < 2
        said.append(f"{cell}: within a factor of {worst:,.2f}")
    why = (
        "batch jobs come in bursts and wait for one another, service jobs come between: over 3 days of C at t_job = "
        "1.5 s they wait 2.0 and 1.3 s; with the same jobs at random times 0.65 and 0.68 s, at 3 s 4.5 and 4.9 s"
    )
    return Finding.when(holds, "; ".join(said), why)


def _diverges(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        line = _line(records, cell, "monolithic-single")
        calm, full = of(line[0], "batch", "wait"), of(line[-1], "batch", "wait")
        holds = holds and full > 100 * calm and full > 10 * SLO_SECONDS
        said.append(f"{cell}: {calm:.2g} s at {at(line[0], 't_job_service'):g} s, {full:,.0f} s at 100 s")
    return Finding.when(holds, "; ".join(said))


def crossing(line: Sequence[Record], kind: str) -> float | None:
    """The decision time from which the mean wait misses the 30 s, interpolated; None when it never does."""
    before = None
    for record in line:
        wait, t_job = of(record, kind, "wait"), float(at(record, "t_job_service"))
        if wait > SLO_SECONDS or saturated(record, kind):
            if before is None:
                return t_job
            low, wait_low = before
            share = np.log(SLO_SECONDS / max(wait_low, 1e-3)) / np.log(
                max(wait, SLO_SECONDS * 1.01) / max(wait_low, 1e-3)
            )
            return float(low * (t_job / low) ** min(max(share, 0.0), 1.0))
        before = t_job, wait
    return None


def _misses_slo(records: Sequence[Record]) -> Finding:
    by_cell = {cell: crossing(_line(records, cell, "monolithic-single"), "batch") for cell in _cells(records)}
    said = ", ".join(f"{cell} from {t:.2g} s" if t is not None else f"{cell} never" for cell, t in by_cell.items())
    multi = {cell: crossing(_line(records, cell, "monolithic-multi"), "batch") for cell in by_cell}
    also = ", ".join(f"{cell} from {t:.2g} s" if t is not None else f"{cell} never" for cell, t in multi.items())
    here = by_cell.get("B")
    holds = here is not None and (multi.get("B") is None or here < (multi["B"] or 0.0))
    return Finding.when(holds, f"batch jobs miss it: {said}; with a fast path: {also}")


def _saturation(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        line, wanted = _line(records, cell, "monolithic-single"), expected_saturation(cell)
        below = [at(r, "t_job_service") for r in line if of(r, "batch", "busyness") < 0.97]
        above = [at(r, "t_job_service") for r in line if of(r, "batch", "busyness") >= 0.97]
        low, high = max(below, default=0.0), min(above, default=float("inf"))
        holds = holds and low <= wanted * 1.1 and high >= wanted * 0.9
        said.append(f"{cell}: between {low:.2g} and {high:.2g} s, expected {wanted:.2f} s")
    return Finding.when(holds, "; ".join(said))


def _relief(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        single, multi = (_line(records, cell, f"monolithic-{path}") for path in ("single", "multi"))
        slow = [(s, m) for s, m in zip(single, multi, strict=True) if at(s, "t_job_service") >= 1]
        busier = all(of(s, "batch", "busyness") > of(m, "batch", "busyness") for s, m in slow)
        waits = [(of(s, "batch", "wait"), of(m, "batch", "wait")) for s, m in slow]
        holds = holds and busier and all(s > m for s, m in waits)
        s, m = slow[-1]
        said.append(
            f"{cell} at {at(s, 't_job_service'):g} s: busyness {of(s, 'batch', 'busyness'):.2f} to "
            f"{of(m, 'batch', 'busyness'):.2f}, batch wait {waits[-1][0]:,.0f} to {waits[-1][1]:,.1f} s"
        )
    return Finding.when(holds, "; ".join(said))


def _blocks(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        multi, shared = (_line(records, cell, name) for name in ("monolithic-multi", "shared-state"))
        calm, slow, free = (of(r, "batch", "wait") for r in (multi[0], multi[-1], shared[-1]))
        holds = holds and slow > 5 * calm and slow > 5 * free
        said.append(f"{cell}: batch wait {calm:.2g} s rises to {slow:,.1f} s; shared state {free:.2g} s")
    return Finding.when(holds, "; ".join(said))


def _independent(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        shared = _line(records, cell, "shared-state")
        waits = [of(record, "batch", "wait") for record in shared]
        busy = [of(record, "batch", "busyness") for record in shared]
        holds = holds and max(waits) < 1.1 * min(waits) and max(busy) < 1.05 * min(busy)
        said.append(f"{cell}: wait {min(waits):.3g} to {max(waits):.3g} s, busyness {min(busy):.3f} to {max(busy):.3f}")
    return Finding.when(holds, "; ".join(said))


def _few_conflicts(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        worst = 0.0
        for record in _line(records, cell, "shared-state"):
            for kind in ("batch", "service"):
                more = of(record, kind, "busyness") - of(record, kind, "no_conflict")
                worst = max(worst, more if not saturated(record, kind) else 0.0)
        holds = holds and worst < 0.1
        said.append(f"{cell}: at most {worst:.4f} of a day spent again because of conflicts")
    why = "while one service job is decided for 100 s the cell changes under it; the fewer machines, the more it meets"
    return Finding.when(holds, "; ".join(said), why)


def _all_scheduled(records: Sequence[Record]) -> Finding:
    said, holds = [], True
    for cell in _cells(records):
        shared = _line(records, cell, "shared-state")
        lost = max(unscheduled(record) for record in shared)
        abandoned = sum(record["result"]["jobs"]["abandoned"] for record in shared)
        holds = holds and abandoned == 0 and lost < 0.01
        said.append(f"{cell}: {abandoned} abandoned, at most {lost:.2%} not yet scheduled when the run ends")
    return Finding.when(
        holds, "; ".join(said), "what is missing was still thought about, or queued, when the run ended"
    )


def _of(name: str, figure: int, claim: str, source: str, metric: str, expectation: str, judge: Judge) -> Experiment:
    return Experiment(name, claim, source, figure, metric, expectation, sweep, judge, SMALL)


EXPERIMENTS = (
    _of(
        "single-path-linear", 6, "Single-path: busyness grows linearly with t_job until it is 1", "Omega §4.1, fig. 6a",
        "busyness", "a straight line to within 0.02 below 0.9; above 0.97 beyond saturation", _linear,
    ),
    _of(
        "single-path-saturation", 6, "Single-path saturates when t_job reaches the mean gap between jobs",
        "Omega §4.1, fig. 6a; exact points only in the plot", "busyness",
        "busyness reaches 0.97 within 10 % of 1/λ − t_task × mean tasks", _saturation,
    ),
    _of(
        "single-path-wait", 5, "Single-path: wait diverges at saturation", "Omega §4.1, fig. 5a", "wait",
        "100 times the unloaded wait, and beyond 300 s, at t_job = 100 s", _diverges,
    ),
    _of(
        "single-path-one-line", 5, "Single-path: service jobs wait as long as batch jobs", "Omega §4.1, fig. 5a",
        "wait", "within a factor of 2 when a quarter busy or more, before saturation", _same_wait,
    ),
    _of(
        "slo-on-b", 5, "B misses the 30 s of its batch jobs under single-path", "Omega §4.1, fig. 5a", "batch.wait",
        "B misses it from some t_job on, earlier than with a fast path", _misses_slo,
    ),
    _of(
        "multi-path-relief", 5, "A fast path lowers wait and busyness even for long t_job(service)",
        "Omega §4.1, fig. 5b, 6b", "wait, busyness", "both lower than single-path at every t_job from 1 s on", _relief,
    ),
    _of(
        "multi-path-blocks", 5, "Multi-path: batch still waits in line behind slow service jobs", "Omega §4.1, fig. 5b",
        "batch.wait", "at 100 s 5 times the wait at 0.01 s, and 5 times that of shared state", _blocks,
    ),
    _of(
        "shared-independent", 5, "Shared state: batch is independent of the service scheduler's decision time",
        "Omega §4.3, fig. 5c, 6c", "batch.wait, batch.busyness", "wait within 10 %, busyness within 5 %, for all t_job",
        _independent,
    ),
    _of(
        "shared-few-conflicts", 6, "Shared state: busyness shows that conflicts cost little", "Omega §4.3, fig. 6c",
        "busyness, no_conflict", "less than 0.1 above the no-conflict approximation while not saturated",
        _few_conflicts,
    ),
    _of(
        "shared-schedules-all", 5, "Shared state schedules all jobs", "Omega §4.3, fig. 5c", "jobs",
        "none abandoned; less than 1 % unscheduled when the run ends", _all_scheduled,
    ),
)  # fmt: skip
