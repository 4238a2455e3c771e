"""``omega bench durability`` in small: the shape of its document."""

from typing import Any

import pytest

from benchmarks.durability import SETTINGS, Settings, measure


@pytest.mark.server
@pytest.mark.chaos
def test_every_setting_is_measured() -> None:
    document: dict[str, Any] = measure(Settings(calls=3, rounds=1, machines=4))
    rows = document["rows"]
    assert [(row["setting"], row["call"]) for row in rows] == [
        (name, call) for name in SETTINGS for call in ("submission", "commit")
    ]
    assert all(row["spread"][0] <= row["round_trip_us"] <= row["spread"][1] for row in rows)
    assert {row["setting"] for row in rows if row["replica_cpu_us"]} <= {"replicas=1", "replicas=2"}
