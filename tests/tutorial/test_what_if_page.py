"""docs/what-if.md is true: a live cell is recorded with its commands, and its question gets an answer."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import click.testing
import pytest

from omega.cellstate.redis.cell import RedisCell
from omega.cli.main import omega
from omega.what_if.schedulers import NAMES
from tests.tutorial.page import DOCS, SECONDS, at_work, blocks, commands

PAGE = (DOCS / "what-if.md").read_text(encoding="utf-8")


def titles(table: str) -> list[str]:
    """The first words of the lines of a table, up to two spaces."""
    return [line.partition("  ")[0] for line in table.splitlines() if line.strip() and line != "…"]


@pytest.mark.server
@pytest.mark.chaos
def test_a_live_cell_is_recorded_and_asked(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"OMEGA_STORE": store_url, "OMEGA_STATE": str(tmp_path / "state"), "PATH": path}
    environment |= {"OMEGA_CELL": "ask", "OMEGA_USER": "ada"}
    monkeypatch.chdir(tmp_path)
    page = blocks("what-if.md")
    shell = [text for language, text in page if language == "sh"]
    shown = [text for language, text in page if language == ""]
    up = next(command for command in commands(shell[1]) if command.startswith("omega up"))
    with ExitStack() as terminals:
        terminals.enter_context(at_work(up.split(), tmp_path, environment))
        ran = subprocess.run(
            ["bash", "-e", "-c", shell[2]], cwd=tmp_path, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout
    assert [title for title in titles(shown[0])[-4:] if title not in ran.stdout] == []
    assert "5 submitted" in ran.stdout
    words = shell[3].split()[1:]
    done = click.testing.CliRunner().invoke(omega, ["--json", *words], env=environment)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["judgement"]["ok"]
    assert answer["judgement"]["judged"] == answer["judgement"]["transactions"] > 5
    assert answer["schedulers"]["batch"]["number"] == answer["schedulers"]["service"]["number"] == 1
    (run,) = answer["runs"]
    assert run["metrics"]["wait_mean"] < answer["as_recorded"]["wait_mean"] - 0.3
    if answer["agrees"]["wait_mean"]:
        assert run["effect"]["wait_mean"] is None or run["effect"]["wait_mean"] < -0.3
    text = click.testing.CliRunner().invoke(omega, words, env=environment).stdout
    assert [title for title in titles(shown[1]) if title not in titles(text)] == []
    swept = click.testing.CliRunner().invoke(omega, shell[4].split()[1:], env=environment)
    assert swept.exit_code == 0, swept.output
    assert swept.stdout.count("preemption=precedence t-job=") == 2
    cell = RedisCell.connect(store_url, "ask")
    cell.delete()
    cell.close()


def test_every_setting_is_named() -> None:
    assert [name for name in NAMES if f"`{name}`" not in PAGE] == []
