"""The parts of `make chaos`: each unit is in one of them, a run goes on where it ended, the report misses nothing."""

import json
import sys
from pathlib import Path

import pytest

from tests.chaos import shards

UNITS = [f"tests/test_{each}.py" for each in "abcdefghij"]


@pytest.fixture(autouse=True)
def _ten_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shards, "RECORDS", tmp_path / "chaos.jsonl")
    monkeypatch.setattr(shards, "units", lambda: UNITS)
    monkeypatch.setattr(shards, "commit", lambda: "c1")


def recorded(unit: str, seconds: float, commit: str = "c0", failed: int = 0) -> None:
    record = {"commit": commit, "shard": "1/6", "unit": unit, "passed": 1, "failed": failed, "seconds": seconds}
    with shards.RECORDS.open("a") as out:
        out.write(json.dumps(record) + "\n")


def test_each_unit_is_in_one_shard_and_the_longest_is_alone() -> None:
    recorded("tests/test_c.py", 3_000.0)
    divided = shards.of_shards("c1", 6)
    assert sorted(unit for shard in divided for unit in shard) == UNITS
    assert ["tests/test_c.py"] in divided


def test_results_of_a_commit_do_not_divide_it_anew() -> None:
    before = shards.of_shards("c1", 6)
    recorded(before[0][0], 3_000.0, commit="c1")
    assert shards.of_shards("c1", 6) == before


def test_a_run_goes_on_where_it_ended_and_repeats_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def run_unit(unit: str) -> dict[str, float]:
        ran.append(unit)
        return {"passed": 1, "failed": int(len(ran) == 1), "skipped": 0, "seconds": 1.0}

    monkeypatch.setattr(shards, "run_unit", run_unit)
    first = shards.of_shards("c1", 6)[0]
    recorded(first[0], 1.0, commit="c1")
    assert shards.run(1, 6) == 1
    assert ran == first[1:]
    assert shards.run(1, 6) == 0
    assert ran == [*first[1:], first[1]]


def test_the_report_names_what_failed_and_what_is_missing() -> None:
    for unit in UNITS[:-1]:
        recorded(unit, 1.0, commit="c1", failed=int(unit == UNITS[0]))
    lines = list(shards.report())
    assert f"  failed  {UNITS[0]}" in lines
    assert [line for line in lines if line.startswith("  missing")] == [f"  missing {UNITS[-1]}"]
    assert sum(line.startswith("passed ") for line in lines) == 4


def test_a_run_counts_what_pytest_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "TREE", tmp_path)
    head = "import pytest\npytestmark = pytest.mark.filterwarnings('ignore')\n"
    body = "def test_a(): pass\ndef test_b(): assert 0\n@pytest.mark.skip\ndef test_c(): pass\n"
    (tmp_path / "test_it.py").write_text(head + body)
    monkeypatch.setattr(shards, "pytest", lambda *words: [sys.executable, "-m", "pytest", *words])
    result = shards.run_unit("test_it.py")
    assert (result["passed"], result["failed"], result["skipped"]) == (1, 1, 1)
