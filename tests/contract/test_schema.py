"""A process changes nothing in a cell of another schema, nor in one that is being restored (every script looks)."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
import redis

from omega.cellstate import keys
from omega.cellstate.acl import SCRIPTS
from omega.cellstate.errors import CellGone
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.scripts import READING, script
from omega.cellstate.replies import CommitRequest
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction


@pytest.fixture
def cell(store_url: str) -> Any:
    client = connect(store_url)
    made = RedisCell.create(client, f"other-{uuid4().hex[:8]}")
    yield made
    made.delete()


def outlive(cell: RedisCell) -> None:
    """Let another version of Omega replace the cell."""
    cell.client.hset(keys.prefix(cell.name) + "meta", "schema", keys.SCHEMA + 1)


def restoring(cell: RedisCell) -> None:
    """Leave the cell as it is before a restore writes its counters, which it does last."""
    cell.client.unlink(keys.prefix(cell.name) + "meta")


def dump(cell: RedisCell) -> dict[bytes, Any]:
    client: Any = cell.client
    return {key: client.dump(key) for key in client.keys(keys.prefix(cell.name) + "*")}


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - {"create"}))
def test_a_script_looks_at_the_schema_first(cell: RedisCell, name: str) -> None:
    outlive(cell)
    before, chosen = dump(cell), script(name)
    names = [keys.prefix(cell.name) + key for key in chosen.keys]
    assert "meta" in chosen.keys
    with pytest.raises(redis.ResponseError, match="SCHEMA"):
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


LEAVING = ((outlive, "another version"), (restoring, "has no such cell now"))


@pytest.mark.parametrize(("leave", "said"), LEAVING)
def test_a_scheduler_and_an_executor_that_outlived_their_cell_are_told(
    cell: RedisCell, leave: Callable[[RedisCell], None], said: str
) -> None:
    cell.register_executor("e", "one", 60_000, 1)
    cell.join("e", [MachineSpec("m", (10, 10))], 1)
    member = cell.register_scheduler("batch/0", "one", 60_000, 1)
    cell.submit([JobSpec("j", "j", "batch", (TaskGroup((1, 1), 2, 100),))], 1, "ada")
    cell.commit(CommitRequest(member, 1, [Transaction("j", (Claim(0, 0, 1),))], Position(), 2, executors=(1,)))
    leave(cell)
    before = dump(cell)
    with pytest.raises(CellGone, match=said):
        cell.commit(CommitRequest(member, 2, [Transaction("j", (Claim(0, 0, 1),))], Position(), 2, executors=(1,)))
    with pytest.raises(CellGone, match=said):
        cell.receive(1)
    with pytest.raises(CellGone, match=said):
        cell.end([TaskEnd(0, 1, EndKind.FINISHED)], 3, "e")
    assert dump(cell) == before
