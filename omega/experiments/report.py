"""The page that sets every claim of the paper beside what was measured."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from omega.experiments.catalogue import of_figure
from omega.experiments.experiment import Experiment, Finding, Form, Verdict
from omega.experiments.figures import FIGURES, PaperFigure
from omega.experiments.results import Record
from omega.experiments.sources import program_version, sources_digest

OPENING = """# The Omega paper, reproduced

Every claim that §2.1, §4 and §6 of the Omega paper (Schwarzkopf, Konwinski, Abd-El-Malek, Wilkes, EuroSys 2013) make
with figures 2 to 10, 15 and 16, beside what the simulator measures. This page was written by

```
{command}
```

which simulates, draws the figures and writes the page anew; `--days 7` takes the paper's seven days, `--machines 1000`
smaller cells. Each section names the command for its figure (`--days`, `--machines` as there); `omega experiment run
NAME` repeats one row. An expectation is code beside its words, in `omega/experiments`. Where a claim does not hold the
reason was sought by a further measurement, which is named.

**What the cells are.** *C* is the cell of Google's public trace of 2011: machines, arrivals, sizes, durations and
requests are measured on its first seven hours (`omega/workload/tables`), and nothing is fitted. *A* and *B* were never
published. Here they are *calibrated*: C at another pace, the one parameter that is fitted, chosen so that decision
times of 0.1 s a job and 5 ms a task fill one batch scheduler at 2.5 and 6 times the arrivals, where the paper saw A
and B saturate. Their jobs also hold half of what C's do at that pace, the same for both: otherwise the cell is full
before its scheduler is busy. What follows from these choices alone is no evidence; what is judged on A and B are other
claims. A cell is 60 % full when a run begins, and stays so at its own rate.

**What was simulated** is said under each figure: fewer days than the paper's seven unless asked for, the calibrated
cells for as many jobs as C. A busyness or conflict fraction is the median of daily values, its error bar the median
absolute deviation; a run of less than two days has none. A wait is a mean over all jobs whose first attempt began.
"""

SET_UP = """## The set-up (§4, table 2)

| the paper | here |
| --- | --- |
| decision time t_job + t_task × tasks, 0.1 s and 5 ms | the same; a retry counts only the tasks still unplaced |
| wait: submission to the beginning of the first attempt | the same |
| busyness, conflict fraction: median of daily values, MAD | the same |
| randomised first fit, constraints ignored | the same (`--placement random`); machines are of the trace's classes |
| batch is what the trace has in priority bands 0 to 8, service the rest | the same, and by scheduling class, as the \
authors' code splits it |
| 7 simulated days, Mesos 1 | said under each figure; `--days 7` |
| initial fill about 60 % | 60 % of the scarcest resource |
| abandoned after 1,000 attempts | the same; a job that fits nowhere sleeps until room is freed, except two-level |
| Mesos: 1 ms an offer, DRF, everything free in one offer | the same; the authors' further rules: `--offers authors` |
| incremental or all-or-nothing commits, fine or coarse detection | `--commit`, `--detection`; here the first of both |
| the authors' retry, abandonment and counting | `--reference-rules`: their figures on one day of jobs, \
docs/decisions/0009 |
| 24 hours in about 5 minutes | C: seconds ({per_day:.1f} s of processor time a day here, in the median) |
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A figure: what was simulated, and what became of its claims."""

    figure: PaperFigure
    form: Form
    records: Sequence[Record]
    findings: Mapping[str, Finding]


def judged(figure: PaperFigure, form: Form, records: Sequence[Record]) -> Part:
    """Judge every experiment about a figure on its simulations."""
    findings = {experiment.name: experiment.judge(records) for experiment in of_figure(figure.number)}
    return Part(figure, form, records, findings)


def page(parts: Sequence[Part], figures: PurePosixPath, command: str) -> str:
    """The page in Markdown; `figures` is the folder of the figures as seen from it, `command` what writes it."""
    counts = Counter(finding.verdict for part in parts for finding in part.findings.values())
    holds, fails, unknown = (counts[verdict] for verdict in (Verdict.HOLDS, Verdict.FAILS, Verdict.UNKNOWN))
    records = {record["key"]: record for part in parts for record in part.records}
    seconds = sum(record["seconds"] for record in records.values())
    summary = (
        f"**In short:** of {counts.total()} claims {holds} hold, {fails} do not, {unknown} cannot be measured. "
        f"{len(records)} simulations, "
        f"{seconds / 60:,.0f} minutes of processor time, Omega {program_version()}, sources {sources_digest()}.\n"
    )
    texts = [OPENING.format(command=command), summary, SET_UP.format(per_day=_per_day(list(records.values())))]
    texts += [_section(part, figures) for part in parts]
    return "\n".join(texts)


def _per_day(records: Sequence[Record]) -> float:
    """Median processor seconds for a simulated day of C at its own rate under shared state; 0 for none."""
    plain = {"workload": "C", "architecture": "shared-state", "rate": 1.0, "batch": 1}
    found = sorted(
        record["seconds"] / record["configuration"]["days"]
        for record in records
        if all(record["configuration"][name] == value for name, value in plain.items())
    )
    return float(found[len(found) // 2]) if found else 0.0


def _section(part: Part, figures: PurePosixPath) -> str:
    number = part.figure.number
    lines = [f"## Figure {number}: {part.figure.title.lower()}", ""]
    lines += [f"![Figure {number}]({figures / f'figure-{number}.svg'})", ""]
    lengths = ", ".join(f"{days:g} of {cell}" for cell, days in part.form.lengths.items())
    said = f"`omega sim figure {number}`"
    if part.records:
        said += f" · days: {lengths} · {len(part.records)} simulations"
        said += f" · cells of {part.form.machines:,} machines" if part.form.machines else ""
    lines += [said, "", "| claim | expected | measured | verdict |", "| --- | --- | --- | --- |"]
    reasons = []
    for experiment in of_figure(number):
        finding = part.findings[experiment.name]
        lines.append(_row(experiment, finding))
        if finding.reason:
            reasons.append(f"* `{experiment.name}` {finding.verdict}: {finding.reason}.")
    return "\n".join([*lines, *([""] if reasons else []), *reasons, ""])


def _row(experiment: Experiment, finding: Finding) -> str:
    claim = f"{experiment.claim} ({experiment.source}) `{experiment.name}`"
    cells = (claim, experiment.expectation, finding.measured, f"**{finding.verdict}**")
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def all_figures() -> list[PaperFigure]:
    """The figures the page has, in order."""
    return [FIGURES[number] for number in sorted(FIGURES)]
