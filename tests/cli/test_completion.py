"""Completion: the script for each shell, and what the store knows of names and ids."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from omega.cellstate.redis import RedisCell
from omega.cli.main import omega as program
from tests.cli.conftest import Omega, join


def completed(omega: Omega, *words: str) -> list[str]:
    """What the last word may become."""
    named = ("--store", str(omega.url), "--cell", str(omega.cell))
    shell = ShellComplete(program, {}, "omega", "_OMEGA_COMPLETE")
    return [item.value for item in shell.get_completions([*named, *words[:-1]], words[-1])]


def test_names_and_ids_of_jobs(omega: Omega, cell: RedisCell) -> None:
    job = omega.json("job", "run", "--name", "crawl", "--detach")["jobs"][0]["id"]
    assert completed(omega, "job", "status", "cr") == ["crawl"]
    assert completed(omega, "job", "why", job[:3]) == [job]
    assert completed(omega, "job", "stop", "crawl", "") == sorted(["crawl", job])
    assert completed(omega, "events", "--job", "cr") == ["crawl"]
    omega.run("job", "stop", "crawl")
    assert completed(omega, "job", "logs", "cr") == ["crawl"], "ended jobs are offered by name, too"
    assert completed(omega, "job", "logs", job[:3]) == [job]


@pytest.mark.parametrize("name", ["cr$(touch x)", "cr;ls", "cr`id`", "cr x", "cr\x1b[2J", "cr'"])
def test_what_a_shell_would_run_is_not_offered(omega: Omega, cell: RedisCell, name: str) -> None:
    """Whoever may write to the store chooses the names in it."""
    client: Any = cell.client
    client.hset(f"omega:1:{{{cell.name}}}:jobnames", name, "some-id")
    client.hset(f"omega:1:{{{cell.name}}}:jobs", name, f"{name} batch 0 1 0 0 0 0 1 1;0 0 0 1 1 0 0 0 0 0 -")
    assert completed(omega, "job", "status", "cr") == []


def test_machines_schedulers_kinds_and_cells(omega: Omega, cell: RedisCell) -> None:
    join(cell, 3)
    cell.schedulers.register("batch/7", "nonce", 60_000, 1)
    assert completed(omega, "machine", "drain", "m") == ["m0", "m1", "m2"]
    assert completed(omega, "machine", "status", "m1") == ["m1"]
    assert completed(omega, "scheduler", "status", "") == ["batch/7"]
    assert "service" in completed(omega, "scheduler", "run", "s")
    assert cell.name in completed(omega, "job", "list", "--cell", "cli-")
    assert completed(omega, "machine", "add", "m") == [], "they are not there yet"
    assert "machine" in completed(omega, "ma")


def test_files_are_the_shells(omega: Omega) -> None:
    shell = ShellComplete(program, {}, "omega", "_OMEGA_COMPLETE")
    assert [item.type for item in shell.get_completions(["job", "submit"], "")] == ["file"]


def test_no_store_no_words_and_no_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("OMEGA_STORE", raising=False)
    assert completed(Omega(f"unix://{tmp_path}/none"), "machine", "drain", "m") == []
    shell = ShellComplete(program, {}, "omega", "_OMEGA_COMPLETE")
    assert shell.get_completions(["machine", "drain"], "m") == []
    assert not (tmp_path / "state").exists(), "completing starts no store"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(omega: Omega, shell: str) -> None:
    text = omega.text("completion", shell)
    assert f"_OMEGA_COMPLETE={shell}_complete" in text
    assert f"\n  {shell} " in omega.text("completion", "--help"), "a line for each"
    assert omega.json("completion", shell) == {"shell": shell, "source": text.removesuffix("\n")}


def test_bash_completes(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    join(cell, 2)
    (tmp_path / "omega").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m omega.cli.main "$@"\n')
    (tmp_path / "omega").chmod(0o755)
    script = (
        'eval "$(omega completion bash)"; COMP_WORDS=(omega machine drain m); COMP_CWORD=3; '
        '_omega_completion omega; echo "${COMPREPLY[@]}"'
    )
    environment = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "OMEGA_STORE": str(omega.url),
        "OMEGA_CELL": str(omega.cell),
    }
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "m0 m1\n"


def test_completion_of_commands_imports_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("omega.cli.job.list", "omega.cli.job.run"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert {"list", "run", "why"} <= set(completed(Omega(None), "job", ""))
    assert "omega.cli.job.list" not in sys.modules
    assert "omega.cli.job.run" not in sys.modules
