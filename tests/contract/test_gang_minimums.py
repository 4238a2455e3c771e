"""Gangs with a minimum (semantics 8): what one transaction must place, what evictions and losses leave."""

import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import MOST_CLAIMS, Gang
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Mode, Outcome, Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Make, Member, job, requeue_lost


def placed(cell: AnyCell, job_id: str = "a") -> int:
    found = cell.jobs.get(job_id)
    assert found is not None
    return found.placed


def end(cell: AnyCell, tasks: str, how: EndKind, *, reason: str = "") -> int:
    """End these tasks of the job's first group, wherever they run."""
    runs = [run for run in cell.machines.runs([0, 1, 2]) if run.job == "a" and not run.leaving]
    return sum(cell.executors.end([TaskEnd(run.machine, run.placement, how, tasks, reason) for run in runs], 1, "e0"))


def evict(cell: AnyCell, tasks: str) -> int:
    return end(cell, tasks, EndKind.EVICTED, reason="drain")


def start(cell: AnyCell, member: Member, total: int = 6, least: int = 4, gang: Gang = Gang.YES) -> None:
    """Start all tasks of a gang, on two machines."""
    cell.jobs.submit([job("a", count=total, gang=gang, gang_min=least)], 0, "ada")
    assert member.place("a", (0, 3), (1, total - 3), mode=Mode.GANG).accepted


def incomplete(outcome: Outcome) -> bool:
    return {verdict for _, verdict in outcome.claims} == {Verdict.INCOMPLETE}


def test_the_minimum_is_stored_and_part_of_the_job(cell: AnyCell) -> None:
    spec = job("a", count=6, gang=Gang.STRICT, gang_min=4)
    assert [each.status for each in cell.jobs.submit([spec], 0, "ada")] == ["new"]
    assert [each.status for each in cell.jobs.submit([spec], 0, "ada")] == ["same"]
    assert [each.status for each in cell.jobs.submit([job("a", count=6, gang=Gang.STRICT, gang_min=3)], 0, "ada")] != [
        "same"
    ]
    found = cell.jobs.get("a")
    assert found is not None
    assert (found.gang, found.gang_min, found.lacks, found.whole) == (Gang.STRICT, 4, 4, False)


def test_tasks_beyond_the_minimum_are_placed_one_by_one(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=6, gang=Gang.YES, gang_min=4)], 0, "ada")
    assert incomplete(member.place("a", (0, 4)))
    assert incomplete(member.place("a", (0, 3), mode=Mode.GANG))
    assert member.place("a", (0, 4), mode=Mode.GANG).accepted
    assert member.place("a", (1, 1)).accepted
    assert member.place("a", (1, 1)).accepted
    assert verify(cell).ok


def test_an_eviction_leaves_the_rest_which_gets_back_what_it_lacks_at_once(cell: AnyCell, member: Member) -> None:
    start(cell, member)
    assert evict(cell, "0-2") == 3
    assert placed(cell) == 3
    assert incomplete(member.place("a", (2, 1)))
    assert member.place("a", (2, 1), mode=Mode.GANG).accepted
    assert member.place("a", (2, 1)).accepted, "it is not below its minimum any more"
    assert verify(cell).ok


@pytest.mark.parametrize(("gone", "left"), [("0", 5), ("0-1", 4), ("0-2", 0), ("0-1,5", 0)])
def test_evictions_that_leave_too_few_of_a_strict_one_evict_the_rest(
    cell: AnyCell, member: Member, gone: str, left: int
) -> None:
    start(cell, member, gang=Gang.STRICT)
    assert evict(cell, gone) > 0
    assert placed(cell) == left
    assert verify(cell).ok


def test_a_strict_one_loses_nothing_more_with_finished_or_lost_tasks(cell: AnyCell, member: Member) -> None:
    start(cell, member, gang=Gang.STRICT)
    assert end(cell, "0-1", EndKind.FINISHED) == 2
    assert end(cell, "2", EndKind.LOST) == 1
    assert placed(cell) == 3
    assert verify(cell).ok


def test_all_that_are_left_are_fewer_than_the_minimum(cell: AnyCell, member: Member) -> None:
    start(cell, member)
    assert end(cell, "0-3", EndKind.FINISHED) == 4
    assert evict(cell, "4-5") == 2
    assert incomplete(member.place("a", (2, 1), mode=Mode.GANG)), "two of its tasks have not ended"
    assert member.place("a", (2, 2), mode=Mode.GANG).accepted
    assert verify(cell).ok


def test_delayed_tasks_do_not_hold_back_those_beyond_the_minimum(cell: AnyCell, member: Member) -> None:
    start(cell, member)
    assert evict(cell, "5") == 1
    assert end(cell, "4", EndKind.LOST) == 1
    found = cell.jobs.get("a")
    assert found is not None
    assert found.pending
    assert member.place("a", (2, 1)).accepted
    assert verify(cell).ok
    assert requeue_lost(cell) == 1
    assert member.place("a", (2, 1)).accepted


def test_it_waits_for_delayed_tasks_of_its_minimum(cell: AnyCell, member: Member) -> None:
    start(cell, member)
    assert evict(cell, "5") == 1
    assert end(cell, "0-2", EndKind.LOST) == 3
    assert incomplete(member.place("a", (2, 1), mode=Mode.GANG)), "it lacks two, and one may be placed"
    assert requeue_lost(cell) == 3
    assert member.place("a", (2, 2), mode=Mode.GANG).accepted
    assert verify(cell).ok


def test_a_resize_changes_what_it_lacks(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=6, gang=Gang.YES, gang_min=4)], 0, "ada")
    cell.jobs.resize("a", {0: 2}, 0, "ada")
    assert incomplete(member.place("a", (0, 1), mode=Mode.GANG))
    assert member.place("a", (0, 2), mode=Mode.GANG).accepted
    cell.jobs.resize("a", {0: 5}, 0, "ada")
    assert incomplete(member.place("a", (0, 1), mode=Mode.GANG)), "it lacks two again"
    assert member.place("a", (0, 2), mode=Mode.GANG).accepted
    assert member.place("a", (1, 1)).accepted
    assert verify(cell).ok


def test_only_the_minimum_has_to_fit_a_transaction(make: Make) -> None:
    cell = make().cell
    cell.jobs.submit([job("a", count=MOST_CLAIMS + 1, gang=Gang.YES, gang_min=MOST_CLAIMS)], 0, "ada")
    cell.jobs.resize("a", {0: 2 * MOST_CLAIMS}, 0, "ada")
    cell.jobs.submit([job("b", count=2, gang=Gang.YES)], 0, "ada")
    with pytest.raises(Refused):
        cell.jobs.resize("b", {0: 2 * MOST_CLAIMS}, 0, "ada")
    for total, least, gang, what in [
        (MOST_CLAIMS + 1, MOST_CLAIMS + 1, Gang.YES, "a gang of at least 5001 tasks; the most"),
        (5, 6, Gang.YES, "a gang of at least 6 tasks; want 1 to its 5"),
        (5, -1, Gang.YES, "a gang of at least -1 tasks"),
        (5, 3, Gang.NO, "gang_min 3 without a gang"),
    ]:
        with pytest.raises(BadInput, match=what):
            job("c", count=total, gang=gang, gang_min=least)
