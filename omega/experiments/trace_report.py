"""The page of the claims about the high-fidelity simulator and the measured results."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from textwrap import wrap

from omega.experiments.bootstrap import sums_of
from omega.experiments.judged import Judged
from omega.experiments.plots.trace_sizing import TITLES
from omega.experiments.results import Record
from omega.experiments.sources import program_version, sources_digest
from omega.experiments.trace_mapreduce import MapReduceOutcome
from omega.experiments.trace_outcome import TraceOutcome

PAGES = {name: f"{name}.md" for name in ("reproduction",)}
"""Pages beside this one."""
OPENING = """# The Omega paper's high-fidelity simulator, reproduced

This page compares claims of the Omega paper (Schwarzkopf, Konwinski, Abd-El-Malek, Wilkes, EuroSys 2013) about figures
11 to 16 (§5, §6) with simulations of a published trace. Figures 2 to 10 are on [another page]({pages[reproduction]}).
The following command simulates, draws the figures and writes the page:

```
{command}
```

{cell}

**The schedulers.** They are those that run live, one job at a time: batch with first fit in a part of its own, service
with scored placement. Both apply constraints. The trace tells which tasks want different machines. Its tables of other
constraints could not be obtained; `--constraints synthetic` draws some. As in the paper, machines do not fail and no
task is evicted.

**The split.** Service jobs have priority 9 or more. The authors' split also wants scheduling class 2 or 3: {of_class}
service jobs here. Figure 13, which is about batch jobs, uses theirs. `--copies` draws more service jobs from those of
the trace.

**The verdicts.** Brackets hold 95 % bootstrap intervals. A run is cut into 50 parts, and as many are drawn again with
replacement, from the parts of all seeds. A claim *holds* if each measured interval is within the expectation, and
*does not hold* if one is outside. It is *undecided* if an interval includes a bound. It is *insufficient* if a run has
fewer than 100 jobs of the kind. A claim with a fitted input is no evidence and is counted separately.

**The differences.** The paper simulates 7 days of B, 29 days of C and 24 hours with three batch schedulers. Here all
runs use the same hours. Busyness and conflict fraction are means over the run, not medians of days.
"""

READING = {
    11: "Brackets are intervals of each value.",
    12: "B was never published. It is *calibrated*: the trace at the pace at which one batch scheduler saturates at "
    "six times the arrivals (figure 8).",
    13: "Schedulers are saturated where arriving jobs need more decision time than there is. The line is found by "
    "halving an interval.",
    14: "The table also has the lightweight simulator on the same cell: gaps, sizes, durations and requests drawn "
    "independently, random first fit, no constraints, 60 % full.",
}
"""By figure: what its section says beside the claims."""
SIZING = """No trace holds worker counts. With jobs of SWIM, users ask for 5, 11, 200 or 1,000 workers, each equally
often. A and D are *calibrated* stand-ins: C with 1.25 times the load of other jobs, and a quarter of C with half the
load. Machines are not simulated here. Other jobs: {source}."""


def page(
    outcomes: Sequence[TraceOutcome], sizing: MapReduceOutcome, judged: Sequence[Judged], figures: PurePosixPath,
    command: str, revision: str = "",
) -> str:  # fmt: skip
    """Return the page in Markdown; arguments as in the page of the other figures."""
    records = {record["key"]: record for each in outcomes for record in each.everything}
    claims = [*(claim for each in outcomes for claim in each.judged), *judged]
    about = (f"{line[:1].upper()}{line[1:]}." for line in outcomes[0].form.start.workload()[0].about.splitlines())
    cell = f"**The cell.** {' '.join(about)} Residents stay on their machines; tasks run as long as in the trace."
    of_class = next(f"{sums_of(each.records[:1], 'service').jobs:,}" for each in outcomes if each.figure.number == 13)
    lines = [
        OPENING.format(pages=PAGES, command=command, cell=_filled(cell), of_class=of_class),
        _summary(claims, records, revision),
    ]
    for each in outcomes:
        lines += _section(each, figures)
    for number, title in TITLES.items():
        lines += [f"## Figure {number}: {_lower(title)}", "", _image(number, figures), ""]
        lines += [f"`{_command(number)}{' --swim FILE' if sizing.form.swim else ''}`", ""]
        lines += [_filled(SIZING.format(source=sizing.source)), ""] if number == 15 else []
        lines += _table([each for each in judged if each.figure == number])
    return "\n".join(lines)


def _summary(claims: Sequence[Judged], records: Mapping[str, Record], revision: str) -> str:
    counts = Counter(str(each.verdict) for each in claims if not each.fitted)
    text = f"**In short:** of {counts.total()} claims " + ", ".join(
        f"{n} {_are(name, n)}" for name, n in counts.items()
    )
    if fitted := [each for each in claims if each.fitted]:
        met = sum(str(each.verdict) == "holds" for each in fitted)
        text += f". {len(fitted)} more are no evidence, as inputs were fitted to them; {met} of these hold"
    seconds = sorted(record["seconds"] for record in records.values())
    versions = sorted({f"{record['version']}, sources {record['sources']}" for record in records.values()})
    made = ", ".join(versions) or f"{program_version()}, sources {sources_digest()}"
    text += f". {len(seconds)} simulations, {sum(seconds) / 60:,.0f} minutes of processor time"
    text += f" ({seconds[len(seconds) // 2]:.0f} s each in the median)" if seconds else ""
    return f"{text}, Omega {made}{f', {revision}' if revision else ''}.\n"


def _are(verdict: str, count: int) -> str:
    one = {"holds": "holds", "does not hold": "does not hold"}
    many = {"holds": "hold", "does not hold": "do not hold"}
    return (one if count == 1 else many).get(verdict, f"{'is' if count == 1 else 'are'} {verdict}")


def _command(number: int) -> str:
    return f"omega sim figure {number} --trace DIRECTORY"


def _image(number: int, figures: PurePosixPath) -> str:
    return f"![Figure {number}]({figures / f'high-fidelity-{number}.svg'})"


def _filled(text: str) -> str:
    """Return a paragraph in lines of at most 120 characters."""
    return "\n".join(wrap(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False))


def _lower(title: str) -> str:
    first, _, rest = title.partition(" ")
    return f"{first.lower() if first[1:].islower() else first} {rest}"


def _section(outcome: TraceOutcome, figures: PurePosixPath) -> Iterator[str]:
    number, start, seeds = outcome.figure.number, outcome.form.start, outcome.form.seeds
    hours = outcome.records[0]["result"]["days"] * 24
    jobs = min(jobs for _, jobs, _, _ in outcome.points())
    seed = f"seeds {start.seed}–{start.seed + seeds - 1}" if seeds > 1 else f"seed {start.seed}"
    yield from (f"## Figure {number}: {_lower(outcome.figure.title)}", "", _image(number, figures), "")
    runs = f"{hours:.1f} hours · {seed} · {len(outcome.everything)} simulations"
    jobs_of = f"at least {jobs:,} {outcome.kind} jobs each"
    yield from (_filled(f"`{_command(number)}` · {runs} with {jobs_of}. {READING[number]}"), "")
    yield from _table(outcome.judged)


def _table(claims: Sequence[Judged]) -> Iterator[str]:
    """Yield the table of claims, and the reasons below it."""
    yield from ("| claim | expected | measured | verdict |", "| --- | --- | --- | --- |")
    for each in claims:
        verdict = f"**{each.verdict}**" + (f"; no evidence: {each.fitted}" if each.fitted else "")
        claim = f"{each.claim} ({each.source}) `{each.name}`"
        cells = (claim, each.expectation, "<br>".join(each.measured).replace("; ", "<br>") or "–", verdict)
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
    yield ""
    yield from (f"* `{each.name}` {each.verdict}: {each.reason}." for each in claims if each.reason)
    if any(each.reason for each in claims):
        yield ""
