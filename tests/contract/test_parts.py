"""The cell in memory has the parts of the store, with operations of the same names and parameters."""

import inspect
from typing import Any

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.cell import Operation, Part
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.part import Part as StoredPart
from omega.cellstate.resources import Dimensions

PARTS = ("jobs", "machines", "pools", "schedulers", "executors", "tasks", "shards", "log", "digest")
ONLY_ON_SERVERS = {
    "executors": {"report_fitness"},
    "tasks": {"request_output", "answer_output", "output_part"},
    "shards": {"claim_directory", "directories"},
}
"""What no simulation, dry run or comparison with the scripts needs of a cell in memory."""
OF_THE_STORE = {
    "jobs": {"read", "apart", "chunk_fields"},
    "machines": {"runs_of"},
    "pools": {"read", "read_kinds", "forget_versions"},
    "schedulers": {"close"},
    "executors": {"close"},
}
"""What parts of the store have for one another, for the cell, or for what is only on a server."""
ONLY_IN_MEMORY = {"log": {"first_entry"}}


def operations(part: object) -> dict[str, Any]:
    """Return the public methods of a part by name, bound."""
    return {name: getattr(part, name) for name in dir(type(part)) if not name.startswith("_")}


def parameters(operation: Any) -> list[tuple[str, Any, bool]]:
    """Return name, kind and optionality of each parameter."""
    found = inspect.signature(operation).parameters.values()
    return [(each.name, each.kind, each.default is not inspect.Parameter.empty) for each in found]


@pytest.fixture
def stored(fake_redis: Any) -> RedisCell:
    return RedisCell(fake_redis, "c", Dimensions())


@pytest.mark.parametrize("name", PARTS)
def test_both_have_the_operations_of_a_part_with_the_same_parameters(stored: RedisCell, name: str) -> None:
    store, memory = operations(getattr(stored, name)), operations(getattr(MemoryCell(), name))
    assert store.keys() - memory.keys() == OF_THE_STORE.get(name, set()) | ONLY_ON_SERVERS.get(name, set())
    assert memory.keys() - store.keys() == ONLY_IN_MEMORY.get(name, set())
    both = store.keys() & memory.keys()
    different = {each for each in both if parameters(store[each]) != parameters(memory[each])}
    assert different == set()


def test_a_cell_has_these_parts(stored: RedisCell) -> None:
    assert {name for name, each in vars(stored).items() if isinstance(each, StoredPart)} == set(PARTS)
    assert {name for name, each in vars(MemoryCell()).items() if isinstance(each, Part)} == set(PARTS)


@pytest.mark.parametrize(
    ("part", "foreign"),
    [
        ("jobs", {"commit", "register", "receive", "set_state", "join"}),
        ("machines", {"commit", "submit", "receive", "housekeep", "end"}),
        ("schedulers", {"submit", "hold", "receive", "set_state", "set", "join", "keep_tails", "end"}),
        ("executors", {"submit", "hold", "commit", "set_state", "set", "settle", "stop"}),
        ("shards", {"submit", "commit", "join", "housekeep"}),
    ],
)
def test_a_part_has_no_calls_of_other_callers(stored: RedisCell, part: str, foreign: set[str]) -> None:
    """What takes a part, such as that of schedulers, can do nothing else."""
    assert operations(getattr(stored, part)).keys() & foreign == set()
    assert not any(hasattr(stored, name) for name in foreign), "the cell itself has none of them"


def test_an_operation_is_bound_to_the_state_of_its_cell() -> None:
    cell = MemoryCell()
    assert isinstance(vars(type(cell.jobs))["submit"], Operation)
    assert cell.jobs.submit.__self__ is cell  # type: ignore[attr-defined]
