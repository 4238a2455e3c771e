"""Whatever stands in the store, a process that starts on it waits, works or ends in a line, never with a traceback."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from omega.cellstate.model import MachineSpec
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.live.processes.supervisor import ProcessSupervisor
from omega.schedulers.process.epochs import Publisher
from tests.integration.stage import join, made_cell, serve, simple_job, submit, until
from tests.integration.test_epochs import job

pytestmark = [pytest.mark.chaos, pytest.mark.server]
MEMBERS = ("batch/0", "simulated/default", "agent/h1")
HUGE, NOTHING, NO_MESSAGEPACK = str(10**20), "", b"\xc1"


def replaced(client: Any, key: bytes, value: str | bytes) -> None:
    """Put a value for each field or entry of a key."""
    match client.type(key):
        case b"hash":
            client.hset(key, mapping=dict.fromkeys(client.hkeys(key), value))
        case b"list":
            for at in range(client.llen(key)):
                client.lset(key, at, value)
        case b"string":
            client.set(key, value, keepttl=True)
        case b"zset":
            members = client.zrange(key, 0, -1)
            client.delete(key)
            client.zadd(key, {value: 1e20, **dict.fromkeys(members[1:], 1e20)})


def another_type(client: Any, key: bytes) -> None:
    kind = client.type(key)
    client.delete(key)
    if kind == b"list":
        client.set(key, "text")
    else:
        client.rpush(key, "text")


DAMAGES: dict[str, Callable[[Any, bytes], None]] = {
    "huge": lambda client, key: replaced(client, key, HUGE),
    "empty": lambda client, key: replaced(client, key, NOTHING),
    "no MessagePack": lambda client, key: replaced(client, key, NO_MESSAGEPACK),
    "another type": another_type,
}


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    with made_cell(store_url, "damaged-at-start") as made:
        serve(made)
        join(made, [MachineSpec(f"m{number}", (4000, 8 << 10)) for number in range(3)])
        made.pools.set(Pools((Pool("a", limits={"cpu": 3000}), Pool("b"))), 0, 0, "ada")
        submit(made, [job("x", "a", 2), simple_job("y", 3)])
        Publisher(made).publish("batch/9", 5_000)
        yield made


def started(cell: RedisCell, folder: Path, seconds: float) -> dict[str, str]:
    """What each kind of process says within so many seconds when it is started on the cell; 0: until all are ready."""
    settings = {"OMEGA_STATE": str(folder / "state")}
    with ProcessSupervisor(cell.url, cell.name, folder / "logs", bound=True, settings=settings, lease_ms=500) as group:
        for member in MEMBERS:
            group.start(member)
        if not seconds:
            group.wait_ready(cell)
        time.sleep(seconds)
        for member in MEMBERS:
            group.kill(member)
        return {member: (group.logs / f"{member.replace('/', '-')}.log").read_text() for member in MEMBERS}


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_process_ends_with_a_traceback(cell: RedisCell, damage: str, tmp_path: Path) -> None:
    with ProcessSupervisor(cell.url, cell.name, tmp_path / "first", bound=True) as group:
        group.start("batch/0")  # places, so that there are runs, figures, histories
        until(lambda: not cell.schedulers.queue_depths(), "all is placed")
    prefix = f"omega:1:{{{cell.name}}}:"
    whole: dict[bytes, Any] = {
        key: cell.client.dump(key) for key in sorted(cast("list[bytes]", cell.client.keys(f"{prefix}*")))
    }
    assert len(whole) > 20
    wrong = []
    began = time.monotonic()
    assert not any("Traceback" in text for text in started(cell, tmp_path / "whole", 0).values())
    enough = 1.0 + 1.5 * (time.monotonic() - began)
    for number, key in enumerate(whole):
        DAMAGES[damage](cell.client, key)
        for member, text in started(cell, tmp_path / str(number), enough).items():
            if "Traceback" in text:
                wrong.append(f"{key.decode().removeprefix(prefix)}: {member}: {text.strip().splitlines()[-1]}")
        cell.client.delete(*cell.client.keys(f"{prefix}*"))
        for each, value in whole.items():
            cell.client.restore(each, 0, value)
    assert not wrong, "\n".join(wrong)
