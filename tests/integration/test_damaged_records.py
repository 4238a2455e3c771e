"""Records with a single writer that cannot be read: it replaces them, and the audit reports them (semantics 37)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.errors import Unreadable
from omega.cellstate.model import MachineSettings, MachineSpec, MachineState
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import Membership
from omega.cellstate.verify import verify
from omega.schedulers.process.epochs import EpochReader, Publisher
from tests.cli.conftest import Omega
from tests.integration.stage import join, made_cell, serve, started_processes, submit, until
from tests.integration.test_epochs import job

pytestmark = pytest.mark.server

Damage = Callable[[RedisCell, str], object]


def put(**fields: str) -> Damage:
    return lambda cell, key: [cell.client.hset(key, *pair) for pair in fields.items()]


def without(*fields: str) -> Damage:
    return lambda cell, key: cell.client.hdel(key, *fields)


EPOCHS: dict[str, Damage] = {
    "shares are no MessagePack": put(shares="\xc1"),
    "leaves are no MessagePack": put(leaves="x"),
    "the digest is another": put(digest="0"),
    "the number is no number": put(number="seven"),
    "the time is no number": put(at="noon"),
    "the version of publication is no number": put(published="-"),
    "the number is beyond what the server counts exactly": put(number=str(2**53 + 1)),
    "the version is beyond": put(version=str(10**20)),
    "the time is beyond": put(at=str(10**20)),
    "the version of publication is beyond": put(published=str(10**20)),
    "all fields are text": put(number="a", at="b", published="c", shares="d", leaves="e", digest="f", by="g"),
    "the number is missing": without("number"),
    "the shares are missing": without("shares"),
    "the time is missing": without("at"),
    "it is missing": lambda cell, key: cell.client.delete(key),
    "it is a text": lambda cell, key: (cell.client.delete(key), cell.client.set(key, "epoch")),
    "it is a list": lambda cell, key: (cell.client.delete(key), cell.client.rpush(key, "epoch")),
}


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    with made_cell(store_url, "damaged") as made:
        serve(made)
        join(made, [MachineSpec("m", (4000, 8 << 30))])
        made.pools.set(Pools((Pool("a"), Pool("b", limits={"cpu": 3000}))), 0, 0, "ada")
        submit(made, [job("x", "a")])
        yield made


@pytest.mark.parametrize("form", EPOCHS)
def test_a_damaged_epoch_is_replaced_and_reported(cell: RedisCell, form: str) -> None:
    publisher = Publisher(cell)
    assert publisher.publish("batch/0", 5_000)
    assert publisher.publish("batch/0", 7_000)
    EPOCHS[form](cell, f"omega:1:{{{cell.name}}}:epoch")
    assert not verify(cell).ok, "the audit reports it, and does not end with an error"
    assert Omega(cell.url, cell.name).json("cell", "verify", code=1)["violations"]
    assert Publisher(cell).publish("batch/1", 9_000)
    epoch = cell.pools.epoch()
    assert epoch is not None
    assert (epoch.number, epoch.by) == (3, "batch/1"), "numbers go on, from the log if need be"
    assert publisher.publish("batch/0", 9_500) == 0, "one for each number and period"
    assert verify(cell).violations == ()


def test_schedulers_notice_a_damaged_epoch_in_a_cell_that_does_not_change(
    cell: RedisCell, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Publisher(cell).publish("batch/0", 5_000)
    reader, snapshot = EpochReader(store_url, cell.name, "batch/0"), ArraySnapshot(2)
    reader.read(snapshot)
    assert not reader._check(0)
    put(shares="\xc1")(cell, f"omega:1:{{{cell.name}}}:epoch")
    assert not reader._check(0), "not at once again"
    monkeypatch.setattr("omega.schedulers.process.epochs.CHECK_SECONDS", 0.0)
    assert (reader._check(0), reader._check(1)) == (True, False), "the first in rank alone"
    reader.close()
    with started_processes(cell, store_url, tmp_path, "batch/0"):
        until(lambda: cell.pools.epoch_mark().number > 1, "another scheduler finds it on its first reading")


POOLS: dict[str, Damage] = {
    "a pool is no MessagePack": put(p1="\xc1"),
    "the trees are no MessagePack": put(trees="x"),
    "the version is no number": put(version="seven"),
    "it is a text": EPOCHS["it is a text"],
}


@pytest.mark.parametrize("form", POOLS)
def test_damaged_pools_are_replaced_by_an_import(cell: RedisCell, form: str, tmp_path: Path) -> None:
    omega, file = Omega(cell.url, cell.name), tmp_path / "pools.yaml"
    file.write_text(omega.text("pool", "export"))
    POOLS[form](cell, f"omega:1:{{{cell.name}}}:pools")
    assert Omega(cell.url, cell.name).json("cell", "verify", code=1)["violations"]
    with pytest.raises(Unreadable):
        cell.pools.get()
    assert "import them again" in omega.error("pool", "set", "a", "--weight", "2")
    omega.run("pool", "import", str(file))
    assert [(pool.name, dict(pool.limits)) for pool in cell.pools.get().pools] == [("a", {}), ("b", {"cpu": 3000})]
    assert verify(cell).violations == ()
    assert Publisher(cell).publish("batch/0", 5_000)


@pytest.mark.parametrize("record", ["\xc1", "x y\n", "- -\n\xc1", "1\n", ""])
def test_damaged_settings_of_a_machine_are_replaced(cell: RedisCell, record: str) -> None:
    key = f"omega:1:{{{cell.name}}}:operator"
    agent = cell.executors.register_agent("h1", "n", 60_000, 0)
    (index,) = cell.machines.join(agent.member, [MachineSpec("h1", (4000, 4))], 0)
    cell.client.hset(key, str(index), record)
    assert cell.machines.join(agent.member, [MachineSpec("h1", (5000, 4))], 0) == [index], "its agent can come"
    cell.machines.set_attributes(index, {"rack": "r"}, 0, "ada")
    cell.machines.set_capacity(index, (3000, None), 0, "ada")
    assert cell.machines.settings_of([index]) == [MachineSettings((3000, None), {"rack": "r"})]
    assert [v for v in verify(cell).violations if "operator" in v.where] == []


@pytest.mark.parametrize("record", ["\xc1", "figures", ""])
def test_damaged_figures_of_a_scheduler_are_replaced_by_its_next_heartbeat(cell: RedisCell, record: str) -> None:
    membership = cell.schedulers.register("batch/0", "n", 60_000, 0)
    cell.schedulers.renew(membership, 60_000, {"tasks": 3})
    cell.client.hset(f"omega:1:{{{cell.name}}}:stats", "batch/0", record)
    assert cell.schedulers.figures() == {"batch/0": {}}
    assert [alive for _, alive, _ in cell.schedulers.members().values()] == [True]
    cell.schedulers.renew(membership, 60_000, {"tasks": 4})
    assert cell.schedulers.figures() == {"batch/0": {"tasks": 4}}


@pytest.mark.parametrize("record", ["", "nothing", "7", "7 n"])
def test_damaged_names_are_taken_again(cell: RedisCell, record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omega.cellstate.redis.calls.Connection.store_older_than", lambda *_: True)
    prefix = f"omega:1:{{{cell.name}}}:"
    names: list[tuple[Callable[[], Membership], str, str]] = [
        (lambda: cell.executors.register_agent("h1", "n", 60_000, 0), "agents", "agent/h1"),
        (lambda: cell.executors.register("e9", "n", 60_000, 0), "agents", "e9"),
        (lambda: cell.schedulers.register("batch/7", "n", 60_000, 0), "schedulers", "batch/7"),
    ]
    for register, hash_, member in names:
        before = register()
        cell.client.hset(prefix + hash_, member, record)
        cell.client.delete(f"{prefix}lease:{member}")
        assert register().incarnation > before.incarnation
    assert [m.state for m in cell.machines.all()] == [MachineState.UP]
