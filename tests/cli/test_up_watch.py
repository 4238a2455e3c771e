"""`omega up` goes on while the store is away, and prints that it is, also on a terminal with its status line."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from omega.cellstate.errors import Unreachable
from omega.cli import render, up
from omega.cli.app import App


def test_a_store_that_is_away_is_printed_once_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = iter(range(100))

    def depths() -> dict[str, int]:
        if next(calls) in (2, 3):
            raise Unreachable("cut by the test")
        return {}

    cell: Any = SimpleNamespace(figures=dict, queue_depths=depths, refuses_writes=str)
    group: Any = SimpleNamespace(members={}, restart_dead=list)
    monkeypatch.setattr(up, "LOOK_SECONDS", 0.005)
    monkeypatch.setattr(render, "console", lambda **_: Console(file=io.StringIO(), force_terminal=True))
    up._watch(App(), cell, group, 0.15)
    said = capsys.readouterr().err.splitlines()
    assert said == ["warning: store away: cut by the test", "warning: the store answers again"]


def test_refused_writes_are_printed_once_and_so_is_their_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = iter(["", "its memory is full", "its memory is full", *[""] * 100])
    cell: Any = SimpleNamespace(figures=dict, queue_depths=dict, refuses_writes=lambda: next(reasons))
    monkeypatch.setattr(up, "LOOK_SECONDS", 0.005)
    monkeypatch.setattr(render, "console", lambda **_: Console(file=io.StringIO(), force_terminal=True))
    up._watch(App(), cell, SimpleNamespace(members={}, restart_dead=list), 0.15)  # type: ignore[arg-type]
    said = capsys.readouterr().err.splitlines()
    refused = "warning: The store refuses writes: its memory is full"
    assert said == [refused, "warning: The store takes writes again"]
