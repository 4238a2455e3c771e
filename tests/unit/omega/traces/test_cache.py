"""The cache of parsed columns: same trace, faster; damaged or stale files are not used."""

import os
from pathlib import Path

import numpy as np
import pytest

from omega.traces import Trace, TraceOptions, cache, google_window, read_trace
from omega.traces.digest import trace_digest
from tests.unit.omega.traces.tiny_google import SECOND, START, task, write_trace


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    rows = [task(START + number * SECOND, number % 7, number, 0, cpu="") for number in range(1, 50)]
    write_trace(tmp_path / "trace", [], [task(0, 100, 0, 0), task(0, 100, 0, 1), *rows])
    return tmp_path / "trace"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that were parsed, in order."""
    found: list[Path] = []
    really = google_window._parsed

    def counted(directory: Path, *arguments: object) -> object:
        found.append(directory)
        return really(directory, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(google_window, "_parsed", counted)
    return found


def read(directory: Path, **options: object) -> Trace:
    return read_trace(directory, TraceOptions(cache=directory.parent / "cache", **options))  # type: ignore[arg-type]


def test_a_second_read_parses_nothing_and_finds_the_same(directory: Path, parsed: list[Path]) -> None:
    first, second = read(directory), read(directory)
    assert parsed == [directory]
    assert trace_digest(first) == trace_digest(second) == trace_digest(read_trace(directory))
    assert first.defects == second.defects != ()


def test_options_that_change_what_is_made_of_the_columns_share_them(directory: Path, parsed: list[Path]) -> None:
    read(directory)
    read(directory, factor=2.0, seed=5, residents="thin", service="priority", tasks=3)
    assert len(parsed) == 1
    read(directory, tasks=3, follow_seconds=10.0)
    assert len(parsed) == 2


def test_changed_files_are_read_again(directory: Path, parsed: list[Path]) -> None:
    read(directory)
    part = directory / "task_events" / "part-00000-of-00500.csv.gz"
    os.utime(part, ns=(1, 1))
    read(directory)
    assert len(parsed) == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "text", "columns"])
def test_damaged_caches_are_ignored_and_written_again(directory: Path, parsed: list[Path], damage: str) -> None:
    whole = read(directory)
    (file,) = (directory.parent / "cache").glob("*.npz")
    data = file.read_bytes()
    at = data.index(np.int64(7 * SECOND).tobytes())  # a submission
    damaged = {
        "cut": data[: len(data) // 2],
        "empty": b"",
        "flipped": data[:at] + b"\xff" + data[at + 1 :],
        "text": b"no numpy",
    }
    if damage == "columns":
        np.savez(file, nothing=np.zeros(3))
    else:
        file.write_bytes(damaged[damage])
    assert trace_digest(read(directory)) == trace_digest(whole)
    assert len(parsed) == 2
    read(directory)
    assert len(parsed) == 2, "it was written again"


def test_without_a_place_for_it_nothing_is_kept(directory: Path, parsed: list[Path]) -> None:
    (directory.parent / "cache").write_text("a file")
    read(directory)
    read(directory)
    assert len(parsed) == 2


def test_few_files_are_kept(directory: Path) -> None:
    for seconds in range(1, 13):
        read(directory, seconds=float(seconds), follow_seconds=1.0)
    kept = list((directory.parent / "cache").iterdir())
    assert len(kept) == cache.MOST_FILES


def test_the_users_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_directory() == tmp_path / "omega" / "traces"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_directory() == tmp_path / ".cache" / "omega" / "traces"
