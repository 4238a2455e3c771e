"""README.md is true: its commands are run in its order, in one folder, after what `make demo` installs."""

import os
import pty
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from omega.cellstate.redis.cell import RedisCell
from tests.tutorial.page import BLOCK, DOCS, SECONDS, commands
from tests.tutorial.test_tour import Reader

ROOT = DOCS.parent
SIMULATES = "## Compare architectures"
FILE = re.compile(r"# (\S+\.py)\n")


def sections() -> list[str]:
    """The text from the first cell on: what is live, and what is simulated."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## A cell of your own")[2]
    live, _, simulated = text.partition(SIMULATES)
    return [live, simulated]


class Follower(Reader):
    """Somebody who pastes the commands of README.md; `omega top` gets a terminal, and q after its first frame."""

    def paste(self, command: str, expected: str | None) -> None:
        if not command.startswith("omega top"):
            super().paste(command.replace("omega serve ", "omega serve --listen 127.0.0.1:0 "), expected)
            return
        ours, theirs = pty.openpty()
        seen, deadline = b"", time.monotonic() + SECONDS
        with subprocess.Popen(
            ["omega", "top"],
            cwd=self.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self.environment | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
        ) as process:
            os.close(theirs)
            while b"version" not in seen and time.monotonic() < deadline:
                seen += os.read(ours, 65536)
            os.write(ours, b"q")
            while process.poll() is None and time.monotonic() < deadline:
                try:
                    os.read(ours, 65536)
                except OSError:  # it has closed the terminal
                    break
            assert process.wait(SECONDS) == 0
        os.close(ours)

    def follow(self, text: str) -> None:
        """Write the files and run the commands; each must succeed."""
        for language, block in BLOCK.findall(text):
            if language == "python":
                name = FILE.match(block)
                assert name is not None, "a file begins with its name"
                (self.folder / name[1]).write_text(block, encoding="utf-8")
            for command in commands(block) if language == "sh" else ():
                self.paste(command, None)


@pytest.fixture
def reader(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Follower:
    monkeypatch.chdir(tmp_path)
    return Follower(
        tmp_path,
        os.environ
        | {
            "OMEGA_STORE": store_url,
            "OMEGA_USER": "ada",
            "OMEGA_STATE": str(tmp_path / "state"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
    )


@pytest.mark.server
def test_the_commands_on_a_live_cell(reader: Follower, store_url: str) -> None:
    try:
        reader.follow(sections()[0])
    finally:
        reader.leave()
    for name in ("lab", "here"):
        left = RedisCell.connect(store_url, name)
        assert left.schedulers.members() == {}
        left.delete()
        left.close()


@pytest.mark.chaos
def test_the_simulations(reader: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tutorial.test_tour.SECONDS", 1800)
    reader.follow(sections()[1])
    assert {path.name for path in reader.folder.rglob("*.[sp][vn]g")} == {"out.svg", "figure-5.svg", "figure-5.png"}


def test_both_halves_have_commands_that_run() -> None:
    """A block without the word `sh` is not run, so the test of its half would pass over it."""
    for text in sections():
        for language, block in BLOCK.findall(text):
            assert language or not any(command.startswith("omega ") for command in commands(block)), block
        assert any(language == "sh" for language, _ in BLOCK.findall(text))


def test_the_demo_installs_what_the_commands_need() -> None:
    """Every package that a command of README.md imports when it is needed is in the extra that `make demo` installs."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("$(RUN): ")[2].partition("\n\n")[0]
    assert "-e '.[readme]'" in recipe
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["readme"] == ["omega-scheduler[plots,testing,top,web]"]
    unused = {"browser", "dask", "dev", "docs", "parquet"}
    assert set(extras) == unused | {"plots", "testing", "top", "web", "readme"}, "a new extra: does README use it?"
