"""Sums of a cell that the store keeps: machines by shape, jobs and tasks by state (cellstate/pages.py)."""

import pytest

from omega.cellstate.model import After, JobState, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pages import CellSums, Counts, Shape
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Transaction
from omega.cellstate.verify import verify
from omega.queries.cells import describe
from omega.queries.job_state import job_counts, state
from omega.queries.jobs import keep
from omega.queries.recent import Recently
from tests.contract.conftest import AnyCell, Make, Member, job


def counted(cell: AnyCell) -> CellSums:
    """The sums, which the audit and a reading of all records confirm."""
    sums, heads = cell.sums(), cell.jobs.heads()
    assert verify(cell).violations == ()
    for name in ("placed", "unplaced"):
        assert getattr(sums.tasks, name) == sum(getattr(head.counts, name) for head in heads)
    assert sums.delayed == sum(head.delayed for head in heads)
    machines = cell.machines.all()
    assert sum(sums.shapes.values()) == len(machines)
    assert sums.over == sum(machine.over for machine in machines)
    return sums


def jobs(sums: CellSums) -> dict[str, int]:
    return {word: count for word, count in sums.jobs.items() if count}


def test_jobs_and_tasks_are_counted_by_state(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=4), job("b", count=2), job("c", count=3)], 0, "ada")
    cell.jobs.submit([job("h", count=5)], 0, "ada", held=True)
    assert jobs(counted(cell)) == {"pending": 3, "held": 1}
    member.place("a", (0, 2), (1, 1))
    member.place("b", (0, 1), (1, 1))
    assert jobs(counted(cell)) == {"pending": 1, "running": 2, "held": 1}
    first, second = (run for run, _, _ in cell.jobs.by_id(["b"])["b"].groups[0].runs)
    cell.executors.end(
        [TaskEnd(0, first, EndKind.FINISHED), TaskEnd(1, second, EndKind.FAILED, "*", "exit 3")], 1, "e0"
    )
    assert jobs(counted(cell)) == {"pending": 1, "running": 1, "held": 1, "failed": 1}
    cell.jobs.hold("a", 1, "ada")
    assert jobs(counted(cell)) == {"pending": 1, "held": 2, "failed": 1}
    cell.jobs.release("a", 1, "ada")
    cell.jobs.stop("a", 1, "ada")
    cell.jobs.stop("c", 1, "ada", JobState.ABANDONED)
    sums = counted(cell)
    assert jobs(sums) == {"held": 1, "failed": 1, "stopped": 1, "abandoned": 1}
    assert sums.tasks == Counts(total=14, unplaced=5, placed=3, finished=1, failed=1, stopped=4)
    cell.jobs.resize("h", {0: 2}, 1, "ada")
    assert counted(cell).tasks.total == 11


def updated(cell: AnyCell, member: Member, kind: str, first: tuple[EndKind, ...], later: EndKind | None) -> None:
    """A job of three tasks, some of which ended, whose others a new version replaced; its two new tasks finish.

    `later`: how the last old task ends, after the update began; None: the update stops it.
    """
    cell.jobs.submit([job("a", count=3, kind=kind), job("z", count=1, after=(After("a"),))], 0, "ada")
    member.place("a", (0, 1), (1, 1), (2, 1))
    runs = [(machine, run) for run, machine, _ in cell.jobs.by_id(["a"])["a"].groups[0].runs]
    cell.executors.end([TaskEnd(*run, how, "*", "exit 3") for run, how in zip(runs, first, strict=False)], 1, "e0")
    spec = {"groups": [{}, {"name": "new"}], "targets": [[1, 2, [0], 0]]}
    cell.jobs.update("a", [TaskGroup((1, 1), 2)], spec, 2, "ada")
    assert counted(cell).tasks == Counts(**{WORDS.get(word, word): n for word, n in both(cell).items()})
    cell.jobs.resize("a", {1: 2}, 2, "batch/0")
    ended = len(first)
    if later is not None:
        cell.executors.end([TaskEnd(*runs[-1], later, "*", "exit 3")], 3, "e0")
        ended += 1
    cell.jobs.resize("a", {0: ended}, 4, "batch/0")
    assert member.transact(Transaction("a", (Claim(0, 1, 2),)))[0].accepted
    (new,) = cell.jobs.by_id(["a"])["a"].groups[1].runs
    cell.executors.end([TaskEnd(0, new[0], EndKind.FINISHED)], 5, "e0")


WORDS = {"pending": "unplaced"}


def both(cell: AnyCell) -> dict[str, int]:
    """The counts of jobs a and z together, as documents have them."""
    found = [job_counts(each) for each in cell.jobs.by_id(["a", "z"]).values()]
    return {word: sum(each[word] for each in found) for word in found[0]}


@pytest.mark.parametrize("later", [None, EndKind.FAILED], ids=["stopped", "failed"])
@pytest.mark.parametrize("kind", ["batch", "service"])
def test_failures_of_a_replaced_version_are_not_those_of_its_job(
    cell: AnyCell, member: Member, kind: str, later: EndKind | None
) -> None:
    """The job finished by its document; the filters, the sums and the job that waits for it say so too."""
    first = (EndKind.FAILED,) if later is None else (EndKind.FAILED, EndKind.FINISHED)
    updated(cell, member, kind, first, later)
    ended = cell.jobs.by_id(["a"])["a"]
    kept = 0 if kind == "service" or later is None else 1
    assert (state(ended), job_counts(ended)["failed"], job_counts(ended)["finished"]) == ("finished", 0, 2 + kept)
    assert [each.id for each in cell.jobs.page(keep=keep(None, "finished")).jobs] == ["a"]
    assert cell.jobs.page(keep=keep(None, "failed")).jobs == []
    sums = counted(cell)
    assert jobs(sums) == {"finished": 1, "pending": 1}, "and the job that waited for its end is released"
    assert sums.tasks == Counts(**{WORDS.get(word, word): n for word, n in both(cell).items()})


def test_failures_of_the_present_version_are_those_of_its_job(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=1), job("z", count=1, after=(After("a"),))], 0, "ada")
    cell.jobs.update("a", [TaskGroup((1, 1), 1)], {"groups": [{}, {}], "targets": [[1, 1, [0], 0]]}, 2, "ada")
    cell.jobs.resize("a", {0: 0, 1: 1}, 4, "batch/0")
    member.transact(Transaction("a", (Claim(0, 1, 1),)))
    cell.executors.end(
        [TaskEnd(0, cell.jobs.by_id(["a"])["a"].groups[1].runs[0][0], EndKind.FAILED, "*", "exit 3")], 5, "e0"
    )
    assert jobs(counted(cell)) == {"failed": 1, "stopped": 1}


def test_what_the_cell_wants_is_without_delayed_tasks_in_number_and_amounts(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", need=(1, 2), count=3)], 0, "ada")
    member.place("a", (0, 2))
    (run,) = (run for run, _, _ in cell.jobs.by_id(["a"])["a"].groups[0].runs)
    cell.executors.end([TaskEnd(0, run, EndKind.LOST, "1", "agent")], cell.store_ms(), "e0")
    sums = counted(cell)
    assert (sums.tasks.unplaced, sums.delayed, sums.wanted) == (2, 1, (1, 2))
    demand = describe(cell, {}, Recently())["demand"]
    assert demand == {"tasks": 1, "delayed": 1, **dict(zip(cell.dimensions.names, (1, 2), strict=True))}
    cell.jobs.stop("a", 1, "ada")
    assert (counted(cell).delayed, cell.sums().wanted) == (0, (0, 0))


def test_jobs_that_are_no_longer_kept_stay_in_the_sums(make: Make) -> None:
    cell = make(keep_jobs=1).cell
    cell.executors.register("x", "n", 60_000, 0)
    cell.machines.join("x", [MachineSpec("m0", (4, 8))], 0)
    member = Member(cell)
    for number in range(4):
        cell.jobs.submit([job(f"j{number}", count=1)], 0, "ada")
        member.place(f"j{number}", (0, 1))
        run = cell.jobs.by_id([f"j{number}"])[f"j{number}"].groups[0].runs[0][0]
        cell.executors.end([TaskEnd(0, run, EndKind.FINISHED)], 1, "x")
    sums = counted(cell)
    assert (sums.stored, jobs(sums), sums.tasks.finished) == (1, {"finished": 4}, 4)
    assert cell.jobs.newest_ids(10) == ["j3"]


def test_machines_are_counted_by_shape(make: Make) -> None:
    cell = make(Dimensions(("cpu",))).cell
    cell.executors.register("x", "n", 60_000, 0)
    cell.machines.join("x", [MachineSpec("big", (8,)), MachineSpec("small", (2,))], 0)
    before = counted(cell).shapes
    big = cell.machines.index_of("big")
    assert big is not None
    simulated = next(shape.simulated for shape in before if shape.capacity == (8,))
    assert before[Shape(MachineState.UP, simulated, (8,))] >= 1
    cell.machines.set_state(big, MachineState.DRAINED, 1, "ada")
    assert counted(cell).shapes[Shape(MachineState.DRAINED, simulated, (8,))] == 1
    cell.machines.set_state(big, MachineState.GONE, 1, "ada")
    assert sum(counted(cell).shapes.values()) == sum(before.values()) - 1
    cell.machines.join("x", [MachineSpec("big", (8,))], 1)
    cell.jobs.submit([job("wide", count=8, need=(1,))], 0, "ada")
    Member(cell).place("wide", (big, 8))
    cell.machines.join("x", [MachineSpec("big", (4,))], 2)
    assert counted(cell).over == 1


def test_a_page_of_the_newest_jobs_begins_where_the_last_one_ended(cell: AnyCell) -> None:
    cell.jobs.submit([job(f"j{number}") for number in range(7)], 0, "ada")
    first = cell.jobs.page(3)
    assert ([each.id for each in first.jobs], first.total, first.left) == (["j4", "j5", "j6"], 7, 4)
    second = cell.jobs.page(3, first.before)
    assert ([each.id for each in second.jobs], second.total, second.left) == (["j1", "j2", "j3"], 7, 1)
    last = cell.jobs.page(3, second.before)
    assert ([each.id for each in last.jobs], last.before, last.left) == (["j0"], None, 0)
    assert cell.jobs.newest_ids(2) == ["j6", "j5"]
