"""Claims of the Omega paper about figures 15 and 16, measured on stand-ins for its cells (§6)."""

from math import inf

import numpy as np

from omega.experiments.mapreduce import POLICIES
from omega.experiments.trace_claims import Judged
from omega.experiments.trace_mapreduce import MapReduceOutcome

BUSY = 0.6
"""Target of the policy with a global cap."""
FITTED = "how many workers jobs could use is fitted to this"
MOST, RELATIVE, CAP = "max-parallelism", "relative-size", "global-cap"
SMALL_JOBS = (
    "more than half of Facebook's jobs have fewer maps than the smallest of these worker counts; the paper's jobs were "
    "Google's, whose maps and workers are not published"
)


def judged(outcome: MapReduceOutcome) -> list[Judged]:
    """Judge all claims about the sizing policies."""
    fitted = "" if outcome.form.swim else FITTED
    benefit = Judged(
        "hifi-mapreduce-benefit", 15, "50 to 70 % of the MapReduce jobs gain from more workers", "Omega §6, fig. 15",
        "0.5 to 0.7 of the jobs are faster under max-parallelism", SMALL_JOBS, fitted,
    )  # fmt: skip
    faster = Judged(
        "hifi-mapreduce-faster", 15, "The 80th percentile is 3 to 4 times as fast under max-parallelism",
        "Omega §6, fig. 15", "3 to 4 times", SMALL_JOBS, fitted,
    )  # fmt: skip
    relative = Judged(
        "hifi-mapreduce-relative", 15, "Relative job size brings no more than max-parallelism", "Omega §6, fig. 15",
        "80th percentile at most that of max-parallelism",
    )  # fmt: skip
    cap = Judged(
        "hifi-mapreduce-cap", 15, "A global cap brings little on a cell above 60 %", "Omega §6, fig. 15",
        "at most 0.1 of the jobs gain where more than 60 % is used",
    )  # fmt: skip
    small = Judged(
        "hifi-mapreduce-cap-small", 15, "On D a global cap does as well as max-parallelism", "Omega §6, fig. 15",
        "80th percentile within 10 %, and the cap is reached", "the cap is never reached, which confirms nothing",
    )  # fmt: skip
    for cell, results in outcome.results.items():
        jobs = min(len(result.speedups) for result in results.values())
        used = float(results["as-asked"].use.mean(axis=0).max())
        most = outcome.speedup(cell, MOST)
        text = f"{cell} ({used:.0%} used)"
        benefit.within(text, outcome.benefit(cell, MOST), 0.5, 0.7)
        faster.within(text, most, 3.0, 4.0)
        other = outcome.speedup(cell, RELATIVE)
        relative.want(f"{cell}: {other.text()} beside {most.text()}", holds=other.value <= most.value)
        if used > BUSY:
            cap.within(text, outcome.benefit(cell, CAP), -inf, 0.1)
        if cell == "D":
            capped = outcome.speedup(cell, CAP)
            near = 0.9 * most.value <= capped.value <= 1.1 * most.value
            reached = not np.array_equal(results[CAP].use, results[MOST].use)
            small.want(f"{capped.text()} beside {most.text()}", holds=near and reached)
        for each in (benefit, faster, relative, cap, small):
            each.fewest = jobs if each.fewest is None else min(jobs, each.fewest)
    varies = Judged(
        "hifi-mapreduce-varies", 16, "Utilisation of C varies most under max-parallelism", "Omega §6, fig. 16",
        "standard deviation of cpu in use larger than under every other policy",
        "MapReduce jobs are a small part of the cell, whose use changes more by itself",
    )  # fmt: skip
    points = {policy: outcome.variation("C", policy) for policy in POLICIES}
    largest = points[MOST].value > max(value.value for policy, value in points.items() if policy != MOST)
    varies.want("; ".join(f"{policy} {value.text()}" for policy, value in points.items()) + " points", holds=largest)
    varies.fewest = benefit.fewest
    return [benefit, faster, relative, cap, small, varies]
