"""``omega bench sim`` in small: the shape of its document."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import sim
from benchmarks.agreement import case, day, rows
from benchmarks.full_cell import measure_full
from benchmarks.sim import LARGE, Settings, large_day, measure
from benchmarks.slots import SlotCase, measure_slots
from omega.cellstate.errors import BadInput


@pytest.mark.usefixtures("shared_directory")
def test_every_timed_row_of_theirs_has_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(day(), arrivals=day().arrivals[:200])
    monkeypatch.setattr(sim, "day", lambda _: short)
    monkeypatch.setattr(sim, "large_day", lambda: short)
    document: dict[str, Any] = measure(Settings(parts=("speed",), repeat=1, calm_seconds=0.0))
    rows = document["speed"]
    assert {row["architecture"] for row in rows} >= {"shared-state", "monolithic-multi", "monolithic-single"}
    assert all(row["wall_seconds"] > 0 and row["reference"]["warm"] > 0 and len(row["digest"]) == 32 for row in rows)


def test_without_the_day_only_the_large_one_is_timed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMEGA_SHARED", str(tmp_path))
    whole = day(case("tiny.csv"))
    short = replace(whole, arrivals=whole.arrivals[:200])
    monkeypatch.setattr(sim, "large_day", lambda: short)
    document: dict[str, Any] = measure(Settings(repeat=1, calm_seconds=0.0))
    assert {row["jobs"] for row in document["speed"]} == {200}
    assert "agreement" not in document
    assert "name it with --workload" in capsys.readouterr().err
    day.cache_clear()
    with pytest.raises(BadInput, match="not kept with the program; name it with --workload"):
        measure(Settings(parts=("agreement",), calm_seconds=0.0))


@pytest.mark.usefixtures("shared_directory")
def test_every_row_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(iter(rows()))
    monkeypatch.setattr(sim, "rows", lambda _: [first])
    document: dict[str, Any] = measure(Settings(parts=("agreement",), seeds=1, calm_seconds=0.0))
    (row,) = document["agreement"]
    assert (row["architecture"], row["t_job_service"]) == ("monolithic-multi", 0.1)
    assert {figure["name"] for figure in row["figures"]} >= {"busyness", "mean_wait_first_s_batch"}
    assert document["figures_that_agree"] == document["figures"] == len(row["figures"])


def test_the_large_day_is_as_large_as_theirs() -> None:
    found = large_day()
    assert len(found.machines) == 10_000
    assert len(found.arrivals) == sum(jobs for jobs, _ in LARGE.values())
    assert found.tasks == pytest.approx(198_113, rel=0.02)


def test_slots_are_measured_in_both_forms_of_delay() -> None:
    rows: list[dict[str, Any]] = list(measure_slots(1, SlotCase(machines=10, jobs=4, tasks=20, pools=2)))
    assert [(row["form"], row["durations"]) for row in rows] == [
        (form, durations) for durations in ("own", "equal") for form in ("D", "W1, W2")
    ]
    assert all(row["tasks"] == 160 and row["tasks_per_second"] > 0 for row in rows)
    assert all(1 <= row["attempts_per_launch"] < 4 for row in rows)
    assert rows[0]["digest"] != rows[2]["digest"], "other durations"


def test_what_cannot_be_measured(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="part beauty: there is speed, agreement"):
        measure(Settings(parts=("beauty",)))
    with pytest.raises(BadInput, match="cannot be read"):
        measure(
            Settings(
                parts=("agreement",),
                workload=str(case("tiny.csv")),
                results=str(tmp_path / "none.json"),
                calm_seconds=0.0,
            )
        )


def test_the_full_cell_has_room_for_the_same_jobs() -> None:
    rows = list(measure_full(machines=1_000, jobs=9))
    assert [(row["schedulers"], row["fill"]) for row in rows] == [
        (name, fill) for name in ("random", "presets") for fill in ("60 %", "full")
    ]
    assert len({row["tasks"] for row in rows}) == 1
    assert all(row["attempts"] >= 9 and row["processor_seconds"] > 0 for row in rows)
