"""Pages of docs/ as tests: their commands are run as they are written, and what they show is compared."""

import re
import shlex
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
READY = "Ctrl-C"
"""Every process that runs until it is told to stop says so once it is at work."""
SECONDS = 120
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEREDOC = re.compile(r"<<'(\w+)'")
VARYING = (
    (re.compile(r"\b[0-9a-f]{12}\b|(?<=\()[0-9a-f]{4}(?=\))"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d "), ""),
    (re.compile(r"\d\d:\d\d:\d\d(\.\d+)?|\b\d+[dhm]\d\d[hms]|\b\d+s\b|\b\d+(\.\d+)? m?s\b"), "TIME"),
    (re.compile(r"\s+"), " "),
)
"""What differs from run to run without being said: ids, times; and how columns are filled up."""
LATER = re.compile(r"^ *last reasons: .*\n", re.MULTILINE)
"""What a scheduler reports with its next heartbeat: printed up to a second later, also beside what a page shows."""


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of what stands between fences."""
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def commands(text: str) -> Iterator[str]:
    """The commands of a block: a line each, or up to the end of a here-document or of a line that goes on."""
    lines = iter(text.splitlines())
    for command in lines:
        while command.endswith("\\"):
            command = command.removesuffix("\\") + next(lines)  # noqa: PLW2901 - the rest of it
        if here := HEREDOC.search(command):
            command = "\n".join([command, *iter(lines.__next__, here[1]), here[1]])  # noqa: PLW2901 - the rest of it
        yield command


def without_shell(command: str) -> list[str] | None:
    """The words of a command that needs no shell; None when it does."""
    words = list(shlex.shlex(command, posix=False, punctuation_chars=True))
    asks = any(set(word) <= set("();<>|&") or ("$" in word and not word.startswith("'")) for word in words)
    return None if asks else shlex.split(command, comments=True)


def same(expected: str, actual: str) -> bool:
    """Whether a page shows what is printed; … in it stands for anything, and on a line alone for any lines."""
    wanted = (_masked(line) for line in expected.splitlines())
    pattern = "".join(
        "(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in wanted if line
    )
    printed = (_masked(line) for line in (actual if LATER.search(expected) else LATER.sub("", actual)).splitlines())
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed if line)) is not None


def _masked(line: str) -> str:
    for varying, word in VARYING:
        line = varying.sub(word, line)
    return line.strip()


@contextmanager
def at_work(words: Sequence[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A process in the background; the block begins when it is ready, and ends it."""
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    timer = threading.Timer(SECONDS, process.kill)
    timer.start()
    try:
        with process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if READY in line:
                    break
            else:
                pytest.fail(f"{shlex.join(words)}\n{''.join(said)}", pytrace=False)
            yield
            process.terminate()
    finally:
        timer.cancel()
