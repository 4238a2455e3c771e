"""A process changes nothing in a cell with other rules, nor in one that is being restored (every script looks).

With another schema a cell has other rules too: its number is raised with the schema's.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import redis

from omega.cellstate import keys
from omega.cellstate.acl import SCRIPTS
from omega.cellstate.backup import read_backup, restore
from omega.cellstate.durability import Durability
from omega.cellstate.errors import CellGone, Refused, Unsuitable
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.scripts import READING, script
from omega.cellstate.replies import CommitRequest
from omega.cellstate.server import connect
from omega.cellstate.store import connect_cell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cellstate.verify import verify


@pytest.fixture
def cell(store_url: str) -> Any:
    client = connect(store_url)
    made = RedisCell.create(client, f"other-{uuid4().hex[:8]}")
    yield made
    made.delete()


def outlive(cell: RedisCell) -> None:
    """Let another version of Omega replace the cell."""
    cell.client.hset(keys.prefix(cell.name) + "meta", "rules", keys.RULES + 1)


def restoring(cell: RedisCell) -> None:
    """Leave the cell as it is before a restore writes its counters, which it does last."""
    cell.client.unlink(keys.prefix(cell.name) + "meta")


def dump(cell: RedisCell) -> dict[bytes, Any]:
    client: Any = cell.client
    return {key: client.dump(key) for key in client.keys(keys.prefix(cell.name) + "*")}


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - {"create"}))
def test_a_script_looks_at_the_rules_first(cell: RedisCell, name: str) -> None:
    outlive(cell)
    before, chosen = dump(cell), script(name)
    names = [keys.prefix(cell.name) + key for key in chosen.keys]
    assert "meta" in chosen.keys
    with pytest.raises(redis.ResponseError, match=f"RULES {keys.RULES + 1}"):
        cell.client.eval(chosen.text, len(names), *names, *["2"] * len(chosen.arguments))
    assert dump(cell) == before


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - {"create", *READING}))
def test_a_script_looks_first_whether_the_cell_is_there(cell: RedisCell, name: str) -> None:
    restoring(cell)
    before, chosen = dump(cell), script(name)
    names = [keys.prefix(cell.name) + key for key in chosen.keys]
    with pytest.raises(redis.ResponseError, match="NOCELL"):
        cell.client.eval(chosen.text, len(names), *names, *["2"] * len(chosen.arguments))
    assert dump(cell) == before


LEAVING = (
    (outlive, f"has rules number {keys.RULES + 1}, this Omega has number {keys.RULES}; use the newer"),
    (restoring, "has no such cell now"),
)


@pytest.mark.parametrize(("leave", "said"), LEAVING)
def test_a_scheduler_and_an_executor_that_outlived_their_cell_are_told(
    cell: RedisCell, leave: Callable[[RedisCell], None], said: str
) -> None:
    cell.executors.register("e", "one", 60_000, 1)
    cell.machines.join("e", [MachineSpec("m", (10, 10))], 1)
    member = cell.schedulers.register("batch/0", "one", 60_000, 1)
    cell.jobs.submit([JobSpec("j", "j", "batch", (TaskGroup((1, 1), 2, 100),))], 1, "ada")
    cell.schedulers.commit(
        CommitRequest(member, 1, [Transaction("j", (Claim(0, 0, 1),))], Position(), 2, executors=(1,))
    )
    leave(cell)
    before = dump(cell)
    with pytest.raises(CellGone, match=said):
        cell.schedulers.commit(
            CommitRequest(member, 2, [Transaction("j", (Claim(0, 0, 1),))], Position(), 2, executors=(1,))
        )
    with pytest.raises(CellGone, match=said):
        cell.executors.receive(1)
    with pytest.raises(CellGone, match=said):
        cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 3, "e")
    assert dump(cell) == before


def make_older(cell: RedisCell) -> None:
    cell.client.hset(keys.prefix(cell.name) + "meta", "rules", keys.RULES - 1)


def test_a_cell_with_other_rules_is_not_opened(cell: RedisCell, store_url: str) -> None:
    make_older(cell)
    with pytest.raises(Unsuitable, match=f"rules number {keys.RULES - 1}, .* {keys.RULES}; run omega cell upgrade"):
        connect_cell(store_url, cell.name)
    before = dump(cell)
    cell._create(Durability(replicas=1, timeout_ms=9), change=True)
    assert dump(cell) == before


def test_rules_are_raised_once_no_member_lives(cell: RedisCell) -> None:
    cell.executors.register("e", "one", 60_000, 1)
    cell.schedulers.register("batch/0", "one", 60_000, 1)
    make_older(cell)
    with pytest.raises(Refused, match=f"rules number {keys.RULES - 1}, and batch/0, e still run"):
        cell.upgrade()
    cell.client.delete(*(f"{keys.prefix(cell.name)}lease:{name}" for name in ("batch/0", "e")))
    assert cell.upgrade() == keys.RULES - 1
    assert cell.upgrade() == keys.RULES
    cell.schedulers.register("batch/1", "two", 60_000, 2)
    assert cell.upgrade() == keys.RULES, "members with these rules do not matter"
    assert verify(cell).ok


def test_a_cell_of_a_development_version_is_to_be_deleted(cell: RedisCell, store_url: str) -> None:
    cell.client.hdel(keys.prefix(cell.name) + "meta", "rules")
    for change in (lambda: connect_cell(store_url, cell.name), cell.upgrade):
        with pytest.raises(Unsuitable, match=r"development version.* delete it: omega cell delete"):
            change()
    cell.delete()


def test_newer_rules_and_other_schemas_are_left_alone(cell: RedisCell) -> None:
    outlive(cell)
    with pytest.raises(Unsuitable, match="use the newer Omega"):
        cell.upgrade()
    cell.client.hset(keys.prefix(cell.name) + "meta", "schema", keys.SCHEMA + 1)
    with pytest.raises(Unsuitable, match="written with schema"):
        cell.upgrade()


def test_scripts_with_another_text_and_the_same_rules_work_together(cell: RedisCell) -> None:
    """Two versions whose scripts differ in text: nothing but the number decides."""
    chosen = script("hold")
    other = replace(chosen, text=f"-- another version\n{chosen.text}")
    names = [keys.prefix(cell.name) + key for key in other.keys]
    reply: Any = cell.client.eval(other.text, len(names), *names, *["2"] * len(other.arguments))
    assert reply, "a verdict, not an error"
    assert cell.jobs.submit([JobSpec("j", "j", "batch", (TaskGroup((1, 1), 1, 100),))], 1, "ada")


def test_a_backup_with_newer_rules_is_refused(cell: RedisCell) -> None:
    backup = read_backup(cell, 1)
    backup.hashes["meta"][b"rules"] = b"%d" % (keys.RULES + 1)
    with pytest.raises(Unsuitable, match="use the newer Omega"):
        restore(cell.client, backup, cell.name, 2, "ada")
    backup.hashes["meta"][b"rules"] = b"%d" % (keys.RULES - 1)
    restore(cell.client, backup, cell.name, 2, "ada")
    assert cell.upgrade() == keys.RULES
