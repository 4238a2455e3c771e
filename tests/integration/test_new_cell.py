"""`omega cell create --like`: the settings of a cell, all of them, and shards with few cells."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from omega.cellstate import keys
from omega.cellstate.connections import slot_of
from omega.cellstate.errors import BadInput, Refused, Unsuitable
from omega.cellstate.model import JobSpec, Limits, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.redis.cell import CellByLikeness
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect
from omega.cellstate.store import connect_cell, create_cell, create_like
from omega.cellstate.verify import verify
from omega.many_cells.new_cell import create_next
from tests.cli.conftest import Omega
from tests.server_groups import Cluster, Server, cluster, free_ports

pytestmark = pytest.mark.server
CREATORS = 4


def furnished(url: str, name: str) -> None:
    """Create a cell with settings, machines and work."""
    cell = create_cell(connect(url), name, Dimensions(("cpu", "memory", "gpu")), keep_jobs=7, keep_ms=8_000, url=url)
    cell.pools.set_limits("batch", Limits((900, None, 3), 5, (10, 99)), 1, "me")
    cell.pools.set_limits("service", Limits((None, 70, None), None, (0, 1_000)), 1, "me")
    pools = (Pool("a", weight=3.0), Pool("b", "a", limits={"cpu": 9}), Pool("c", tree="fast"))
    cell.pools.set(Pools(pools, (PoolTree("main"), PoolTree("fast", machines="kind == 'fast'"))), None, 1, "me")
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec("m0", (4_000, 4_096, 1))], 1)
    cell.jobs.submit(
        [JobSpec("j", "j", "batch", (TaskGroup((1, 1, 0), 3),), precedence=20, spec={"pool": "b"})], 2, "me"
    )
    cell.close()


def settings(url: str, name: str) -> CellByLikeness:
    return CellByLikeness(connect(url), name, Dimensions(), url)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def source(store_url: str) -> Iterator[str]:
    name = f"like-{uuid4().hex[:8]}"
    furnished(store_url, name)
    yield name
    for each in [each for each in Omega(store_url).json("cell", "list")["cells"] if each["name"].startswith(name[:13])]:
        Omega(store_url).run("cell", "delete", each["name"], "--yes")


def test_every_setting_is_copied_and_no_work(store_url: str, source: str) -> None:
    name = f"{source}x"
    made = Omega(store_url).json("cell", "create", name, "--like", source)
    assert made == {
        "cell": name, "created": True, "resources": ["cpu", "memory", "gpu"], "machines": 0, "like": source,
        "durability": made["durability"],
    }  # fmt: skip
    before, after = settings(store_url, source).settings(), settings(store_url, name).settings()
    assert set(after.meta) == keys.SETTINGS - {"durability"}, "none is absent"
    assert after.meta == {"resources": b"cpu,memory,gpu", "keep_jobs": b"7", "keep_ms": b"8000"}
    assert not before.differs(after)
    assert before.limits["batch"] == after.limits["batch"] == Limits((900, None, 3), 5, (10, 99))
    assert {pool.name for pool in after.pools.pools} == {"a", "b", "c"}
    cell = connect_cell(store_url, name)
    assert (cell.machines.count(), cell.jobs.count(), cell.pools.kinds()["batch"].jobs) == (0, 0, 0)
    assert verify(cell).ok
    cell.close()


def test_a_repeated_call_changes_nothing_and_another_source_is_refused(store_url: str, source: str) -> None:
    omega, name = Omega(store_url), f"{source}x"
    omega.run("cell", "create", name, "--like", source)
    assert omega.json("cell", "create", name, "--like", source)["created"] is False
    Omega(store_url, name).run("cell", "limits", "batch", "--jobs", "6")
    Omega(store_url, name).run("pool", "set", "a", "--weight", "4")
    said = omega.error("cell", "create", name, "--like", source)
    assert said == f"cell {name}: exists with other limits, pools; choose another name"
    assert settings(store_url, name).settings().limits["batch"].jobs == 6


def test_wrong_sources_and_names(store_url: str, source: str) -> None:
    omega = Omega(store_url)
    assert "unknown cell 'nope'" in omega.error("cell", "create", "x", "--like", "nope")
    assert omega.error("cell", "create", "any") == (
        "cell name 'any': --cell any stands for all cells; choose another name"
    )
    assert "leave out --resources and --durability" in omega.error(
        "cell", "create", "--like", source, "--resources", "cpu", code=2
    )
    assert "missing NAME" in omega.error("cell", "create", code=2)
    client = connect(store_url)
    client.hset(keys.prefix(source) + "meta", "schema", 6)
    with pytest.raises(Unsuitable, match="schema 6"):
        create_like(store_url, f"{source}x", 1, "me", like=source)
    client.hset(keys.prefix(source) + "meta", "schema", keys.SCHEMA)
    client.hset(keys.prefix(source) + "kinds", "odd", "?")
    assert f"cell {source}: its kinds 'odd' cannot be read" in omega.error("cell", "create", "x", "--like", source)
    with pytest.raises(BadInput):
        create_like(store_url, "{}", 1, "me", like=source)
    client.close()


def test_one_of_several_creators_creates_a_cell(store_url: str, source: str) -> None:
    def create(name: str) -> bool:
        cell, fresh = create_like(store_url, name, 1, "me", like=source)
        cell.close()
        return fresh

    def create_free(_: int) -> str:
        cell = create_next(store_url, source, 1, "me")
        cell.close()
        return cell.name

    with ThreadPoolExecutor(CREATORS) as threads:
        for name in (f"{source}a", f"{source}b", f"{source}c"):
            assert sorted(threads.map(create, [name] * CREATORS)) == [False] * (CREATORS - 1) + [True]
        names = list(threads.map(create_free, range(CREATORS)))
    assert len(set(names)) == CREATORS
    wanted = settings(store_url, source).settings()
    assert all(not wanted.differs(settings(store_url, name).settings()) for name in names)


def test_a_cell_that_another_client_makes_first_is_compared(store_url: str, source: str) -> None:
    """The other one comes between the check that there is no cell and the transaction."""
    wanted, name = settings(store_url, source).settings(), f"{source}x"

    class Overtaken(CellByLikeness):
        def _calls(self, *words: object) -> object:  # type: ignore[override]
            create_cell(connect(store_url), name, Dimensions(("cpu",)), url=store_url)
            return super()._calls(*words)  # type: ignore[arg-type]

    with pytest.raises(Refused, match="exists with other keep_jobs, keep_ms, resources, limits, pools"):
        Overtaken(connect(store_url), name, Dimensions(), store_url).create_with(wanted, 1, "me")
    assert settings(store_url, name).settings().limits == {}


def test_durability_is_copied_where_the_server_permits_it(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    options = ("bind 127.0.0.1", "save ''", "appendonly yes", "appendfsync always")
    server = Server(port, tmp_path, options).start()
    try:
        omega = Omega(f"redis://127.0.0.1:{port}")
        omega.run("cell", "create", "prod", "--durability", "fsync")
        made = omega.json("cell", "create", "--like", "prod")
        assert (made["cell"], made["durability"]["mode"]) == ("prod-2", "fsync")
        server.client.config_set("appendfsync", "everysec")
        assert "appendfsync everysec, and the cell has durability fsync" in omega.error(
            "cell", "create", "--like", "prod"
        )
        server.client.config_set("appendfsync", "always")
        assert len(omega.json("cell", "list")["cells"]) == 2, "nothing is left of the refused one"
    finally:
        server.kill()


@pytest.mark.chaos
def test_new_cells_are_spread_over_a_cluster(nodes: Cluster) -> None:
    omega = Omega(nodes.url)
    furnished(nodes.url, "prod")
    made = [omega.json("cell", "create", "--like", "prod") for _ in range(5)]
    shards = Counter(each["shard"]["primary"] for each in made)
    assert len({each["cell"] for each in made}) == 5
    assert sorted(shards.values()) == [1, 2, 2], "with prod two on each"
    assert {each["shard"]["better"] for each in made} == {None}
    crowded = next(name for n in range(9) if (name := f"own{n}") and _lies(nodes, name) == _lies(nodes, "prod"))
    named = [omega.run("cell", "create", each, "--like", "prod") for each in (crowded, f"{crowded}-x")]
    assert "created" in named[0].stdout
    assert "its shard has 2 other cells, another one 2" not in named[0].stderr
    again = omega.json("cell", "create", _another(nodes, crowded), "--like", "prod")
    assert again["shard"]["others"] > again["shard"]["fewest"]
    better = again["shard"]["better"]
    assert _lies(nodes, better) != again["shard"]["primary"]
    for each in omega.json("cell", "list")["cells"]:
        cell = connect_cell(nodes.url, each["name"])
        assert verify(cell).ok
        cell.close()


def test_a_cell_is_created_once_its_slot_has_moved(nodes: Cluster) -> None:
    """While a slot is moved key by key, its old owner sends clients on for each key that it lacks."""
    with closing(create_cell(connect(nodes.url), "still", url=nodes.url)):
        slot = slot_of(keys.prefix("moving"))
        source = nodes.owner(slot)
        to = next(each for each in nodes.servers if each is not source)
        ids = {each.port: each.client.execute_command("CLUSTER", "MYID").decode() for each in (source, to)}
        to.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
        source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to.port])
        with ThreadPoolExecutor(1) as threads:
            made = threads.submit(create_like, nodes.url, "moving", 1, "me", like="still")
            with pytest.raises(TimeoutError):
                made.result(0.5)
            for each in (to, *nodes.servers):
                each.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[to.port])
            cell, fresh = made.result(30)
        assert fresh
        assert verify(cell).ok
        cell.delete()
        cell.close()


def _lies(nodes: Cluster, name: str) -> str:
    return f"127.0.0.1:{nodes.owner(slot_of(keys.prefix(name))).port}"


def _another(nodes: Cluster, name: str) -> str:
    """Return another name on the same primary."""
    return next(each for n in range(99) if _lies(nodes, each := f"more{n}") == _lies(nodes, name))
