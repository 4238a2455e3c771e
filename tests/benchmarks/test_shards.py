"""``python -m benchmarks.shards`` in small: one server beside two shards, each with its cell."""

import pytest

from benchmarks.shards import Settings, Shards, _figures, measure


def test_ratios_are_those_of_rounds() -> None:
    first = Shards("", [None], cluster=False, rounds=[100.0, 200.0, 50.0])
    two = Shards("", [None, None], rounds=[110.0, 180.0, 52.0])
    assert _figures(two, first) == {
        "shards": 2, "cluster": True, "server_us_per_commit": 110.0, "spread": [52.0, 180.0], "ratio": 1.04,
        "ratio_spread": [0.9, 1.1],
    }  # fmt: skip


@pytest.mark.server
@pytest.mark.chaos
def test_every_store_commits_everything() -> None:
    settings = Settings(shards=(2,), schedulers=2, machines=20, size=2, per_call=2, calls=2, rounds=1)
    document = measure(settings)
    runs = document["runs"]
    assert isinstance(runs, list)
    assert [(run["shards"], run["cluster"]) for run in runs] == [(1, False), (2, True)]
    assert all(run["server_us_per_commit"] > 0 for run in runs)
    assert runs[0]["ratio"] == 1
