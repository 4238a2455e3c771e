"""Indexes that were tampered with are written anew from primary records; what is primary is never guessed."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from omega.cellstate import derive
from omega.cellstate.errors import Refused
from omega.cellstate.model import MachineSpec
from omega.cellstate.primary import Content
from omega.cellstate.redis import RedisCell
from omega.cellstate.repair import Plan, repair
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind
from omega.cellstate.transaction import Claim, Position
from omega.cellstate.verify import verify
from tests.cli.conftest import Omega
from tests.unit.cellstate.audit.tampered import full
from tests.unit.cellstate.audit.town import SMALL, Town, job

INDEXES = ("names", "shapes", "trees", "jobnames", "recent", "waiters", "done", "placed", "copied", "housekeeping",
           "outputs", "pending:batch", "pending:service", "lanes", "lanenames")  # a table # fmt: skip


@pytest.fixture
def town(store_url: str) -> Iterator[Town]:
    with full(store_url) as town:
        town.cell.look_back = lambda: None  # type: ignore[method-assign]
        town.drop("meta", "durability")
        yield town


def indexes(town: Town) -> dict[str, dict[bytes, Any]]:
    """What is stored of every index, lists in any order."""
    reading = town.cell.log.read_records()
    assert reading is not None
    return {
        key: {field: value for field, value in _fields(content).items() if derive.follows(key, field)}
        for key, content in reading.indexes.items()
    }


def _fields(content: Content) -> dict[bytes, Any]:
    return dict(content) if isinstance(content, dict) else dict.fromkeys(content)


@pytest.mark.parametrize("key", INDEXES)
def test_an_index_that_was_deleted_is_written_anew(town: Town, key: str) -> None:
    before = indexes(town)
    assert town.client.delete(town.prefix + key) == 1
    plan = repair(town.cell, 70, "ada", lambda _: True)
    assert plan.unexplained == ()
    assert set(plan.changes) <= {key, "meta", "lanes"}, "new arrivals and serials are counted, lanes know the last one"
    report = verify(town.cell)
    assert report.ok, report.violations
    after = indexes(town)
    assert after[key].keys() <= before[key].keys()
    if key in ("names", "shapes", "trees", "recent", "waiters", "done", "outputs"):
        assert after[key] == before[key]
    assert {name for name in after if name != key} >= {name for name in before if name not in (key, "changes")}


def test_all_indexes_at_once_are_written_anew_and_the_cell_goes_on(town: Town) -> None:
    cell = town.cell
    town.client.delete(*(town.prefix + key for key in INDEXES))
    for field in ("limits", "pools", "jobs_held", "tasks_delayed"):
        town.client.hset(town.prefix + "meta", field, 77)
    town.words("kinds", "service", -2, 7).drop("pools", "operators")
    assert not verify(cell).ok
    plan = repair(cell, 70, "ada", lambda _: True)
    assert plan.differences
    report = verify(cell)
    assert report.ok, report.violations
    assert cell.schedulers.sync(Position()).full
    cell.jobs.submit([job("afterwards", SMALL)], 50, "ada")
    cell.machines.join("simulated", [MachineSpec("later", (4000, 4000))], 50)
    index = town.cell.machines.index_of("later")
    assert index is not None
    assert town.commit("afterwards", Claim(index, 0, 4)) == 4
    assert town.end("afterwards", index, EndKind.FINISHED) == 4
    report = verify(cell)
    assert report.ok, report.violations


PRIMARY: dict[str, Callable[[Town], object]] = {
    "a job": lambda t: t.drop("jobs", "part"),
    "a count": lambda t: t.group("part", placed=8),
    "a machine": lambda t: t.words("machines", 0, 6, 900),
    "a run": lambda t: t.edit("runs", 0, "part:0:0-3", "part:0:0-2,7"),
    "a limit": lambda t: t.words("kinds", "service", 0, 7),
    "a key that no cell has": lambda t: t.client.set(t.prefix + "mine", "x"),
}


@pytest.mark.parametrize("what", PRIMARY)
def test_nothing_is_written_while_primary_records_contradict_one_another(town: Town, what: str) -> None:
    PRIMARY[what](town)
    town.client.delete(town.prefix + "names")
    plan = repair(town.cell, 70, "ada", lambda _: pytest.fail("nothing to agree to"))
    assert plan.unexplained
    assert not town.client.exists(town.prefix + "names")


@pytest.mark.parametrize("moment", ["while it is read", "while somebody agrees"])
def test_nothing_is_written_when_somebody_changes_the_cell(town: Town, moment: str) -> None:
    town.client.delete(town.prefix + "names")
    other = RedisCell.open(town.client, town.cell.name)

    def change() -> None:
        other.jobs.submit([job("meanwhile", SMALL)], 60, "ada")

    def agrees(_: Plan) -> bool:
        if moment == "while somebody agrees":
            change()
        return True

    said: list[str] = []

    def told(text: str) -> None:
        if text.endswith("records") and moment == "while it is read" and not said:
            said.append(text)
            change()

    with pytest.raises(Refused, match="changed while it was verified; nothing was written"):
        repair(town.cell, 70, "ada", agrees, told)
    assert not town.client.exists(town.prefix + "names")


def test_what_is_in_order_is_not_touched(town: Town) -> None:
    before = town.client.dump(town.prefix + "changes")
    assert repair(town.cell, 70, "ada", lambda _: pytest.fail("nothing to agree to")) == Plan()
    assert town.client.dump(town.prefix + "changes") == before


def test_any_changes_of_indexes_are_repaired(town: Town) -> None:
    """Fields of indexes are removed, changed and added at random."""
    rng = Random("repair/random")
    for key, fields in indexes(town).items():
        base = key.partition(":")[0]
        if base in ("done", "outputs") or base in derive.MIXED or not fields:
            continue
        field = rng.choice(sorted(fields))
        if base in derive.SCORED:
            town.client.zrem(town.prefix + key, field)
            town.client.zadd(town.prefix + key, {b"00nobody": 7})
        else:
            town.client.hdel(town.prefix + key, field)
            town.client.hset(town.prefix + key, "nobody", "7")
    assert not verify(town.cell).ok
    plan = repair(town.cell, 70, "ada", lambda _: True)
    assert plan.unexplained == ()
    report = verify(town.cell)
    assert report.ok, report.violations


def test_the_command_says_asks_and_verifies(store_url: str) -> None:
    town = Town.founded(connect(store_url), f"repair-{uuid4().hex[:8]}").populate()
    omega = Omega(store_url, town.cell.name)
    town.client.hdel(town.prefix + "names", "m0")
    assert "confirmation needed; add --yes" in omega.run("cell", "verify", "--repair", code=2).stderr
    done = omega.run("cell", "verify", "--repair", "--yes")
    assert "names: 1 added" in done.stderr
    assert done.stdout.startswith("ok · ")
    again = omega.json("cell", "verify", "--repair", "--yes")
    assert (again["ok"], again["repaired"]) == (True, {})
    town.group("part", placed=8)
    town.client.hdel(town.prefix + "names", "m0")
    error = omega.error("cell", "verify", "--repair", "--yes")
    assert "nothing was written, because indexes cannot follow from records that contradict one another" in error
    assert omega.json("cell", "verify", code=1)["violations"]
    town.cell.delete()
