"""MapReduce jobs of any number of workers: what sizing policies bring, in cells more and less full (Omega §6).

By the quick model (mapreduce.py); tests hold it against the loop that runs live.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

import numpy as np

from omega.experiments.experiment import SEEDS, Experiment, Extent, nothing
from omega.experiments.finding import Measurements
from omega.experiments.mapreduce import PolicyResult, evaluate
from omega.experiments.results import Record
from omega.workload.presets import draw

CELL, DAYS, STEP_SECONDS = "C", 0.5, 60.0
FILLS = {"little used": 0.5, "as measured": 1.0, "full": 1.25}
"""Use by other jobs as a multiple of the measured use: for the cells D, C and A of figure 15."""
NONE = Extent(days=DAYS, points=0, cells=(CELL,))
FULL = Extent(days=DAYS, points=0, cells=(CELL,), seeds=SEEDS)
OTHERS = ("max-parallelism", "relative-size", "global-cap")


@lru_cache(maxsize=SEEDS)
def outcomes(seed: int = 0) -> Mapping[str, Mapping[str, PolicyResult]]:
    """By how full the cell is, and by policy."""
    workload = draw(CELL, seed, DAYS)
    return {
        name: {outcome.policy: outcome for outcome in evaluate(workload, seed, DAYS, fill, STEP_SECONDS)}
        for name, fill in FILLS.items()
    }


def _benefit(measured: Measurements, _: Sequence[Record], seed: int) -> None:
    for name, policies in outcomes(seed).items():
        share = policies["max-parallelism"].benefit
        measured.want(0.5 <= share <= 0.7)
        measured.say(f"{name}: {{:.0%}}", share)


def _faster(measured: Measurements, _: Sequence[Record], seed: int) -> None:
    for name, policies in outcomes(seed).items():
        times = policies["max-parallelism"].quantile(0.8)
        measured.want(3 <= times <= 4)
        measured.say(f"{name}: {{:.2f}}x", times)


def _relative(measured: Measurements, _: Sequence[Record], seed: int) -> None:
    for name, policies in outcomes(seed).items():
        most, relative = (policies[policy].quantile(0.8) for policy in OTHERS[:2])
        measured.want(1 < relative < most)
        measured.say(f"{name}: {{:.2f}}x beside {{:.2f}}x", relative, most)


def _cap(measured: Measurements, _: Sequence[Record], seed: int) -> None:
    by_fill = outcomes(seed)
    most, capped = (by_fill["little used"][policy].quantile(0.8) for policy in ("max-parallelism", "global-cap"))
    full = by_fill["full"]["global-cap"]
    use = [max(by_fill[name]["as-asked"].use.mean(axis=0)) for name in ("little used", "full")]
    if np.array_equal(by_fill["little used"]["global-cap"].use, by_fill["little used"]["max-parallelism"].use):
        measured.unknown(NOT_REACHED)
        return
    measured.want(full.benefit < 0.1)
    measured.equal(most, [capped], 0.1)
    measured.say(
        "{:.2f}x beside {:.2f}x where {:.0%} is used; {:.0%} of the jobs gain where {:.0%} is",
        capped,
        most,
        use[0],
        full.benefit,
        use[1],
    )


def _varies(measured: Measurements, _: Sequence[Record], seed: int) -> None:
    points = dict[str, float]()
    for name, outcome in outcomes(seed)["as measured"].items():
        points[name] = 100 * float(outcome.use[:, 0].std())
        measured.say(f"{name}: {{:.2f}}", points[name])
    most = points.pop("max-parallelism")
    measured.want(most > max(points.values()))
    measured.say("points of cpu in use, standard deviation")


_of_workers = partial(Experiment, sweep=nothing, small=NONE, form=FULL)

NOT_REACHED = (
    "in a little used cell the cap is never reached, so both policies decide alike, which confirms nothing. No gain "
    "above 60 % is the rule of the policy itself"
)
RATIO = "how many workers jobs could use is fitted to this"


EXPERIMENTS = (
    _of_workers(
        name="mapreduce-benefit",
        claim="50 to 70 % of the MapReduce jobs gain from more workers",
        source="Omega §6, fig. 15",
        figure=15,
        metric="share of jobs",
        expectation="0.5 to 0.7 are faster under max-parallelism, however full the cell",
        criterion=_benefit,
        fitted=RATIO,
    ),
    _of_workers(
        name="mapreduce-faster",
        claim="The 80th percentile is 3 to 4 times as fast under max-parallelism",
        source="Omega §6, fig. 15",
        figure=15,
        metric="times as fast",
        expectation="3 to 4, however full the cell",
        criterion=_faster,
        fitted=RATIO,
    ),
    _of_workers(
        name="mapreduce-relative",
        claim="Relative job size brings less than max-parallelism",
        source="Omega §6, fig. 15",
        figure=15,
        metric="times as fast, p80",
        expectation="above 1, and below max-parallelism",
        criterion=_relative,
    ),
    _of_workers(
        name="mapreduce-cap",
        claim="A global cap does about as well in a little used cell and brings nothing above 60 %",
        source="Omega §6, fig. 15",
        figure=15,
        metric="times as fast, share of jobs",
        expectation="80th percentile within 10 % of max-parallelism and within the spread between seeds, and the cap "
        "is reached; fewer than 10 % gain",
        criterion=_cap,
    ),
    _of_workers(
        name="mapreduce-varies",
        claim="Utilisation varies more, most under max-parallelism",
        source="Omega §6, fig. 16",
        figure=16,
        metric="standard deviation",
        expectation="larger than under every other policy",
        criterion=_varies,
    ),
)
