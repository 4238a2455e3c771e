"""What the twin offers beyond the port: options for the simulator, and no clock, no dice."""

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import LARGEST, Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Outcome, Position, Transaction, Verdict


def busy(cell: MemoryCell, tasks: int = 4) -> list[int]:
    """Place some tasks of a job on two machines; returns the sequence numbers afterwards."""
    size = len(cell.dimensions)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (100,) * size) for i in range(2)], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1,) * size, tasks),))], 0, "ada")
    claims = tuple(Claim(i % 2, 0, 1) for i in range(tasks))
    reply = cell.schedulers.commit(
        CommitRequest(cell.schedulers.register("batch/0", "n", 1, 0), 1, [Transaction("a", claims)], Position(), 0)
    )
    assert reply.outcomes == [Outcome(((1, Verdict.PLACED),) * tasks)]
    return [m.number for m in cell.machines.all()]


def endings(cell: MemoryCell) -> list[TaskEnd]:
    return [TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in cell.machines.runs([0, 1])]


@pytest.mark.parametrize("how", [EndKind.FINISHED, EndKind.FAILED])
def test_ends_that_leave_the_number_alone(how: EndKind) -> None:
    """The authors' simulator counts placements only; figures are compared with it."""
    cell = MemoryCell(release_moves_number=False)
    before, position = busy(cell), cell.schedulers.sync(Position()).position
    cell.executors.end([ending._replace(how=how) for ending in endings(cell)], 1, "e0")
    assert [m.number for m in cell.machines.all()] == before
    assert cell.schedulers.sync(position).rows[:, 6:].tolist() == [[0, 0], [0, 0]], (
        "the copies learn of it all the same"
    )
    usual = MemoryCell()
    before = busy(usual)
    usual.executors.end([ending._replace(how=how) for ending in endings(usual)], 1, "e0")
    assert [m.number for m in usual.machines.all()] == [number + 1 for number in before]


def test_without_log_and_mailboxes() -> None:
    quiet, loud = MemoryCell(log=False, mailboxes=False), MemoryCell()
    for cell in (quiet, loud):
        busy(cell)
        cell.executors.end(endings(cell)[:3], 1, "e0")
        cell.machines.set_state(0, MachineState.DRAINED, 1, "ada")
    assert (quiet.log.facts(), quiet.executors.receive(1)) == ([], [])
    assert (len(loud.log.facts()), len(loud.executors.receive(1))) == (13, 4)
    assert quiet.machines.all() == loud.machines.all()
    assert quiet.jobs.all() == loud.jobs.all()
    assert quiet.counters() == loud.counters()
    seen = quiet.log.changed_records(0)
    assert (seen.first, seen.length, seen.seen) == (quiet.version + 1, 0, quiet.version)


def test_every_position_kept_gives_what_a_full_read_gives() -> None:
    cell = MemoryCell()
    cell.changes_kept = 4
    size = len(cell.dimensions)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (100,) * size) for i in range(3)], 0)
    copies: list[tuple[Position, dict[int, list[int]]]] = []
    kept = []
    for i in range(40):
        full = cell.schedulers.sync(Position())
        now = {row[0]: row for row in full.rows.tolist()}
        copies.append((full.position, now))
        answers = [(position, known, cell.schedulers.sync(position)) for position, known in copies]
        for _, known, reply in answers:
            rows = {row[0]: row for row in reply.rows.tolist()}
            assert (rows if reply.full else known | rows) == now
        deltas = [position.version for position, _, reply in answers if not reply.full]
        assert deltas == list(range(deltas[0], cell.version + 1))
        kept.append(cell.version - deltas[0])
        cell.machines.set_attributes(i % 3, {"turn": str(i)}, i, "ada")
    assert (max(kept), min(kept[8:])) == (7, 3), "four to eight versions are kept, that of the position among them"


def test_two_cells_with_the_same_calls_are_the_same() -> None:
    first, second = MemoryCell(), MemoryCell()
    assert busy(first) == busy(second)
    assert first.log.facts() == second.log.facts()
    assert first.schedulers.sync(Position()).position == second.schedulers.sync(Position()).position


@pytest.mark.parametrize("size", [1, 2, 3, 12])
def test_any_number_of_dimensions(size: int) -> None:
    cell = MemoryCell("c", Dimensions(tuple(f"r{i}" for i in range(size))))
    busy(cell, 6)
    assert [m.allocated for m in cell.machines.all()] == [(3,) * size] * 2
    assert cell.schedulers.sync(Position()).rows.shape == (2, 4 + 2 * size)
    assert cell.pools.kinds()["batch"].used == (6,) * size


def test_one_dimension_overdrawn_does_not_borrow_from_the_next() -> None:
    """All amounts stand in one integer; each has a guard of its own."""
    cell = MemoryCell()
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (0, LARGEST)), MachineSpec("m1", (LARGEST, 0))], 0)
    groups = (TaskGroup((1, 0), 9), TaskGroup((0, LARGEST), 9), TaskGroup((LARGEST, 0), 9))
    cell.jobs.submit([JobSpec("a", "a", "batch", groups)], 0, "ada")
    claims = tuple(Claim(machine, group, 2) for machine in (0, 1) for group in (0, 1, 2))
    reply = cell.schedulers.commit(
        CommitRequest(cell.schedulers.register("batch/0", "n", 1, 0), 1, [Transaction("a", claims)], Position(), 0)
    )
    placed = [count for count, _ in reply.outcomes[0].claims]
    assert placed == [0, 1, 0, 2, 0, 0]
    assert [m.allocated for m in cell.machines.all()] == [(0, LARGEST), (2, 0)]


def test_a_claim_of_more_tasks_than_a_field_holds() -> None:
    """Amounts times tasks may pass the 64 bits of a field; validation must not."""
    cell = MemoryCell()
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (LARGEST, LARGEST))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((LARGEST // 2, 1), 100),))], 0, "ada")
    membership = cell.schedulers.register("batch/0", "n", 1, 0)
    for number, mode in enumerate(Mode, 1):
        claim = Transaction("a", (Claim(0, 0, 10**9),), mode)
        reply = cell.schedulers.commit(CommitRequest(membership, number, [claim], Position(), 0))
        assert reply.outcomes[0].claims == ((2 - 2 * mode, Verdict.FULL),)
        cell.executors.end([TaskEnd(0, 1, EndKind.LOST)], 1, "e0")
    assert cell.machines.all()[0].allocated == (0, 0)


def test_a_machine_or_group_that_cannot_be() -> None:
    cell = MemoryCell()
    busy(cell, 2)
    cell.jobs.submit([JobSpec("b", "b", "batch", (TaskGroup((1, 1), 9),))], 0, "ada")
    claims = (Claim(-1, 0, 1), Claim(0, -1, 1), Claim(2, 0, 1), Claim(0, 1, 1))
    membership = cell.schedulers.register("batch/0", "n", 1, 0)
    for number, claim in enumerate(claims, 2):
        reply = cell.schedulers.commit(CommitRequest(membership, number, [Transaction("b", (claim,))], Position(), 0))
        assert reply.outcomes[0].claims == ((0, Verdict.UNKNOWN),)
    assert (
        cell.executors.end(
            [TaskEnd(-1, 1, EndKind.FINISHED), TaskEnd(0, -1, EndKind.FINISHED), TaskEnd(0, -1, EndKind.LOST)], 1, "e"
        )
        == [0] * 3
    )
    assert cell.executors.may_start([(0, -1), (-1, 1)]) == ["gone", "gone"]
