"""What a computer offers: its cores and memory, or less where a container says so."""

import os
from pathlib import Path

import pytest

from omega.cellstate.model import MachineSpec
from omega.live.agent import offer


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The top of the cgroups of a made-up container; its process is in /a/b, and in /c of the old ones."""
    (tmp_path / "own").write_text("4:cpu,cpuacct:/c\n3:memory:/c\n2:pids:/c\n0::/a/b\n")
    monkeypatch.setattr(offer, "OWN", tmp_path / "own")
    monkeypatch.setattr(offer, "CGROUPS", tmp_path / "top")
    return tmp_path / "top"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_it_is_what_the_computer_has(inside: Path) -> None:
    assert offer.cpu_millicores() == 1000 * len(os.sched_getaffinity(0))
    assert offer.memory_mib() > 100
    put(inside / "a/b/cpu.max", "max 100000\n")
    put(inside / "a/b/memory.max", "max\n")
    put(inside / "cpu/cpu.cfs_quota_us", "-1\n")
    put(inside / "memory/c/memory.limit_in_bytes", "9223372036854771712\n")
    assert offer.cpu_millicores() == 1000 * len(os.sched_getaffinity(0))
    assert offer.memory_mib() > 100


@pytest.mark.parametrize("place", ["a/b", "a", "."])
def test_the_tightest_cgroup_around_counts(inside: Path, place: str) -> None:
    put(inside / "a/b/cpu.max", "max 100000\n")
    put(inside / place / "cpu.max", "50000 100000\n")
    put(inside / place / "memory.max", str(64 << 20))
    assert (offer.cpu_millicores(), offer.memory_mib()) == (500, 64)


def test_old_cgroups_count_too(inside: Path) -> None:
    put(inside / "cpu/c/cpu.cfs_quota_us", "25000\n")
    put(inside / "memory/memory.limit_in_bytes", str(32 << 20))
    assert (offer.cpu_millicores(), offer.memory_mib()) == (250, 32)


def test_a_system_without_cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer, "OWN", tmp_path / "none")
    assert offer.cpu_millicores() >= 1000


@pytest.mark.parametrize(
    ("network", "name"), [("h1", "h1"), ("h1.example.org", "h1.example.org"), ("a b_ü!", "a-b"), ("...", "here")]
)
def test_the_name_is_one_a_machine_may_have(network: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: network)
    assert MachineSpec(offer.default_name(), ()).name == name
