"""`omega up` goes on while the store is away, and prints that it is, also on a terminal with its status line."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from omega.cellstate.errors import Unreachable
from omega.cli import render, up
from omega.cli.app import App


def looks(count: int) -> SimpleNamespace:
    """Processes of which none ends; Ctrl-C comes after so many looks."""
    left = iter(range(count))

    def none_ended() -> list[object]:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return []

    return SimpleNamespace(members={}, restart_dead=none_ended)


def test_a_store_that_is_away_is_printed_once_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = iter(range(100))

    def depths() -> dict[str, int]:
        if next(calls) in (2, 3):
            raise Unreachable("cut by the test")
        return {}

    cell: Any = SimpleNamespace(schedulers=SimpleNamespace(figures=dict, queue_depths=depths), refuses_writes=str)
    monkeypatch.setattr(up, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(render, "console", lambda **_: Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(KeyboardInterrupt):
        up._watch(App(), cell, looks(20), None)  # type: ignore[arg-type]
    said = capsys.readouterr().err.splitlines()
    assert said == ["warning: store away: cut by the test", "warning: the store answers again"]


def test_refused_writes_are_printed_once_and_so_is_their_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = iter(["", "its memory is full", "its memory is full", *[""] * 100])
    schedulers = SimpleNamespace(figures=dict, queue_depths=dict)
    cell: Any = SimpleNamespace(schedulers=schedulers, refuses_writes=lambda: next(reasons))
    monkeypatch.setattr(up, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(render, "console", lambda **_: Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(KeyboardInterrupt):
        up._watch(App(), cell, looks(20), None)  # type: ignore[arg-type]
    said = capsys.readouterr().err.splitlines()
    refused = "warning: The store refuses writes: its memory is full"
    assert said == [refused, "warning: The store takes writes again"]
