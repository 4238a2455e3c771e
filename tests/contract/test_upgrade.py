"""Cells of older schemas: a backup that commit 135a323 wrote is restored, and its cell is migrated on the store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

from omega.cellstate import keys
from omega.cellstate.audit import verify
from omega.cellstate.backup import Backup, Key, file, read_backup
from omega.cellstate.backup import migrate as migration
from omega.cellstate.backup.migrate import ASIDE, migrate, schema_of
from omega.cellstate.backup.restore import restore, write
from omega.cellstate.errors import Refused, Unsuitable
from omega.cellstate.lanes import lane_of
from omega.cellstate.model import Gang, JobSpec, JobState, Limits, MachineState, TaskGroup
from omega.cellstate.ports import StoredCell
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.job_records import decode, encode
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect
from omega.cellstate.transaction import Claim, Ending, How, Mode, Position, Transaction

OLD = Path(__file__).parents[1] / "data" / "schema2.omega"
AT = 9_000


def old() -> Backup:
    with OLD.open("rb") as stream:
        return file.read(stream, str(OLD))[0]


@pytest.fixture
def client(store_url: str) -> "redis.Redis":
    return connect(store_url)


@pytest.fixture
def name(client: Any) -> Any:
    chosen = f"old-{uuid4().hex[:8]}"
    yield chosen
    for each in (chosen, chosen + ASIDE):
        RedisCell(client, each, Dimensions()).delete()


@pytest.fixture
def placed(client: Any, name: str) -> str:
    """The name of a cell as the older version left it: the same keys, counters and schema number."""
    backup = old()
    cell = RedisCell(client, name, Dimensions(backup.resources))
    write(client, cell, backup, lambda _: None)
    items = backup.small["meta"].items
    values = {key.decode(): value for key, value in zip(items[::2], items[1::2], strict=True)}
    client.hset(keys.prefix(name) + "meta", mapping=values | {"floor": b"%d" % backup.version})
    client.sadd(keys.CELLS, name)
    return name


def check(cell: StoredCell) -> None:
    """Whatever the older cell had is there, in the present form."""
    assert verify(cell).ok
    jobs = {job.id: job for job in cell.jobs()}
    part = jobs["part"]
    (group,) = part.groups
    assert (group.need, group.duration_ms, group.total) == ((100, 100), 5000, 12)
    assert (group.unplaced, group.waiting) == (5, "7-11")
    assert [(run[1], run[2]) for run in group.runs] == [(0, False), (1, False)]
    assert (part.name, part.precedence, part.spec["user"], part.awaited) == ("part-name", 0, "ada", ("after",))
    assert (jobs["gang"].gang, jobs["halt"].state, jobs["held"].held) == (Gang.STRICT, JobState.STOPPED, True)
    assert (jobs["done"].state, jobs["done"].groups[0].finished) == (JobState.DONE, 2)
    assert jobs["after"].after[0].job == "part"
    assert (jobs["words"].commands, jobs["part"].commands) == (True, False)
    broad = jobs["broad"].groups[0]
    assert (broad.placed, broad.finished, broad.waiting) == (284, 10, "250-255")
    assert sorted(machine for _, machine, leaving in broad.runs if not leaving) == [0, 1, 2]
    assert [machine for _, machine, leaving in broad.runs if leaving] == [1]
    assert jobs["opt"].groups[0].optional
    assert {kind: sorted(ids) for kind, ids in cell.pending().items()} == {
        "batch": ["after", "broad", "held", "part", "wait"], "service": ["many"]}  # fmt: skip
    lanes = {str(lane) for _, lane in cell.lanes().values()}
    assert {"batch 0 research,ada,", str(lane_of("batch", 0, {"user": "bob", "expected_duration": 60_000}))} <= lanes
    assert cell.kinds()["batch"].limits.resources == (100_000, None)
    assert cell.updates() == {"many": "rolling"}
    assert {machine.name: machine.state for machine in cell.machines()}["m5"] is MachineState.DRAINED


def work_on(cell: StoredCell) -> None:
    """Scripts of this version change what the older one wrote: place, end, acknowledge, stop."""
    member = cell.register_scheduler("batch/9", "nonce", 60_000, AT)
    state = {machine.index: machine.state for machine in cell.machines()}
    assert state[0] is MachineState.UP
    transactions = [
        Transaction("part", (Claim(0, 0, 5),)), Transaction("broad", (Claim(1, 0, 6),)),
        Transaction("wait", (Claim(2, 0, 2),), Mode.GANG),
    ]  # fmt: skip
    reply = cell.commit(member, 1, transactions, cell.sync(Position()).position, AT, None, ())
    assert [outcome.placed for outcome in reply.outcomes] == [5, 6, 2]
    runs = [run for run in cell.runs(range(8)) if run.job in ("broad", "part")]
    how = {True: How.LEFT, False: How.FINISHED}
    cell.end([Ending(run.machine, run.placement, how[run.leaving]) for run in runs], AT, "fleet")
    assert cell.job("part").state is JobState.DONE  # type: ignore[union-attr]
    assert "after" in cell.pending()["batch"]
    assert cell.job("after").state is JobState.ACTIVE  # type: ignore[union-attr]
    cell.housekeep(AT, "batch/9")
    assert verify(cell).ok


def test_a_backup_of_an_older_version_is_restored(client: Any, name: str) -> None:
    cell = restore(client, old(), name, AT, "ada")
    check(cell)
    work_on(cell)


def test_a_cell_is_migrated_on_its_store(client: Any, placed: str) -> None:
    with pytest.raises(Unsuitable, match=f"run omega store migrate {placed}"):
        RedisCell.open(client, placed)
    assert migrate(client, placed, AT, "ada") == 2
    cell = RedisCell.open(client, placed)
    check(cell)
    work_on(cell)
    assert migrate(client, placed, AT, "ada") is None, "it has the present schema"
    assert not list(client.scan_iter(match=keys.prefix(placed + ASIDE).replace("[", "\\[") + "*"))


@pytest.mark.parametrize("at", ["read", "written", "before the exchange"])
def test_an_interrupted_migration_is_repeated(
    client: Any, placed: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    steps: dict[str, tuple[str, Callable[..., object]]] = {
        "read": ("upgraded", interrupted), "written": ("begin", interrupted),
        "before the exchange": ("_replace", interrupted),
    }  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr(migration, *steps[at])
        with pytest.raises(KeyboardInterrupt):
            migrate(client, placed, AT, "ada")
    meta = client.hgetall(keys.prefix(placed) + "meta")
    assert int(meta[b"schema"]) == keys.SCHEMA > 2, "older versions refuse it"
    for use in (RedisCell.open, RedisCell.create):
        with pytest.raises(Unsuitable, match="is being migrated"):
            use(client, placed)
    assert schema_of(client, placed) == 2
    assert migrate(client, placed, AT, "ada") == 2
    check(RedisCell.open(client, placed))


def test_a_migration_that_is_interrupted_after_the_exchange_leaves_nothing_behind(
    client: Any, placed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = migration._replace

    def last(*words: Any) -> None:
        replace(*words)
        raise KeyboardInterrupt

    monkeypatch.setattr(migration, "_replace", last)
    with pytest.raises(KeyboardInterrupt):
        migrate(client, placed, AT, "ada")
    cells = {name.decode() for name in client.smembers(keys.CELLS)}
    assert (placed in cells, placed + ASIDE in cells) == (True, False)
    assert migrate(client, placed, AT, "ada") is None
    check(RedisCell.open(client, placed))


def test_a_cell_at_work_is_not_migrated(client: Any, placed: str) -> None:
    client.set(keys.prefix(placed) + "lease:batch/0", 1, px=60_000)
    with pytest.raises(Refused, match="batch/0 still at work"):
        migrate(client, placed, AT, "ada")
    assert client.hget(keys.prefix(placed) + "meta", "schema") == b"2"


def test_another_schema_is_refused(client: Any, placed: str) -> None:
    client.hset(keys.prefix(placed) + "meta", "schema", 1)
    with pytest.raises(Unsuitable, match="cannot migrate"):
        migrate(client, placed, AT, "ada")


def test_placements_in_the_log_of_schema_5_are_left_out(client: Any, name: str) -> None:
    """They had number and amounts of their machine, which the need of a task replaced."""
    cell = RedisCell.create(client, name)
    cell.register_executor("e0", "nonce", 60_000, AT)
    prefix = keys.prefix(name)
    client.delete(f"{prefix}lease:e0")
    client.xadd(f"{prefix}log", {"at": AT, "by": "b", "facts": "places a 0 1 0 0 2 1 1 1 1 2 1 1"}, id="2-0")
    client.hset(f"{prefix}meta", mapping={"schema": 5, "version": 2})
    client.rpush(f"{prefix}changes", "0123456789")
    assert migrate(client, name, AT, "ada") == 5
    migrated = RedisCell.open(client, name)
    assert [fact.words[0] for fact in migrated.facts()] == ["restore"]
    assert verify(migrated).ok


def test_kinds_without_limits_lose_their_record(client: Any, name: str) -> None:
    """Schema 5 counted what they hold, too; it had no number of kinds with limits."""
    cell = RedisCell.create(client, name)
    cell.set_limits("service", Limits((7, None)), AT, "ada")
    prefix, backup = keys.prefix(name), read_backup(cell, AT)
    assert client.hdel(f"{prefix}meta", "limits") == 1
    client.hset(f"{prefix}kinds", "batch", "- - - - - 0 0 0")
    client.hset(f"{prefix}meta", "schema", 5)
    assert migrate(client, name, AT, "ada") == 5
    migrated = RedisCell.open(client, name)
    assert migrated.counters()["limits"] == 1
    assert client.hgetall(f"{prefix}kinds") == dict(zip(*[iter(backup.small["kinds"].items)] * 2, strict=True))
    assert verify(migrated).ok


def test_the_backup_is_one_of_schema_2() -> None:
    backup = old()
    assert backup.schema == 2
    assert isinstance(backup.small["meta"], Key)


def test_a_name_that_is_the_id_is_kept_once(client: Any, name: str) -> None:
    """Schema 4 had it three times: as a field, in the record, and in the directory of names."""
    cell = RedisCell.create(client, name, keep_jobs=10)
    groups, names = (TaskGroup((1, 1), 2),), {"own": "own", "other": "own-name", "gone": "gone"}
    cell.submit([JobSpec(job_id, called, "batch", groups) for job_id, called in names.items()], AT, "ada")
    cell.stop("gone", AT, "ada")
    backup = read_backup(cell, AT)
    now = {key: dict(backup.bulk[key]) for key in ("jobs", "jobnames")}
    assert now["jobnames"] == {b"own": b"", b"own-name": b"other"}
    backup.schema, fields = 4, decode(backup.bulk["jobs"][b"own"], 2)
    assert fields["name"] == ""
    backup.bulk["jobs"][b"own"] = encode(fields | {"name": "own"})
    backup.bulk["jobs"][b"gone"] = encode(decode(backup.bulk["jobs"][b"gone"], 2) | {"name": "gone"})
    backup.bulk["jobnames"][b"own"] = b"own"
    assert len(backup.bulk["jobs"][b"own"]) == len(now["jobs"][b"own"]) + 3
    older = backup.bulk["jobs"][b"own"]
    cell.delete()
    again = restore(client, backup, name, AT, "ada")
    assert client.hgetall(keys.prefix(name) + "jobs") == now["jobs"]
    assert client.hgetall(keys.prefix(name) + "jobnames") == now["jobnames"]
    assert {each.id: each.name for each in again.jobs()} == names
    assert again.job_names() == {"own": "own", "own-name": "other"}
    assert verify(again).ok
    prefix = keys.prefix(name)
    client.hset(prefix + "jobs", "own", older)
    client.hset(prefix + "jobnames", "own", "own")
    client.hset(prefix + "meta", "schema", 4)
    assert migrate(client, name, AT, "ada") == 4
    assert (client.hgetall(prefix + "jobs"), client.hgetall(prefix + "jobnames")) == (now["jobs"], now["jobnames"])
    assert verify(RedisCell.open(client, name)).ok
