"""What a demo or a benchmark started ends with it; a process that starts while its store is away waits."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from omega.live.agent.process_tree import processes
from tests.conftest import ROOT
from tests.integration.stage import made_cell, own_server, simple_job, submit, until

pytestmark = pytest.mark.server
BENCH = (
    "bench",
    "conflict",
    "--batch",
    "2",
    "--service",
    "1",
    "--fullness",
    "0",
    "--machines",
    "200",
    "--seconds",
    "5",
)


def below(pid: int) -> dict[int, str]:
    """The processes that descend from one, with their start times; also those in sessions of their own."""
    there, found = processes(), dict[int, str]()
    wanted = {pid}
    while wanted:
        wanted = {each for each, process in there.items() if process.parent in wanted and not process.ended}
        found |= {each: there[each].started for each in wanted}
    return found


def live(known: dict[int, str]) -> list[int]:
    now = processes()
    return [pid for pid, started in known.items() if pid in now and now[pid].started == started and not now[pid].ended]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
@pytest.mark.parametrize("command", [("demo",), pytest.param(BENCH, marks=pytest.mark.chaos)], ids=["demo", "bench"])
def test_what_a_command_started_ends_with_it(command: Sequence[str], number: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "omega.cli.main", *command]
    environment = os.environ | {"OMEGA_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            until(lambda: sum("omega.live.member" in _words(pid) for pid in below(process.pid)) >= 2, "schedulers run")
            started = {pid: at for pid, at in below(process.pid).items() if "valkey" not in _words(pid)}
            process.send_signal(number)
            process.wait()
            until(lambda: not live(started), "all have ended", 30.0)
        finally:
            process.kill()
            for pid in live(below(process.pid)):
                os.kill(pid, signal.SIGKILL)
            subprocess.run(
                [sys.executable, "-m", "omega.cli.main", "store", "stop"],
                env=environment,
                check=False,
                capture_output=True,
            )


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.chaos
def test_a_member_that_is_started_while_the_store_is_away_waits(tmp_path: Path) -> None:
    def registered() -> bool:
        executors = cell.executors.records()
        return (
            bool(cell.schedulers.members())
            and bool(cell.executors.agents())
            and "own" in executors
            and executors["own"].lives
        )

    with own_server("--appendonly", "yes") as server, made_cell(server.url, "later", 2) as cell, ExitStack() as stack:
        submit(cell, [simple_job("waits")])
        server.kill()
        words = [sys.executable, "-m", "omega.cli.main", "--store", server.url, "--cell", cell.name]
        environment = os.environ | {"OMEGA_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
        runs = list[subprocess.Popen[str]]()
        stack.callback(_end, runs)
        for member in (
            ("scheduler", "run", "batch"),
            ("agent", "--name", "h1"),
            ("machine", "simulate", "--executor", "own"),
        ):
            runs.append(subprocess.Popen([*words, *member], env=environment, stderr=subprocess.PIPE, text=True))
        for run in runs:
            assert run.stderr is not None
            assert run.stderr.readline().startswith("waiting for the store: no answer from the store at unix://")
        time.sleep(0.5)
        assert [run.poll() for run in runs] == [None] * 3
        server.start()
        until(registered, "all register")


def _end(runs: "Sequence[subprocess.Popen[str]]") -> None:
    for run in runs:
        run.terminate()
    for run in runs:
        with run:
            run.wait(20)
