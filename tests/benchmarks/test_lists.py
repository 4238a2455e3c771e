"""``omega bench lists`` in small: the shape of its document."""

from typing import Any

import pytest

from benchmarks.lists import Settings, measure


@pytest.mark.server
def test_every_question_is_timed(store_url: str) -> None:
    document: dict[str, Any] = measure(Settings(store=store_url, jobs=40, machines=30, page=5, calls=2))
    rows = {row["question"]: row for row in document["questions"]}
    assert set(rows) == {
        "first page of jobs",
        "page of the oldest jobs",
        "first page of running jobs",
        "all jobs",
        "first page of machines",
        "cell status",
    }
    assert all(row["spread"][0] <= row["milliseconds"] <= row["spread"][1] for row in rows.values())
    assert document["chosen"] == {"jobs": 40, "machines": 30, "page": 5, "calls": 2}
