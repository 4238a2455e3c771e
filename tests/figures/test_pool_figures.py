"""Figures of pools: how they stood in a simulation, and the failure of naive hierarchical fairness."""

from pathlib import Path

import pytest

from omega.experiments.hierarchies import example, gains, over_time
from omega.experiments.plots.hierarchies import draw_failure
from omega.experiments.plots.pool_history import MOST_POOLS, draw_history, shown_pools
from omega.simulation.pool_history import PoolHistory, Sample
from omega.simulation.world import Eviction


def history(pools: int) -> PoolHistory:
    samples = {
        f"p{number}": [Sample(at, (0.5, 0.1), ((number + 1) / 20, 0.0), 1.0) for at in (0.0, 1.0, 2.0)]
        for number in range(pools)
    }
    return PoolHistory(("cpu", "memory"), samples, [Eviction(1.0, "p1", 3, 7200.0), Eviction(1.5, "p1", 1, 10.0)])


def test_the_history_of_pools_is_summed_up_and_drawn(tmp_path: Path) -> None:
    found = history(2)
    document = found.as_json()["p1"]
    assert document["fair_share_mean"] == pytest.approx(0.1)
    assert document["satisfaction_mean"] == pytest.approx(5.0)
    assert (document["tasks_evicted"], document["wasted_seconds"]) == (4, 7210.0)
    draw_history(found, "two pools", tmp_path / "pools.svg")
    text = (tmp_path / "pools.svg").read_text()
    for label in (
        "usage (line) and fair share (dashes)",
        "evicted tasks (cumulative)",
        "wasted work (cumulative)",
        "p0",
    ):
        assert label in text


def test_the_pools_with_the_largest_shares_are_drawn(tmp_path: Path) -> None:
    found = history(9)
    assert shown_pools(found)[0] == "p8"
    assert len(shown_pools(found)) == MOST_POOLS
    draw_history(found, "nine pools", tmp_path / "pools.svg")
    assert "2 smaller pools are not drawn" in (tmp_path / "pools.svg").read_text()


def test_naive_fairness_starves_the_job_that_restarts(tmp_path: Path) -> None:
    restarts = [[], ["n2.2"], []]
    naive, least = (over_time(example(), method, restarts, 0.0) for method in ("naive-hdrf", "min-satisfaction-hdrf"))
    assert [shares["n2.2"]["gpu"] for shares in naive] == pytest.approx([0.5, 0.0, 0.0])
    assert [shares["n2.2"]["gpu"] for shares in least] == pytest.approx([0.5, 1 / 3, 1 / 3])
    draw_failure(tmp_path / "naive.svg")
    assert "promise of n2.2" in (tmp_path / "naive.svg").read_text()


def test_the_least_satisfied_descendant_keeps_every_promise() -> None:
    naive, least = gains(trees=3, steps=12)
    assert least.kept == pytest.approx(1.0)
    assert least.starved == 0
    assert naive.kept < 1
    assert abs(least.used - naive.used) < 0.05
