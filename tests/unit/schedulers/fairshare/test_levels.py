"""The cost of an update: one step for all pools of a height, and sums of many curves by halves."""

import numpy as np
import pytest

from benchmarks.fair_shares import tree
from omega import pools
from omega.schedulers.fairshare import curves, update
from omega.schedulers.fairshare.curves import Curves, Floats, by_suggestion


def test_pools_of_one_height_are_computed_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(curves: Curves, guarantees: Floats, limits: Floats) -> Curves:
        calls.append(len(curves))
        return by_suggestion(curves, guarantees, limits)

    monkeypatch.setattr(update, "by_suggestion", counted)
    made = tree(40, 200)
    pools.fair_shares(made)
    assert len(calls) == max(made.heights) + 1
    assert sum(calls) == len(made.numbers)


def test_sums_by_halves_and_at_once_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tree(20, 200)
    at_once = pools.fair_shares(made)
    monkeypatch.setattr(curves, "_PAIRS", 10)
    by_halves = pools.fair_shares(made)
    np.testing.assert_allclose(by_halves.jobs, at_once.jobs, atol=1e-12)
    np.testing.assert_allclose(by_halves.pools, at_once.pools, atol=1e-12)
