"""docs/tour.md is true: its commands are run in its order, in one folder, and print what it shows."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click.testing
import pytest

from omega.cellstate.redis.cell import RedisCell
from omega.cli.main import omega
from tests.tutorial.page import SECONDS, at_work, blocks, commands, same, without_shell

LOOKS = {"list", "status", "why", "plan", "limits", "events", "verify", "logs", "top"}
"""Commands that change nothing: they are asked again until they show what is to come."""
LOOK_SECONDS = 20.0
STAYS = (["omega", "up"], ["omega", "agent"], ["omega", "scheduler", "run"], ["omega", "serve"])
"""Commands that run in a terminal of their own until Ctrl-C."""


def free_port() -> int:
    """A port of this computer that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Reader:
    """Somebody who pastes the page's commands, each of `STAYS` into a terminal of its own."""

    patience, pause = LOOK_SECONDS, 0.05

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.terminals: dict[str, ExitStack] = {}

    def paste(self, command: str, expected: str | None) -> None:
        """Run a command and compare what it prints, if that is shown; if not, it has to succeed."""
        words = without_shell(command)
        if words and words[0] == "export":
            self.environment |= {name: value for name, _, value in (text.partition("=") for text in words[1:])}
        elif words and any(words[: len(each)] == each for each in STAYS):
            if words[1] == "up":
                self.leave()
            terminal = self.terminals[command] = ExitStack()
            terminal.enter_context(at_work(words, self.folder, self.environment))
        else:
            self._compare(command, words, expected)

    def leave(self) -> None:
        """Press Ctrl-C in all terminals."""
        while self.terminals:
            self.terminals.popitem()[1].close()

    def _compare(self, command: str, words: list[str] | None, expected: str | None) -> None:
        deadline = time.monotonic() + self.patience
        while True:
            code, printed = self._run(command, words)
            if (code == 0) if expected is None else same(expected, printed):
                return
            again = self.only_looks(command, words) and time.monotonic() < deadline
            assert again, f"{command}\nexit {code}\n{printed}"
            time.sleep(self.pause)

    def only_looks(self, command: str, words: list[str] | None) -> bool:
        """Return whether a command changes nothing."""
        return words is not None and not LOOKS.isdisjoint(words[1:3])

    def _run(self, command: str, words: list[str] | None) -> tuple[int, str]:
        if words and words[0] == "omega":
            done = click.testing.CliRunner().invoke(omega, words[1:], env=self.environment)
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            return done.exit_code, done.output
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return ran.returncode, ran.stdout


def pasted(page: Sequence[tuple[str, str]], store_url: str, folder: Path) -> None:
    """Paste the commands of a page's blocks in a folder, and compare what is shown after them."""
    reader = Reader(
        folder,
        os.environ
        | {
            "OMEGA_STORE": store_url,
            "OMEGA_USER": "ada",
            "OMEGA_STATE": str(folder / "state"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
    )
    try:
        for (language, text), (after, shown) in zip(page, [*page[1:], ("sh", "")], strict=True):
            if language == "sh":
                *before, last = commands(text)
                for command in before:
                    reader.paste(command, None)
                reader.paste(last, None if after else shown)
    finally:
        reader.leave()


@pytest.mark.server
def test_the_tour(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tour"
    folder.mkdir()
    monkeypatch.chdir(folder)
    port = str(free_port())
    pasted([(language, text.replace("9100", port)) for language, text in blocks("tour.md")], store_url, folder)
    left = RedisCell.connect(store_url, "tour")
    assert left.schedulers.members() == {}, "who is told to stop leaves nobody behind"
    left.delete()
    left.close()


def test_what_a_page_shows_is_compared() -> None:
    printed = "job  0123456789ab  web  running\nwait  12 ms\nm0  1\nm7  1\n"
    assert same("job  4f1c09ab12cd  web  running\nwait   0.3 s\n…\n", printed)
    assert same("job  …  web  running\n…\nm7  1\n", printed)
    assert not same("job  4f1c09ab12cd  web  pending\n…\n", printed)
    assert not same("job  4f1c09ab12cd  web  running\nwait  12 ms\nm0  1\n", printed)


def test_what_needs_a_shell() -> None:
    text = "omega job run -- sh -c 'echo $A'  # a comment\nomega a | b\ncat > f <<'END'\nx\nEND\nomega b \\\n  -c\n"
    assert [without_shell(command) for command in commands(text)] == [
        ["omega", "job", "run", "--", "sh", "-c", "echo $A"],
        None,
        None,
        ["omega", "b", "-c"],
    ]
