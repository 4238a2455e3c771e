"""The workloads themselves: arriving and initial jobs (Omega §2.1, figs. 2 to 4)."""

import os
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np

from omega.experiments.experiment import SEEDS, Criterion, Experiment, Extent, nothing
from omega.experiments.finding import Measurements
from omega.experiments.results import Record
from omega.traces.google_window import first_machines
from omega.workload import presets
from omega.workload.quantiles import quantiles
from omega.workload.workload import Workload

NONE = Extent(days=0.29, points=0, cells=("C",))
"""Read off the tables of the trace: nothing is sampled."""
SAMPLED = Extent(days=0.29, points=0, cells=("C",), seeds=SEEDS)
TRACE = "traces/google-2011"
"""The public trace in the folder that OMEGA_SHARED names."""
SIZES_WITHIN = (0.20, 0.12, 0.19)
"""Standard errors of the seven hourly values of p95, p99 and mean, relative to those of all hours."""
HOURS = 0.29
"""Days of arrivals looked at: as many hours as were measured."""
KINDS = ("batch", "service")


@cache
def shares(cell: str, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Return the shares of batch and service in jobs and tasks that arrive, and in cpu and memory × time that are held.

    Held is counted over `HOURS`, including initial jobs.
    """
    workload = presets.draw(cell, seed, HOURS)
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


def _batch_share(measured: Measurements, _: Sequence[Record], seed: int) -> None:
    share = shares("C", seed)["jobs"][0]
    measured.want(share > 0.8)
    measured.say("C: {:.1%} (A and B as C, by construction)", share)


def _service_share(measured: Measurements, _: Sequence[Record], seed: int) -> None:
    held = [shares("C", seed)[name][1] for name in ("cpu", "memory")]
    measured.want(all(0.55 <= each <= 0.80 for each in held))
    measured.say("C: {:.0%} of the cpu and {:.0%} of the memory held", *held)


def _longer(measured: Measurements, _records: Sequence[Record], _seed: int) -> None:
    def middle(what: str) -> list[float]:
        return [quantiles(f"{kind}_{what}").quantile(0.5) for kind in KINDS]

    runs, gaps = middle("task_seconds"), [quantiles(f"{kind}_interarrival_seconds").mean for kind in KINDS]
    tasks = [quantiles(f"{kind}_tasks_per_job").mean for kind in KINDS]
    measured.want(runs[1] > runs[0] and tasks[1] < tasks[0] and gaps[1] > gaps[0])
    measured.say(
        "C, batch and service: tasks run {:,.0f} and {:,.0f} s (median), jobs have {:.1f} and {:.1f} tasks and come "
        "every {:.2f} and {:,.0f} s (means)",
        *runs,
        *tasks,
        *gaps,
    )


def _machines(measured: Measurements, _: Sequence[Record], seed: int) -> None:
    folder = Path(os.environ.get("OMEGA_SHARED") or "shared") / TRACE
    if not folder.is_dir():
        measured.unknown(f"no trace in {TRACE} of the folder that OMEGA_SHARED names")
        return
    ours, file = len(presets.draw("C", seed, 0.01).machines), len(first_machines(folder))
    measured.want(ours == file)
    measured.say("C: {:,.0f} machines; machine_events of the trace: {:,.0f} when it begins", ours, file)


def _gaps(measured: Measurements, _records: Sequence[Record], _seed: int) -> None:
    table = quantiles("batch_interarrival_seconds")
    mean = 1 / sum(1 / quantiles(f"{kind}_interarrival_seconds").mean for kind in KINDS)
    measured.want(1.94 <= mean <= 5.47)
    measured.say("C: mean {:.2f} s in the first 7 hours, 99 % of batch gaps below {:.0f} s", mean, table.quantile(0.99))


def _sizes(measured: Measurements, _records: Sequence[Record], _seed: int) -> None:
    table = quantiles("batch_tasks_per_job")
    half, p95, p99 = (table.quantile(share) for share in (0.5, 0.95, 0.99))
    close = all(
        abs(ours / theirs - 1) <= most
        for ours, theirs, most in zip((p95, p99, table.mean), (100, 967, 31), SIZES_WITHIN, strict=True)
    )
    measured.want(half == 1 and close)
    measured.say(
        "C, 7 hours: p50 {:.0f}, p95 {:.0f}, p99 {:.0f}, most {:,.0f}, mean {:.1f}",
        half,
        p95,
        p99,
        float(table.values[-1]),
        table.mean,
    )


def _unknown(reason: str) -> Criterion:
    return lambda measured, *_: measured.unknown(reason)


_of_workload = partial(Experiment, sweep=nothing, small=NONE, form=NONE)

EXPERIMENTS = (
    _of_workload(
        name="machines-of-c",
        claim="C has about 12,500 machines (12,477 at the beginning)",
        source="public trace",
        figure=2,
        metric="machines",
        expectation="as many as machine_events lists at the beginning",
        criterion=_machines,
    ),
    _of_workload(
        name="machines-of-a-b",
        claim="A is medium-sized and fairly busy, B is one of the larger ones",
        source="Omega §2.1",
        figure=2,
        metric="machines",
        expectation="never disclosed",
        criterion=_unknown("A and B were never published; here both have C's machines, and their pace is calibrated"),
    ),
    _of_workload(
        name="batch-share",
        claim="More than 80 % of jobs are batch",
        source="Omega §2.1, fig. 2",
        figure=2,
        metric="share of jobs",
        expectation="above 0.8",
        criterion=_batch_share,
        form=SAMPLED,
    ),
    _of_workload(
        name="service-share",
        claim="Service jobs hold 55 to 80 % of the resources in use",
        source="Omega §2.1, fig. 2",
        figure=2,
        metric="share of cpu, memory",
        expectation="0.55 to 0.80 of both",
        criterion=_service_share,
        otherwise="of the requests of the trace's running residents, service jobs have 66 % of the cpu and 63 % of the "
        "memory. The drawn cell is full in its scarcest resource",
        form=SAMPLED,
    ),
    _of_workload(
        name="service-longer",
        claim="Service jobs run longer, have fewer tasks and come less often",
        source="Omega §2.1, figs. 3, 4",
        figure=3,
        metric="seconds, tasks per job",
        expectation="longer median run, fewer tasks, longer gaps",
        criterion=_longer,
    ),
    _of_workload(
        name="service-months",
        claim="20 to 40 % of service jobs run for more than a month",
        source="Omega §2.1, fig. 3",
        figure=3,
        metric="share of jobs",
        expectation="0.2 to 0.4",
        criterion=_unknown("the tables cover 7 hours of the trace, so longer runs cannot be measured"),
    ),
    _of_workload(
        name="gaps-of-c",
        claim="Jobs come to C every 3.75 s on average, 1.94 to 5.47 s on single days",
        source="public trace, fig. 3",
        figure=3,
        metric="seconds between jobs",
        expectation="a mean within the days' range",
        criterion=_gaps,
    ),
    _of_workload(
        name="tasks-of-c",
        claim="Batch jobs of C: p50 1, p95 100, p99 967 tasks, mean 31",
        source="public trace, fig. 4",
        figure=4,
        metric="tasks per job",
        expectation="p50 exactly, p95 within 20 %, p99 within 12 %, mean within 19 %: "
        "the standard errors of seven hourly values",
        criterion=_sizes,
    ),
    _of_workload(
        name="old-placement",
        claim="Placing a production service job could take tens of seconds",
        source="Omega §2.1",
        figure=4,
        metric="seconds",
        expectation="tens of seconds",
        criterion=_unknown("Google's former scheduler, which this remark describes, is not published"),
    ),
)
