"""Limits belong to a kind and are booked on its jobs, not on a process (semantics 9)."""

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import MOST_PRECEDENCE, Limits, MachineState
from omega.cellstate.replies import KindUse
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Verdict
from tests.contract.conftest import AnyCell, Member, Stand, job


def use(cell: AnyCell, kind: str = "batch") -> tuple[int, tuple[int, ...]]:
    found = cell.pools.kinds().get(kind)
    return (found.jobs, found.used) if found else (0, (0, 0))


def test_set_and_read_back(cell: AnyCell) -> None:
    none, some = Limits((None, None)), Limits((3, None), 0, (1, 2))
    assert cell.pools.kinds() == {}
    cell.pools.set_limits("batch", some, 0, "ada")
    cell.pools.set_limits("service", none, 0, "ada")
    assert cell.pools.kinds() == {"batch": KindUse(some, 0, (0, 0))}
    version = cell.counters()["version"]
    cell.pools.set_limits("batch", some, 1, "bob")
    assert cell.counters()["version"] == version, "the same limits change nothing"
    cell.pools.set_limits("batch", none, 1, "bob")
    assert cell.pools.kinds() == {}
    words = [fact.event for fact in cell.log.facts()][-2:]
    assert words == [("limit", "batch", "0", "1", "2", "3,-"), ("limit", "batch", "-", "-", "-", "-,-")]
    with pytest.raises(BadInput, match="kind batch"):
        cell.pools.set_limits("batch", Limits((1,)), 0, "ada")


def test_limits_count_what_ran_before_they_were_set(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (1, 2), 6), job("b", (1, 1), 4, precedence=9), job("c", kind="service")], 0, "ada")
    member.place("a", (0, 4), (1, 2))
    member.place("b", (2, 1))
    Member(cell, "service/0").place("c", (2, 1))
    assert use(cell) == (2, (7, 13))
    cell.pools.set_limits("batch", Limits((8, None)), 0, "ada")
    assert (use(cell), cell.counters()["limits"]) == ((2, (7, 13)), 1)
    assert member.place("b", (2, 3)).claims == ((1, Verdict.LIMIT),)
    cell.pools.set_limits("batch", Limits((None, None)), 1, "ada")
    assert (use(cell), cell.counters()["limits"]) == ((2, (8, 14)), 0)
    assert member.place("b", (1, 2)).placed == 2


def test_use_follows_every_sort_of_end(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (1, 2), 6), job("b", precedence=9)], 0, "ada")
    member.place("a", (0, 4), (1, 2))
    assert use(cell) == (1, (6, 12))
    cell.executors.end(
        [TaskEnd(0, 1, how, str(i)) for i, how in enumerate([EndKind.FINISHED, EndKind.STOPPED, EndKind.LOST])], 1, "e0"
    )
    assert use(cell) == (1, (3, 6))
    assert member.place("b", (0, 1), evict=((1, 1),)).accepted
    assert use(cell) == (2, (4, 7)), "it fitted without the eviction"
    cell.machines.set_state(0, MachineState.DOWN, 1, "ada")
    assert use(cell) == (1, (2, 4))
    cell.machines.set_capacity(1, (0, 0), 1, "ada", ((2, 2),))
    assert use(cell) == (0, (0, 0))


def test_an_owner_that_dies_leaks_nothing(stand: Stand, cell: AnyCell) -> None:
    cell.pools.set_limits("batch", Limits((3, None), 1), 0, "ada")
    cell.jobs.submit([job("a", count=4), job("b")], 0, "ada")
    first, second = Member(cell, "batch/0"), Member(cell, "batch/1")
    assert first.place("a", (0, 2)).accepted
    stand.expire_lease("batch/0")
    cell.schedulers.deregister(first.membership, 1, reaped=True)
    assert use(cell) == (1, (2, 2))
    assert second.place("b", (1, 1)).claims == ((0, Verdict.LIMIT),), "one job is admitted already"
    assert second.place("a", (1, 2)).claims == ((1, Verdict.LIMIT),)
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED), TaskEnd(1, 2, EndKind.FAILED)], 1, "e0")
    assert use(cell) == (0, (0, 0))
    assert second.place("b", (1, 1)).accepted


def test_the_kind_of_the_job_counts_not_of_the_scheduler(cell: AnyCell) -> None:
    cell.pools.set_limits("service", Limits((0, 0)), 0, "ada")
    cell.jobs.submit([job("a"), job("b", kind="service")], 0, "ada")
    service = Member(cell, "service/0")
    assert service.place("a", (0, 1)).accepted
    assert service.place("b", (0, 1)).claims == ((0, Verdict.LIMIT),)


def test_a_range_of_precedence_includes_its_ends(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job(f"j{p}", precedence=p) for p in (0, 1, 3, 4, MOST_PRECEDENCE)], 0, "ada")
    cell.pools.set_limits("batch", Limits((None, None), None, (1, 3)), 0, "ada")
    accepted = [p for p in (0, 1, 3, 4, MOST_PRECEDENCE) if member.place(f"j{p}", (0, 1)).accepted]
    assert accepted == [1, 3]
    cell.pools.set_limits("batch", Limits((None, None), None, (4, MOST_PRECEDENCE)), 0, "ada")
    assert member.place("j4", (1, 1)).accepted


def test_evictions_give_room_before_the_own_limit(cell: AnyCell, member: Member) -> None:
    cell.pools.set_limits("batch", Limits((4, None)), 0, "ada")
    cell.jobs.submit([job("low", count=4), job("high", (2, 2), 2, precedence=9)], 0, "ada")
    member.place("low", (0, 4))
    assert member.place("high", (0, 2), evict=((1, 4),)).accepted
    assert use(cell) == (1, (4, 4))


def test_a_limit_on_jobs_is_not_passed_by_a_failed_claim(cell: AnyCell, member: Member) -> None:
    cell.pools.set_limits("batch", Limits((None, None), 1), 0, "ada")
    cell.jobs.submit([job("wide", (9, 9)), job("a", count=2), job("b")], 0, "ada")
    assert member.place("wide", (0, 1)).claims == ((0, Verdict.FULL),)
    assert member.place("a", (0, 1), (1, 1)).accepted
    assert member.place("b", (0, 1)).claims == ((0, Verdict.LIMIT),)
