"""A cell of durability fsync is used only where the server syncs each write, as far as the user may know."""

from contextlib import closing
from typing import Any

import pytest

from omega.cellstate import connections, server
from omega.cellstate.acl import line
from omega.cellstate.durability import Durability
from omega.cellstate.errors import Unsuitable
from omega.cellstate.keys import prefix
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.store import connect_cell, create_cell
from tests.cli.conftest import Omega
from tests.integration.stage import own_server

pytestmark = pytest.mark.server


def job(name: str) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((1, 1), 3),))


def test_a_server_that_syncs_each_write(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Durability(fsync=True)
    with own_server("--appendonly", "yes", "--appendfsync", "everysec") as store:
        client = server.connect(store.url)
        with pytest.raises(Unsuitable, match="has appendfsync everysec, and the cell has durability fsync"):
            create_cell(client, "default", durability=wanted, url=store.url)
        with server.connect(store.url) as admin:
            assert not admin.exists(f"{prefix('default')}meta")
            admin.config_set("appendfsync", "always")
            cell = create_cell(client, "default", durability=wanted, url=store.url)
            assert not cell.unchecked
            cell.jobs.submit([job("j")], 0, "me")
            monkeypatch.setattr(connections, "LONGEST_SECONDS", 0.0)  # a connection is checked when it is opened anew
            for name, bad, good in (("no-appendfsync-on-rewrite", "yes", "no"), ("appendonly", "no", "yes")):
                admin.config_set(name, bad)
                with pytest.raises(Unsuitable, match=f"has {name} {bad}"):
                    cell.jobs.submit([job("k")], 0, "me")
                with pytest.raises(Unsuitable, match=f"set {name} {good} there, or see omega cell durability"):
                    connect_cell(store.url, "default")
                admin.config_set(name, good)
            assert cell.jobs.submit([job("k")], 0, "me")[0].status == "new"
            checked_by_a_role(store.url, admin)
        store.kill()
        store.options = ("--appendonly", "no")
        store.start()
        create_cell(server.connect(store.url), "default", url=store.url).close()
        with pytest.raises(Unsuitable, match="has appendonly no"):  # another server has the address now
            cell.jobs.submit([job("l")], 0, "me")
    with own_server("--appendonly", "yes", "--appendfsync", "always") as store:
        create_cell(server.connect(store.url), "default", durability=wanted, url=store.url).close()
        with server.connect(store.url) as admin:
            admin.config_set("appendonly", "no")
        omega = Omega(store.url, "default")
        assert "has appendonly no" in omega.error("cell", "status")
        assert omega.json("cell", "durability", "none")["durability"]["mode"] == "none"
        assert omega.json("cell", "status")["durability"]["mode"] == "none"
    cell.close()


def checked_by_a_role(url: str, admin: Any) -> None:
    """A role may not read CONFIG, which has passwords; INFO has a part of the settings."""
    version = tuple(map(int, admin.info("server")["redis_version"].split(".")))
    admin.execute_command("ACL", "SETUSER", *line("person", "default", version, "pw").split()[1:])
    own = url.replace("unix://", "unix://omega-person:pw@")
    with closing(connect_cell(own, "default")) as there:
        there.jobs.submit([job("mine")], 0, "me")
        assert there.unchecked
    omega = Omega(own, "default")
    assert omega.json("cell", "status")["durability"] == {
        "mode": "fsync",
        "replicas": 0,
        "timeout_ms": 0,
        "checked": False,
    }
    assert "fsync (not checked: this user may not read CONFIG)" in omega.text("cell", "status")
    admin.config_set("appendonly", "no")
    with pytest.raises(Unsuitable, match="has appendonly no"):
        connect_cell(own, "default")
    admin.config_set("appendonly", "yes")
