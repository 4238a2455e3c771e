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
from omega.live.processes.bound import LEAVING_SECONDS
from tests.conftest import ROOT
from tests.integration.agent_ground import alive
from tests.integration.stage import made_cell, own_server, started_processes, submit, until, words_of

pytestmark = pytest.mark.server
KINDS = {
    "scheduler": ("scheduler", "run", "batch"),
    "agent": ("agent", "--name", "h1"),
    "simulated": ("machine", "simulate", "--executor", "own"),
    "web": ("serve", "--listen", "127.0.0.1:0"),
}


@pytest.mark.parametrize("moment", ["at once", pytest.param("amid its calls", marks=pytest.mark.chaos)])
def test_each_kind_of_process_ends(tmp_path: Path, moment: str) -> None:
    def started() -> bool:
        executors = cell.executors.records()
        served = (tmp_path / "web.out").read_text()
        return bool(
            cell.schedulers.members() and cell.executors.agents() and "own" in executors and "127.0.0.1" in served
        )

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
            while len(took) < len(runs) and time.monotonic() - began < 2 * LEAVING_SECONDS:
                for name, run in runs.items():
                    if name not in took and run.poll() is not None:
                        took[name] = time.monotonic() - began
                time.sleep(0.05)
            assert took.keys() == runs.keys()
            assert {name: seconds for name, seconds in took.items() if seconds > LEAVING_SECONDS} == {}
            until(lambda: not alive(int(log.read_text())), "the task has ended")
            said = {name: (tmp_path / f"{name}.out").read_text() for name in runs}
            assert {name: text for name, text in said.items() if "Traceback" in text or "killed" in text} == {}
            assert {name: run.returncode for name, run in runs.items() if run.returncode not in (0, 1)} == {}
        finally:
            server.process.send_signal(signal.SIGCONT)


def test_whoever_ends_members_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent has a task that does not end by itself, and no answer of the store."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with (
        own_server() as server,
        made_cell(server.url, "left") as cell,
        started_processes(cell, server.url, tmp_path, "batch/0", "agent/h1") as group,
    ):
        log = tmp_path / "log"
        task = {"command": ["sh", "-c", f"trap '' TERM; echo $$ > {log}; while :; do sleep 1; done"]}
        submit(cell, [JobSpec("stays", "stays", "batch", (TaskGroup((100, 64), 1, 0, task),))])
        until(lambda: log.exists() and log.read_text().strip(), "a task runs")
        members = dict(group.members)
        os.killpg(members["batch/0"].pid, signal.SIGSTOP)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        try:
            group.stop()
            # A scheduler that could not deregister says so by its status.
            assert {name: each.returncode for name, each in members.items() if each.returncode not in (0, 1)} == {}
            assert not [word for member in members for word in words_of(group, member) if "killed" in word]
            assert not alive(int(log.read_text())), "its agent has waited for the task"
        finally:
            server.process.send_signal(signal.SIGCONT)


def end(runs: "Mapping[str, subprocess.Popen[bytes]]") -> None:
    for run in runs.values():
        run.kill()
        run.wait()
