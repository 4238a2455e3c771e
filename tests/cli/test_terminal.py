"""What a person at a terminal sees: bars that do not break lines, colours, Ctrl-C that detaches."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, eventually, join
from tests.cli.test_main import ROOT


class Terminal:
    """`omega` on a terminal of 100 columns."""

    def __init__(self, omega: Omega, *words: str, **environment: str) -> None:
        self.end, theirs = pty.openpty()
        ours = ("NO_COLOR", "OMEGA_STORE", "OMEGA_CELL")
        others = {name: value for name, value in os.environ.items() if name not in ours}
        shared = ("--store", str(omega.url), "--cell", str(omega.cell))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "omega.cli.main", *shared, *words],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=others | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"} | environment,
        )
        os.close(theirs)

    def read(self, until: str = "") -> str:
        """What is shown up to a text, or to the end of the program."""
        shown = ""
        while not until or until not in shown:
            try:
                shown += os.read(self.end, 65536).decode()
            except OSError:  # the program has ended
                break
        return shown

    def close(self) -> int:
        """The exit code."""
        code = self.process.wait(30)
        os.close(self.end)
        return code


def lines_of(shown: str) -> list[str]:
    """The lines that stay on the screen, without the codes of the terminal."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n")
    return [line for line in text.split("\n") if line.strip()]


def test_a_job_is_followed_on_a_terminal(omega: Omega, at_work: Callable[..., None]) -> None:
    at_work()
    words = (
        "job",
        "run",
        "--count",
        "3",
        "--cpu",
        "100m",
        "--duration",
        "600ms",
        "--simulate",
        "--",
        "python3",
        "crunch.py",
    )
    terminal = Terminal(omega, *words)
    lines = lines_of(terminal.read())
    assert terminal.close() == 0
    assert any(re.fullmatch(r"job  [0-9a-f]{12}  crunch  submitted · following \(Ctrl-C detaches\)", x) for x in lines)
    assert any(re.fullmatch(r"  \S+ \S+ +3 tasks placed by batch/0 in 1 transaction \(0 conflicts\)", x) for x in lines)
    assert any(re.fullmatch(r"  \S+ \S+ +3 finished", x) for x in lines)
    assert any("placed ━" in x and "3/3 tasks" in x for x in lines)


def test_ctrl_c_detaches(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    terminal = Terminal(omega, "job", "run", "--name", "long")
    terminal.read(until="0/1")
    terminal.process.send_signal(signal.SIGINT)
    lines = lines_of(terminal.read())
    assert terminal.close() == 130
    assert any(x.startswith("detached; the job continues, see omega job status ") for x in lines)
    eventually(lambda: omega.json("job", "status", "long")["state"] == "pending")


def test_a_narrow_terminal_is_shown_fewer_columns(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("job", "run", "--name", "a-job-of-some-length", "--precedence", "7")
    terminal = Terminal(omega, "job", "list", NO_COLOR="1", COLUMNS="85")
    lines = lines_of(terminal.read())
    assert terminal.close() == 0
    assert lines[0].split() == ["id", "name", "prec", "state", "reason", "tasks", "placed", "age"]
    assert (lines[1].split()[1], lines[2]) == ("a-job-of-some-length", "… too narrow here for user, kind")


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours(omega: Omega, cell: RedisCell, environment: dict[str, str], coloured: bool) -> None:
    join(cell, 1)
    for words, mark in ((("machine", "list"), "\x1b[32mup"), (("job", "status", "x"), "\x1b[31m\x1b[1merror:")):
        terminal = Terminal(omega, *words, **environment)
        assert (mark in terminal.read()) is coloured
        terminal.close()


def test_delete_asks_at_a_terminal(store_url: str) -> None:
    omega = Omega(store_url, "to-delete")
    omega.run("cell", "create", "to-delete")
    terminal = Terminal(omega, "cell", "delete")
    terminal.read(until="[y/N]: ")
    os.write(terminal.end, b"n\n")
    terminal.read()
    assert terminal.close() == 1
    assert omega.json("cell", "status")["cell"] == "to-delete"
    terminal = Terminal(omega, "cell", "delete")
    terminal.read(until="[y/N]: ")
    os.write(terminal.end, b"y\n")
    assert "cell to-delete with 0 machines and 0 live jobs deleted" in terminal.read()
    assert terminal.close() == 0
