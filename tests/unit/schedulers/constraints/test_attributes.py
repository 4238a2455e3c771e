"""Attributes in the working copy: read when asked for, read again when a machine may have joined anew."""

from itertools import pairwise

import numpy as np
import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.attributes import MOST_KEPT, Attributes
from omega.cellstate.constraints import number_of
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import MachineSpec, MachineState
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.contract.conftest import Member, job
from tests.unit.schedulers.constraints.site import describe, site


def wanting(snapshot: Snapshot) -> list[int]:
    return [int(machine) for machine in snapshot.attributes.wanting(snapshot.rows[2])]


def follow(snapshot: Snapshot, cell: MemoryCell) -> None:
    snapshot.apply(cell.schedulers.sync(snapshot.position))


def look_up(snapshot: Snapshot, cell: MemoryCell) -> list[int]:
    machines = wanting(snapshot)
    snapshot.describe(machines, cell.machines.described(machines))
    return machines


@pytest.fixture
def cell() -> MemoryCell:
    made = MemoryCell()
    made.executors.register("simulated", "n", 600_000, 0)
    made.machines.join("simulated", [MachineSpec(f"m{i}", (10, 10), {"rack": f"r{i}"}) for i in range(3)], 0)
    return made


@pytest.fixture
def snapshot(cell: MemoryCell) -> Snapshot:
    """Up to date, everything looked up."""
    copy = ArraySnapshot(2)
    follow(copy, cell)
    look_up(copy, cell)
    copy.freed()
    return copy


def test_a_copy_that_nobody_asks_reads_nothing(cell: MemoryCell) -> None:
    copy = ArraySnapshot(2)
    follow(copy, cell)
    assert not copy.attributes.used
    assert wanting(copy) == [0, 1, 2]


def test_what_was_read_is_not_read_again(cell: MemoryCell, snapshot: Snapshot) -> None:
    assert [snapshot.attributes.get(i, "rack") for i in range(3)] == ["r0", "r1", "r2"]
    assert (snapshot.attributes.get(0, "machine"), snapshot.attributes.get(0, "zone")) == ("m0", None)
    follow(snapshot, cell)
    assert wanting(snapshot) == []


def test_new_machines_are_read(cell: MemoryCell, snapshot: Snapshot) -> None:
    cell.machines.join("simulated", [MachineSpec("m3", (10, 10), {"rack": "r9"})], 0)
    follow(snapshot, cell)
    assert look_up(snapshot, cell) == [3]
    assert snapshot.attributes.values("rack")[int(snapshot.attributes.codes("rack")[3])] == "r9"


@pytest.mark.parametrize("state", [MachineState.GONE, MachineState.DOWN, MachineState.DRAINED])
def test_a_machine_that_comes_back_is_read_again(cell: MemoryCell, snapshot: Snapshot, state: MachineState) -> None:
    cell.machines.set_state(1, state, 0, "ada")
    follow(snapshot, cell)
    assert wanting(snapshot) == [], "what is not up is not needed"
    cell.machines.join("simulated", [MachineSpec("m1", (10, 10), {"rack": "new"})], 0)
    follow(snapshot, cell)
    assert look_up(snapshot, cell) == [1]
    assert snapshot.attributes.get(1, "rack") == "new"


def test_a_machine_that_goes_and_comes_between_two_syncs_is_read_again(cell: MemoryCell, snapshot: Snapshot) -> None:
    cell.machines.set_state(1, MachineState.GONE, 0, "ada")
    cell.machines.join("simulated", [MachineSpec("m1", (10, 10), {"rack": "new"})], 0)
    follow(snapshot, cell)
    assert look_up(snapshot, cell) == [1]
    assert snapshot.attributes.get(1, "rack") == "new"


def test_a_machine_that_joins_again_while_it_is_up_is_read_again(cell: MemoryCell, snapshot: Snapshot) -> None:
    cell.machines.join("simulated", [MachineSpec("m0", (10, 10), {"rack": "other"})], 0)
    cell.machines.join("simulated", [MachineSpec("m1", (20, 10), {"rack": "r1"})], 0)
    cell.executors.register("another", "n", 600_000, 0)
    cell.machines.join("another", [MachineSpec("m2", (10, 10), {"rack": "r2"})], 0)
    follow(snapshot, cell)
    assert wanting(snapshot) == [0, 1, 2]


def test_claims_and_ends_are_no_join(cell: MemoryCell, snapshot: Snapshot) -> None:
    member = Member(cell)
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.transact(Transaction("a", (Claim(0, 0, 2),)))
    follow(snapshot, cell)
    assert wanting(snapshot) == []
    (run,) = cell.machines.runs([0])
    cell.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED)], 0, "simulated")
    follow(snapshot, cell)
    assert wanting(snapshot) == []


def test_after_a_full_read_everything_is_read_again(cell: MemoryCell, snapshot: Snapshot) -> None:
    snapshot.apply(cell.schedulers.sync(Position()))
    assert wanting(snapshot) == [0, 1, 2]


def test_who_sleeps_hears_of_machines_that_became_others(cell: MemoryCell, snapshot: Snapshot) -> None:
    cell.machines.join("simulated", [MachineSpec("m0", (10, 10), {"rack": "other"})], 0)
    follow(snapshot, cell)
    assert snapshot.freed().tolist() == [], "its room is what it was"
    look_up(snapshot, cell)
    assert snapshot.freed().tolist() == [0]


def test_the_version_rises_with_every_change_and_only_then() -> None:
    known = Attributes()
    known.resize(2)
    seen = [known.version]
    for pairs in ((), (), (("rack", "a"),), (("rack", "a"),), (("rack", "b"),)):
        known.learn([0], [("m0", pairs)])
        seen.append(known.version)
    assert [later > earlier for earlier, later in pairwise(seen)] == [True, False, True, False, True]


def test_names_are_those_of_machines_that_are_known() -> None:
    snapshot = site({"rack": "a"}, {"zone": "b", "gpu": "1"})
    assert snapshot.attributes.names() == ["gpu", "machine", "rack", "zone"]
    describe(snapshot, {"zone": "b"}, start=1)
    assert snapshot.attributes.names() == ["machine", "rack", "zone"]
    assert Attributes().names() == ["machine"]


def test_attributes_that_change_for_ever_do_not_fill_the_memory() -> None:
    known = Attributes()
    known.resize(1)
    for i in range(5_000):
        known.learn([0], [("m0", (("boot", str(i)),))])
    assert len(known._profiles) < 2_000
    assert known.get(0, "boot") == "4999"


def test_answers_kept_are_bounded() -> None:
    known = Attributes()
    for i in range(3 * MOST_KEPT):
        assert known.keep(i, lambda i=i: i) == i  # type: ignore[misc]
    assert len(known._kept) == MOST_KEPT
    assert known.keep(3 * MOST_KEPT - 1, lambda: -1) == 3 * MOST_KEPT - 1


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1.0), ("-2.5", -2.5), ("1e3", 1000.0), ("1_0", None), ("inf", None), ("x", None), ("", None)],
)
def test_numbers(text: str, number: float | None) -> None:
    found = number_of(text)
    assert np.isnan(found) if number is None else found == number


def test_a_copy_that_grows_knows_nothing_of_the_new_rows() -> None:
    snapshot = site({"rack": "a"})
    rows = np.array([[7, 1, MachineState.UP, 0, 5, 5, 0, 0]], dtype=np.int64)
    snapshot.apply(Reply(Position(2, "t"), full=False, rows=rows))
    assert snapshot.attributes.codes("rack").tolist() == [1, *[0] * (snapshot.size - 1)]
    assert wanting(snapshot) == [7]
