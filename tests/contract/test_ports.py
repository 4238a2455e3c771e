"""The store and its twin implement every port: the same methods, called in the same way."""

import inspect
from typing import Any

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.ports import (
    Cell,
    ExecutorStore,
    Housekeeping,
    JobStore,
    OperatorStore,
    Queries,
    SchedulerStore,
    Session,
    ShardStore,
    StoredCell,
)
from omega.cellstate.redis import RedisCell

PORTS: tuple[type, ...] = (
    Session, Queries, Housekeeping, SchedulerStore, ExecutorStore, ShardStore, JobStore, OperatorStore,
)  # fmt: skip
CONSTRUCTORS = {"create", "open", "connect"}


def methods(of: type) -> dict[str, Any]:
    """Public methods by name."""
    found = {name: inspect.getattr_static(of, name) for name in dir(of) if not name.startswith("_")}
    return {name: each for name, each in found.items() if inspect.isfunction(each)}


def parameters(of: Any) -> list[tuple[str, Any, bool]]:
    """Name, kind and optionality of each parameter behind the first, which is the cell."""
    _, *found = inspect.signature(of).parameters.values()
    return [(each.name, each.kind, each.default is not inspect.Parameter.empty) for each in found]


def _server(cell: RedisCell) -> StoredCell:
    """Checked by mypy."""
    return cell


def _memory(cell: MemoryCell) -> Cell:
    """Checked by mypy."""
    return cell


def test_the_ports_together_are_the_cell() -> None:
    assert {name for port in PORTS for name in methods(port)} == set(methods(Cell))


@pytest.mark.parametrize("implementation", [RedisCell, MemoryCell])
def test_each_method_of_a_port_is_there_with_the_same_parameters(implementation: type) -> None:
    own = methods(implementation)
    assert set(methods(Cell)) - set(own) == set()
    different = {
        name: (parameters(each), parameters(own[name]))
        for name, each in methods(Cell).items()
        if parameters(own[name]) != parameters(each)
    }
    assert different == {}


def test_the_store_has_no_public_method_outside_the_ports() -> None:
    found = {name for name in dir(RedisCell) if not name.startswith("_")}
    attributes = {"name", "dimensions", "url", "client", "unreadable", "sightings", "durability", "unchecked", "dry"}
    assert found - set(methods(StoredCell)) - CONSTRUCTORS - attributes == set()


@pytest.mark.parametrize(
    ("port", "foreign"),
    [
        (JobStore, {"commit", "register_scheduler", "receive", "set_machine_state", "housekeep"}),
        (OperatorStore, {"commit", "submit", "receive", "housekeep", "claim_shard"}),
        (SchedulerStore, {"submit", "hold", "receive", "set_machine_state", "set_pools", "join", "keep_tails"}),
        (ExecutorStore, {"submit", "hold", "commit", "set_machine_state", "set_pools", "settle", "stop"}),
        (ShardStore, {"submit", "commit", "end", "join", "housekeep"}),
        (Queries, {"submit", "commit", "end", "join", "housekeep", "receive", "claim_shard", "stop", "resize"}),
    ],
)  # fmt: skip
def test_a_port_has_no_calls_of_other_callers(port: type, foreign: set[str]) -> None:
    assert set(methods(port)) & foreign == set()
