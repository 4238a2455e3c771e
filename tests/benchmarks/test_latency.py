"""The measurement of latency starts a scheduler and an agent, and times each part of each submission."""

from typing import Any

import pytest

from benchmarks import latency

pytestmark = pytest.mark.chaos  # two processes and a server


def test_every_part_of_a_submission_is_timed() -> None:
    document: Any = latency.measure(latency.Settings(machines=5, submissions=2, calm_seconds=0))
    parts = {row["part"]: row for row in document["parts"]}
    assert parts.keys() == set(latency.PARTS)
    assert 0 < parts["submitted"]["p50_ms"] < parts["to start"]["p50_ms"]
    assert all(row["p50_ms"] <= row["p99_ms"] for row in parts.values())
    assert document["cpu_ms"].keys() == {"client", "server", "batch", "agent", "guard and tasks"}
