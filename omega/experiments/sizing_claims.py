"""Claims of the Omega paper about figures 15 and 16, measured on stand-ins for its cells (§6)."""

from math import inf

import numpy as np

from omega.experiments.judged import Judged
from omega.experiments.mapreduce import POLICIES
from omega.experiments.trace_mapreduce import MapReduceOutcome

BUSY = 0.6
"""Target of the policy with a global cap."""
FITTED = "how many workers jobs could use is fitted to this"
MOST, RELATIVE, CAP = "max-parallelism", "relative-size", "global-cap"
SMALL_JOBS = (
    "more than half of Facebook's jobs have fewer maps than the smallest worker count; how large Google's were is not "
    "published"
)


def judged(outcome: MapReduceOutcome) -> list[Judged]:
    """Judge all claims about the sizing policies."""
    claims = _claims(FITTED if outcome.form.swim is None else "")
    benefit, faster, relative, cap, small, varies = claims
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
            if not np.array_equal(results[CAP].use, results[MOST].use):  # else the cap is not reached
                small.want(f"{capped.text()} beside {most.text()}", holds=near)
        for each in claims:
            each.fewest = jobs if each.fewest is None else min(jobs, each.fewest)
    points = {policy: outcome.variation("C", policy) for policy in POLICIES}
    largest = points[MOST].value > max(value.value for policy, value in points.items() if policy != MOST)
    varies.want("; ".join(f"{policy} {value.text()}" for policy, value in points.items()) + " points", holds=largest)
    return claims


def _claims(fitted: str) -> list[Judged]:
    """Return the claims, nothing measured of them."""
    benefit = Judged(
        name="hifi-mapreduce-benefit",
        figure=15,
        claim="50 to 70 % of the MapReduce jobs gain from more workers",
        source="Omega §6, fig. 15",
        expectation="0.5 to 0.7 of the jobs are faster under max-parallelism",
        otherwise=SMALL_JOBS,
        fitted=fitted,
    )
    faster = Judged(
        name="hifi-mapreduce-faster",
        figure=15,
        claim="The 80th percentile is 3 to 4 times as fast under max-parallelism",
        source="Omega §6, fig. 15",
        expectation="3 to 4 times",
        otherwise=SMALL_JOBS,
        fitted=fitted,
    )
    relative = Judged(
        name="hifi-mapreduce-relative",
        figure=15,
        claim="Relative job size brings no more than max-parallelism",
        source="Omega §6, fig. 15",
        expectation="80th percentile at most that of max-parallelism",
    )
    cap = Judged(
        name="hifi-mapreduce-cap",
        figure=15,
        claim="A global cap brings little on a cell above 60 %",
        source="Omega §6, fig. 15",
        expectation="at most 0.1 of the jobs gain where more than 60 % is used",
    )
    small = Judged(
        name="hifi-mapreduce-cap-small",
        figure=15,
        claim="On D a global cap does as well as max-parallelism",
        source="Omega §6, fig. 15",
        expectation="80th percentile within 10 %, and the cap is reached",
    )
    varies = Judged(
        name="hifi-mapreduce-varies",
        figure=16,
        claim="Utilisation of C varies most under max-parallelism",
        source="Omega §6, fig. 16",
        expectation="standard deviation of cpu in use larger than under every other policy",
        otherwise="MapReduce jobs are a small part of the cell, whose use changes more by itself",
    )
    return [benefit, faster, relative, cap, small, varies]
