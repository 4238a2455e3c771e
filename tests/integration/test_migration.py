"""Migrations by limited users and on full servers: everything is checked before the first write to the cell."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from omega.cellstate import keys
from omega.cellstate.acl import line
from omega.cellstate.audit import verify
from omega.cellstate.backup.migrate import migrate
from omega.cellstate.errors import Refused, StoreError
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from tests.integration.stage import Server, own_server

pytestmark = pytest.mark.server
AT, SECRET = 9_000, "secret"


@pytest.fixture
def server() -> Iterator[Server]:
    with own_server() as made:
        yield made


def older(client: Any, name: str) -> RedisCell:
    """A cell that has the schema before the present one."""
    cell = RedisCell.create(client, name)
    cell.join("e", [MachineSpec("m", (4, 4), {"rack": "r"})], AT)
    client.hset(keys.prefix(name) + "meta", "schema", keys.SCHEMA - 1)
    return cell


def records(client: Any, name: str) -> dict[bytes, bytes]:
    return {key: client.dump(key) for key in client.scan_iter(match=keys.prefix(name) + "*")}


def user(client: Any, server: Server, *denied: str) -> str:
    """A person of cell m, without some commands; returns the URL."""
    version = tuple(int(part) for part in client.info("server")["redis_version"].split("."))
    words = line("person", "m", version, password=SECRET).split()[1:]
    client.execute_command("ACL", "SETUSER", *words, *denied)
    return f"unix://omega-person:{SECRET}@{server.url.removeprefix('unix://')}"


def test_a_person_migrates_a_cell_beside_one_of_any_name(server: Server) -> None:
    client: Any = redis.Redis.from_url(server.url)
    older(client, "m")
    other = RedisCell.create(client, "m.migrating")
    other.submit([JobSpec("id", "crawl", "batch", (TaskGroup((1, 1), 2, 100),))], AT, "ada")
    before = records(client, "m.migrating")
    assert migrate(connect(user(client, server)), "m", AT, "ada") == keys.SCHEMA - 1
    assert verify(RedisCell.open(client, "m")).ok
    assert records(client, "m.migrating") == before


@pytest.mark.parametrize("denied", ["-rename", "-xadd", "-del", "-hset", "-pexpire", "-zadd"])
def test_a_user_without_a_permission_changes_nothing(server: Server, denied: str) -> None:
    client: Any = redis.Redis.from_url(server.url)
    older(client, "m")
    before = records(client, "m")
    with pytest.raises(StoreError, match=r"cell m: nothing was changed: .* does not permit this"):
        migrate(connect(user(client, server, denied)), "m", AT, "ada")
    assert records(client, "m") == before, "older versions continue with it"


def test_a_server_without_room_for_both_forms_is_left_alone(server: Server) -> None:
    client: Any = redis.Redis.from_url(server.url)
    older(client, "m")
    for number in range(80):
        client.hset(keys.prefix("m") + "specs", f"id{number}", "x" * 40_000)
    before = records(client, "m")
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 2**20)
    with pytest.raises(Refused, match=r"cell m: nothing was changed: .* raise the server's maxmemory by \d MiB"):
        migrate(client, "m", AT, "ada")
    assert records(client, "m") == before
    client.config_set("maxmemory", 0)
    assert migrate(client, "m", AT, "ada") == keys.SCHEMA - 1
