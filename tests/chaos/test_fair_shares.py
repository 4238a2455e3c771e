"""Pools of a full cell reach their fair shares in the stated time, by evictions of four schedulers at once."""

import json
import sys

import pytest

from benchmarks.fair import MOST_OVERSHOOT, MOST_SECONDS, Settings, measure

pytestmark = [pytest.mark.server, pytest.mark.chaos]
LATE = 2.0
"""How much longer it may take on a computer that does other work."""


@pytest.mark.parametrize("preemption", ["quick", "default"])
def test_three_pools_reach_their_shares(preemption: str, store_url: str) -> None:
    run = measure(Settings(store=store_url, preemption=preemption, repeat=1, calm_seconds=0.0))["runs"][0]  # type: ignore[index]
    sys.stdout.write(json.dumps(run) + "\n")
    assert run["seconds"] is not None
    assert run["seconds"] <= LATE * MOST_SECONDS[preemption]
    assert max(run["overshoot"], run["undershoot"]) <= MOST_OVERSHOOT
    assert (run["violations"], run["not_improved"], run["undone"]) == (0, 0, 0)


@pytest.mark.parametrize(("schedulers", "guarantees"), [(1, (5, 10, 5)), (8, (0,) * 12)])
def test_other_numbers_of_pools_and_schedulers(schedulers: int, guarantees: tuple[int, ...], store_url: str) -> None:
    settings = Settings(
        store=store_url,
        machines=50,
        slots=4,
        schedulers=schedulers,
        guarantees=guarantees,
        jobs=4,
        repeat=1,
        calm_seconds=0.0,
    )
    run = measure(settings)["runs"][0]  # type: ignore[index]
    sys.stdout.write(json.dumps(run) + "\n")
    assert run["seconds"] is not None
    assert sum(run["held"].values()) == 200
    assert (run["violations"], run["not_improved"]) == (0, 0)
    assert run["undone"] <= len(guarantees) // 6, "the last task for a late pool may come from another late pool"
