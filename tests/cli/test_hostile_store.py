"""A store that holds what no client would write: nothing of it reaches the terminal as a control."""

import json
import re

import pytest
from hypothesis import given, strategies as st

from omega.cellstate import model
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.plain_text import cleaned
from omega.cellstate.redis import RedisCell
from omega.cli import render
from omega.cli.terminal_text import MOST_HELD, TerminalText
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
        open_door.setattr("omega.cellstate.model.check_texts", lambda *_: None)
        open_door.setattr(model, "_NAME", re.compile(".+", re.DOTALL))
        open_door.setattr(model, "check_word", lambda _, value: value)
        open_door.setattr("omega.cellstate.redis.calls._author", lambda name: name)
        machines = [MachineSpec("m0", (4000, 4096), {"rack": EVIL, EVIL: "x"}), MachineSpec(f"m{EVIL}", (1, 1))]
        cell.executors.register("here", "n", 600_000, 1)
        cell.machines.join("here", machines[:1], 1)
        cell.machines.join(f"here{EVIL}", machines[1:], 1)
        said = {"name": EVIL, "command": ["sh", EVIL], "constraints": [f"rack == '{EVIL}'"]}
        about = {"user": EVIL, "environment": {EVIL: EVIL}, "pool": EVIL, "simulate": True}
        for number, fits in ((1, True), (2, False)):
            groups = (TaskGroup((100, 1) if fits else (10**6, 1), 1, 0, {**said, "constraints": []} if fits else said),)
            cell.jobs.submit(
                [JobSpec(f"j{number}", f"job{number}{EVIL}", "batch", groups, spec=about)], 1, f"ada{EVIL}"
            )
    return cell


def test_no_control_reaches_the_terminal(omega: Omega, hostile: RedisCell) -> None:
    with scheduler(hostile):
        eventually(lambda: len(hostile.schedulers.pending().get("batch", [])) == 1)
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
    pieces = "a\x1b[31m\tü\x1b]8;;http://x\x07\n".encode()
    render.output(pieces, TerminalText())
    assert capsysbinary.readouterr().out == pieces
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    text = TerminalText()
    for i in range(len(pieces)):
        render.output(pieces[i : i + 1], text)
    assert capsysbinary.readouterr().out == "a\tü\n".encode()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mx\x1b[?25l\x1b[2Jy", "xy"),
        ("\x1b]0;title\x07a\x1b]52;c;aGk=\x1b\\b", "ab"),
        ("\x1b]0;never ended\nnext", "\nnext"),
        ("\x1bP1$r\x1b\\c\x1b(B\x1b7\x1b=d", "cd"),
        ("\x9b31ma\x9d0;t\x9cb", "ab"),
        ("10 %\r20 %\r\nend\r\r\n", "10 %\n20 %\nend\n"),
        ("a\x08\x0bb\u202ec\x00", "abc"),
    ],
)
def test_sequences_are_left_out_as_a_whole(written: str, shown: str) -> None:
    data = written.encode()
    single = TerminalText()
    assert TerminalText().add(data) == shown
    assert "".join(single.add(data[i : i + 1]) for i in range(len(data))) == shown


def test_what_is_no_sequence_waits_for_no_end() -> None:
    text = TerminalText()
    assert "1111" in text.add(b"\x1b[" + b"1" * 2 * MOST_HELD)
    assert text.add(b"next\n") == "next\n"


@given(
    st.lists(st.sampled_from(["\x1b", "[", "]", "m", "\r", "\n", "\x07", "\\", "1", ";", "x", "\x9b", "ü", "P", " "]))
)
@pytest.mark.chaos
def test_no_division_of_output_lets_a_control_through(letters: list[str]) -> None:
    data, single = "".join(letters).encode(), TerminalText()
    shown = TerminalText().add(data)
    assert cleaned(shown, "\n\t") == shown
    assert "".join(single.add(data[i : i + 1]) for i in range(len(data))) == shown
