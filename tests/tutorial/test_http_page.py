"""docs/http.md is true: its curl commands run against a server, and print what it shows; it names every route."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omega.cellstate.redis import RedisCell
from tests.conftest import ROOT, absent
from tests.tutorial.page import DOCS, SECONDS, blocks, same

PAGE = (DOCS / "http.md").read_text("utf-8")


@pytest.fixture
def server(cell: RedisCell, at_work: Callable[..., None], tmp_path: Path) -> Iterator[dict[str, str]]:
    """A server of a cell at work; yields the variables of the page."""
    at_work(machines=3)
    command = [sys.executable, "-m", "omega.cli.main", "--store", cell.url, "--cell", cell.name, "--json"]
    command += ["serve", "--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "token")]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=environment, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"].rstrip("/")
            yield environment | {"api": f"{url}/v1", "token": (tmp_path / "token").read_text("ascii").strip()}
        finally:
            process.terminate()


def run(text: str, environment: dict[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
    command = ["bash", "-euo", "pipefail", "-c", text]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.server
@pytest.mark.chaos
def test_the_commands_of_the_page(server: dict[str, str], tmp_path: Path) -> None:
    for program in ("curl", "jq", "bash"):
        if shutil.which(program) is None:
            absent(f"{program} is not installed")
    shown = blocks("http.md")
    ran = 0
    for (language, text), (_, expected) in zip(shown, [*shown[1:], ("", "")], strict=True):
        if language != "sh":
            continue
        ran += 1
        until = time.monotonic() + SECONDS
        done = run(text, server, tmp_path)
        while " -d " not in text and not same(expected, done.stdout) and time.monotonic() < until:
            time.sleep(0.2)  # lists are about a second old, as the page says
            done = run(text, server, tmp_path)
        assert same(expected, done.stdout), f"{text}\n{done.stdout}{done.stderr}"
    assert ran == 10


def test_the_page_names_every_route() -> None:
    paths = json.loads((DOCS / "openapi.json").read_text("utf-8"))["paths"]
    named = re.sub(r"JOB|NAME|KIND", "{}", PAGE)
    missing = []
    for path in paths:
        begin, _, last = re.sub(r"\{\w+\}", "{}", path).rpartition("/")
        if (
            f"{begin}/{last}" not in named
            and not (begin in named and f"`{last}`" in named)
            and f"`/{last}`" not in named
        ):
            missing.append(path)
    assert missing == []
