"""Figures of trace runs with bootstrap intervals, from sums over parts of the runs (omega/simulation/blocks.py)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from omega.experiments.results import Record
from omega.simulation.blocks import SUMS
from omega.workload.workload import array_stream

Floats = NDArray[np.float64]
DRAWS = 2_000
COVERS = 0.95
"""Share of the resamples within an interval."""
NONE_OF = 3.0
"""With n trials and no event, the probability of one is below 3 ÷ n with 95 % confidence."""
FEWEST_JOBS = 100
"""Fewer jobs than this cannot decide on a claim."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and the interval that holds 95 % of its values over resampled parts of the run."""

    value: float
    low: float
    high: float

    def text(self, form: str = ".2f") -> str:
        """Return the figure with its interval in brackets; a dash where there is nothing to compute it from."""
        value, low, high = (format(each, form) if isfinite(each) else "–" for each in (self.value, self.low, self.high))
        return value if value == "–" else f"{value} [{low}–{high}]"

    def as_json(self) -> dict[str, float | None]:
        """Return the figure as plain values; None where it is not defined."""
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {name: value if isfinite(value) else None for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of a kind of jobs over the blocks of runs that differ in their seeds alone."""

    blocks: Floats
    """(blocks of all runs, `SUMS`)."""
    runs: int
    seconds: float
    """Length of a block."""
    schedulers: int
    """Number of schedulers of the kind."""

    @property
    def jobs(self) -> int:
        """The smallest number of jobs that arrived in a run, in the mean of the runs."""
        return int(self.blocks[:, SUMS.index("jobs")].sum()) // self.runs


Metric = Callable[[Floats, Sums], Floats]
"""Returns a figure from sums over equally many blocks: (resamples, `SUMS`) → (resamples)."""


def sums_of(records: Sequence[Record], kind: str) -> Sums:
    """Return the sums of records that differ in their seeds alone. A kind without jobs has zeros."""
    first = records[0]
    length = float(first["result"]["blocks"]["seconds"])
    each = [record["result"]["blocks"]["sums"] for record in records]
    number = len(next(iter(each[0].values()))[0])
    blocks = np.concatenate([np.array(of.get(kind, np.zeros((len(SUMS), number)))).T for of in each])
    members = first["configuration"]["batch"] if kind == "batch" else 1
    return Sums(blocks, len(records), length, members)


def _ratio(above: Floats, below: Floats | float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def _column(name: str) -> int:
    return SUMS.index(name)


def _share_of_time(name: str) -> Metric:
    column = _column(name)
    return lambda drawn, sums: drawn[:, column] / (len(sums.blocks) / sums.runs * sums.seconds * sums.schedulers)


def _quotient(above: str, below: str) -> Metric:
    first, second = _column(above), _column(below)
    return lambda drawn, _: _ratio(drawn[:, first], drawn[:, second])


METRICS: dict[str, Metric] = {
    "busyness": _share_of_time("busy"),
    "no_conflict": _share_of_time("first"),
    "conflict_fraction": _quotient("conflicts", "accepted"),
    "wait": _quotient("waited", "begun"),
    "retries": _quotient("busy", "first"),
}
"""Share of time; of first attempts; conflicts ÷ transactions without one; seconds; busyness ÷ no-conflict line."""


def resampled(sums: Sums, seed: int = 0, draws: int = DRAWS) -> Floats:
    """Return the sums over resamples: (draws, `SUMS`).

    Each takes as many blocks as one run has, with replacement, from the blocks of all runs: more seeds of one trace are
    no longer trace. Runs with equally many blocks and the same seed take the same blocks, so that they can be compared.
    """
    number = len(sums.blocks)
    return np.asarray(_counts(number, number // sums.runs, seed=seed, draws=draws) @ sums.blocks)


@lru_cache(maxsize=4)
def _counts(number: int, taken: int, *, seed: int, draws: int) -> Floats:
    """Return how often each of `number` blocks is taken: (draws, number)."""
    rng = array_stream(seed, "bootstrap")
    return rng.multinomial(taken, np.full(number, 1 / number), size=draws).astype(float)


def interval(metric: str, records: Sequence[Record], kind: str) -> Interval:
    """Return a metric of a kind of jobs over records that differ in their seeds alone.

    Resamples of no conflict have none either. The interval then ends at 3 ÷ transactions of a run, below which 95 % of
    such samples come from.
    """
    sums = sums_of(records, kind)
    found = _interval(_value(metric, sums), METRICS[metric](resampled(sums), sums))
    if metric == "conflict_fraction" and found.value == 0:
        accepted = sums.blocks[:, _column("accepted")].sum() / sums.runs
        return replace(found, high=min(1.0, NONE_OF / accepted))
    return found


def compared(metric: str, records: Sequence[Record], others: Sequence[Record], kind: str) -> Interval:
    """Return how many times as high a metric is in `records` as in `others`; both are resampled alike."""
    above, below = sums_of(records, kind), sums_of(others, kind)
    of = METRICS[metric]
    values = _ratio(of(resampled(above), above), of(resampled(below), below))
    return _interval(float(_ratio(np.array(_value(metric, above)), _value(metric, below))), values)


def difference(metric: str, records: Sequence[Record], others: Sequence[Record], kind: str) -> Interval:
    """Return by how much a metric is higher in `records` than in `others`, whose jobs are drawn independently."""
    above, below = sums_of(records, kind), sums_of(others, kind)
    of = METRICS[metric]
    values = of(resampled(above), above) - of(resampled(below, seed=1), below)
    return _interval(_value(metric, above) - _value(metric, below), values)


def _value(metric: str, sums: Sums) -> float:
    return float(METRICS[metric](sums.blocks.sum(axis=0, keepdims=True) / sums.runs, sums)[0])


def saturating(records: Sequence[Record], kind: str, t_job: float, t_task: float) -> Interval:
    """Return the decision time per job at which the schedulers of a kind have no time left, by the decisions made.

    Beyond the seconds that t_job and t_task account for, retries cost what they did in these runs, in proportion.
    """
    sums = sums_of(records, kind)

    def limit(drawn: Floats) -> Floats:
        jobs, tasks, busy = (drawn[:, _column(name)] for name in ("jobs", "tasks", "busy"))
        time = len(sums.blocks) / sums.runs * sums.seconds * sums.schedulers
        more = np.maximum(1.0, _ratio(busy, t_job * jobs + t_task * tasks))
        return _ratio(time / more - t_task * tasks, jobs)

    value = float(limit(sums.blocks.sum(axis=0, keepdims=True) / sums.runs)[0])
    return _interval(value, limit(resampled(sums)))


def of_sample(values: Floats, statistic: Callable[[Floats], float], seed: int = 0, draws: int = 500) -> Interval:
    """Return a statistic of independent values with its bootstrap interval; not a number for none."""
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"))
    rng = array_stream(seed, "bootstrap/sample")
    drawn = np.array([statistic(values[rng.integers(len(values), size=len(values))]) for _ in range(draws)])
    return _interval(statistic(values), drawn)


def _interval(value: float, drawn: Floats) -> Interval:
    known = drawn[np.isfinite(drawn)]
    if not len(known):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(known, [(1 - COVERS) / 2, (1 + COVERS) / 2])
    return Interval(value, float(low), float(high))
