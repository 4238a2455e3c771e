"""MapReduce jobs of any number of workers: what sizing policies bring, in cells more and less full (Omega §6).

By the quick model (mapreduce.py); tests hold it against the loop that runs live.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from omega.experiments.experiment import Experiment, Finding, Form, Judge, nothing
from omega.experiments.mapreduce import Outcome, evaluate
from omega.experiments.results import Record
from omega.workload.presets import draw

CELL, DAYS, STEP_SECONDS = "C", 0.5, 60.0
FILLS = {"little used": 0.5, "as measured": 1.0, "full": 1.25}
"""What all other jobs take, as a multiple of what is measured: for the cells D, C and A of figure 15."""
NONE = Form(days=DAYS, points=0, cells=(CELL,))
OTHERS = ("max-parallelism", "relative-size", "global-cap")


@lru_cache(maxsize=1)
def outcomes() -> Mapping[str, Mapping[str, Outcome]]:
    """By how full the cell is, and by policy."""
    workload = draw(CELL, 0, DAYS)
    return {
        name: {outcome.policy: outcome for outcome in evaluate(workload, 0, DAYS, fill, STEP_SECONDS)}
        for name, fill in FILLS.items()
    }


def _benefit(_: Sequence[Record]) -> Finding:
    found = {name: policies["max-parallelism"].benefit for name, policies in outcomes().items()}
    said = ", ".join(f"{share:.0%} {name}" for name, share in found.items())
    return Finding.when(all(0.5 <= share <= 0.7 for share in found.values()), f"{said}; calibrated to this")


def _faster(_: Sequence[Record]) -> Finding:
    found = {name: policies["max-parallelism"].quantile(0.8) for name, policies in outcomes().items()}
    said = ", ".join(f"{times:.2f}x {name}" for name, times in found.items())
    return Finding.when(all(3 <= times <= 4 for times in found.values()), f"{said}; calibrated to this")


def _relative(_: Sequence[Record]) -> Finding:
    said, holds = [], True
    for name, policies in outcomes().items():
        most, relative = (policies[policy].quantile(0.8) for policy in OTHERS[:2])
        holds = holds and 1 < relative <= most
        said.append(f"{relative:.2f}x beside {most:.2f}x {name}")
    return Finding.when(holds, "; ".join(said))


def _cap(_: Sequence[Record]) -> Finding:
    found = outcomes()
    most, capped = (found["little used"][policy].quantile(0.8) for policy in ("max-parallelism", "global-cap"))
    full = found["full"]["global-cap"]
    use = {name: max(found[name]["as-asked"].use.mean(axis=0)) for name in ("little used", "full")}
    said = (
        f"{capped:.2f}x beside {most:.2f}x where {use['little used']:.0%} is used; {full.benefit:.0%} of the jobs gain "
        f"where {use['full']:.0%} is"
    )
    return Finding.when(capped >= 0.9 * most and full.benefit < 0.1, said)


def _varies(_: Sequence[Record]) -> Finding:
    found = {name: 100 * float(outcome.use[:, 0].std()) for name, outcome in outcomes()["as measured"].items()}
    said = ", ".join(f"{deviation:.1f} {name}" for name, deviation in found.items())
    most = found["max-parallelism"]
    holds = most > found["as-asked"] and most >= max(found.values())
    return Finding.when(holds, f"standard deviation of the share of cpu in use, in points: {said}")


def _of(name: str, figure: int, claim: str, metric: str, expectation: str, judge: Judge) -> Experiment:
    source = f"Omega §6, fig. {figure}"
    return Experiment(name, claim, source, figure, metric, expectation, nothing, judge, NONE)


EXPERIMENTS = (
    _of(
        "mapreduce-benefit", 15, "50 to 70 % of the MapReduce jobs gain from more workers", "share of jobs",
        "0.5 to 0.7 are faster under max-parallelism, however full the cell", _benefit,
    ),
    _of(
        "mapreduce-faster", 15, "The 80th percentile is 3 to 4 times as fast under max-parallelism", "times as fast",
        "3 to 4, however full the cell", _faster,
    ),
    _of(
        "mapreduce-relative", 15, "Relative job size brings less than max-parallelism", "times as fast, p80",
        "above 1, and not above max-parallelism", _relative,
    ),
    _of(
        "mapreduce-cap", 15, "A global cap does about as well in a little used cell and brings nothing above 60 %",
        "times as fast, share of jobs", "within 10 % of max-parallelism at p80; fewer than 10 % gain", _cap,
    ),
    _of(
        "mapreduce-varies", 16, "Utilisation varies more, most under max-parallelism", "standard deviation",
        "larger than as asked, and no policy's is larger", _varies,
    ),
)  # fmt: skip
