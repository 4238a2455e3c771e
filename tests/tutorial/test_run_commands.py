"""Commands that run on this computer, from the command line. Read from top to bottom; everything here really runs."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omega.cellstate.model import MachineState
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from tests.cli.conftest import Omega

pytestmark = pytest.mark.server


@pytest.mark.chaos
def test_omega_up_runs_what_is_asked_for(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path))
    omega = Omega(store_url, "at-home")

    # In one terminal: schedulers, and this computer as a machine, because no machines are asked for that are played.
    own = tmp_path / "own.toml"
    own.write_text('kind = "batch"\n[placement]\npolicy = "best-fit"\n')
    words = ["--store", store_url, "--cell", "at-home", "up", "--service", "0", "--scheduler", str(own)]
    up = subprocess.Popen([sys.executable, "-m", "omega.cli.main", *words], stdout=subprocess.PIPE, text=True)
    assert up.stdout is not None
    assert any(line.startswith("ready: ") for line in up.stdout)
    assert [each["member"] for each in omega.json("scheduler", "list")["schedulers"]] == ["batch/0"], "that of the file"
    machine = omega.json("machine", "list")["machines"][0]
    assert machine["attributes"]["os"] == sys.platform
    assert machine["attributes"]["cgroups"] in ("v2", "none")

    # In another: a command in two tasks, followed to its exit codes.
    options = ["--name", "greet", "--count", "2", "--cpu", "100m", "--env", "WHO=world", "--follow"]
    told = omega.text("job", "run", *options, "--", "sh", "-c", "echo hello $WHO, this is $OMEGA_TASK")
    assert told.splitlines()[-1].endswith("2 finished (exit 0)")
    assert omega.text("job", "logs", "greet", "--task", "1") == "hello world, this is 1\n"

    # What fails says why; a job file can ask for more attempts.
    file = tmp_path / "flaky.yaml"
    file.write_text("""
    name: flaky
    tasks:
      - command: [sh, -c, "test $OMEGA_ATTEMPT = 3 && echo at last"]
        restart: {attempts: 5, delay: 10ms, factor: 1}
        time_limit: 1m
    """)
    omega.run("job", "submit", "--follow", str(file))
    assert omega.text("job", "logs", "flaky") == "at last\n"
    omega.run("job", "run", "--name", "typo", "--follow", "--", "ehco", "hello", code=127)
    assert omega.json("job", "status", "typo")["failures"] == {"command not found: ehco": 1}

    # Without a terminal, too, a job is followed, and its exit code is that of the first task that failed.
    words = ["--store", store_url, "--cell", "at-home", "job", "run", "--name", "two", "--count", "3", "--"]
    words += ["sh", "-c", "exit $((OMEGA_TASK * 2))"]
    done = subprocess.run([sys.executable, "-m", "omega.cli.main", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, "3 tasks placed" in done.stdout) == (2, True), done

    # Ctrl-C in the first terminal, or SIGTERM, ends everything but the state.
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0
    up.stdout.close()
    cell = RedisCell.open(connect(store_url), "at-home")
    assert (cell.schedulers.members(), cell.executors.agents(), [each.state for each in cell.machines.all()]) == (
        {},
        {},
        [MachineState.OFFLINE],
    )
    assert omega.json("cell", "verify")["ok"]
    cell.delete()
    cell.close()
    assert [place.name for place in (tmp_path / "agents" / "at-home").iterdir()] == [machine["name"]]
