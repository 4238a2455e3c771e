"""SIGTERM while the store stands still: each kind of process ends within its grace, and so do the tasks of an agent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from tests.conftest import ROOT
from tests.integration.agent_ground import alive
from tests.integration.stage import made_cell, own_server, submit, until

pytestmark = pytest.mark.server
GRACE_SECONDS = 20.0
"""Less than the 30 s that `omega down` and the units in deploy/ give."""
KINDS = {
    "scheduler": ("scheduler", "run", "batch"),
    "agent": ("agent", "--name", "h1"),
    "simulated": ("machine", "simulate", "--executor", "own"),
    "web": ("serve", "--listen", "127.0.0.1:0"),
}


@pytest.mark.parametrize("moment", ["at once", pytest.param("amid its calls", marks=pytest.mark.chaos)])
def test_each_kind_of_process_ends(tmp_path: Path, moment: str) -> None:
    def started() -> bool:
        executors = cell.executor_records()
        served = (tmp_path / "web.out").read_text()
        return bool(cell.members() and cell.agents() and "own" in executors and "127.0.0.1" in served)

    with own_server() as server, made_cell(server.url, "leaves") as cell, ExitStack() as stack:
        words = [sys.executable, "-m", "omega.cli.main", "--store", server.url, "--cell", cell.name]
        environment = os.environ | {"OMEGA_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
        runs = dict[str, subprocess.Popen[bytes]]()
        stack.callback(end, runs)
        for name, member in KINDS.items():
            out = stack.enter_context((tmp_path / f"{name}.out").open("wb"))
            runs[name] = subprocess.Popen([*words, *member], env=environment, stdout=out, stderr=out)
        until(started, "all have started")
        log = tmp_path / "log"
        task = {"command": ["sh", "-c", f"echo $$ > {log}; exec sleep 600"], "grace": 500}
        submit(cell, [JobSpec("runs", "runs", "batch", (TaskGroup((100, 64), 1, 0, task),))])
        until(lambda: log.exists() and log.read_text().strip(), "a task runs")
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(0.0 if moment == "at once" else 8.0)  # until each waits for an answer
            began, took = time.monotonic(), dict[str, float]()
            for run in runs.values():
                run.send_signal(signal.SIGTERM)
            while len(took) < len(runs) and time.monotonic() - began < 2 * GRACE_SECONDS:
                for name, run in runs.items():
                    if name not in took and run.poll() is not None:
                        took[name] = time.monotonic() - began
                time.sleep(0.05)
            assert took.keys() == runs.keys()
            assert {name: seconds for name, seconds in took.items() if seconds > GRACE_SECONDS} == {}
            until(lambda: not alive(int(log.read_text())), "the task has ended")
            said = {name: (tmp_path / f"{name}.out").read_text() for name in runs}
            assert {name: text for name, text in said.items() if "Traceback" in text} == {}
        finally:
            server.process.send_signal(signal.SIGCONT)


def end(runs: "Mapping[str, subprocess.Popen[bytes]]") -> None:
    for run in runs.values():
        run.kill()
        run.wait()
