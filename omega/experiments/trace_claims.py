"""Claims of the Omega paper about figures 11 to 14, measured on a trace with bootstrap intervals (§5)."""

from collections.abc import Sequence

from omega.experiments.bootstrap import compared, difference, interval, sums_of
from omega.experiments.decision_time import SLO_SECONDS
from omega.experiments.experiment import at, where
from omega.experiments.judged import ABOVE_0, ABOVE_1, Judged
from omega.experiments.results import Record
from omega.experiments.trace_figures import AT, MODES, SLOW_TASK, Saturation, offered, overloaded

SELDOM_FULL = (
    "batch jobs seldom fill machines here, so fine detection sees few conflicts. With `--placement best-fit` the ratio "
    "at 10 s was 3.23 [2.22–5.29], on parts 0 to 4 of Google's trace"
)
FULLER = (
    "probably cell B was fuller, and its jobs larger. With `--placement best-fit` the conflict fraction was 0.10 and "
    "retries added 10 %, on parts 0 to 4 of Google's trace"
)
"""Reasons; the figures with another placement are of one run each."""


def of_figure_11(records: Sequence[Record]) -> list[Judged]:
    """Judge the claims about busyness over both decision times."""
    low = Judged(
        name="hifi-busyness",
        figure=11,
        claim="Service busyness stays low over almost all decision times",
        source="Omega §5, fig. 11",
        expectation="at most 0.5 at 2 of 3 points",
    )
    if records:
        low.use(records, "service")
        busy = [
            interval("busyness", each, "service").value for each in points(records, "t_job_service", "t_task_service")
        ]
        calm = sum(value <= 0.5 for value in busy)
        low.want(f"at most 0.5 at {calm} of {len(busy)} points", holds=3 * calm >= 2 * len(busy))
    return [low]


def _slow_tasks(records: Sequence[Record]) -> Judged:
    """Judge the claim about slow tasks, which the paper makes of cell B."""
    slow = Judged(
        name="hifi-slow-tasks",
        figure=12,
        claim="t_task(service) = 1 s at t_job(service) = 0.1 s causes few conflicts",
        source="Omega §5.1",
        expectation="B: conflict fraction of service jobs at most 0.2",
        fitted=FITTED_B,
    )
    if there := where(records, t_job_service=0.1, t_task_service=SLOW_TASK):
        slow.use(there, "service")
        slow.within("conflict fraction", interval("conflict_fraction", there, "service"), high=0.2, form=".3f")
    return slow


FITTED_B = "the pace of cell B was fitted to figure 8"


def of_figure_12(records: Sequence[Record]) -> list[Judged]:
    """Judge the claims about cell B at t_job(service) = 10 s."""
    there, fails = where(records, t_job_service=AT), FULLER
    many, late, more = (
        Judged(
            name=name,
            figure=12,
            claim=claim,
            source=f"Omega §5.1, fig. {figure}",
            expectation=expectation,
            otherwise=fails,
            fitted=FITTED_B,
        )
        for name, claim, figure, expectation in (
            (
                "hifi-b-conflicts",
                "At t_job(service) = 10 s service jobs conflict more often than they commit",
                "12b",
                "conflict fraction above 1.0",
            ),
            (
                "hifi-b-slo",
                "There service jobs miss the 30 s although their scheduler is not saturated",
                "12a",
                "mean wait above 30 s, busyness below 0.99",
            ),
            (
                "hifi-b-busyness",
                "There conflicts raise service busyness by about 40 %",
                "12c",
                "1.2 to 1.6 times the no-conflict approximation",
            ),
        )
    )
    if there:
        for each in (many, late, more):
            each.use(there, "service")
        many.within("conflict fraction", interval("conflict_fraction", there, "service"), low=1.0, form=".3f")
        late.within("wait (s)", interval("wait", there, "service"), low=SLO_SECONDS, form=",.1f")
        late.within("busyness", interval("busyness", there, "service"), high=0.99)
        more.within("busyness ÷ no-conflict", interval("retries", there, "service"), low=1.2, high=1.6)
    return [many, late, more, _slow_tasks(records)]


def of_figure_13(records: Sequence[Record], found: Sequence[Saturation]) -> list[Judged]:
    """Judge the claims about one and three batch schedulers."""
    moves = Judged(
        name="hifi-saturation",
        figure=13,
        claim="Three batch schedulers move saturation of t_job(batch) about threefold",
        source="Omega §5.1, fig. 13a: about 4 to 15 s",
        expectation="2.5 to 3.75 times, both where jobs and gaps put it, to within 10 %",
        otherwise="schedulers share jobs by a hash, and the jobs of some take more time than those of others",
    )
    conflicts = Judged(
        name="hifi-three-conflicts",
        figure=13,
        claim="Three batch schedulers have a conflict fraction of about 0.1",
        source="Omega §5.1, fig. 13b",
        expectation="0.05 to 0.2 at the last decision time before saturation",
        otherwise="live batch schedulers begin each search at a random machine of their own part, where most have "
        "room. With `--placement best-fit` it was 0.17 at 12.4 s, on parts 0 to 4 of Google's trace",
    )
    waits = Judged(
        name="hifi-three-slo",
        figure=13,
        claim="All schedulers start jobs within 30 s up to saturation",
        source="Omega §5.1, fig. 13",
        expectation="mean waits of both kinds at most 30 s up to three quarters of the saturation",
        otherwise="jobs arrive in bursts, and wait for one another below saturation",
    )
    for each in found:
        moves.use(each.records, "batch")
        moves.measured.append(f"{each.schedulers}: between {each.low:,.4g} and {each.high:,.4g} s")
        from_load = offered(each)
        near = 0.9 * from_load.value <= each.seconds <= 1.1 * from_load.value
        moves.want(f"by their decisions {from_load.text()} s", holds=near)
    if len(found) > 1:
        ratio = found[-1].seconds / found[0].seconds
        moves.want(f"× {ratio:.2f}", holds=2.5 <= ratio <= 3.75)
        _below_saturation(records, found[-1], conflicts, waits)
    return [moves, conflicts, waits]


def _below_saturation(records: Sequence[Record], found: Saturation, conflicts: Judged, waits: Judged) -> None:
    """Judge the runs of several schedulers that are not saturated."""
    line = [*where(records, batch=found.schedulers), *found.records]
    calm = sorted((each for each in line if not overloaded(each, "batch")), key=lambda each: at(each, "t_job_batch"))
    if not calm:
        return
    last = calm[-1:]
    conflicts.use(last, "batch")
    value = interval("conflict_fraction", last, "batch")
    conflicts.within(f"at {at(last[0], 't_job_batch'):,.4g} s", value, low=0.05, high=0.2, form=".3f")
    early = [each for each in calm if at(each, "t_job_batch") <= 0.76 * found.seconds][-1:]
    if early:
        waits.use(early, "batch")
        for kind in ("batch", "service"):
            if not sums_of(early, kind).jobs:
                continue
            text = f"{kind} at {at(early[0], 't_job_batch'):,.4g} s: wait (s)"
            waits.within(text, interval("wait", early, kind), high=SLO_SECONDS, form=",.1f")


def of_figure_14(records: Sequence[Record]) -> list[Judged]:
    """Judge the claims about gangs and coarse detection: conflicts over all t_job(service), busyness at 10 s."""
    gangs = Judged(
        name="hifi-gang-conflicts",
        figure=14,
        claim="All-or-nothing commits about double the conflicts of fine detection",
        source="Omega §5.2, fig. 14a",
        expectation="service conflict fraction over all t_job(service) 1.5 to 3 times that of incremental commits",
        otherwise="most service jobs have one task, for which both are the same",
    )
    slightly = Judged(
        name="hifi-gang-busyness",
        figure=14,
        claim="All-or-nothing commits raise busyness slightly",
        source="Omega §5.2, fig. 14b",
        expectation="service busyness more than that of incremental commits, at most 1.25 times",
        otherwise="most service jobs have one task, for which both are the same",
    )
    coarse, busier = (
        Judged(
            name=name,
            figure=14,
            claim=f"Coarse detection raises {what} two- to threefold",
            source=f"Omega §5.2, fig. {figure}",
            expectation="2 to 3 times that of fine detection, incremental commits",
            otherwise=otherwise,
        )
        for name, what, figure, otherwise in (
            (
                "hifi-coarse-conflicts",
                "conflicts",
                "14a",
                SELDOM_FULL,
            ),
            (
                "hifi-coarse-busyness",
                "busyness",
                "14b",
                "few attempts conflict at all, so retries are a small part of busyness",
            ),
        )
    )
    of = {mode: where(records, detection=mode[0], commit=mode[1]) for mode in MODES}
    if all(of.values()):
        plain, gang, moved = of[MODES[0]], of[MODES[1]], of[MODES[2]]
        for judged, others, metric, low, high in (
            (gangs, gang, "conflict_fraction", 1.5, 3.0),
            (slightly, gang, "busyness", ABOVE_1, 1.25),
            (coarse, moved, "conflict_fraction", 2.0, 3.0),
            (busier, moved, "busyness", 2.0, 3.0),
        ):
            both = (others, plain)
            if metric == "busyness":  # saturated schedulers are as busy as any
                both = (where(others, t_job_service=AT), where(plain, t_job_service=AT))
            judged.use(both[1], "service")
            judged.within("ratio", compared(metric, *both, "service"), low, high)
            values = (interval(metric, each, "service").text(".4f") for each in both)
            judged.measured.append(" beside ".join(values))
    return [gangs, slightly, coarse, busier]


def of_both_simulators(records: Sequence[Record], light: Sequence[Record]) -> list[Judged]:
    """Judge the claim about both simulators on one cell, over all decision times that both simulated."""
    fewer = Judged(
        name="hifi-more-conflicts",
        figure=14,
        claim="The lightweight simulator sees fewer conflicts than the high-fidelity one",
        source="Omega §5",
        expectation="service conflict fraction of the high-fidelity simulator higher, over all t_job(service)",
        otherwise="the cell has room for most jobs in both simulators",
    )
    times = {at(record, "t_job_service") for record in light}
    plain = where(records, detection=MODES[0][0], commit=MODES[0][1])
    high = [record for record in plain if at(record, "t_job_service") in times]
    if high and light:
        fewer.use(light, "service")
        fewer.within("difference", difference("conflict_fraction", high, light, "service"), low=ABOVE_0, form=".4f")
        for t_job in sorted(times):
            values = [
                interval("conflict_fraction", where(each, t_job_service=t_job), "service") for each in (high, light)
            ]
            fewer.measured.append(f"{t_job:g} s: {values[0].text('.3f')} beside {values[1].text('.3f')}")
    return [fewer]


def points(records: Sequence[Record], *names: str) -> list[list[Record]]:
    """Return records by the values of parameters: those of each point differ in their seeds alone."""
    by: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        by.setdefault(tuple(at(record, name) for name in names), []).append(record)
    return list(by.values())
