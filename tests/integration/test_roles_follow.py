"""Every role leaves a server that is no longer the primary of its cell, and works on with the next one."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import omega
from omega.cellstate.connections import slot_of
from omega.cellstate.keys import prefix
from tests.integration.stage import until
from tests.server_groups import Cluster, Sentinels, Server, cluster, sentinels

pytestmark = pytest.mark.server
COMMANDS: dict[str, tuple[str, ...]] = {
    "scheduler": ("scheduler", "run", "batch"),
    "simulated executor": ("machine", "simulate"),
    "agent": ("agent", "--name", "a1", "--cpu", "2", "--memory", "1Gi"),
    "events": ("events", "--follow"),
}
IDLE_SECONDS = 6
"""Every role sends a command more often than that."""
LEFT_SECONDS = 40.0
"""A role leaves a server within two seconds; a loaded computer needs longer."""


def moved_behind_sentinels(group: Sentinels) -> tuple[Server, Server]:
    """Let Sentinels promote a replica while the primary lives; returns both."""
    old = group.primary()
    group.sentinels[0].client.execute_command("SENTINEL", "FAILOVER", "omega")
    return old, group.next_after(old)


def moved_on_the_cluster(group: Cluster) -> tuple[Server, Server]:
    slot = slot_of(prefix("default"))
    old = group.owner(slot)
    new = next(each for each in group.servers if each is not old)
    group.move(slot, new, atomic=False)
    return old, new


@contextmanager
def roles(url: str, folder: Path) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """Run all roles that are processes."""
    started = {}
    with ExitStack() as files:
        try:
            for role, words in COMMANDS.items():
                log = files.enter_context((folder / f"{role}.log").open("wb"))
                command = [str(Path(sys.executable).with_name("omega")), "--store", url, "--cell", "default", *words]
                started[role] = subprocess.Popen(command, stdout=log, stderr=log, env={"OMEGA_STATE": str(folder)})
            yield started
        finally:
            for process in started.values():
                process.terminate()
            for process in started.values():
                process.wait(60)


def clients(server: Server) -> list[dict[str, Any]]:
    """Return the connections of Omega to a server that sent a command about a cell in the last seconds."""
    asking = ("cluster|slots", "client|list", "ping", "info", "sentinel", "cluster|migrateslots", "replconf", "psync")
    listed: list[dict[str, Any]] = server.client.client_list(_type="normal")
    return [
        each
        for each in listed
        if each["cmd"] not in asking and not each["name"].startswith("sentinel-") and int(each["idle"]) < IDLE_SECONDS
    ]


class Waits(threading.Thread):
    """Runs a call that waits for a job; keeps what it returned."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self.call = call
        self.result: Any = None
        self.start()

    def run(self) -> None:
        self.result = self.call()


def submit(client: "omega.Client", name: str, **fields: Any) -> None:
    tasks = {"count": 1, "resources": {"cpu": "100m", "memory": "16Mi"}, **fields}
    client.submit({"name": name, "tasks": [tasks]} | ({"simulate": True} if "duration" in fields else {}))


def waited(url: str, job: str) -> Any:
    async def wait() -> Any:
        async with omega.AsyncClient(url, "default") as client:
            return await client.wait(job, 120)

    return anyio.run(wait)


@pytest.mark.chaos
@pytest.mark.parametrize("kind", ["Sentinels", "Cluster"])
def test_all_roles_leave_the_last_primary(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = stack.enter_context(sentinels(1)) if kind == "Sentinels" else stack.enter_context(cluster(2))
        omega_ = str(Path(sys.executable).with_name("omega"))
        create = [omega_, "--store", group.url, "cell", "create", "default", "--machines", "1", "--cpu", "2"]
        subprocess.run([*create, "--memory", "1Gi"], check=True, capture_output=True)
        client = stack.enter_context(omega.Client(group.url, "default"))
        processes = stack.enter_context(roles(group.url, tmp_path))
        for name, fields in (("simulated", {"duration": "50ms"}), ("real", {"command": ["true"]})):
            submit(client, f"{name}-before", **fields)
            assert client.wait(f"{name}-before", 60)["state"] == "finished"
        submit(client, "large", duration="50ms", resources={"cpu": "64", "memory": "16Mi"})
        waits = [Waits(lambda: client.wait("large", 120)), Waits(lambda: waited(group.url, "large"))]
        old, new = moved_behind_sentinels(group) if isinstance(group, Sentinels) else moved_on_the_cluster(group)
        until(lambda: not clients(old), f"all roles leave the last primary: {clients(old)}", LEFT_SECONDS)
        for name, fields in (("simulated", {"duration": "50ms"}), ("real", {"command": ["true"]})):
            submit(client, f"{name}-after", **fields)
            assert client.wait(f"{name}-after", 60)["state"] == "finished"
        client.stop("large")
        for each in waits:
            each.join(120)
        assert [each.result and each.result["state"] for each in waits] == ["stopped"] * 2
        assert "real-after" in (tmp_path / "events.log").read_text()
        assert clients(new)
        assert not clients(old)
        assert {role: process.poll() for role, process in processes.items()} == dict.fromkeys(COMMANDS)
