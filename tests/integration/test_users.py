"""The users of `omega store acl` at work: each role can do its work, readers change nothing, cells are apart."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from omega.cellstate.acl import line
from omega.cellstate.errors import StoreError
from omega.cellstate.keys import ROLES
from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.live.processes.supervisor import ProcessSupervisor
from omega.live.simulated.executor import SimulatedExecutor
from tests.cli.conftest import Omega
from tests.integration.stage import Server, check, own_server, simple_job, submit, unfinished, until

pytestmark = pytest.mark.server


@dataclass(slots=True)
class Guarded:
    """A server that knows the documented users; `denied` is what it refused, by user."""

    server: Server

    def url(self, role: str) -> str:
        """The store as a role names it."""
        path = self.server.url.removeprefix("unix://")
        return f"unix://omega-{role}:{role}-secret@{path}"

    def denied(self) -> set[tuple[str, str]]:
        """The server's own list of what it refused: user, command or key."""
        with redis.Redis.from_url(self.server.url) as client:
            entries: Any = client.acl_log()
        return {(entry["username"], entry["object"]) for entry in entries}


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    """A server of its own with the users of `omega store acl`."""
    with own_server() as server, redis.Redis.from_url(server.url) as client:
        info: Any = client.info("server")
        version = tuple(int(part) for part in info["redis_version"].split("."))
        for role in ROLES:
            text = line(role, "prod", version, password=f"{role}-secret")
            client.execute_command("ACL", "SETUSER", *text.split()[1:])
        yield Guarded(server)


def test_every_role_does_its_work(guarded: Guarded, tmp_path: Path) -> None:
    person = Omega(guarded.url("person"), "prod")
    person.run("cell", "create", "prod")
    cell = RedisCell.connect(guarded.url("person"), "prod")
    executor = RedisCell.connect(guarded.url("executor"), "prod")
    SimulatedExecutor(executor, "yard", time.time).join(
        [MachineSpec(f"m{number}", (4_000, 4_096)) for number in range(4)]
    )
    with (
        ProcessSupervisor(guarded.url("scheduler"), "prod", tmp_path / "s", lease_ms=500) as schedulers,
        ProcessSupervisor(guarded.url("executor"), "prod", tmp_path / "e", lease_ms=500) as executors,
    ):
        executors.start("simulated/yard")
        schedulers.start("batch/0")
        schedulers.start("service/0")
        schedulers.wait_ready(cell)
        submit(
            cell, [simple_job(f"j{number}", 8, ms=50, kind=("batch", "service")[number % 2]) for number in range(10)]
        )
        schedulers.kill("service/0")
        until(lambda: "service/0" not in cell.schedulers.members(), "somebody notices that a scheduler is gone")
        schedulers.start("service/0")
        until(lambda: not unfinished(cell), "all jobs are done")
        assert schedulers.dead() == executors.dead() == {}
    check(cell)
    cell.close()
    executor.close()
    assert guarded.denied() == set()


@pytest.mark.chaos
def test_an_agent_needs_no_more_than_an_executor(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    person = Omega(guarded.url("person"), "prod")
    person.run("cell", "create", "prod")
    cell = RedisCell.connect(guarded.url("person"), "prod")
    with (
        ProcessSupervisor(guarded.url("scheduler"), "prod", tmp_path / "s", lease_ms=500) as schedulers,
        ProcessSupervisor(guarded.url("executor"), "prod", tmp_path / "e", lease_ms=500) as executors,
    ):
        executors.start("agent/h1")
        schedulers.start("batch/0")
        for group in (schedulers, executors):
            group.wait_ready(cell)
        person.run("job", "run", "--name", "said", "--count", "2", "--cpu", "100m", "--", "echo", "hello")
        person.run("job", "wait", "said")
        assert person.text("job", "logs", "said", "--task", "1") == "hello\n"
    cell.close()
    assert guarded.denied() == set()


def test_readers_read_everything_and_change_nothing(guarded: Guarded, tmp_path: Path) -> None:
    person, reader = Omega(guarded.url("person"), "prod"), Omega(guarded.url("reader"), "prod")
    person.run("cell", "create", "prod", "--machines", "2", "--cpu", "4", "--memory", "4Gi")
    person.run("job", "run", "--name", "crawl", "--count", "3", "--detach")
    for words in (
        ("cell", "status"),
        ("cell", "list"),
        ("cell", "verify"),
        ("machine", "list", "--verbose"),
        ("machine", "status", "m0", "--verbose"),
        ("job", "list"),
        ("job", "status", "crawl"),
        ("job", "why", "crawl"),
        ("scheduler", "list", "--all"),
        ("events",),
        ("top", "--once"),
        ("store", "status"),
        ("store", "backup", str(tmp_path / "prod.omega")),
    ):
        reader.run(*words)
    # The configuration holds passwords of the server: no role reads it, and `store status` does without.
    assert guarded.denied() <= {("omega-reader", "config|get"), ("omega-reader", "config")}
    before = person.json("cell", "status")
    refused = "does not permit this to the user in the URL; ask for the missing permission"
    changes: tuple[tuple[str, ...], ...] = (
        ("job", "run", "--name", "more", "--detach"),
        ("job", "stop", "crawl"),
        ("machine", "drain", "m0"),
        ("cell", "limits", "batch", "--jobs", "1"),
        ("cell", "delete", "--yes"),
        ("store", "restore", str(tmp_path / "prod.omega"), "--force"),
    )
    for change in changes:
        assert refused in reader.run(*change, code=1).stderr, change
    assert person.json("cell", "status") == before


@pytest.mark.chaos
def test_a_reader_loads_no_script_and_waits_for_those_of_others(guarded: Guarded) -> None:
    person, reader = Omega(guarded.url("person"), "prod"), Omega(guarded.url("reader"), "prod")
    person.run("cell", "create", "prod", "--machines", "2", "--cpu", "4", "--memory", "4Gi")
    with connect(guarded.url("reader")) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.script_load("return 1")
    with redis.Redis.from_url(guarded.server.url) as client:
        client.script_flush()
        timer = threading.Timer(1.5, person.run, ("job", "run", "--name", "crawl"))
        timer.start()
        result = reader.run("cell", "verify")  # waits until the person's command has loaded the scripts
        timer.join()
        assert "waiting: the store at" in result.stderr
        assert "lacks the scripts of readers" in result.stderr
        assert result.stderr.count("waiting") == 1
        client.script_flush()
        person.run("job", "run", "--name", "again")
        assert "waiting" not in reader.run("top", "--once").stderr, "whoever loads a script loads the readers' too"


def test_a_user_of_one_cell_does_not_see_another(guarded: Guarded) -> None:
    with redis.Redis.from_url(guarded.server.url) as client:
        client.set("omega:1:{other}:meta", "secret")
    with connect(guarded.url("person")) as client:
        for command in ("GET", "DEL"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(command, "omega:1:{other}:meta")
    for role in ("person", "reader", "scheduler"):
        with pytest.raises(StoreError, match="does not permit this to the user"):
            RedisCell.connect(guarded.url(role), "other")


def test_passwords_are_in_no_message(guarded: Guarded) -> None:
    wrong = guarded.url("reader").replace("reader-secret", "wrong-secret")
    message = Omega(wrong, "prod").run("cell", "status", code=1).stderr
    assert "wrong-secret" not in message
    assert "unix://omega-reader:***@" in json.dumps(message)
