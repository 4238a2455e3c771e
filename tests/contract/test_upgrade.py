"""A cell of the present schema is one of an older schema for a made-up next one: restored and migrated by its step."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
import redis

from omega.cellstate import keys
from omega.cellstate.audit import verify
from omega.cellstate.backup import Backup, migrate as migration, read_backup
from omega.cellstate.backup.migrate import ASIDE, migrate, schema_of
from omega.cellstate.backup.restore import restore
from omega.cellstate.backup.upgrade import STEPS, check_schema
from omega.cellstate.errors import Refused, Unsuitable
from omega.cellstate.model import After, Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.ports import StoredCell
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.job_records import decode, encode
from omega.cellstate.redis.scripts import script
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect
from omega.cellstate.transaction import Claim, Position, Transaction

AT, OLD, NEXT = 9_000, keys.SCHEMA, keys.SCHEMA + 1


def names_in_capitals(backup: Backup) -> None:
    """The made-up step: the next schema has the names of jobs in capitals, and no events from before it."""
    jobs, names = backup.bulk["jobs"], backup.bulk["jobnames"]
    for job, record in jobs.items():
        fields = decode(record, len(backup.resources))
        jobs[job] = encode(fields | {"name": fields["name"].upper()})
    backup.bulk["jobnames"] = {name.upper(): job for name, job in names.items()}
    backup.log = []


@pytest.fixture
def client(store_url: str) -> "redis.Redis":
    return connect(store_url)


@pytest.fixture
def older(client: Any) -> Any:
    """The name of a cell of the present schema, with a placed and a pending task."""
    name = f"old-{uuid4().hex[:8]}"
    cell = RedisCell.create(client, name)
    cell.register_executor("m", "nonce", 60_000, AT)
    cell.join("m", [MachineSpec("m", (10, 10))], AT)
    cell.submit([JobSpec("id", "crawl", "batch", (TaskGroup((1, 1), 2, 100),))], AT, "ada")
    member = cell.register_scheduler("batch/0", "nonce", 60_000, AT)
    assert (
        cell.commit(CommitRequest(member, 1, [Transaction("id", (Claim(0, 0, 1),))], Position(), AT)).outcomes[0].placed
        == 1
    )
    client.delete(*client.keys(f"{keys.prefix(name)}lease:*"))
    yield name
    RedisCell(client, name, Dimensions()).delete()


@pytest.fixture
def backup(client: Any, older: str) -> Backup:
    return read_backup(RedisCell.open(client, older), AT)


@pytest.fixture
def step(client: Any, older: str, backup: Backup, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Omega has the next schema, and a step to it; `older` and `backup` are still of the one before."""
    monkeypatch.setattr(keys, "SCHEMA", NEXT)
    monkeypatch.setitem(STEPS, OLD, names_in_capitals)
    script.cache_clear()  # the scripts compare the number of the schema
    yield
    script.cache_clear()


def check(cell: StoredCell) -> None:
    """Everything of the older cell is there, in the next form, and work on it continues."""
    assert cell.counters()["schema"] == NEXT
    (job,) = cell.jobs()
    assert (job.name, job.groups[0].placed, job.groups[0].unplaced) == ("CRAWL", 1, 1)
    assert cell.job_names() == {"CRAWL": "id"}
    assert [fact.words[0] for fact in cell.facts()] == ["restore"]
    cell.register_executor("m", "nonce", 60_000, AT)
    member = cell.register_scheduler("batch/9", "nonce", 60_000, AT)
    found = cell.commit(
        CommitRequest(member, 1, [Transaction("id", (Claim(0, 0, 1),))], cell.sync(Position()).position, AT)
    )
    assert found.outcomes[0].placed == 1
    assert verify(cell).ok


def test_the_steps_lead_from_the_oldest_schema_to_the_present_one() -> None:
    assert list(STEPS) == list(range(keys.OLDEST, keys.SCHEMA))
    assert max(keys.CONVERTERS) < keys.OLDEST


@pytest.mark.usefixtures("step")
def test_an_older_backup_is_restored(client: Any, older: str, backup: Backup) -> None:
    assert backup.schema == OLD
    check(restore(client, backup, older, AT, "ada"))


@pytest.mark.usefixtures("step")
def test_a_cell_is_migrated_on_its_store(client: Any, older: str) -> None:
    with pytest.raises(Unsuitable, match=f"run omega store migrate {older}, or name"):
        RedisCell.open(client, older)
    assert migrate(client, older, AT, "ada") == OLD
    check(RedisCell.open(client, older))
    assert migrate(client, older, AT, "ada") is None, "it has the present schema"
    assert not list(client.scan_iter(match=(keys.prefix(older) + ASIDE).replace("[", "\\[") + "*"))


@pytest.mark.usefixtures("step")
@pytest.mark.parametrize("at", ["marked", "written", "before the exchange"])
def test_an_interrupted_migration_is_repeated(
    client: Any, older: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    steps: dict[str, tuple[str, Callable[..., object]]] = {
        "marked": ("_drop", interrupted), "written": ("begin", interrupted),
        "before the exchange": ("_replace", interrupted),
    }  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr(migration, *steps[at])
        with pytest.raises(KeyboardInterrupt):
            migrate(client, older, AT, "ada")
    assert int(client.hget(keys.prefix(older) + "meta", "schema")) == NEXT, "older versions refuse it"
    for use in (RedisCell.open, RedisCell.create):
        with pytest.raises(Unsuitable, match="is being migrated"):
            use(client, older)
    assert schema_of(client, older) == OLD
    assert migrate(client, older, AT, "ada") == OLD
    check(RedisCell.open(client, older))


@pytest.mark.usefixtures("step")
def test_a_migration_that_is_interrupted_after_the_exchange_leaves_nothing_behind(
    client: Any, older: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = migration._replace

    def last(*words: Any) -> None:
        replace(*words)
        raise KeyboardInterrupt

    monkeypatch.setattr(migration, "_replace", last)
    with pytest.raises(KeyboardInterrupt):
        migrate(client, older, AT, "ada")
    cells = {name.decode() for name in client.smembers(keys.CELLS)}
    assert older in cells
    assert not list(client.scan_iter(match=(keys.prefix(older) + ASIDE).replace("[", "\\[") + "*"))
    assert migrate(client, older, AT, "ada") is None
    check(RedisCell.open(client, older))


@pytest.mark.usefixtures("step")
def test_a_cell_that_changes_between_check_and_mark_is_read_again(
    client: Any, older: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_memory = migration._check_memory

    def late(*words: Any) -> None:
        check_memory(*words)
        client.hincrby(keys.prefix(older) + "meta", "version", 1)

    monkeypatch.setattr(migration, "_check_memory", late)
    before = int(client.hget(keys.prefix(older) + "meta", "version"))
    assert migrate(client, older, AT, "ada") == OLD
    assert int(client.hget(keys.prefix(older) + "meta", "version")) == before + 2


@pytest.mark.usefixtures("step")
def test_a_cell_at_work_is_not_migrated(client: Any, older: str) -> None:
    client.set(keys.prefix(older) + "lease:batch/0", 1, px=60_000)
    with pytest.raises(Refused, match="batch/0 still at work"):
        migrate(client, older, AT, "ada")
    assert client.hget(keys.prefix(older) + "meta", "schema") == b"%d" % OLD


def before_schema_8(client: Any, name: str) -> None:
    """Write the jobs of a cell as before schema 8: gangs had no minimum, a record had the jobs that wait for it."""
    waiters = {key.split()[0]: key.split()[2] for key in client.zrange(f"{keys.prefix(name)}waiters", 0, -1)}
    jobs = f"{keys.prefix(name)}jobs"
    for job, record in client.hgetall(jobs).items():
        at = 42 + int.from_bytes(record[15:19], "little")  # behind the links and 23 bytes of fixed numbers
        assert record[at : at + 2] == bytes(2)
        older = record[:at] + record[at + 2 :]
        if job in waiters:
            assert older[15:21] == b"\x02\0\0\0>*"
            older = older[:15] + bytes([1 + len(waiters[job]), 0, 0, 0]) + b">" + waiters[job] + older[21:]
        client.hset(jobs, job, older)
    client.delete(f"{keys.prefix(name)}waiters")


def test_gangs_of_schema_7_have_no_minimum_and_waiting_jobs_are_apart(client: Any, older: str) -> None:
    cell = RedisCell.open(client, older)
    groups = (TaskGroup((1, 1), 2, 100), TaskGroup((1, 1), 1, 100))
    cell.submit([JobSpec("g", "g", "batch", groups, gang=Gang.STRICT, after=(After("id"),))], AT, "ada")
    before = cell.jobs()
    client.hset(f"{keys.prefix(older)}meta", "schema", 7)
    before_schema_8(client, older)
    assert migrate(client, older, AT, "ada") == 7
    migrated = RedisCell.open(client, older)
    assert migrated.jobs() == before
    assert [job.awaited for job in before] == [True, False]
    assert {job.gang_min for job in before} == {0}
    assert verify(migrated).ok


def test_a_cell_of_schema_6_names_the_trees_of_its_pools(client: Any, older: str) -> None:
    cell, prefix = RedisCell.open(client, older), keys.prefix(older)
    trees = PoolTree(), PoolTree("gpu", "has gpu")
    cell.set_pools(Pools((Pool("web"), Pool("train", tree="gpu")), trees), 0, AT, "ada")
    now = client.hgetall(prefix + "pools")
    before = {name: value.partition(b"@")[0] for name, value in now.items() if name[:1] == b"c"}
    client.hset(prefix + "pools", mapping=before)
    client.hset(prefix + "meta", mapping={"pools": 1, "schema": 6})
    before_schema_8(client, older)
    client.delete(prefix + "trees")
    assert migrate(client, older, AT, "ada") == 6
    assert client.hgetall(prefix + "pools") == now
    cell = RedisCell.open(client, older)
    assert cell.counters()["pools"] == 2
    assert not verify(cell).ok, "its machine is in no tree yet"
    assert cell.assign_trees(AT, "batch/0") == 0
    assert verify(cell).ok


@pytest.mark.parametrize(
    ("schema", "remedy"),
    [
        (NEXT, "use the newer Omega"),
        (5, "check out commit 633b9d4 and run omega store {} there"),
        (4, "check out commit 633b9d4 and run omega store {} there"),
        (2, "check out commit 633b9d4 and run omega store {} there"),
        (3, "use the Omega that wrote it"),
        (1, "use the Omega that wrote it"),
    ],
)
def test_a_schema_without_a_step_is_refused_with_the_remedy(
    client: Any, older: str, backup: Backup, schema: int, remedy: str
) -> None:
    client.hset(keys.prefix(older) + "meta", "schema", schema)
    written = f"written with schema {schema}, this Omega has schema {OLD}; "
    on_the_store = f"cell {older}: {written}{remedy.format(f'migrate {older}')}"
    with pytest.raises(Unsuitable) as refusal:
        RedisCell.open(client, older)
    assert str(refusal.value) == f"{on_the_store}, or name another cell with --cell"
    with pytest.raises(Unsuitable) as refusal:
        migrate(client, older, AT, "ada")
    assert str(refusal.value) == on_the_store
    backup.schema = schema
    with pytest.raises(Unsuitable) as refusal:
        check_schema(backup)
    assert str(refusal.value) == f"cell {older}: {written}{remedy.format('restore')}"


def test_names_of_ended_jobs_lead_to_the_newest_after_schema_6(client: Any) -> None:
    """Before schema 7 only names of live jobs led to them."""
    name = f"old-{uuid4().hex[:8]}"
    cell = RedisCell.create(client, name)
    group = (TaskGroup((1, 1), 1, 100),)
    for job_id, called in (("a", "n"), ("b", "n"), ("m", "m"), ("c", "live")):
        cell.submit([JobSpec(job_id, called, "batch", group)], AT, "ada")
        if called != "live":
            cell.stop(job_id, AT, "ada")
    expected = cell.job_names()
    assert expected == {"n": "b", "m": "m", "live": "c"}
    client.hdel(f"{keys.prefix(name)}jobnames", "n", "m")
    client.hset(f"{keys.prefix(name)}meta", "schema", 6)
    before_schema_8(client, name)
    assert migrate(client, name, AT, "ada") == 6
    migrated = RedisCell.open(client, name)
    assert migrated.job_names() == expected
    assert verify(migrated).ok
    migrated.delete()
