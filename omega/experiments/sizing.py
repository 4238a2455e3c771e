"""MapReduce jobs of any number of workers: what sizing policies bring, in cells more and less full (Omega §6).

By the quick model (mapreduce.py); tests hold it against the loop that runs live.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from omega.experiments.experiment import SEEDS, Criterion, Experiment, Form, nothing
from omega.experiments.finding import Measured, Seen
from omega.experiments.mapreduce import PolicyResult, evaluate
from omega.experiments.results import Record
from omega.workload.presets import draw

CELL, DAYS, STEP_SECONDS = "C", 0.5, 60.0
FILLS = {"little used": 0.5, "as measured": 1.0, "full": 1.25}
"""Use by other jobs as a multiple of the measured use: for the cells D, C and A of figure 15."""
NONE = Form(days=DAYS, points=0, cells=(CELL,))
FULL = Form(days=DAYS, points=0, cells=(CELL,), seeds=SEEDS)
OTHERS = ("max-parallelism", "relative-size", "global-cap")


@lru_cache(maxsize=SEEDS)
def outcomes(seed: int = 0) -> Mapping[str, Mapping[str, PolicyResult]]:
    """By how full the cell is, and by policy."""
    workload = draw(CELL, seed, DAYS)
    return {
        name: {outcome.policy: outcome for outcome in evaluate(workload, seed, DAYS, fill, STEP_SECONDS)}
        for name, fill in FILLS.items()
    }


def _benefit(_: Sequence[Record], seed: int) -> Seen:
    found = Measured()
    for name, policies in outcomes(seed).items():
        share = policies["max-parallelism"].benefit
        found.want(0.5 <= share <= 0.7)
        found.say(f"{name}: {{:.0%}}", share)
    return found.seen()


def _faster(_: Sequence[Record], seed: int) -> Seen:
    found = Measured()
    for name, policies in outcomes(seed).items():
        times = policies["max-parallelism"].quantile(0.8)
        found.want(3 <= times <= 4)
        found.say(f"{name}: {{:.2f}}x", times)
    return found.seen()


def _relative(_: Sequence[Record], seed: int) -> Seen:
    found = Measured()
    for name, policies in outcomes(seed).items():
        most, relative = (policies[policy].quantile(0.8) for policy in OTHERS[:2])
        found.want(1 < relative < most)
        found.say(f"{name}: {{:.2f}}x beside {{:.2f}}x", relative, most)
    return found.seen()


def _cap(_: Sequence[Record], seed: int) -> Seen:
    found, by_fill = Measured(), outcomes(seed)
    most, capped = (by_fill["little used"][policy].quantile(0.8) for policy in ("max-parallelism", "global-cap"))
    full = by_fill["full"]["global-cap"]
    use = [max(by_fill[name]["as-asked"].use.mean(axis=0)) for name in ("little used", "full")]
    found.want(capped < most and full.benefit < 0.1)
    found.equal(most, [capped], 0.1)
    found.say(
        "{:.2f}x beside {:.2f}x where {:.0%} is used; {:.0%} of the jobs gain where {:.0%} is",
        capped,
        most,
        use[0],
        full.benefit,
        use[1],
    )
    return found.seen(
        "where little is used the cap is never reached: both policies decide alike, which confirms nothing. That "
        "nobody gains above 60 % is the rule itself"
    )


def _varies(_: Sequence[Record], seed: int) -> Seen:
    found, points = Measured(), dict[str, float]()
    for name, outcome in outcomes(seed)["as measured"].items():
        points[name] = 100 * float(outcome.use[:, 0].std())
        found.say(f"{name}: {{:.2f}}", points[name])
    most = points.pop("max-parallelism")
    found.want(most > max(points.values()))
    found.say("points of cpu in use, standard deviation")
    return found.seen()


def _of(
    name: str, figure: int, claim: str, metric: str, expectation: str, criterion: Criterion, fitted: str = ""
) -> Experiment:
    source = f"Omega §6, fig. {figure}"
    return Experiment(name, claim, source, figure, metric, expectation, nothing, criterion, NONE, FULL, fitted)


RATIO = "how many workers jobs could use is fitted to this"


EXPERIMENTS = (
    _of(
        "mapreduce-benefit",
        15,
        "50 to 70 % of the MapReduce jobs gain from more workers",
        "share of jobs",
        "0.5 to 0.7 are faster under max-parallelism, however full the cell",
        _benefit,
        RATIO,
    ),
    _of(
        "mapreduce-faster",
        15,
        "The 80th percentile is 3 to 4 times as fast under max-parallelism",
        "times as fast",
        "3 to 4, however full the cell",
        _faster,
        RATIO,
    ),
    _of(
        "mapreduce-relative",
        15,
        "Relative job size brings less than max-parallelism",
        "times as fast, p80",
        "above 1, and below max-parallelism",
        _relative,
    ),
    _of(
        "mapreduce-cap",
        15,
        "A global cap does about as well in a little used cell and brings nothing above 60 %",
        "times as fast, share of jobs",
        "less than max-parallelism, within 10 % of it and within the spread between seeds; fewer than 10 % gain",
        _cap,
    ),
    _of(
        "mapreduce-varies",
        16,
        "Utilisation varies more, most under max-parallelism",
        "standard deviation",
        "larger than under every other policy",
        _varies,
    ),
)
