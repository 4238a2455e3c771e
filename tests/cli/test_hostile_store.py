"""A store that holds what no client would write: nothing of it reaches the terminal as a control."""

import json
import re

import pytest

from omega.cellstate import model
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.plain_text import cleaned
from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, eventually, scheduler

EVIL = "\x1b]0,owned\x07\x1b[2J\u202e\x9b\u200b[/bold]"
SHOWS = [
    ("job", "list"), ("job", "list", "--output", "name,user,state"), ("job", "status", "j1"), ("job", "why", "j2"),
    ("job", "logs", "j1"), ("machine", "list"), ("machine", "list", "--verbose"), ("machine", "status", "m0"),
    ("machine", "status", "m0", "--verbose"), ("events",), ("cell", "status"), ("cell", "verify"), ("cell", "limits"),
    ("cell", "list"), ("top", "--once"), ("scheduler", "list"), ("scheduler", "status"), ("job", "plan", "-"),
]  # a table # fmt: skip


@pytest.fixture
def hostile(cell: RedisCell, monkeypatch: pytest.MonkeyPatch) -> RedisCell:
    """A cell in which names, users, attributes and reasons are full of controls."""
    with monkeypatch.context() as open_door:
        for name in ("check_text", "check_texts"):
            open_door.setattr(model, name, lambda *_, **__: None)
        open_door.setattr("omega.cellstate.spec_fields.check_texts", lambda *_: None)
        open_door.setattr(model, "_NAME", re.compile(".+", re.DOTALL))
        open_door.setattr("omega.cellstate.redis.calls._author", lambda name: name)
        machines = [MachineSpec("m0", (4000, 4096), {"rack": EVIL, EVIL: "x"}), MachineSpec(f"m{EVIL}", (1, 1))]
        cell.register_executor("here", "n", 600_000, 1)
        cell.join("here", machines[:1], 1)
        cell.join(f"here{EVIL}", machines[1:], 1)
        said = {"name": EVIL, "command": ["sh", EVIL], "constraints": [f"rack == '{EVIL}'"]}
        about = {"user": EVIL, "environment": {EVIL: EVIL}, "pool": EVIL, "simulate": True}
        for number, fits in ((1, True), (2, False)):
            groups = (TaskGroup((100, 1) if fits else (10**6, 1), 1, 0, {**said, "constraints": []} if fits else said),)
            cell.submit([JobSpec(f"j{number}", f"job{number}{EVIL}", "batch", groups, spec=about)], 1, f"ada{EVIL}")
    return cell


def test_no_control_reaches_the_terminal(omega: Omega, hostile: RedisCell) -> None:
    with scheduler(hostile):
        eventually(lambda: len(hostile.pending().get("batch", [])) == 1)
    for words in SHOWS:
        given = "name: a\ntasks: [{}]\n" if "-" in words else None
        for mode in ((), ("--json",)):
            found = omega.run(*mode, *words, given=given)
            told = found.stdout + found.stderr
            assert cleaned(told, "\n") == told, words
            if mode:
                json.loads(found.stdout)


def test_a_log_is_text_on_a_terminal_and_bytes_elsewhere(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from omega.cli import render

    pieces = "a\x1b[31m\tü\n".encode()
    render.output(pieces)
    assert capsysbinary.readouterr().out == pieces
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for i in range(len(pieces)):
        render.output(pieces[i : i + 1])
    assert capsysbinary.readouterr().out == "a[31m\tü\n".encode()
