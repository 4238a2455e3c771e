"""The measurement of tasks starts a scheduler and an agent, and measures each part."""

from typing import Any

import pytest

from benchmarks import tasks

pytestmark = pytest.mark.chaos  # two processes and a server


def test_every_part_is_measured() -> None:
    small = tasks.Settings(small=20, whole=6, foreign=5, sleeping=5, sleep_seconds=1.0, calm_seconds=0)
    document: Any = tasks.measure(small)
    assert [row["tasks"] for row in document["runs"]] == [20, 6, 20]
    for row in document["runs"]:
        assert row["per_second"] > 0
        assert row["end_to_start_p50_ms"] > 0 or row["tasks"] == 20, "all of 20 start at once"
        assert row["cpu_ms"].keys() == {"batch", "agent", "guard", "store", "supervisors and commands"}
    assert document["sleeping"]["started_seconds"] > 0
