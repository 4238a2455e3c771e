"""docs/drills.md is true: its commands are run in its order on real groups of servers, and print what it shows.

The test replaces the ports of the page by free ones, and gives a valkey-cli that needs no installation.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import pytest

from tests.server_groups import free_ports
from tests.tutorial.page import BLOCK, DOCS, SECONDS, at_work, commands
from tests.tutorial.test_tour import Reader
from tests.tutorial.valkey_cli import lines

pytestmark = pytest.mark.server
ROOT = DOCS.parent
CLIENT = Path(__file__).with_name("valkey_cli.py")
GROUP = re.compile(r"^python -m tests\.practice_group (\w+) ([\d,]+)$", re.MULTILINE)
WITH_SENTINELS, WITH_A_CLUSTER = "## A group to practise", "## Resharding a Cluster"


class Operator(Reader):
    """Somebody who types the page's commands; servers and `omega up` run in terminals of their own."""

    patience, pause = 60.0, 0.5

    def paste(self, command: str, expected: str | None) -> None:
        if command.startswith("export ") and "$(" in command:
            name, _, value = command.removeprefix("export ").partition("=")
            code, printed = self._run(f"printf %s {value}", None)
            assert code == 0
            assert printed
            self.environment |= {name: printed}
        elif GROUP.match(command) or command.startswith("omega up"):
            terminal = self.terminals[command] = ExitStack()
            terminal.enter_context(at_work(command.split(), self.folder, self.environment))
        else:
            super().paste(command, expected)

    def only_looks(self, command: str, words: list[str] | None) -> bool:
        """Answers of servers become those of the page in a moment; a command that moves something is given once.

        A setting of all servers is repeated until the one that was killed is back.
        """
        if command.startswith("for port in"):
            return True
        looks = command.startswith(("valkey-cli", "omega store status")) and "migrateslots" not in command
        return looks or super().only_looks(command, words)

    def follow(self, blocks: Sequence[tuple[str, str]]) -> None:
        """Type the commands of blocks, and compare what is shown after each block."""
        for (language, text), (after, shown) in zip(blocks, [*blocks[1:], ("sh", "")], strict=True):
            if language == "sh":
                *before, last = commands(text)
                for command in before:
                    self.paste(command, None)
                self.paste(last, None if after else shown)


def section(text: str, title: str, end: str = "\0") -> list[tuple[str, str]]:
    """Return the blocks from a title on, with free ports in place of those of the page."""
    part = text.partition(title)[2].partition(end)[0]
    found = GROUP.search(part)
    assert found is not None
    named = found[2].split(",")
    for old, new in zip(named, free_ports(len(named)), strict=True):
        part = re.sub(rf"\b{old}\b", str(new), part)
    return BLOCK.findall(part)


@pytest.fixture
def page() -> str:
    return (DOCS / "drills.md").read_text(encoding="utf-8")


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(DOCS)
    programs = tmp_path / "bin"
    programs.mkdir()
    client = programs / "valkey-cli"
    client.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {CLIENT} "$@"\n')
    client.chmod(0o755)
    made = Operator(
        tmp_path,
        os.environ
        | {
            "OMEGA_USER": "ada",
            "OMEGA_STATE": str(tmp_path / "state"),
            "PYTHONPATH": str(ROOT),
            "PATH": os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"])),
        },
    )
    try:
        yield made
    finally:
        made.leave()


@pytest.mark.chaos
def test_the_drills_with_sentinels(page: str, operator: Operator) -> None:
    operator.follow(section(page, WITH_SENTINELS, WITH_A_CLUSTER))


@pytest.mark.chaos
def test_the_drill_with_a_cluster(page: str, operator: Operator) -> None:
    operator.environment |= {"OMEGA_CELL": "drill"}
    operator.follow(section(page, WITH_A_CLUSTER))


def test_every_command_of_the_page_is_run(page: str) -> None:
    before, _, rest = page.partition(WITH_SENTINELS)
    assert BLOCK.findall(before) == []
    for language, text in BLOCK.findall(rest):
        assert language in ("sh", ""), "only what is between sh fences is run"
        assert language or not re.search(r"^(omega|valkey-cli|kill|export) ", text, re.MULTILINE)


def test_the_client_prints_what_valkey_cli_prints() -> None:
    """Lists line by line, an empty line for what is not there, errors as text, nothing else."""
    answer = b"*4\r\n$9\r\n127.0.0.1\r\n:6379\r\n$-1\r\n*2\r\n+a\r\n$4\r\nb\r\nc\r\n"
    assert list(lines(BytesIO(answer))) == ["127.0.0.1", "6379", "", "a", "b\r\nc"]
    assert list(lines(BytesIO(b"-ERR no such command\r\n"))) == ["ERR no such command"]
    asked = [sys.executable, "-I", str(CLIENT), "-p", "1", "ping"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (1, "")
