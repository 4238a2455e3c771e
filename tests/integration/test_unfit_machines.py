"""A machine that cannot start tasks says so, takes none, keeps what it runs, and comes back by itself."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from omega.cellstate.audit import verify
from omega.cellstate.redis import RedisCell
from omega.live.agent import fitness
from omega.live.agent.agent import Agent
from tests.integration.agent_ground import Ground, alive, grounded, look_until
from tests.integration.stage import all_facts, until

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
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], check=False, capture_output=True)
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
    return ground.cell.machines()[0].state.name.lower()


def unplaced(ground: Ground, name: str) -> tuple[int, int, int]:
    """Tasks of a job that wait, run and failed."""
    group = ground.group(name)
    return group.unplaced, group.placed, group.failed


def check_comes_back(ground: Ground, agent: Agent, failed: str) -> None:
    """Return when the machine is up again, and runs the job that it could not start."""
    look_until(agent, lambda: state(ground) == "up", "it comes back by itself")
    assert ground.cell.agents()["h1"].unfit == ""
    ground.place(failed)
    look_until(agent, lambda: ground.group(failed).finished, "the job runs")
    assert [fact.words[0] for fact in all_facts(ground.cell) if fact.words[0] in ("lost", "failed", "retried")] == []
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
    assert ground.cell.agents()["h1"].unfit.startswith("No space left on device")
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
    assert "No such file or directory" in ground.cell.agents()["h1"].unfit
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
    assert "has not come through an iteration for 3" in ground.cell.agents()["h1"].unfit
    agent.look()
    assert state(ground) == "unfit", "one iteration is not enough"
    look_until(agent, lambda: state(ground) == "up", "it comes back by itself")
