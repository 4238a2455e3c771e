"""Claims of the Omega paper about figures 11 to 14, measured on a trace with bootstrap intervals (§5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nextafter

from omega.experiments.bootstrap import FEWEST_JOBS, Interval, compared, difference, interval, sums_of
from omega.experiments.experiment import at, where
from omega.experiments.finding import Conclusion
from omega.experiments.results import Record
from omega.experiments.trace_figures import AT, MODES, Saturation, offered, overloaded

SLO_SECONDS = 30.0
ABOVE_0, ABOVE_1 = nextafter(0, 1), nextafter(1, 2)
"""Equal values confirm no effect."""
STRADDLES = "the interval of a measured value includes a bound of the expectation"


@dataclass(slots=True)
class Judged:
    """A claim with what was measured of it.

    It holds if each measured interval is within its bounds, and fails if one is outside. Otherwise it is undecided.
    Fewer than `FEWEST_JOBS` jobs in a run decide nothing.
    """

    name: str
    figure: int
    claim: str
    source: str
    expectation: str
    otherwise: str = ""
    """Reason if the claim does not hold."""
    fitted: str = ""
    """Inputs that were fitted; the claim is then no evidence."""
    measured: list[str] = field(default_factory=list)
    _verdicts: list[Conclusion] = field(default_factory=list)
    fewest: int | None = None
    """Smallest number of jobs in a run that it uses."""

    def use(self, records: Sequence[Record], kind: str) -> None:
        """Count the jobs of a kind of records that the claim uses."""
        jobs = sums_of(records, kind).jobs
        self.fewest = jobs if self.fewest is None else min(self.fewest, jobs)

    def within(self, text: str, value: Interval, low: float = -inf, high: float = inf, form: str = ".2f") -> None:
        """Add a measurement, which must be from `low` to `high`; `ABOVE_1` and `ABOVE_0` exclude what is equal."""
        self.measured.append(f"{text}: {value.text(form)}")
        if not isfinite(value.value):
            self._verdicts.append(Conclusion.UNKNOWN)
        elif value.low >= low and value.high <= high and low <= value.value <= high:
            self._verdicts.append(Conclusion.HOLDS)
        elif value.high < low or value.low > high:
            self._verdicts.append(Conclusion.FAILS)
        else:
            self._verdicts.append(Conclusion.UNDECIDED)

    def want(self, text: str, *, holds: bool) -> None:
        """Add a condition without an interval."""
        self.measured.append(text)
        self._verdicts.append(Conclusion.HOLDS if holds else Conclusion.FAILS)

    @property
    def verdict(self) -> Conclusion:
        """The verdict."""
        found = set(self._verdicts)
        if not found or Conclusion.UNKNOWN in found:
            return Conclusion.UNKNOWN
        if self.fewest is not None and self.fewest < FEWEST_JOBS:
            return Conclusion.INSUFFICIENT
        order = (Conclusion.FAILS, Conclusion.UNDECIDED, Conclusion.HOLDS)
        return next(each for each in order if each in found)

    @property
    def reason(self) -> str:
        """Why it does not hold; ``""`` if it holds."""
        if self.verdict is Conclusion.INSUFFICIENT:
            return f"a run has {self.fewest:,} jobs, and at least {FEWEST_JOBS} decide"
        if self.verdict is Conclusion.UNDECIDED:
            return STRADDLES
        if self.verdict is Conclusion.UNKNOWN:
            return "nothing of it was simulated, or what it is compared with never occurred"
        return self.otherwise if self.verdict is Conclusion.FAILS else ""

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "name": self.name, "figure": self.figure, "claim": self.claim, "source": self.source,
            "expectation": self.expectation, "measured": self.measured, "verdict": str(self.verdict),
            "reason": self.reason, "fitted": self.fitted, "jobs": self.fewest,
        }  # fmt: skip


def of_figure_11(records: Sequence[Record]) -> list[Judged]:
    """Judge the claims about busyness over both decision times."""
    low = Judged(
        "hifi-busyness", 11, "Service busyness stays low over almost all decision times", "Omega §5, fig. 11",
        "at most 0.5 at 2 of 3 points",
    )  # fmt: skip
    if records:
        low.use(records, "service")
        busy = [
            interval("busyness", each, "service").value for each in points(records, "t_job_service", "t_task_service")
        ]
        calm = sum(value <= 0.5 for value in busy)
        low.want(f"at most 0.5 at {calm} of {len(busy)} points", holds=3 * calm >= 2 * len(busy))
    slow = Judged(
        "hifi-slow-tasks", 11, "t_task(service) = 1 s at t_job(service) = 0.1 s causes few conflicts", "Omega §5.1",
        "conflict fraction of service jobs at most 0.2",
    )  # fmt: skip
    if there := where(records, t_job_service=0.1, t_task_service=1.0):
        slow.use(there, "service")
        slow.within("conflict fraction", interval("conflict_fraction", there, "service"), high=0.2, form=".3f")
    return [low, slow]


FITTED_B = "the pace of cell B was fitted to figure 8"


def of_figure_12(records: Sequence[Record]) -> list[Judged]:
    """Judge the claims about cell B at t_job(service) = 10 s."""
    there, fails = where(records, t_job_service=AT), "probably cell B was fuller, and its jobs larger than these"
    many, late, more = (
        Judged(name, 12, claim, f"Omega §5.1, fig. {figure}", expectation, fails, FITTED_B)
        for name, claim, figure, expectation in (
            ("hifi-b-conflicts", "At t_job(service) = 10 s service jobs conflict more often than they commit", "12b",
             "conflict fraction above 1.0"),
            ("hifi-b-slo", "There service jobs miss the 30 s although their scheduler is not saturated", "12a",
             "mean wait above 30 s, busyness below 0.99"),
            ("hifi-b-busyness", "There conflicts raise service busyness by about 40 %", "12c",
             "1.2 to 1.6 times the no-conflict approximation"),
        )
    )  # fmt: skip
    if there:
        for each in (many, late, more):
            each.use(there, "service")
        many.within("conflict fraction", interval("conflict_fraction", there, "service"), low=1.0)
        late.within("wait (s)", interval("wait", there, "service"), low=SLO_SECONDS, form=".1f")
        late.within("busyness", interval("busyness", there, "service"), high=0.99)
        more.within("busyness ÷ no-conflict", interval("retries", there, "service"), low=1.2, high=1.6)
    return [many, late, more]


def of_figure_13(records: Sequence[Record], found: Sequence[Saturation]) -> list[Judged]:
    """Judge the claims about one and three batch schedulers."""
    moves = Judged(
        "hifi-saturation", 13, "Three batch schedulers move saturation of t_job(batch) about threefold",
        "Omega §5.1, fig. 13a: about 4 to 15 s", "2.5 to 3.75 times, both where jobs and gaps put it, to within 10 %",
        "the jobs of some schedulers take more time than those of others, since jobs are divided by their hash",
    )  # fmt: skip
    conflicts = Judged(
        "hifi-three-conflicts", 13, "Three batch schedulers have a conflict fraction of about 0.1",
        "Omega §5.1, fig. 13b", "0.05 to 0.2 at the last decision time before saturation",
        "live batch schedulers search in parts of their own, and the cell has room for most jobs in each part",
    )  # fmt: skip
    waits = Judged(
        "hifi-three-slo", 13, "All schedulers start jobs within 30 s up to saturation", "Omega §5.1, fig. 13",
        "mean waits of both kinds at most 30 s up to three quarters of the saturation",
        "jobs arrive in bursts, and wait for one another below saturation",
    )  # fmt: skip
    for each in found:
        moves.use(each.records, "batch")
        moves.measured.append(f"{each.schedulers}: between {each.low:.2f} and {each.high:.2f} s")
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
    conflicts.within(f"at {at(last[0], 't_job_batch'):.3g} s", value, low=0.05, high=0.2, form=".3f")
    early = [each for each in calm if at(each, "t_job_batch") <= 0.76 * found.seconds][-1:]
    if early:
        waits.use(early, "batch")
        for kind in ("batch", "service"):
            text = f"{kind} at {at(early[0], 't_job_batch'):.3g} s: wait (s)"
            waits.within(text, interval("wait", early, kind), high=SLO_SECONDS, form=".1f")


def of_figure_14(records: Sequence[Record]) -> list[Judged]:
    """Judge the claims about gangs and coarse detection at t_job(service) = 10 s."""
    gangs = Judged(
        "hifi-gang-conflicts", 14, "All-or-nothing commits about double the conflicts of fine detection",
        "Omega §5.2, fig. 14a", "service conflict fraction 1.5 to 3 times that of incremental commits",
        "most service jobs have one task, for which both are the same",
    )  # fmt: skip
    slightly = Judged(
        "hifi-gang-busyness", 14, "All-or-nothing commits raise busyness slightly", "Omega §5.2, fig. 14b",
        "service busyness more than that of incremental commits, at most 1.25 times",
        "most service jobs have one task, for which both are the same",
    )  # fmt: skip
    coarse, busier = (
        Judged(name, 14, f"Coarse detection raises {what} two- to threefold", f"Omega §5.2, fig. {figure}",
               "2 to 3 times fine detection, incremental commits", otherwise)
        for name, what, figure, otherwise in (
            ("hifi-coarse-conflicts", "conflicts", "14a",
             "fine detection sees almost no conflicts here, since most machines have room for more tasks"),
            ("hifi-coarse-busyness", "busyness", "14b",
             "few attempts conflict at all, so retries are a small part of busyness"),
        )
    )  # fmt: skip
    of = {mode: where(records, t_job_service=AT, detection=mode[0], commit=mode[1]) for mode in MODES}
    if all(of.values()):
        plain, gang, moved = of[MODES[0]], of[MODES[1]], of[MODES[2]]
        for each in (gangs, slightly, coarse, busier):
            each.use(plain, "service")
        for judged, others, metric, low, high in (
            (gangs, gang, "conflict_fraction", 1.5, 3.0),
            (slightly, gang, "busyness", ABOVE_1, 1.25),
            (coarse, moved, "conflict_fraction", 2.0, 3.0),
            (busier, moved, "busyness", 2.0, 3.0),
        ):
            judged.within("ratio", compared(metric, others, plain, "service"), low, high)
            values = (interval(metric, each, "service").text(".3f") for each in (others, plain))
            judged.measured.append(" beside ".join(values))
    return [gangs, slightly, coarse, busier]


def of_both_simulators(records: Sequence[Record], light: Sequence[Record]) -> list[Judged]:
    """Judge the claim about both simulators on one cell, over all decision times that both simulated."""
    fewer = Judged(
        "hifi-more-conflicts", 14, "The lightweight simulator sees fewer conflicts than the high-fidelity one",
        "Omega §5", "service conflict fraction of the high-fidelity simulator higher, over all t_job(service)",
        "the cell has room for most jobs in both simulators",
    )  # fmt: skip
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
