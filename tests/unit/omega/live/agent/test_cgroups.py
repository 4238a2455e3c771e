"""Cgroups of tasks: made where that is permitted, done without where it is not."""

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from omega.live.agent import lease_file
from omega.live.agent.cgroups import CONTROLLERS, Cgroups
from tests.unit.omega.live.agent.lone_supervisor import start

LIMITS = ("cpu.max", "memory.max", "memory.swap.max", "memory.oom.group")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A made-up tree in which this process is in /here."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "here/cgroup.procs").write_text("17\n19\n")
    (tmp_path / "own").write_text("1:name=systemd:/\n0::/here\n")
    return tmp_path / "own"


def order(cpu: int = 1500, memory: int = 64 << 20) -> dict[str, Any]:
    return {"cpu_millicores": cpu, "memory_bytes": memory, "cgroup": ""}


def like_the_kernel(place: Path, *files: str) -> None:
    """What is there in a new cgroup."""
    place.mkdir(parents=True)
    for file in files:
        (place / file).write_text("max")


def test_a_task_gets_what_it_asked_for(own: Path) -> None:
    cgroups = Cgroups.prepare("h1", own.parent, own)
    assert (cgroups.top, cgroups.why_not) == (own.parent / "here/omega-h1", "")
    like_the_kernel(own.parent / "here/omega-h1/t1", *LIMITS)
    cgroups.make("t1", what := order())
    found = [Path(what["cgroup"], file).read_text() for file in LIMITS]
    assert found == ["150000 100000", str(64 << 20), "0", "1"], "and no swap; one that is killed takes all along"
    like_the_kernel(own.parent / "here/omega-h1/t2", *LIMITS)
    cgroups.make("t2", what := order(0, 0))
    assert {Path(what["cgroup"], file).read_text() for file in LIMITS} == {"max"}, "not asked for, not limited"


@pytest.mark.parametrize(("controllers", "lacks"), [("cpu pids", "memory"), ("memory", "cpu")])
def test_what_there_is_of_the_controllers_is_used(own: Path, controllers: str, lacks: str) -> None:
    (own.parent / "here/cgroup.controllers").write_text(controllers)
    cgroups = Cgroups.prepare("h1", own.parent, own)
    assert cgroups.why_not == f"no {lacks} controller in {own.parent}/here"
    there = [file for file in LIMITS if not file.startswith(lacks)]
    like_the_kernel(own.parent / "here/omega-h1/t1", *there)
    cgroups.make("t1", what := order())
    assert sorted(path.name for path in Path(what["cgroup"]).iterdir()) == sorted(there)


def test_without_any_of_the_controllers_there_are_none(own: Path) -> None:
    (own.parent / "here/cgroup.controllers").write_text("pids")
    cgroups = Cgroups.prepare("h1", own.parent, own)
    assert (cgroups.top, cgroups.why_not) == (None, f"no cpu and no memory controller in {own.parent}/here")
    cgroups.make("t1", what := order())
    assert what["cgroup"] == ""
    cgroups.remove("t1")


def test_where_it_is_not_permitted_there_are_none(own: Path) -> None:
    (own.parent / "here/cgroup.subtree_control").mkdir()  # even root cannot write that
    assert Cgroups.prepare("h1", own.parent, own).why_not.endswith("Is a directory")


def test_processes_step_aside_when_they_are_in_the_way(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, said = Path.write_text, list[tuple[str, str]]()

    def busy(path: Path, text: str) -> int:
        said.append((path.name, text))
        if path.name == "cgroup.subtree_control" and len(said) == 1:
            raise OSError(errno.EBUSY, "Device or resource busy", str(path))
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", busy)
    assert Cgroups.prepare("h1", own.parent, own).top is not None
    share = ("cgroup.subtree_control", "+cpu +memory")
    assert said == [share, ("cgroup.procs", "17"), ("cgroup.procs", "19"), share, share]


def test_a_cgroup_with_somebody_in_it_is_removed_later(own: Path) -> None:
    cgroups = Cgroups.prepare("h1", own.parent, own)
    busy = own.parent / "here/omega-h1/t1"
    like_the_kernel(busy, "cgroup.kill")
    cgroups.remove("t1")
    assert (busy / "cgroup.kill").read_text() == "1"
    (busy / "cgroup.kill").unlink()
    cgroups.remove("t2")
    assert not busy.exists()
    like_the_kernel(busy)
    Cgroups.prepare("h1", own.parent, own)
    assert not busy.exists(), "an earlier agent left it"


def test_a_system_without_cgroups_of_version_2(own: Path) -> None:
    own.write_text("1:name=systemd:/\n")
    assert Cgroups.prepare("h1", own.parent, own).why_not == "this system has no cgroups of version 2"
    assert Cgroups.prepare("h1", own.parent, own.parent / "none").why_not.startswith("no cgroups of version 2: no ")


# The kernel's own


@pytest.fixture
def real() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A new cgroup at the top of the system's tree, with a process in it, and which controllers it has."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()] if Path("/proc").exists() else []
    top = next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)
    if top is None:
        pytest.skip("no cgroups of version 2 are mounted")
    place = top / f"omega-test-{os.getpid()}"
    before = set((top / "cgroup.subtree_control").read_text().split())
    try:
        there = (top / "cgroup.controllers").read_text().split()
        wanted: tuple[str, ...] = tuple(each for each in CONTROLLERS if each in there) or tuple(there[:1])
        if not wanted:
            pytest.skip(f"{top} has no controllers")
        (top / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in wanted))
        place.mkdir()
    except OSError as error:
        pytest.skip(f"a cgroup in {top} is not permitted: {error.strerror}")
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        (place / "cgroup.procs").write_text(str(sleeper.pid))
        yield place, wanted
    finally:
        (place / "cgroup.kill").write_text("1")
        sleeper.wait()
        until(lambda: "populated 0" in (place / "cgroup.events").read_text())
        for each in sorted((path for path in place.rglob("*") if path.is_dir()), reverse=True):
            each.rmdir()
        place.rmdir()
        with suppress(OSError):
            (top / "cgroup.subtree_control").write_text(" ".join(f"-{each}" for each in wanted if each not in before))


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30.0
    while not true():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


def test_the_kernel_takes_it(real: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    place, wanted = real
    (tmp_path / "own").write_text(f"0::/{place.name}\n")
    moved = (place / "cgroup.procs").read_text()
    cgroups = Cgroups.prepare("h1", place.parent, tmp_path / "own", wanted)
    assert (cgroups.top, cgroups.why_not) == (place / "omega-h1", "")
    assert (place / "cgroup.procs").read_text() == ""
    assert (place / "omega-h1-agent/cgroup.procs").read_text() == moved
    assert set((place / "omega-h1/cgroup.subtree_control").read_text().split()) == set(wanted)
    again = Cgroups.prepare("h1", place.parent, tmp_path / "own", wanted)
    assert (again.top, again.why_not) == (cgroups.top, ""), "an agent that comes again"

    said = order() | {
        "command": ["sh", "-c", "cat /proc/self/cgroup; (setsid sleep 60 &); sleep 60"],
        "directory": str(tmp_path),
        "restart": {"attempts": 0, "delay_ms": 0, "factor": 1},
        "time_limit_ms": 0,
        "grace_ms": 100,
        "log_bytes": 4096,
        "lease": str(tmp_path / "lease"),
        "incarnation": 1,
        "environment": {"PATH": os.environ["PATH"]},
        "user": None,
    }
    cgroups.make("t1", said)
    assert said["cgroup"] == str(place / "omega-h1/t1")
    limits = {file: (place / "omega-h1/t1" / file) for file in LIMITS}
    assert [path.read_text().strip() for path in limits.values() if path.exists()] == [
        value
        for file, value in zip(LIMITS, ("150000 100000", str(64 << 20), "0", "1"), strict=True)
        if limits[file].exists()
    ]
    (tmp_path / "lease").write_text(f"{lease_file.now() + 600} {lease_file.now() + 700} 1")
    (tmp_path / "order.json").write_text(json.dumps(said))
    process = start(tmp_path)
    until(lambda: (tmp_path / "stdout.0").exists() and b"omega-h1/t1" in (tmp_path / "stdout.0").read_bytes())
    until(lambda: len((place / "omega-h1/t1/cgroup.procs").read_text().split()) == 3)
    process.kill()
    process.wait()
    cgroups.remove("t1")
    until(
        lambda: (
            "populated 0" in (place / "cgroup.events").read_text()
            or not (place / "omega-h1/t1").exists()
            or (place / "omega-h1/t1/cgroup.procs").read_text() == ""
        )
    )
    cgroups.remove("t2")
    assert not (place / "omega-h1/t1").exists()
