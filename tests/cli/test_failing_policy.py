"""A policy that raises, live: what `scheduler run` and `up` print, what `job why` says, and when it ends."""

import signal
import subprocess
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest

from omega.cellstate.redis import RedisCell
from omega.cellstate.snapshot import Snapshot
from omega.live.processes import supervisor
from omega.live.processes.supervisor import ProcessSupervisor
from omega.schedulers import registry
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from tests.cli.conftest import Omega, eventually, join
from tests.cli.test_main import start
from tests.cli.test_scheduler import running

MINE = """
import omega

class Picky(omega.FirstFit):
    def place(self, work, snapshot, rng):
        if work.job.name == "bad":
            raise LookupError("no GPU")
        return super().place(work, snapshot, rng)

class Never(omega.FirstFit):
    def place(self, work, snapshot, rng):
        raise LookupError("never")

class Broken(omega.Ordering):
    def key(self, work):
        return 1 / 0

own = omega.Scheduler("own", placement=Picky())
broken = omega.Scheduler("own", ordering=Broken())
good = omega.Scheduler("own")
never = omega.Scheduler("batch", placement=Never())
batch = omega.Scheduler("batch", placement=Picky())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def line_of(folder: Path, text: str) -> str:
    """``FILE:LINE`` of a text in the module."""
    return f"{folder / 'mine.py'}:{MINE.splitlines().index(text) + 1}"


def submit(omega: Omega, name: str, **_: str) -> None:
    omega.run("job", "run", "--name", name, "--kind", "own", "--cpu", "100m")


@pytest.mark.chaos
def test_a_policy_that_raises_at_one_job_says_so_and_places_the_others(
    omega: Omega, cell: RedisCell, folder: Path
) -> None:
    join(cell, 1)
    submit(omega, "bad")
    place = line_of(folder, '            raise LookupError("no GPU")')
    error = f"policy Picky ({place}): LookupError: no GPU"
    with running(omega, folder, "mine:own", within=folder) as process:
        eventually(lambda: omega.json("job", "why", "bad")["reason"] == "FAILING")
        submit(omega, "good")
        eventually(lambda: omega.json("job", "status", "good")["counts"]["placed"] == 1)
        found = omega.json("job", "why", "bad")
        assert found["failure"] == {"by": "own/0", "error": error, "here": True}
        assert f"  scheduler own/0 fails: {error}\n" in omega.text("job", "why", "bad")
        assert omega.json("job", "status", "bad")["reason"] == "FAILING"
        omega.run("job", "run", "--name", "wide", "--kind", "own", "--cpu", "9")
        eventually(lambda: omega.json("job", "why", "wide")["failure"] is not None)
        assert omega.json("job", "why", "wide")["failure"] == {"by": "own/0", "error": error, "here": False}
        assert f"{error}; 1 job tried again later" in omega.run("scheduler", "status", "own/0").stderr
        assert omega.json("scheduler", "list")["schedulers"][0]["failing"] == {error: 1}
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    (said,) = (line for line in err.splitlines() if "Picky" in line)
    assert f"warning: {error}; the job is tried again later, other jobs are placed" in said
    assert "Traceback" not in err


@pytest.mark.chaos
def test_a_policy_that_raises_elsewhere_ends_its_scheduler_with_one_line_and_why_says_so(
    omega: Omega, cell: RedisCell, folder: Path
) -> None:
    join(cell, 1)
    submit(omega, "any")
    error = f"policy Broken ({line_of(folder, '        return 1 / 0')}): ZeroDivisionError: division by zero"
    with running(omega, folder, "mine:broken", within=folder) as process:
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert err.splitlines()[-1] == f"error: {error}"
    assert "Traceback" not in err
    found = omega.json("job", "why", "any")
    assert (found["reason"], found["failure"]) == ("FAILING", {"by": "own/0", "error": error, "here": True})
    assert [job["reason"] for job in omega.json("job", "list")["jobs"]] == ["FAILING"]
    with running(omega, folder, "mine:good", within=folder):
        eventually(lambda: omega.json("job", "status", "any")["counts"]["placed"] == 1)
        submit(omega, "more")
        assert omega.json("job", "why", "more")["failure"] is None


@pytest.mark.chaos
def test_up_starts_a_failing_scheduler_again_with_growing_delays(omega: Omega, cell: RedisCell, folder: Path) -> None:
    shared = ("--store", str(omega.url), "--cell", str(omega.cell), "up", "--batch", "0", "--service", "0")
    words = ("--machines", "1", "--scheduler", "mine:broken", "--scheduler", "mine:batch")
    begin = f"warning: own/0: ended with code 1: error: policy Broken ({line_of(folder, '        return 1 / 0')}): "
    with start(*shared, *words, within=folder, OMEGA_STATE=str(folder)) as process:
        try:
            assert process.stdout is not None
            while not process.stdout.readline().startswith("ready"):
                assert process.poll() is None
            submit(omega, "any")
            omega.run("job", "run", "--name", "bad", "--cpu", "100m")
            err, said = list[str](), list[str]()
            assert process.stderr is not None
            while len(said) < 3 or not any("Picky" in line for line in err):  # however long a start takes here
                err.append(process.stderr.readline().rstrip())
                assert process.poll() is None, err
                said = [line for line in err if "own/0" in line]
        finally:
            process.terminate()  # ends its members too, as a kill would not
            process.wait(60)
    assert all(line.startswith(begin) for line in said), err
    delays = [line.rpartition("; ")[2] for line in said]
    assert delays[:3] == ["starts again in 1.0 s", "starts again in 2.0 s", "starts again in 4.0 s"]
    (picky,) = (line for line in err if "Picky" in line)
    assert picky.startswith("warning: scheduler batch/0: policy Picky (")
    assert picky.endswith("LookupError: no GPU; 1 job tried again later")


def test_delays_of_restarts_grow_and_begin_anew_after_a_steady_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, started = [0.0], list[float]()
    group = ProcessSupervisor("redis://nowhere", "c", tmp_path)

    def begin(member: str) -> int:
        started.append(now[0])
        group._started[member] = now[0]
        return 1

    monkeypatch.setattr(supervisor, "time", type("", (), {"monotonic": staticmethod(lambda: now[0])}))
    monkeypatch.setattr(ProcessSupervisor, "start", lambda _, member: begin(member))
    dead = {"batch/0": 1}
    monkeypatch.setattr(ProcessSupervisor, "dead", lambda _: dict(dead))
    begin("batch/0")
    delays = list[float]()
    while len(delays) < 8:
        delays += [delay for _, _, delay in group.restart_dead()]
        now[0] += 0.5
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert len(started) == 8
    dead.clear()
    group._due.clear()
    now[0] += 60
    assert group.restart_dead() == []
    dead["batch/0"] = -9
    assert group.restart_dead() == [("batch/0", -9, 1.0)]
    assert group.end_of("batch/0", -9) == "killed by signal 9", "whatever it printed last"
    dead |= {"agent/h1": 0}
    with subprocess.Popen(["true"]) as process:
        group.members["agent/h1"] = process
    assert group.restart_dead() == [("agent/h1", 0, float("inf"))], "its machine was removed"
    assert "agent/h1" not in group.members


def test_plans_and_simulations_end_with_the_line(
    omega: Omega, cell: RedisCell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(cell, 1)
    shared = ("--store", str(omega.url), "--cell", str(omega.cell))
    place = line_of(folder, '        raise LookupError("never")')
    line = f"error: policy Never ({place}): LookupError: never\n"
    with start(*shared, "sim", "run", "--scheduler", "mine:never", "--days", "0.001", within=folder) as process:
        _, err = process.communicate(timeout=60)
    assert err.endswith(line)
    assert "Traceback" not in err
    policies = registry.imported("tests.cli.test_failing_policy:BROKEN", "it")
    monkeypatch.setattr(registry, "scheduler", lambda *_: policies.fresh("0"))
    (folder / "job.yaml").write_text("name: any\nkind: own\ntasks: [{}]\n")
    said = omega.error("job", "plan", str(folder / "job.yaml"))
    assert said.startswith(f"policy Raising ({__file__}:")
    assert said.endswith("ZeroDivisionError: x")


class Raising(FirstFit):
    """Raises at every job."""

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> NoReturn:
        raise ZeroDivisionError("x")


BROKEN = Scheduler("own", placement=Raising())
