"""Bootstrap intervals: how often they cover a known value, and what they do with too little."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from omega.experiments.bootstrap import Interval, compared, interval, of_sample, saturating
from omega.simulation.blocks import BLOCKS, SUMS

SECONDS = 3_600.0


def record(batch: int = 1, **columns: Any) -> Mapping[str, Any]:
    """Return a record of one hour with these sums per block."""
    sums = [list(columns.get(name, np.zeros(BLOCKS))) for name in SUMS]
    blocks = {"seconds": SECONDS / BLOCKS, "sums": {"service": sums, "batch": sums}}
    return {"configuration": {"batch": batch}, "result": {"blocks": blocks}}


def drawn(seed: int) -> Mapping[str, Any]:
    """An hour of Poisson arrivals, 200 in the mean: decisions of 2 s in the mean, a fifth of them after a conflict."""
    rng = np.random.default_rng(seed)
    jobs = rng.poisson(200 / BLOCKS, BLOCKS)
    busy = np.array([rng.exponential(2.0, count).sum() for count in jobs])
    conflicts = np.array([rng.binomial(count, 0.2) for count in jobs])
    return record(jobs=jobs, busy=busy, first=busy, accepted=jobs, conflicts=conflicts, begun=jobs, waited=3 * busy)


@pytest.mark.parametrize(
    ("metric", "truth"), [("busyness", 200 * 2 / SECONDS), ("conflict_fraction", 0.2), ("wait", 6.0)]
)
def test_an_interval_covers_the_known_value_about_as_often_as_it_claims(metric: str, truth: float) -> None:
    found = [interval(metric, [drawn(seed)], "service") for seed in range(200)]
    covered = sum(each.low <= truth <= each.high for each in found)
    assert 174 <= covered <= 199  # 95 % of 200 are 190; a bootstrap of 50 parts covers slightly less
    assert all(each.low < each.value < each.high for each in found)


def test_more_seeds_of_one_trace_do_not_narrow_the_interval() -> None:
    one = interval("busyness", [drawn(1)], "service")
    same = interval("busyness", [drawn(1)] * 4, "service")
    assert same.value == pytest.approx(one.value)
    assert (same.high - same.low) / (one.high - one.low) == pytest.approx(1.0, abs=0.15)


def test_runs_with_the_same_jobs_are_compared_more_sharply_than_two_intervals() -> None:
    jobs = np.random.default_rng(3).poisson(20, BLOCKS)
    plain = record(jobs=jobs, busy=jobs * 1.0, first=jobs * 1.0)
    twice = record(jobs=jobs, busy=jobs * 2.0, first=jobs * 1.0)
    ratio = compared("busyness", [twice], [plain], "service")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert interval("retries", [twice], "service").value == pytest.approx(2.0)


def test_saturation_by_decisions_is_the_time_left_by_tasks() -> None:
    jobs, tasks = np.full(BLOCKS, 10.0), np.full(BLOCKS, 100.0)
    busy = jobs * 0.5 + tasks * 0.005
    found = saturating([record(batch=3, jobs=jobs, tasks=tasks, busy=busy)], "batch", 0.5, 0.005)
    assert found.value == pytest.approx(3 * SECONDS / (10 * BLOCKS) - 0.005 * 10)
    retried = saturating([record(batch=3, jobs=jobs, tasks=tasks, busy=2 * busy)], "batch", 0.5, 0.005)
    assert retried.value == pytest.approx(3 * SECONDS / (10 * BLOCKS) / 2 - 0.005 * 10)


def test_no_conflict_is_not_certainty() -> None:
    none = interval("conflict_fraction", [record(accepted=np.full(BLOCKS, 2.0))], "service")
    assert (none.value, none.low, none.high) == pytest.approx((0.0, 0.0, 0.03))
    rare = [np.random.default_rng(seed).binomial(2, 0.01, BLOCKS) for seed in range(100)]
    found = [interval("conflict_fraction", [record(accepted=2 - each, conflicts=each)], "service") for each in rare]
    assert sum(each.low <= 0.0101 <= each.high for each in found) >= 80


def test_nothing_has_no_interval() -> None:
    empty = interval("conflict_fraction", [record()], "service")
    assert empty.as_json() == {"value": None, "low": None, "high": None}
    assert empty.text() == "–"
    assert of_sample(np.array([]), lambda values: float(values.mean())).text() == "–"


def test_a_statistic_of_a_sample_covers_the_known_value() -> None:
    samples = (np.random.default_rng(seed).exponential(1.0, 150) for seed in range(100))
    found: list[Interval] = [
        of_sample(each, lambda values: float(np.quantile(values, 0.8)), draws=300) for each in samples
    ]
    covered = sum(each.low <= np.log(5) <= each.high for each in found)
    assert 86 <= covered <= 100
