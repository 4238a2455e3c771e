"""The wheel, installed in a virtual environment of its own, runs without the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

pytestmark = [pytest.mark.chaos, pytest.mark.server]


def run(*command: str | Path, **more: str) -> str:
    found = subprocess.run(
        [str(word) for word in command],
        env=more or None,
        cwd=more.get("HOME"),  # the current directory would be on the path of python -c
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_the_wheel_runs_help_a_demo_and_a_simulation_without_the_checkout(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip")
    built = subprocess.run(
        [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"no wheel without a package index: {built.stderr[-200:]}")
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "own"
    venv.create(home, with_pip=False)
    run(*pip, "--python", home / "bin" / "python", "install", "--quiet", "--no-deps", wheel)
    # The other packages are those of this environment; its path to the checkout is not processed.
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TMPDIR": "/tmp",
    }
    omega = home / "bin" / "omega"
    where = run(home / "bin" / "python", "-c", "import cli; print(cli.__file__)", **environment)
    assert where.startswith(str(home)), "the installed package, not the checkout"
    commands = run(omega, "--help", **environment).partition("Commands:")[2]
    assert "  demo " in commands
    assert "  bench " not in commands, "a wheel has no harness"
    simulated = json.loads(run(omega, "sim", "run", "--days", "0.001", "--machines", "20", "--json", **environment))
    assert simulated["jobs"]["scheduled"] > 0
    try:
        demo = json.loads(run(omega, "demo", "--machines", "20", "--json", **environment))
    finally:
        run(omega, "store", "stop", **environment)
    assert demo["verify"]["ok"]
