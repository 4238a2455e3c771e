"""The outside checkers are tests too, so that `pytest` is the one command."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT


def checker(name: str, *arguments: str, within: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the checker that belongs to the interpreter that runs the tests."""
    return subprocess.run(
        [str(Path(sys.executable).with_name(name)), *arguments],
        cwd=within,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ruff", ["check", "--quiet", "--output-format=concise", "."]),
        ("mypy", ["--no-error-summary", "--no-pretty"]),
        ("lint-imports", ["--no-logo"]),
    ],
)
def test_checker_finds_nothing(name: str, arguments: list[str]) -> None:
    done = checker(name, *arguments)
    if done.returncode != 0:
        pytest.fail(f"{name} {' '.join(arguments)}\n{done.stdout}", pytrace=False)


def contracts() -> dict[str, dict[str, Any]]:
    """The contracts of import-linter by their id, as pyproject.toml has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """An empty project under the same contracts: every module that a contract names."""
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    layers = re.findall(r"\w+", " ".join(contracts()["layers"]["layers"]))
    for module in [*(f"omega.{layer}" for layer in layers), *contracts()["twins"]["modules"]]:
        path = tmp_path.joinpath(*module.split("."))
        path.mkdir(parents=True, exist_ok=True)
        (path / "__init__.py").touch()
    (tmp_path / "omega" / "__init__.py").touch()
    return tmp_path


def test_an_empty_house_keeps_every_contract(house: Path) -> None:
    done = checker("lint-imports", "--no-logo", "--no-cache", within=house)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("contract", "module", "imported"),
    [
        ("layers", "cellstate/snapshot.py", "omega.schedulers"),
        ("layers", "schedulers/loop.py", "omega.workload"),
        ("layers", "live/member.py", "omega.cli"),
        ("layers", "unplaced.py", "json"),
        ("names", "schedulers/loop.py", "omega"),
        ("outside", "cli/bench.py", "benchmarks"),
        ("outside", "testing/cells.py", "tests"),
        ("twins", "cellstate/memory/cell.py", "omega.cellstate.redis"),
        ("twins", "cellstate/redis/cell.py", "omega.cellstate.memory"),
        ("twins", "cellstate/audit/report.py", "omega.cellstate.memory"),
        ("server", "schedulers/live_driver.py", "redis"),
        ("server", "cli/store.py", "redis.exceptions"),
        ("people", "live/member.py", "click"),
        ("people", "cellstate/snapshot.py", "rich"),
    ],
)
def test_a_contract_is_broken_by(house: Path, contract: str, module: str, imported: str) -> None:
    (house / "omega" / module).write_text(f"import {imported}\n", encoding="utf-8")
    done = checker("lint-imports", "--no-logo", "--no-cache", within=house)
    assert done.returncode == 1
    assert f"{contracts()[contract]['name']} BROKEN" in done.stdout
    assert "1 broken" in done.stdout
