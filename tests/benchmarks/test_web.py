"""``omega bench web`` in small: the shape of its document."""

from typing import Any

import pytest

from benchmarks.web import Settings, measure


@pytest.mark.server
@pytest.mark.chaos
def test_the_mirror_of_a_small_cell_is_measured(store_url: str) -> None:
    settings = Settings(store=store_url, machines=60, jobs=40, changes=60, rounds=2, calls=3, requests=2)
    document: dict[str, Any] = measure(settings)
    load, busy = document["load"], document["busy"]
    assert load["resident_mib"] > load["resident_mib_before"] / 2 > 0
    assert {"50 newest jobs", "cell status", "machine columns", "reasons"} <= document["documents"].keys()
    assert all(row["spread"][0] <= row["ms"] <= row["spread"][1] for row in document["documents"].values())
    assert busy["versions_per_reading"] >= 30
    assert busy["cores"] == pytest.approx(2 * busy["reading_cpu_ms"] / 1_000, abs=1e-3)
    assert busy["store_spread"][0] <= busy["store_cpu_ms"] <= busy["store_spread"][1]
    assert document["quiet"]["versions_per_reading"] == 0
    assert {"cell", "machines", "running job", "pending job"} <= document["serve"]["pages"].keys()
    assert all(row["ms"] >= 0 and row["kb"] > 1 for row in document["serve"]["pages"].values())
    assert document["serve"]["resident_mib"] >= document["serve"]["resident_mib_before"] > 0
    assert document["chosen"] == {"machines": 60, "jobs": 40, "changes": 60, "rounds": 2, "calls": 3, "requests": 2}
