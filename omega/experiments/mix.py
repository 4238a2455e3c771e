"""The workloads themselves: what arrives and what is there (Omega §2.1, figs. 2 to 4)."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from omega.experiments.experiment import Experiment, Finding, Form, Verdict, nothing
from omega.experiments.results import Record
from omega.workload import presets
from omega.workload.quantiles import quantiles
from omega.workload.workload import Workload

NONE = Form(days=0.01, points=0, cells=("C",))
HOURS = 0.29
"""Days of arrivals looked at: as many hours as were measured."""
KINDS = ("batch", "service")


@lru_cache(maxsize=3)
def shares(cell: str) -> dict[str, tuple[float, float]]:
    """The shares of batch and service in jobs and tasks that arrive, and in cpu and memory × time that are held.

    Held is counted over `HOURS`, what was there at the beginning included.
    """
    workload = presets.draw(cell, 0, HOURS)
    counts = {name: np.zeros(len(KINDS)) for name in ("jobs", "tasks", "cpu", "memory")}
    for arrival in workload.arrivals:
        which = KINDS.index(arrival.job.kind)
        counts["jobs"][which] += 1
        counts["tasks"][which] += arrival.job.total
    _held(workload, counts)
    return {name: (float(each[0] / each.sum()), float(each[1] / each.sum())) for name, each in counts.items()}


def _held(workload: Workload, counts: dict[str, "np.ndarray[tuple[int], np.dtype[np.float64]]"]) -> None:
    until = HOURS * presets.DAY
    for arrival in (*workload.residents, *workload.arrivals):
        for group in arrival.job.groups:
            seconds = min(group.duration_ms / 1000, until - arrival.at_seconds)
            for name, need in zip(("cpu", "memory"), group.need, strict=True):
                counts[name][KINDS.index(arrival.job.kind)] += need * group.count * seconds


def _batch_share(_: Sequence[Record]) -> Finding:
    found = {cell: shares(cell)["jobs"][0] for cell in presets.PRESETS}
    said = f"C: {found['C']:.1%} (A and B as C, by construction)"
    return Finding.when(found["C"] > 0.8, said)


def _service_share(_: Sequence[Record]) -> Finding:
    cpu, memory = shares("C")["cpu"][1], shares("C")["memory"][1]
    why = (
        "cpu does, memory does not: of what the trace's residents ask for, service jobs have 54 % of the cpu and 48 % "
        "of the memory, and what arrives is almost all batch"
    )
    holds = 0.55 <= cpu <= 0.80 and 0.55 <= memory <= 0.80
    return Finding.when(holds, f"C: {cpu:.0%} of the cpu and {memory:.0%} of the memory held", why)


def _longer(_: Sequence[Record]) -> Finding:
    def middle(what: str) -> list[float]:
        return [quantiles(f"{kind}_{what}").quantile(0.5) for kind in KINDS]

    runs, gaps = middle("task_seconds"), [quantiles(f"{kind}_interarrival_seconds").mean for kind in KINDS]
    tasks = [quantiles(f"{kind}_tasks_per_job").mean for kind in KINDS]
    said = (
        f"C, batch and service: tasks run {runs[0]:,.0f} and {runs[1]:,.0f} s (median), jobs have {tasks[0]:.1f} and "
        f"{tasks[1]:.1f} tasks and come every {gaps[0]:.2f} and {gaps[1]:,.0f} s (means)"
    )
    return Finding.when(runs[1] > runs[0] and tasks[1] < tasks[0] and gaps[1] > gaps[0], said)


def _machines(_: Sequence[Record]) -> Finding:
    return Finding.when(presets.MACHINES == 12_477, f"C: {presets.MACHINES:,} machines up when the trace begins")


def _gaps(_: Sequence[Record]) -> Finding:
    table = quantiles("batch_interarrival_seconds")
    mean = 1 / sum(1 / quantiles(f"{kind}_interarrival_seconds").mean for kind in KINDS)
    said = f"C: mean {mean:.2f} s in the first 7 hours, 99 % of batch gaps below {table.quantile(0.99):.0f} s"
    return Finding.when(1.94 <= mean <= 5.47, said)


def _sizes(_: Sequence[Record]) -> Finding:
    table = quantiles("batch_tasks_per_job")
    half, most = table.quantile(0.5), table.values[-1]
    p95, p99 = table.quantile(0.95), table.quantile(0.99)
    said = f"C, 7 hours: p50 {half:.0f}, p95 {p95:.0f}, p99 {p99:.0f}, most {most:,.0f}, mean {table.mean:.1f}"
    return Finding.when(half == 1 and 0.5 < p95 / 100 < 2 and 0.5 < p99 / 967 < 2 and 0.7 < table.mean / 31 < 1.3, said)


def _unknown(reason: str) -> Callable[[Sequence[Record]], Finding]:
    return lambda _: Finding(Verdict.UNKNOWN, "–", reason)


EXPERIMENTS = (
    Experiment(
        "machines-of-c", "C has about 12,500 machines (12,477 at the beginning)", "public trace", 2, "machines",
        "12,477", nothing, _machines, NONE,
    ),
    Experiment(
        "machines-of-a-b", "A is medium-sized and fairly busy, B is one of the larger ones", "Omega §2.1", 2,
        "machines",        "never disclosed", nothing,
        _unknown("A and B were never published; here both have C's machines, and their pace is calibrated"), NONE,
    ),
    Experiment(
        "batch-share", "More than 80 % of jobs are batch", "Omega §2.1, fig. 2", 2, "share of jobs", "above 0.8",
        nothing, _batch_share, NONE,
    ),
    Experiment(
        "service-share", "Service jobs hold 55 to 80 % of what is in use", "Omega §2.1, fig. 2", 2,
        "share of cpu, memory", "0.55 to 0.80 of both", nothing, _service_share, NONE,
    ),
    Experiment(
        "service-longer", "Service jobs run longer, have fewer tasks and come less often", "Omega §2.1, figs. 3, 4", 3,
        "seconds, tasks per job", "longer median run, fewer tasks, longer gaps", nothing, _longer, NONE,
    ),
    Experiment(
        "service-months", "20 to 40 % of service jobs run for more than a month", "Omega §2.1, fig. 3", 3,
        "share of jobs", "0.2 to 0.4", nothing,
        _unknown("the tables see 7 hours of the trace; no longer run can be told from them"), NONE,
    ),
    Experiment(
        "gaps-of-c", "Jobs come to C every 3.75 s on average, 1.94 to 5.47 s on single days", "public trace, fig. 3", 3,
        "seconds between jobs", "a mean within the days' range", nothing, _gaps, NONE,
    ),
    Experiment(
        "tasks-of-c", "Batch jobs of C: p50 1, p95 100, p99 967 tasks, mean 31", "public trace, fig. 4", 4,
        "tasks per job", "p50 exactly, p95 and p99 within a factor of 2, mean within 30 %", nothing, _sizes, NONE,
    ),
    Experiment(
        "old-placement", "Placing a production service job could take tens of seconds", "Omega §2.1", 4, "seconds",
        "tens of seconds", nothing,
        _unknown("a remark on Google's former scheduler; nothing of it is published that could be run"), NONE,
    ),
)  # fmt: skip
