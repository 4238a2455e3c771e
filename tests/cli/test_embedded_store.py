"""The store that is used when none is named: started on demand, found again, stopped, data kept."""

import os
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from omega.embedded import server as embedded
from tests.cli.conftest import Omega, eventually
from tests.cli.test_main import start
from tests.conftest import absent, find_server, socket_directory


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of the test's own, whose store is stopped at the end."""
    if find_server() is None:
        absent("no server program")
    directory = socket_directory()
    monkeypatch.setenv("OMEGA_STATE", str(directory))
    monkeypatch.delenv("OMEGA_STORE", raising=False)
    monkeypatch.delenv("OMEGA_CELL", raising=False)
    yield directory
    embedded.stop(directory)
    rmtree(directory)


class TestEmbeddedStore:
    """Everything without --store and --cell."""

    omega = Omega(None)

    def test_it_is_started_on_demand_and_keeps_its_data(self, state: Path) -> None:
        stopped = self.omega.json("store", "status")
        assert (stopped["running"], stopped["pid"], stopped["cells"]) == (False, None, [])
        assert self.omega.text("store", "stop") == "was not running\n"
        self.omega.run("cell", "create", "mine", "--machines", "2", "--cpu", "1")
        up = self.omega.json("store", "status")
        assert (up["embedded"], up["running"], up["cells"]) == (True, True, ["mine"])
        assert up["url"] == f"unix://{state}/store.sock"
        assert up["persistence"].startswith("append-only files")
        os.kill(up["pid"], 0)
        assert self.omega.json("store", "start") == {
            "url": up["url"],
            "directory": str(state),
            "pid": up["pid"],
            "version": up["version"],
            "started": False,
            "repaired": None,
        }
        assert self.omega.json("store", "stop") == {"url": up["url"], "stopped": True}
        assert self.omega.json("machine", "list")["total"] == 2
        assert self.omega.json("store", "status")["pid"] != up["pid"]

    def test_its_allocator_and_what_it_costs(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.omega.json("store", "status")["advice"] is None, "no store runs"
        monkeypatch.setattr("omega.embedded.program.LIBRARIES", ())
        monkeypatch.setattr("sys.platform", "linux")
        self.omega.run("store", "start")
        up = self.omega.json("store", "status")
        said = self.omega.run("store", "status").stderr.splitlines()
        if up["allocator"] == "libc":
            assert "apt-get install libjemalloc2" in up["advice"]
            assert said == [up["advice"]]
        else:
            assert (up["advice"], said) == (None, [])

    def test_the_main_job(self, state: Path) -> None:
        self.omega.run("cell", "create", "mine", "--machines", "2", "--cpu", "4")
        with start("machine", "simulate") as executor, start("scheduler", "run", "batch") as process:
            eventually(lambda: bool(self.omega.json("cell", "status")["schedulers"]["live"]))
            self.omega.run("job", "run", "--name", "a", "--count", "5", "--cpu", "1", "--duration", "1h")
            eventually(lambda: self.omega.json("job", "status", "a")["state"] == "running")
            assert self.omega.json("job", "stop", "a")["jobs"][0]["ended"] == 5
            assert self.omega.json("job", "wait", "a", code=1)["state"] == "stopped"
            process.terminate()
            out, _ = process.communicate(timeout=30)
            executor.terminate()
            assert executor.wait(30) == 0
        assert [each["state"] for each in self.omega.json("machine", "list")["machines"]] == ["offline"] * 2
        assert process.returncode == 0
        assert "batch/0" in out
        assert self.omega.json("cell", "verify")["ok"]
