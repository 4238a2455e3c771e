"""``omega bench place`` in small: the shape of its document."""

from typing import Any

import pytest

from benchmarks import epochs, fair_shares, memory, placement, pool_scheduling, sync
from benchmarks.place import Settings, measure
from omega.cellstate.errors import BadInput


def test_every_policy_is_timed_for_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "FEWEST", 5)
    monkeypatch.setattr(placement, "MOST", 5)
    document: dict[str, Any] = measure(Settings(parts=("placement",), machines=(2_000, 3_000), calm_seconds=0.0))
    rows = document["placement"]
    assert {(row["policy"], row["machines"]) for row in rows} == {
        (name, size) for name in (*placement.POLICIES, "ServicePlacement") for size in (2_000, 3_000)
    }
    assert all(0 < row["p50_us"] <= row["p99_us"] for row in rows)


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(BadInput, match="part speed"):
        measure(Settings(parts=("speed",)))


@pytest.mark.server
def test_a_sync_is_timed_by_changed_machines(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "SAMPLES", 3)
    settings = Settings(
        store=store_url, parts=("sync",), sync_machines=(60, 90), changed=(0, 10, 60, 100), calm_seconds=0.0
    )
    document: dict[str, Any] = measure(settings)
    rows = [(row["machines"], row["changed"]) for row in document["sync"]]
    assert rows == [(60, 0), (60, 10), (60, 60), (60, "full"), (90, "full")]
    assert all(row["milliseconds"] > 0 for row in document["sync"])


@pytest.mark.server
@pytest.mark.chaos
def test_memory_of_a_scheduler_and_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SETTLING_SECONDS", 0.0)
    # On a server of its own: what others delete on a shared one changes its memory at any time.
    settings = Settings(parts=("memory",), memory_machines=500, memory_tasks=4_000, per_job=(10,), calm_seconds=0.0)
    document: dict[str, Any] = measure(settings)
    packed, spread, *longer = document["memory"]["server"]
    forms = [(row["form"], row["ids"]) for row in document["memory"]["server"]]
    assert forms == [(form, ids) for ids in ("own", "long") for form in ("packed", "spread")]
    for server in (packed, spread, *longer):
        assert (server["running_tasks"], server["tasks_per_job"]) == (2_000, 10)
        assert set(server["by_key"]) >= {"jobs", "log"}
    assert packed["megabytes_per_100000"] < spread["megabytes_per_100000"]
    assert spread["megabytes_per_100000"] > 0
    scheduler = document["memory"]["scheduler"]
    assert (scheduler["machines"], scheduler["running_tasks"]) == (500, 4_000)
    assert scheduler["resident_mib"] > 10


def test_updates_of_pool_trees_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_shares, "SIZES", ((12, 30),))
    monkeypatch.setattr(fair_shares, "LONG_QUEUE", 20)
    document: dict[str, Any] = measure(Settings(parts=("fair-shares",), calm_seconds=0.0))
    rows = document["fair_shares"]
    assert [(row["shape"], row["pools"], row["jobs"]) for row in rows] == [("tree", 12, 30), ("fifo", 1, 20)]
    assert all(row["milliseconds"] > 0 for row in rows)
    assert len(fair_shares.tree(12, 30).pools) == 12


def test_scheduling_by_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_scheduling, "CASES", ((20, 4, 30, 60, 10), (20, 4, 0, 60, 10)))
    document: dict[str, Any] = measure(Settings(parts=("pools",), calm_seconds=0.0))
    assert [row["pools"] for row in document["pools"]] == [30, 0]
    assert all(row["tasks"] >= 72 and row["tasks_per_second"] > 0 for row in document["pools"])


@pytest.mark.server
def test_epochs_by_the_time_of_server_and_publisher(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "CASES", ((8, 30),))
    monkeypatch.setattr(epochs, "EPOCHS", 1)
    document: dict[str, Any] = measure(Settings(store=store_url, parts=("epochs",), calm_seconds=0.0))
    (row,) = document["epochs"]
    assert (row["pools"], row["jobs"]) == (8, 30)
    assert all(row[name] > 0 for name in ("reading_server_ms", "server_ms", "own_cpu_ms", "longest_pause_ms"))
