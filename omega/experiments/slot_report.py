"""The page of the claims on delay scheduling and the measured results."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from omega.experiments.finding import Conclusion
from omega.experiments.report import ExperimentRun, counts, row

FIGURES = {
    "delay-bins": "Locality and speed-up by bin of the paper's table 1",
    "delay-sticky": "Sticky slots: locality and gain over concurrent jobs",
    "delay-w1": "Locality over W1, and over the interval of heartbeats at W1 = 1 s",
}
"""Figures of the page, and their titles."""

PAGES = {name: f"{name}.md" for name in ("hadoop", "locality", "scale")}
"""Pages beside this one."""
OPENING = """# The paper on delay scheduling, reproduced

This page compares claims of *Delay Scheduling* (Zaharia et al., EuroSys 2010) with results of the [simulated
slots]({pages[hadoop]}#simulated-slots). The following command simulates, draws the figures and writes the page:

```
{command}
```

The expectations are code in `omega/experiments/slot_claims.py`. They were committed before the simulations ran for the
first time, unless the row names another case. A claim *holds* if it holds for every seed. Numbers are medians over the
seeds, with the range in brackets. A claim with a calibrated input is no evidence and is counted separately. If a claim
does not hold, the page names a reason, and no input is changed for it. Orderings and [delay]({pages[locality]}) are the
classes of the live schedulers.

**The set-up.** 100 machines in 4 racks with 3 replicas of each block. A local map takes 12 to 26 s, drawn evenly; its
mean is the median of Facebook's (19 s). A remote map takes twice as long. Machines send a heartbeat each 3 s.

* *Bins*: 100 jobs of the paper's table 1, one each 14 s in the mean; 4 map slots per machine, W1 = W2 = 5 s.
* *Small jobs*: 6 map slots per machine; all jobs are submitted at once, ten times as many maps as slots.
* *Sticky slots*: jobs of 360 maps of 9 to 11 s read the same blocks; Algorithm 1, W1 = W2 = 10 s.
* *W1*: 200 jobs, 50 at a time, Algorithm 1, W2 = W1.
* *Shared inputs*: a published sample of Facebook's jobs of at most 200 maps. Jobs with one path read the same blocks.
* *Analysis*: 1,600 slots are busy with another job of the lowest priority. Jobs refuse D offers.

**Errors of the sources.** A summary of the paper states R = 30 where its example needs R = 3. Another one states that
10 offers give 90 % locality; the formula gives 73 % for one task left, 93 % for two and 100 % for ten.

**Scheduler overhead.** The paper schedules 3,200 tasks per second. `omega bench sim --part slots` measures the same
set-up in tasks per second of processor time ([scale]({pages[scale]})).
"""


def page(runs: Sequence[ExperimentRun], figures: PurePosixPath, command: str) -> str:
    """Return the page in Markdown; `figures` is the folder of the figures relative to the page."""
    lines = [OPENING.format(command=command, pages=PAGES), f"**In short:** {counts(runs)}", ""]
    lines += ["| claim | expected | measured | verdict |", "| --- | --- | --- | --- |", *map(row, runs), ""]
    lines += [
        f"* `{run.experiment.name}` {run.verdict}: {run.finding.reason}."
        for run in runs
        if run.verdict is Conclusion.FAILS and run.finding.reason
    ]
    for name, title in FIGURES.items():
        lines += ["", f"## {title}", "", f"![{title}]({figures / f'{name}.svg'})"]
    return "\n".join([*lines, ""])
