"""Machines come, shrink (semantics 5), go and come back (10)."""

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import MachineSpec, MachineState
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Detection, Position, Transaction, Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Member, job


def numbers(cell: AnyCell) -> list[int]:
    return [m.number for m in cell.machines.all()]


def test_join(cell: AnyCell) -> None:
    cell.executors.register("e1", "n", 600_000, 0)
    assert cell.machines.join("e1", [MachineSpec("n", (1, 2), {"rack": "r1"}), MachineSpec("m1", (4, 8))], 1) == [3, 1]
    assert (cell.executors.number("e0"), cell.executors.number("e1")) == (1, 3)
    m = cell.machines.all()[3]
    assert (m.index, m.name, m.state, m.executor) == (3, "n", MachineState.UP, 3)
    assert (m.capacity, m.allocated) == ((1, 2), (0, 0))
    assert m.attributes == {"rack": "r1"}
    assert cell.machines.all()[1].executor == 3, "it has moved to another executor"
    assert (cell.machines.index_of("n"), cell.machines.index_of("nowhere")) == (3, None)
    with pytest.raises(Refused, match="e7"):
        cell.executors.number("e7")


@pytest.mark.parametrize("capacity", [(1,), (1, 2, 3), (-1, 2), (1, 10**14)])
def test_capacities_a_machine_cannot_have(cell: AnyCell, capacity: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="machine n"):
        cell.machines.join("e0", [MachineSpec("ok", (1, 1)), MachineSpec("n", capacity)], 0)
    with pytest.raises(BadInput, match="machine 0"):
        cell.machines.set_capacity(0, capacity, 0, "ada")
    assert len(cell.machines.all()) == 3


def test_a_shrink_names_its_evictions_or_is_refused(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2), job("b", count=2)], 0, "ada")
    member.place("a", (0, 2))
    member.place("b", (0, 2))
    a, b = (run.placement for run in cell.machines.runs([0]))
    before = numbers(cell)
    for evictions in ((), ((a, 1),), ((a, 1), (99, 9)), ((a, 1), (a, 0))):
        with pytest.raises(Refused, match="holds more"):
            cell.machines.set_capacity(0, (2, 8), 1, "ada", evictions)
    assert numbers(cell) == before
    assert cell.machines.set_capacity(0, (1, 8), 1, "ada", ((b, 1), (99, 1), (a, 2), (b, 2))) == 3
    assert [(run.job, run.tasks, run.leaving) for run in cell.machines.runs([0])] == [
        ("b", "0", False), ("b", "1", True), ("a", "0-1", True),
    ]  # fmt: skip
    assert numbers(cell)[0] == before[0] + 1
    assert cell.machines.all()[0].allocated == (1, 1)


def test_a_shrink_evicts_only_what_it_needs(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=4)], 0, "ada")
    member.place("a", (0, 4))
    assert cell.machines.set_capacity(0, (3, 8), 1, "ada", ((1, 4),)) == 1
    assert cell.machines.set_capacity(0, (3, 8), 1, "ada", ((1, 4),)) == 0, "sent again it does nothing"
    assert [fact.event[-1] for fact in cell.log.facts() if fact.event[0] == "evicted"] == ["over"]


def test_a_machine_that_came_back_smaller_is_over(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=4), job("b")], 0, "ada")
    member.place("a", (0, 4))
    cell.machines.join("e0", [MachineSpec("m0", (2, 8))], 1)
    assert cell.machines.all()[0].over
    assert member.place("b", (0, 1)).claims == ((0, Verdict.DOWN),)
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0-1")], 1, "e0")
    assert member.place("b", (0, 1)).claims == ((0, Verdict.FULL),)
    cell.machines.join("e0", [MachineSpec("m0", (1, 8))], 1)
    assert cell.machines.set_capacity(0, (1, 8), 1, "ada", ((1, 9),)) == 1, "repaired without another capacity"
    assert not cell.machines.all()[0].over


def test_states(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    member.place("a", (0, 1), (1, 1))
    assert cell.machines.set_state(0, MachineState.DRAINED, 1, "ada") == 0
    assert cell.machines.all()[0].allocated == (1, 1), "a drained machine keeps its tasks"
    assert member.place("a", (0, 1)).claims == ((0, Verdict.DOWN),)
    assert cell.machines.set_state(0, MachineState.UP, 1, "ada") == 0
    assert member.place("a", (0, 1)).accepted
    assert cell.machines.set_state(0, MachineState.DOWN, 1, "ada") == 2
    assert cell.machines.set_state(1, MachineState.GONE, 1, "ada") == 1
    assert [(m.name, m.state) for m in cell.machines.all()] == [("m0", MachineState.DOWN), ("m2", MachineState.UP)]
    assert cell.machines.set_state(1, MachineState.GONE, 1, "ada") == 0, "sent again"
    with pytest.raises(Refused, match="machine 1"):
        cell.machines.set_state(1, MachineState.UP, 1, "ada")
    with pytest.raises(Refused, match="machine 9"):
        cell.machines.set_capacity(9, (1, 1), 1, "ada")


def test_sent_again_nothing_changes(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 2))
    cell.machines.set_state(1, MachineState.DRAINED, 1, "ada")
    counters = cell.counters()
    cell.machines.join("e0", [MachineSpec("m0", (4, 8)), MachineSpec("m2", (4, 8))], 1)
    cell.machines.set_state(1, MachineState.DRAINED, 1, "ada")
    cell.machines.set_capacity(0, (4, 8), 1, "ada", ((1, 2),))
    assert cell.counters() == counters
    cell.machines.join("e0", [MachineSpec("m0", (4, 8), {"rack": "r2"})], 1)
    assert cell.counters()["version"] == counters["version"] + 1, "another attribute is a change"


def test_removed_and_added_again_is_another_machine(cell: AnyCell, member: Member) -> None:
    """No ABA: the number of a machine that comes back is above any that was seen of it."""
    cell.jobs.submit([job("a", count=9)], 0, "ada")
    seen = member.seen(0)
    claim = Transaction("a", (Claim(0, 0, 1, seen=seen),), detection=Detection.COARSE)
    member.place("a", (1, 1))
    cell.machines.set_state(0, MachineState.GONE, 1, "ada")
    assert cell.machines.join("e0", [MachineSpec("m0", (4, 8))], 2) == [0]
    assert member.seen(0) > max(seen + 1, cell.counters()["transactions"] - 1)
    assert member.transact(claim)[0].claims == ((0, Verdict.MOVED),)
    assert member.place("a", (0, 1), detection=Detection.COARSE).accepted


def test_a_new_machine_begins_above_every_transaction(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    for machine in range(3):
        member.place("a", (machine, 1))
    (index,) = cell.machines.join("e0", [MachineSpec("new", (1, 1))], 1)
    assert member.seen(index) == cell.counters()["transactions"]


def test_a_number_rises_by_one_per_transaction(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=12)], 0, "ada")
    before = numbers(cell)
    claims = (Claim(0, 0, 1), Claim(0, 0, 1), Claim(1, 0, 1))
    member.transact(Transaction("a", claims), Transaction("a", claims[:1]), Transaction("a", (Claim(2, 0, 99),)))
    assert numbers(cell) == [before[0] + 2, before[1] + 1, before[2] + 1]
    placed = [(run.machine, run.placement) for run in cell.machines.runs([0, 1, 2])]
    cell.executors.end([TaskEnd(machine, run, EndKind.FINISHED) for machine, run in placed], 1, "e0")
    assert numbers(cell) == [before[0] + 3, before[1] + 2, before[2] + 2]


# Attributes


def test_attributes_are_changed_one_by_one(cell: AnyCell) -> None:
    cell.machines.join("e0", [MachineSpec("n", (1, 2), {"rack": "r1", "gpu": "yes"})], 1)
    number, version = numbers(cell)[3], cell.counters()["version"]
    cell.machines.set_attributes(3, {"rack": "r2", "gpu": None, "zone": "a"}, 5, "ada")
    assert cell.machines.all()[3].attributes == {"rack": "r2", "zone": "a"}
    assert (numbers(cell)[3], cell.counters()["version"]) == (number + 1, version + 1)
    (fact,) = cell.log.facts(version)
    assert (fact.by, fact.event[:4]) == ("ada", ("machine", "3", "attributes", "2"))
    cell.machines.set_attributes(3, {"rack": "r2", "gpu": None}, 6, "ada")
    assert cell.counters()["version"] == version + 1, "what it has already changes nothing"
    with pytest.raises(Refused, match="machine 9: not in cell"):
        cell.machines.set_attributes(9, {"rack": "r1"}, 7, "ada")
    assert verify(cell).ok


@pytest.mark.parametrize("how", ["set", "join"])
def test_a_copy_notices_other_attributes_whatever_else_happens_on_the_machine(
    cell: AnyCell, member: Member, how: str
) -> None:
    snapshot = ArraySnapshot(2)
    snapshot.apply(cell.schedulers.sync(Position()))
    snapshot.describe([0, 1, 2], cell.machines.described([0, 1, 2]))
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    member.place("a", (0, 1), (1, 1))
    if how == "set":
        cell.machines.set_attributes(1, {"rack": "r1"}, 5, "ada")
    else:
        cell.executors.register("e0", "n", 600_000, 0)
        cell.machines.join("e0", [MachineSpec("m1", (4, 8), {"rack": "r1"})], 5)
    member.place("a", (1, 1))
    snapshot.apply(cell.schedulers.sync(snapshot.position))
    assert snapshot.attributes.wanting(snapshot.rows[2]).tolist() == [1]
    assert snapshot.room[0].tolist() == [3, 2, 4], "the machine takes tasks as before"
