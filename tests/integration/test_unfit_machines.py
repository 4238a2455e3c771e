"""A machine that cannot start tasks says so, takes none, keeps what it runs, and comes back by itself."""

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.verify import verify
from omega.live.agent import fitness
from omega.live.agent.agent import Agent
from omega.live.agent.run_as import admit
from omega.live.agent.task_start import account
from omega.live.runners import containers
from tests.integration.agent_ground import Ground, alive, grounded, look_until
from tests.integration.stage import all_facts, check, made_cell, seen, started_processes, submit, until

pytestmark = pytest.mark.server
SLEEP = ("sh", "-c", "echo $$; exec sleep 600")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitness, "TRIAL_SECONDS", 0.1)
    monkeypatch.setattr(fitness, "STEADY_SECONDS", 0.2)


@pytest.fixture
def ground(store_url: str, tmp_path: Path) -> Iterator[Ground]:
    """Its state directory is a disk of its own where that is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], check=False, capture_output=True)
    try:
        with grounded(store_url, disk) as made:
            yield made
    finally:
        if mount.returncode == 0:
            subprocess.run(["umount", "-l", disk], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def state(ground: Ground) -> str:
    return ground.cell.machines.all()[0].state.name.lower()


def unplaced(ground: Ground, name: str) -> tuple[int, int, int]:
    """Tasks of a job that wait, run and failed."""
    group = ground.group(name)
    return group.unplaced, group.placed, group.failed


def check_comes_back(ground: Ground, agent: Agent, failed: str) -> None:
    """Return when the machine is up again, and runs the job that it could not start."""
    look_until(agent, lambda: state(ground) == "up", "it comes back by itself")
    assert ground.cell.executors.agents()["h1"].unfit == ""
    ground.place(failed)
    look_until(agent, lambda: ground.group(failed).finished, "the job runs")
    assert [fact.event[0] for fact in all_facts(ground.cell) if fact.event[0] in ("lost", "failed", "retried")] == []
    assert verify(ground.cell).violations == ()


def test_a_full_disk(ground: Ground) -> None:
    disk = ground.state
    if not os.path.ismount(disk):
        pytest.skip("may not mount a disk here")
    agent = ground.agent()
    runs, ends = ground.run(*SLEEP), ground.run("sh", "-c", "echo $$; sleep 1")
    agent.look()
    pid = ground.pid(runs)
    ground.pid(ends)
    filler = disk / "filler"
    with pytest.raises(OSError, match="No space"):
        fill(filler)
    name = ground.run("true")
    look_until(agent, lambda: unplaced(ground, name) == (1, 0, 0), "the task goes back, without a failure")
    assert state(ground) == "unfit"
    assert ground.cell.executors.agents()["h1"].unfit.startswith("No space left on device")
    look_until(agent, lambda: ground.group(ends).finished, "what runs ends by itself and is reported")
    assert alive(pid)
    assert state(ground) == "unfit"
    filler.unlink()
    check_comes_back(ground, agent, name)


def test_a_deleted_state_directory(ground: Ground) -> None:
    agent = ground.agent()
    shutil.rmtree(agent.places.top)
    name = ground.run("true")
    look_until(agent, lambda: unplaced(ground, name) == (1, 0, 0), "the task goes back, without a failure")
    assert "No such file or directory" in ground.cell.executors.agents()["h1"].unfit
    check_comes_back(ground, agent, name)


def test_an_iteration_that_does_not_come_through(ground: Ground) -> None:
    agent = ground.agent(lease_ms=60_000)
    agent.look()
    stop = threading.Event()

    def connect(_: float) -> RedisCell:
        return RedisCell.connect(ground.cell.url, ground.cell.name)

    agent.lease.iterated -= 30
    agent.lease._renewed -= 30
    renewing = threading.Thread(target=agent.lease.run, args=(connect, stop))
    renewing.start()
    until(lambda: state(ground) == "unfit", "the renewal says so")
    stop.set()
    renewing.join()
    assert "has not come through an iteration for 3" in ground.cell.executors.agents()["h1"].unfit
    agent.look()
    assert state(ground) == "unfit", "one iteration is not enough"
    look_until(agent, lambda: state(ground) == "up", "it comes back by itself")


def directory(ground: Ground, name: str) -> Path:
    (place,) = ground.state.glob(f"agents/*/*/tasks/{name}.*")
    return place


@contextmanager
def limited(pid: int, what: int, most: int) -> Iterator[None]:
    """Give a process a limit for as long as the block lasts."""
    before = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (most, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, what, before)


def first_free(pid: int) -> int:
    """The lowest descriptor that a process could open: those above it stay usable below any limit.

    What it opens for a moment, such as while it starts a task, is gone in one of many looks in half a second.
    """

    def opened() -> set[int]:
        time.sleep(0.025)
        return {int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()}

    lasting = set.intersection(*(opened() for _ in range(20)))
    return next(number for number in range(len(lasting) + 1) if number not in lasting)


@pytest.mark.parametrize("whose", ["guard", "supervisor"])
def test_no_more_files_may_be_opened(ground: Ground, whose: str) -> None:
    agent = ground.agent(lease_ms=4_000)
    runs, ends = ground.run(*SLEEP), ground.run("sh", "-c", "echo $$; sleep 3")
    agent.look()
    pid = ground.pid(runs)
    ground.pid(ends)
    process = agent.guard.pid if whose == "guard" else int((directory(ground, runs) / "supervisor").read_text())
    with limited(process, resource.RLIMIT_NOFILE, first_free(process)):
        name = ground.run("true")
        look_until(agent, lambda: unplaced(ground, name) == (1, 0, 0), "the task goes back, without a failure")
        assert state(ground) == "unfit"
        assert "Too many open files" in ground.cell.executors.agents()["h1"].unfit
        look_until(agent, lambda: ground.group(ends).finished, "what runs ends by itself and is reported")
        until_seconds = time.monotonic() + 5.0  # longer than a lease
        look_until(agent, lambda: time.monotonic() > until_seconds, "a lease passes")
        assert alive(pid), "what runs runs on"
    check_comes_back(ground, agent, name)


AGENT = """
import sys
from pathlib import Path
from omega.live.agent import fitness
from omega.live.agent.process import AgentOptions, run_agent
from omega.schedulers.process.log import configure
fitness.TRIAL_SECONDS, fitness.STEADY_SECONDS = 0.1, 0.2
configure({})
url, cell, state = sys.argv[1:]
run_agent(url, cell, "h1", Path(state), AgentOptions({"cpu": "4", "memory": "4Gi"}, lease_ms=4_000))
"""


@pytest.mark.parametrize("lost", [False, True], ids=["as they are", "and its connections are lost"])
def test_the_agent_may_open_no_more_files(ground: Ground, tmp_path: Path, lost: bool) -> None:
    client = ground.cell.client
    before = {str(each["id"]) for each in client.client_list()}
    words = [sys.executable, "-c", AGENT, ground.cell.url, ground.cell.name, str(ground.state)]
    with (tmp_path / "agent.log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as agent:
        try:
            until(
                lambda: "h1" in ground.cell.executors.agents() and ground.cell.machines.index_of("h1") is not None,
                "it joins",
            )
            runs, ends = ground.run(*SLEEP), ground.run("sh", "-c", "echo $$; sleep 3; echo end")
            pid = ground.pid(runs)
            ground.pid(ends)
            with limited(agent.pid, resource.RLIMIT_NOFILE, first_free(agent.pid)):
                for each in {str(each["id"]) for each in client.client_list()} - before if lost else ():
                    client.client_kill_filter(_id=each)
                name = ground.run("true")
                until(lambda: unplaced(ground, name) == (1, 0, 0), "the task goes back, without a failure")
                until(lambda: state(ground) == "unfit", "the machine says so")
                assert "Too many open files" in ground.cell.executors.agents()["h1"].unfit
                until(lambda: ground.group(ends).finished, "what runs ends by itself and is reported")
                until_seconds = time.monotonic() + 7.0  # longer than a lease, and than a connection is used
                until(lambda: time.monotonic() > until_seconds, "a lease passes")
                assert alive(pid), "what runs runs on"
                assert state(ground) == "unfit"
            until(lambda: state(ground) == "up", "it comes back by itself")
            ground.place(name)
            until(lambda: ground.group(name).finished, "the job runs")
            bad = ("lost", "failed", "retried", "lapse")
            assert [fact.event[0] for fact in all_facts(ground.cell) if fact.event[0] in bad] == []
        except BaseException as error:
            error.add_note((tmp_path / "agent.log").read_text())
            raise
        finally:
            agent.terminate()
            agent.wait(30.0)


def test_no_more_processes_may_be_started(ground: Ground) -> None:
    """Of the account of the tasks: root itself has no such limit."""
    if os.getuid():
        pytest.skip("needs root, to be another account")
    for place in (ground.state, *ground.state.parents):
        place.chmod(place.stat().st_mode | 0o011)
        if place.name.startswith("pytest-of"):
            break
    user = account("nobody")
    agent = ground.agent(user=user)
    admit(agent.places, user)
    runs = ground.run(*SLEEP)
    agent.look()
    pid, before = ground.pid(runs), resource.getrlimit(resource.RLIMIT_NPROC)
    supervisor = int((directory(ground, runs) / "supervisor").read_text())
    name = ""
    with (
        limited(supervisor, resource.RLIMIT_NPROC, 0),
        limited(agent.guard.pid, resource.RLIMIT_NPROC, 0),
        limited(os.getpid(), resource.RLIMIT_NPROC, 0),
    ):
        name = ground.run("true")
        look_until(agent, lambda: unplaced(ground, name) == (1, 0, 0), "the task goes back, without a failure")
        assert state(ground) == "unfit"
        assert "Resource temporarily unavailable" in ground.cell.executors.agents()["h1"].unfit
        at = time.monotonic() + 1.0
        look_until(agent, lambda: time.monotonic() > at, "trials are made")
        assert state(ground) == "unfit", "a trial does what a start does"
        assert alive(pid)
    assert resource.getrlimit(resource.RLIMIT_NPROC) == before
    check_comes_back(ground, agent, name)


def test_a_container_engine_that_sleeps(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(fitness, "ASK_SECONDS", 0.0)
    engine, bed = tmp_path / "engine", tmp_path / "bed"
    engine.write_text(f'#!/bin/sh\n[ -e {bed} ] && exec sleep 1000\n[ "$1" = version ] && echo 99.1\nexit 0\n')
    engine.chmod(0o755)
    agent = ground.agent(runners={"r": containers.Docker(str(engine))})
    runs = ground.run(*SLEEP)
    agent.look()
    pid = ground.pid(runs)
    bed.touch()
    name = ground.run("true", runner="r", image="any")
    look_until(agent, lambda: unplaced(ground, name) == (1, 0, 0), "the task goes back, without a failure")
    assert state(ground) == "unfit"
    assert ground.cell.executors.agents()["h1"].unfit == "runner r: does not answer"
    at = time.monotonic() + 1.0
    look_until(agent, lambda: time.monotonic() > at, "trials are made")
    assert state(ground) == "unfit"
    assert alive(pid)
    bed.unlink()
    check_comes_back(ground, agent, name)


@pytest.mark.chaos
def test_an_agent_that_cannot_tell_what_runs_gives_up_its_lease(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with (
        made_cell(store_url, f"blind-{os.getpid()}") as cell,
        started_processes(cell, store_url, tmp_path, "batch/0", "agent/h1", lease_ms=1_000) as group,
    ):
        log = tmp_path / "log"
        command = ["flock", "-n", f"{log}.lock", "sh", "-c", f"echo $OMEGA_MACHINE $$ >> {log}; exec sleep 600"]
        extra = {"command": command, "grace": 100}
        submit(cell, [JobSpec("runs", "runs", "batch", (TaskGroup((100, 64), 1, 0, extra),))])
        until(log.exists, "its task runs")
        group.start("agent/h2")
        until(lambda: len(cell.executors.agents()) == 2, "another machine joins")
        (lock,) = (tmp_path / "state").glob("**/tasks/runs.*/lock")
        lock.rename(f"{lock}.away")
        lock.mkdir()  # a file of the state directory that cannot be read
        until(lambda: seen(cell, "lapse"), "its lease lapses")
        said = [" ".join(fact.event[3:]) for fact in seen(cell, "unfit")]
        assert any(each.startswith("gives up its lease: cannot tell what runs: ") for each in said), said
        until(lambda: len(log.read_text().split("\n")) == 3, "the task runs elsewhere, once the first one has ended")
        lock.rmdir()
        Path(f"{lock}.away").rename(lock)
        until(lambda: {machine.state.name for machine in cell.machines.all()} == {"UP"}, "it comes back", 90.0)
        check(cell)


@pytest.mark.parametrize("tasks", [5, pytest.param(50, marks=pytest.mark.chaos)])
def test_a_disk_that_is_full_for_longer_than_a_lease(ground: Ground, tmp_path: Path, tasks: int) -> None:
    """It takes hours as it takes these seconds: all that the agent writes in a lease is written several times."""
    if not os.path.ismount(ground.state):
        pytest.skip("may not mount a disk here")
    agent, go = ground.agent(lease_ms=1_500), tmp_path / "go"
    command = ["sh", "-c", f"echo $$; until [ -e {go} ]; do sleep 0.2; done; echo end"]
    name = "many"
    ground.cell.jobs.submit(
        [JobSpec(name, name, "batch", (TaskGroup((50, 32), tasks, 0, {"command": command}),))], 0, "ada"
    )
    ground.place(name, tasks)
    begun = ground.state.glob
    look_until(agent, lambda: len([*begun("agents/*/*/tasks/*/stdout.0")]) == tasks, "all run")
    with pytest.raises(OSError, match="No space"):
        fill(ground.state / "filler")
    full = time.monotonic() + (3.0 if tasks < 10 else 15.0)
    look_until(agent, lambda: time.monotonic() > full, "several leases pass")
    go.touch()
    look_until(agent, lambda: ground.group(name).finished == tasks, "all end by themselves and are reported")
    assert [fact.event[0] for fact in all_facts(ground.cell) if fact.event[0] in ("lost", "failed", "evicted")] == []
    (ground.state / "filler").unlink()
