"""Sizes of a store: every step of a job's life is measured, and a machine takes what its record has."""

import pytest

from benchmarks.sizing import measure
from benchmarks.store import measured_store


@pytest.mark.server
def test_each_step_has_its_bytes() -> None:
    with measured_store(None, append_only=True) as store:
        rows = measure(store, 2_000, 20)
    assert list(rows) == [
        "machine",
        "job, pending",
        "job, when its task runs",
        "job, when it has ended",
        "version in the log",
    ]
    assert 100 < rows["machine"]["memory"] < 800
    assert 200 < rows["job, pending"]["memory"] < 1_200
    assert all(row["log"] > 0 and row["file"] > 100 for name, row in rows.items() if name != "version in the log")
    assert rows["version in the log"]["memory"] > 100
