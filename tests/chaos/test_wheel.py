"""Omega as it is installed: the wheel that the source distribution builds, and the editable checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.architecture.sources import ROOT

LAYERS = ("cellstate", "cli", "schedulers")


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


def build(target: str, within: Path, to: Path) -> Path:
    """The one archive of this target (sdist or wheel) that hatchling builds of a source folder, without an index."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", to],
        cwd=within, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = to.iterdir()
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the unpacked source distribution, as pip does for a user without wheels."""
    sources = tmp_path_factory.mktemp("sources")
    with tarfile.open(build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))) as packed:
        packed.extractall(sources, filter="data")
    (unpacked,) = sources.iterdir()
    return build("wheel", unpacked, tmp_path_factory.mktemp("wheel"))


@pytest.mark.chaos
def test_the_wheel_from_the_sdist_holds_one_package_with_every_file(wheel: Path) -> None:
    with ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", "omega", *LAYERS], cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    links = {f"omega/{layer}" for layer in LAYERS}
    assert held == {name if name.startswith("omega/") else f"omega/{name}" for name in tracked} - links


@pytest.mark.parametrize("installed", [True, False], ids=["wheel", "editable"])
@pytest.mark.parametrize("as_folders", [True, False], ids=["folders", "files"])
def test_names_of_layers_are_free_for_users(wheel: Path, tmp_path: Path, installed: bool, as_folders: bool) -> None:
    package = tmp_path / "package"
    with ZipFile(wheel) as packed:
        packed.extractall(package)  # noqa: S202 - our own archive, filtered
    for name in LAYERS:
        own = tmp_path / (f"{name}/__init__.py" if as_folders else f"{name}.py")
        own.parent.mkdir(exist_ok=True)
        own.write_text("mine = True\n", encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, cellstate, cli, schedulers, omega\n"
        "from omega.cli.main import main\n"
        "assert cellstate.mine and cli.mine and schedulers.mine\n"
        "print(omega.__file__, omega.Scheduler('own', placement=omega.FirstFit()).kind)\n"
        "sys.argv = ['omega', 'version']\n"
        "main()\n",
        encoding="utf-8",
    )
    path = [str(package), sysconfig.get_path("purelib")] if installed else []
    options = ["-S"] if installed else []  # without site-packages' link to the checkout
    printed = run(sys.executable, *options, script, HOME=str(tmp_path), PYTHONPATH=os.pathsep.join(path))
    first, version = printed.splitlines()
    assert first == f"{package if installed else ROOT}/omega/__init__.py own"
    assert version.startswith("omega 0")


def test_the_wheel_has_no_harness_and_says_so(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as packed:
        packed.extractall(tmp_path)  # noqa: S202 - our own archive, filtered
    path = os.pathsep.join((str(tmp_path), sysconfig.get_path("purelib")))
    program = [sys.executable, "-S", "-m", "omega.cli.main"]  # -S: without site-packages' link to the checkout
    done = subprocess.run(
        [*program, "bench", "commit"], env={"PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1, "error: omega bench: the harness is not installed; run it from a checkout\n"
    )  # fmt: skip
    assert "bench" not in run(*program, "--help", HOME=str(tmp_path), PYTHONPATH=path).partition("Commands:")[2]


def test_a_layer_has_no_second_name() -> None:
    for layer in LAYERS:
        done = subprocess.run(
            [sys.executable, "-c", f"import {layer}"], cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stderr.splitlines()[-1].startswith(f"ImportError: import omega.{layer}, not {layer}: ")


@pytest.mark.chaos
@pytest.mark.server
def test_the_wheel_runs_help_a_demo_and_a_simulation_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip")
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
    where = run(home / "bin" / "python", "-c", "import omega.cli; print(omega.cli.__file__)", **environment)
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
