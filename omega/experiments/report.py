"""The page of the paper's claims and the measured results."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from omega.experiments.catalogue import PaperFigure
from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Experiment, Extent, at, where
from omega.experiments.finding import Conclusion, Finding
from omega.experiments.results import Record
from omega.experiments.sources import program_version, sources_digest

RANGE = re.compile(r"\(([\d.,%e+-]+) to ([\d.,%e+-]+)\)")
"""A range over the seeds as `Finding` states it."""

SMALLER = "the run is smaller than the one that decides on the claim"
"""The reason of figures without a verdict."""

OPENING = """# The Omega paper, reproduced

This page compares claims of the Omega paper (Schwarzkopf, Konwinski, Abd-El-Malek, Wilkes, EuroSys 2013) with results
of the simulator. The claims are those of §2.1, §4, §5.1 and §6 about figures 2 to 10, 15 and 16. The following command
simulates, draws the figures and writes the page:

```
{command}
```

`--days 7` simulates the paper's seven days, `--machines 1000` smaller cells. Each section names the commands and
simulations of its figure and claims. The expectations are code in `omega/experiments`. If a claim does not hold, the
page names the reason.

**The cells.** *C* is the cell of Google's public trace of 2011. Machines, arrivals, sizes, durations and requests are
measured on its first seven hours (`omega/workload/tables`); nothing is fitted. *A* and *B* were never published. They
are *calibrated*: they are C at another arrival rate, the only fitted parameter. At this rate, with decisions of 0.1 s
per job and 5 ms per task, one batch scheduler is saturated at 2.5 and 6 times the arrivals. Jobs of A and B need half
the resources of jobs of C, so that the cell is not full before its scheduler is busy. A claim with a fitted input is no
evidence and is counted separately. A cell is 60 % full when a run begins, and stays so at its own rate.

**The verdicts.** A claim *holds* if it holds for every seed; each seed draws other jobs and other days. Numbers are
medians over the seeds, with the range in brackets. "More" means more, not equal. Quantities that a claim calls equal
may differ by the tolerance of the expectation, and by no more than the range over the seeds. If a line below a table
mentions a longer run, the claim holds only if it also holds there. Runs with fewer days or machines than here
(`--small`, `--days`, `--machines`) give figures and no verdict.

**The runs.** Most runs are shorter than the paper's seven days and have fewer than 200 service jobs. Runs of calibrated
cells end when as many jobs have arrived as on C. Busyness and conflict fraction are medians of daily values. Error bars
of the figures are median absolute deviations (none for runs below two days). A wait is the mean over all jobs with a
first attempt.
"""

SET_UP = """## The set-up (§4, table 2)

| the paper | here |
| --- | --- |
| decision time t_job + t_task × tasks, 0.1 s and 5 ms | the same; a retry counts only the tasks still unplaced |
| wait: submission to the beginning of the first attempt | the same |
| busyness, conflict fraction: median of daily values, MAD | the same |
| randomised first fit, constraints ignored | the same (`--placement random`); machines are of the trace's classes |
| batch: priority bands 0 to 8 of the trace; service: the others | the same |
| 7 simulated days, Mesos 1 | stated under each figure; `--days 7` |
| initial fill about 60 % | 60 % of the scarcest resource |
| abandoned after 1,000 attempts | the same; a job that fits nowhere is blocked until room is freed, except two-level |
| a failed attempt under two-level takes no time and is repeated after 1 s | it takes a decision time, so that \
there are fewer: 1,019 beside 7,289 without a fit at t_job(service) = 100 s on the authors' day of jobs |
| Mesos: 1 ms an offer, DRF, everything free in one offer | the same; the authors' further rules: `--offers authors` |
| incremental or all-or-nothing commits, fine or coarse detection | `--commit`, `--detection`; here the first of both |
| the authors' retry, abandonment and counting | `--reference-rules`: their figures on one day of jobs, \
docs/decisions/0009 |
| 24 hours in about 5 minutes | C: seconds ({per_day:.1f} s of processor time a day here, in the median) |
"""


@dataclass(frozen=True, slots=True)
class ExperimentRun:
    """An experiment that was carried out: its form, its records, the verdict, and that of the lengthened runs."""

    experiment: Experiment
    form: Extent
    records: Sequence[Record]
    finding: Finding
    lengthened: Finding | None = None
    more: Sequence[Record] = ()
    """The records of the lengthened runs."""

    @property
    def verdict(self) -> Conclusion:
        """The verdict; a claim that does not hold when the runs are lengthened does not hold."""
        if self.finding.verdict is Conclusion.HOLDS and self.lengthened is not None:
            return self.lengthened.verdict
        return self.finding.verdict


Simulate = Callable[[Sequence[Configuration]], Sequence[Record]]


def carried_out(
    experiment: Experiment, form: Extent, simulate: Simulate, *, verdict: bool | None = None
) -> ExperimentRun:
    """Simulate an experiment and evaluate its claim.

    `verdict`: whether the run decides on the claim; by default one that is as large as the page's (`covers`).
    """
    records = simulate(experiment.simulations(form))
    finding, longer = experiment.evaluate(records, form), experiment.lengthened(form)
    if not (experiment.covers(form) if verdict is None else verdict):
        return ExperimentRun(experiment, form, records, finding.figures(SMALLER))
    if longer is None:
        return ExperimentRun(experiment, form, records, finding)
    more = simulate(experiment.simulations(longer))
    return ExperimentRun(experiment, form, records, finding, experiment.evaluate(more, longer), more)


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A figure: its simulations, and the claims made with it."""

    figure: PaperFigure
    form: Extent
    records: Sequence[Record]
    runs: Sequence[ExperimentRun]


def page(parts: Sequence[ReportSection], figures: PurePosixPath, command: str, revision: str = "") -> str:
    """Return the page in Markdown.

    `figures` is the folder of the figures relative to the page, `command` is what writes the page, and `revision`
    names the sources that simulated.
    """
    runs = [run for part in parts for run in part.runs]
    records = {record["key"]: record for part in parts for record in part.records}
    records |= {record["key"]: record for run in runs for record in (*run.records, *run.more)}
    seconds = sum(record["seconds"] for record in records.values())
    versions = ", ".join(sorted({f"{record['version']}, sources {record['sources']}" for record in records.values()}))
    versions = versions or f"{program_version()}, sources {sources_digest()}"
    summary = f"**In short:** {counts(runs)} {len(records):,} simulations, {seconds / 60:,.0f} minutes of processor "
    summary += f"time, Omega {versions}{f', {revision}' if revision else ''}.\n"
    texts = [OPENING.format(command=command), summary, SET_UP.format(per_day=_per_day(list(records.values())))]
    texts += [_section(part, figures) for part in parts]
    return "\n".join(texts)


def counts(runs: Sequence[ExperimentRun]) -> str:
    """Return the verdicts counted; those on claims that were fitted apart."""
    counts = Counter(run.verdict for run in runs if not run.experiment.fitted)
    holds, fails, unknown = (counts[verdict] for verdict in (Conclusion.HOLDS, Conclusion.FAILS, Conclusion.UNKNOWN))
    fitted = [run for run in runs if run.experiment.fitted]
    text = f"of {counts.total()} claims {holds} hold, {fails} do not, {unknown} cannot be measured."
    if none := counts[Conclusion.NONE]:
        text += f" {none} have figures and no verdict: their runs are smaller than those that decide."
    if fitted:
        met = sum(run.verdict is Conclusion.HOLDS for run in fitted)
        text += f" {len(fitted)} more are no evidence, as inputs were fitted to them; {met} of these hold."
    return text


def _per_day(records: Sequence[Record]) -> float:
    """Median processor seconds for a simulated day of C at its own rate under shared state; 0 for none."""
    defaults = {"workload": "C", "architecture": "shared-state", "rate": 1.0, "batch": 1}
    seconds = sorted(record["seconds"] / at(record, "days") for record in where(records, **defaults))
    return float(seconds[len(seconds) // 2]) if seconds else 0.0


def _in_sentence(title: str) -> str:
    """Return a title without the capital of its first word; names such as MapReduce keep theirs."""
    first, _, rest = title.partition(" ")
    return f"{first.lower() if first[1:].islower() else first} {rest}"


def _section(part: ReportSection, figures: PurePosixPath) -> str:
    number = part.figure.number
    lines = [f"## Figure {number}: {_in_sentence(part.figure.title)}", ""]
    lines += [f"![Figure {number}]({figures / f'figure-{number}.svg'})", ""]
    caption = f"`omega sim figure {number}`"
    if part.records:
        caption += f" · {_size(part.form)} · {len(part.records)} simulations"
    lines += [caption, "", "| claim | expected | measured | verdict |", "| --- | --- | --- | --- |"]
    lines += [row(run) for run in part.runs]
    lines += ["", *_runs(part.runs)]
    failed = [run for run in part.runs if run.finding.reason]
    lines += [f"* `{run.experiment.name}` {run.verdict}: {run.finding.reason}." for run in failed]
    return "\n".join([*lines, ""])


def row(run: ExperimentRun) -> str:
    """Return the row of a run in the table of a page: claim, expectation, measurements, verdict."""
    experiment, finding = run.experiment, run.finding
    claim = f"{experiment.claim} ({experiment.source}) `{experiment.name}`"
    verdict = f"**{run.verdict}**"
    if finding.seeds > 1 and finding.verdict in (Conclusion.HOLDS, Conclusion.FAILS):
        verdict += f", {finding.held} of {finding.seeds} seeds"
    if experiment.fitted:
        verdict += f"; no evidence: {experiment.fitted}"
    cells = (claim, experiment.expectation, _listed(finding.measured), verdict)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _listed(measured: str) -> str:
    """Return measurements on a line each, ranges with a dash."""
    return RANGE.sub(r"(\1–\2)", measured).replace("; ", "<br>")


def _size(form: Extent) -> str:
    seeds = f"seeds {form.seed}–{form.seed + form.seeds - 1}" if form.seeds > 1 else f"seed {form.seed}"
    days = ", ".join(f"{days:g} of {cell}" for cell, days in form.lengths.items())
    return f"days: {days} · {seeds}" + (f" · cells of {form.machines:,} machines" if form.machines else "")


def _runs(runs: Sequence[ExperimentRun]) -> list[str]:
    """Return for each group of equally tested claims the command, the simulation and the stability of verdicts."""
    alike: dict[str, list[ExperimentRun]] = {}
    for run in runs:
        if run.finding.verdict is not Conclusion.UNKNOWN:
            alike.setdefault(_run(run), []).append(run)
    lines = []
    for text, group in alike.items():
        names = " ".join(run.experiment.name for run in group)
        lines.append(f"* `omega experiment run {names}` · {text}{_stable(group)}")
    return lines


def _run(run: ExperimentRun) -> str:
    if not run.records:
        samples = run.finding.seeds
        none = "read off the tables, nothing drawn"
        return f"{samples} draws of the workload, nothing simulated" if samples > 1 else none
    jobs = [record["result"]["service"]["jobs_submitted"] for record in run.records]
    return f"{_size(run.form)} · {len(run.records)} simulations with {min(jobs):,}–{max(jobs):,} service jobs each"


def _stable(group: Sequence[ExperimentRun]) -> str:
    longer = [run for run in group if run.lengthened is not None]
    if not longer:
        return ""
    other = [
        f"`{run.experiment.name}` {run.lengthened.verdict} ({run.lengthened.measured})"
        for run in longer
        if run.lengthened is not None and run.lengthened.verdict is not run.finding.verdict
    ]
    text = f". With the first seed, {longer[0].experiment.longer:.3g} times as long: "
    return text + ("; ".join(other) if other else "the same verdicts" if len(longer) > 1 else "the same verdict")
