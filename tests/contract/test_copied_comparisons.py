"""The policies of papers use nothing that a policy of somebody else cannot: a copy of them is a package like any."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from omega.schedulers import registry
from omega.schedulers.composition import compose
from tests.architecture.sources import ROOT

OWN, COPY = "omega.schedulers.comparisons", "house_comparisons"
FOLDER = ROOT / "schedulers" / "comparisons"
BEHAVIOUR = (
    "tests/contract/test_hadoop_policies.py", "tests/contract/test_other_policies.py::TestFairPools",
    "tests/unit/schedulers/fairshare/test_dominant_share_cases.py", "tests/unit/schedulers/test_delay_analysis.py",
    "tests/unit/schedulers/test_fair_pools.py", "tests/unit/schedulers/test_hadoop.py",
)  # fmt: skip


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the copy, and entry points of its own: the names of Omega's behind ``house-``."""
    shutil.copytree(FOLDER, tmp_path / COPY, ignore=shutil.ignore_patterns("__pycache__"))
    info = tmp_path / f"{COPY}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {COPY}\nVersion: 1.0\n", encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = []
    for axis, entries in project["entry-points"].items():
        lines.append(f"[{axis}]")
        lines += [f"house-{name} = {at.replace(OWN, COPY)}" for name, at in entries.items() if at.startswith(OWN)]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_the_copy_passes_the_tests_of_behaviour(installed: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "-p", "tests.copied_comparisons", *BEHAVIOUR], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(installed)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


def test_a_scheduler_file_names_policies_of_the_copy(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(installed)
    page = (ROOT / "docs" / "hadoop.md").read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    found = compose("fair.toml", page.replace('"hadoop-fair"', '"house-hadoop-fair"'))
    assert type(found.ordering).__module__ == f"{COPY}.hadoop"
    assert type(found.preemption).__module__ == f"{COPY}.hadoop_preemption"
    text = 'kind = "batch"\n[ordering]\npolicy = "house-fair-pools"\npools.a = {weight = 2.0, guarantee = {cpu = 10}}\n'
    assert type(compose("pools.toml", text).ordering).__module__ == f"{COPY}.file_pools"
    offered = {name for axis in registry.AXES for name in registry.offers(axis) if name.startswith("house-")}
    assert offered == {f"house-{name}" for name in ("fair-pools", "fewest-running", "hadoop-fair", "hadoop-fifo")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_they_import_the_public_names_alone(path: Path) -> None:
    imported = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add(node.module or "")
    others = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others <= {"numpy", "numpy.typing", "omega"}
