"""The shards near a worker's machine, and when it takes others: on its own clock, from its first refusal."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import MachineSpec, MachineState
from omega.cellstate.resources import Dimensions
from omega.mapreduce import near as near_module
from omega.mapreduce.near import NearShards, near_shards
from omega.mapreduce.plan import MapReducePlan
from omega.schedulers.constraints.locality import Place

RACKS = {"m0": "r1", "m1": "r1", "m2": "r2", "m3": ""}
"""The machines of the cell by index; m3 has no rack."""


@pytest.fixture
def cell() -> MemoryCell:
    made = MemoryCell("near", Dimensions())
    made.executors.register("e0", "n", 60_000, 0)
    attributes = [{"rack": rack, f"has.{name}": "yes"} if rack else {} for name, rack in RACKS.items()]
    pairs = zip(RACKS, attributes, strict=True)
    made.machines.join("e0", [MachineSpec(name, (1, 1), attributes=own) for name, own in pairs], 0)
    return made


def near(cell: MemoryCell, machine: int, *places: Place, others: int = 0, **field: Any) -> NearShards:
    """The shards near a machine: those of the places in order, then `others` without a location."""
    files = [(f"/{number}", 10 * place.maps) for number, place in enumerate(places)] + [("/other", 10 * others)]
    plan = MapReducePlan(["a"], ["b"], 1, 10, "/o", "/s", files, places=places, near={"wait_ms": [2000, 3000], **field})
    found = near_shards(cell, plan, machine)
    assert found is not None
    return found


def at(*machines: str, maps: int = 10, where: str = "") -> Place:
    return Place(1, maps, machines, where)


def levels(found: NearShards, shards: Sequence[int]) -> list[int | None]:
    return [found.level(shard) for shard in shards]


def test_a_worker_takes_its_machine_then_its_rack_then_all(cell: MemoryCell) -> None:
    found = near(cell, 0, at("m0"), at("m2"), at("m1", "m2"), at("m0", "m3"), others=5)
    assert levels(found, (0, 9, 10, 20, 30, 39, 40, 44)) == [0, 0, 2, 1, 0, 0, None, None]
    own, others, rack, last = "0-9,30-39", "40-44", "20-29", "10-19"
    assert found.taken(100) == [own, others], "what has no location is taken before farther shards"
    assert found.taken(10**9) == [own, others], "no wait begins before it has refused something"
    assert [found.refuse(now) for now in (50, 51.5)] == [2, 0.5]
    assert [found.taken(now) for now in (51.9, 52)] == [[own, others], [own, others, rack]]
    assert found.refuse(52) == 3
    assert found.taken(55) == [own, others, rack, last], "after both waits, from the first refusal on"
    assert found.describe() == "those of its rack after 2 s, any after 5 s"


@pytest.mark.parametrize(
    ("field", "reached"),
    [({"wait_ms": []}, 2), ({"wait_ms": [0, 1000]}, 1), ({"wait_ms": [1000]}, 0)],
)
def test_levels_without_a_wait_are_passed_at_once(cell: MemoryCell, field: Mapping[str, Any], reached: int) -> None:
    found = near(cell, 0, at("m0"), at("m1"), at("m2"), **field)
    assert found.taken(0) == ["0-9", "-", "10-19", "20-29"][: 2 + reached]


def test_further_domains_are_further_levels(cell: MemoryCell) -> None:
    found = near(cell, 0, at("m1"), at("m2"), domains=["has.m0", "rack"], wait_ms=[1000, 1000, 1000])
    assert levels(found, (0, 10)) == [2, 3]
    assert found.describe() == "those of its has.m0 after 1 s, those of its rack after 2 s, any after 3 s"


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_machines_by_a_constraint(cell: MemoryCell, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(near_module, "CHUNK", chunk)
    found = near(cell, 0, at(where="has has.m1"), at(where="has has.m0"), at("m3", where="rack == 'r2'"))
    assert levels(found, (0, 10, 20)) == [1, 0, 2]


def test_machines_that_are_not_there_are_near_nothing(cell: MemoryCell) -> None:
    """m1 is drained and m9 unknown: the rack of m1 is not near its data; a machine without a rack is near itself."""
    cell.machines.set_state(1, MachineState.DRAINED, 1, "ada")
    found = near(cell, 0, at("m1"), at("m9"), at("m1", "m9", "m0"))
    assert levels(found, (0, 10, 20)) == [2, 2, 0]
    assert levels(near(cell, 3, at("m3"), at("m0")), (0, 10)) == [0, 2]


def test_the_machine_of_the_worker_is_up(cell: MemoryCell) -> None:
    """It runs the worker, which may go on while its machine is drained."""
    cell.machines.set_state(0, MachineState.DRAINED, 1, "ada")
    assert levels(near(cell, 0, at("m0"), at("m1")), (0, 10)) == [0, 1]


def test_names_are_read_without_the_other_machines(cell: MemoryCell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell.machines, "count", None)
    assert levels(near(cell, 0, at("m0"), at("m1")), (0, 10)) == [0, 1]


def test_empty_files_have_no_shards(cell: MemoryCell) -> None:
    found = near(cell, 0, at("m0", maps=0), at("m2"), at("m0", maps=0), at("m1", maps=1), others=1)
    assert levels(found, (0, 9, 10, 11)) == [2, 2, 1, None]
    assert found.sets == ["-", "10", "0-9"]
    assert near_shards(cell, MapReducePlan(["a"], ["b"], 1, 10, "/o", "/s", [("/a", 5)]), 0) is None
