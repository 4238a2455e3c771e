"""Cgroups of tasks: made where that is permitted, done without where it is not."""

from pathlib import Path
from typing import Any

import pytest

from omega.live.agent.cgroups import Cgroups


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A made-up tree in which this process is in /here."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "own").write_text("1:name=systemd:/\n0::/here\n")
    return tmp_path / "own"


def order(cpu: int = 1500, memory: int = 64 << 20) -> dict[str, Any]:
    return {"cpu_millicores": cpu, "memory_bytes": memory, "cgroup": ""}


def test_a_task_gets_what_it_asked_for(own: Path) -> None:
    cgroups = Cgroups.prepare("h1", own.parent, own)
    assert cgroups.top == own.parent / "here/omega-h1"
    what = order()
    cgroups.make("t1", what)
    place = Path(what["cgroup"])
    assert (place / "cpu.max").read_text() == "150000 100000"
    assert (place / "memory.max").read_text() == str(64 << 20)
    cgroups.make("t2", what := order(0, 0))
    assert list(Path(what["cgroup"]).iterdir()) == [], "what was not asked for is not limited"
    cgroups.remove("t2")


@pytest.mark.parametrize("controllers", ["", "cpu pids", "memory"])
def test_without_the_controllers_there_are_none(own: Path, controllers: str) -> None:
    (own.parent / "here/cgroup.controllers").write_text(controllers)
    cgroups = Cgroups.prepare("h1", own.parent, own)
    assert cgroups.top is None
    assert "controller in" in cgroups.why_not
    cgroups.make("t1", what := order())
    assert what["cgroup"] == ""
    cgroups.remove("t1")


def test_where_it_is_not_permitted_there_are_none(own: Path) -> None:
    (own.parent / "here/cgroup.subtree_control").mkdir()  # even root cannot write that
    assert Cgroups.prepare("h1", own.parent, own).why_not.endswith("Is a directory")


def test_a_system_without_cgroups_of_version_2(own: Path) -> None:
    own.write_text("1:name=systemd:/\n")
    assert Cgroups.prepare("h1", own.parent, own).why_not == "this system has no cgroups of version 2"
    assert "No such file" in Cgroups.prepare("h1", own.parent, own.parent / "none").why_not
