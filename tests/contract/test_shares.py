"""What an assertion counts: every lane of its pools at the commit, whatever lanes its sender knew (semantics 33)."""

from math import inf

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.fairness import Assertion, Floor, Threshold
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Position, Transaction, Verdict
from tests.contract.conftest import Make, Member


def prepared(cell: MemoryCell | RedisCell) -> Member:
    """Pool b holds eight slots; a job of pool a waits, and holds none."""
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (8, 0))], 0)
    submit(cell, "b1", "b", 8)
    submit(cell, "a1", "a", 8)
    member = Member(cell)
    assert member.place("b1", (0, 8)).accepted
    return member


def submit(cell: MemoryCell | RedisCell, name: str, pool: str, tasks: int, user: str = "u") -> None:
    extra = {"pool": pool, "user": user}
    cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1, 0), tasks),), 20, spec=extra)], 0, "ada")


def attempt(member: Member, count: int, serial: int, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, Verdict]:
    assertion = Assertion(Threshold(("a",), (4.0, 0.0), a), (Threshold(("b",), (4.0, 0.0), b),), serial)
    claim = Claim(0, 0, count, seen=member.seen(0), evict=((1, 8),))
    return member.transact(Transaction("a1", (claim,), assertion=assertion))[0].claims[0]


@pytest.mark.parametrize(("serial", "lanes"), [(2, ((2,), (1,))), (0, ((), ())), (1, ((), (1,)))])
def test_all_lanes_count(make: Make, serial: int, lanes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    member = prepared(make().cell)
    assert attempt(member, 8, serial, *lanes) == (4, Verdict.SHARE)


def test_lanes_that_came_later_count(make: Make) -> None:
    cell = make().cell
    member = prepared(cell)
    submit(cell, "a2", "a", 3, user="somebody else")
    assert attempt(member, 1, 2, (2,), (1,)) == (1, Verdict.PLACED)
    claim = Claim(0, 0, 3, seen=0, evict=((1, 3),))
    assertion = Assertion(Threshold(("a",), (4.0, 0.0), (2,)), (Threshold(("b",), (4.0, 0.0), (1,)),), 2)
    assert member.transact(Transaction("a2", (claim,), Mode.GANG, assertion=assertion))[0].accepted
    assert attempt(member, 1, 2, (2,), (1,)) == (0, Verdict.SHARE), "its pool holds four, three of them in a new lane"


def test_a_lane_of_another_pool_does_not_count(make: Make) -> None:
    cell = make().cell
    member = prepared(cell)
    assert attempt(member, 8, 2, (2, 1, 7), (1,)) == (4, Verdict.SHARE), "lane 1 is of pool b, and there is no lane 7"


def evicting(member: Member, precedence: int, pool: str) -> Verdict:
    """Let a job of a pool evict a task of b1 by precedence alone; returns the verdict."""
    name = f"{pool}{precedence}"
    extra = {"pool": pool, "user": "u"}
    job = JobSpec(name, name, "service", (TaskGroup((1, 0), 1),), precedence, spec=extra)
    member.cell.jobs.submit([job], 0, "ada")
    return member.transact(Transaction(name, (Claim(0, 0, 1, seen=0, evict=((1, 8),)),)))[0].claims[0][1]


def test_with_pools_precedence_decides_within_a_pool_and_for_operators(make: Make) -> None:
    cell = make().cell
    member = prepared(cell)
    assert evicting(member, 30, "a") is Verdict.PLACED, "a cell without configured pools keeps rule 7"
    cell.pools.set(Pools((Pool("a"), Pool("b"))), cell.pools.get().version, 0, "ada")
    assert evicting(member, 31, "a") is Verdict.SHARE
    assert evicting(member, 31, "b") is Verdict.PLACED
    assert evicting(member, 20, "b") is Verdict.PRECEDENCE
    trees = (PoolTree(operators_from=90),)
    cell.pools.set(Pools((Pool("a"), Pool("b")), trees), cell.pools.get().version, 0, "ada")
    assert evicting(member, 89, "a") is Verdict.SHARE
    assert evicting(member, 90, "a") is Verdict.PLACED
    cell.pools.set(Pools((Pool("a"), Pool("b")), (PoolTree(),)), cell.pools.get().version, 0, "ada")
    assert evicting(member, 91, "a") is Verdict.SHARE


def of_job(member: Member, evictor: str, share: float, floor: Floor, tasks: int, *victims: int) -> tuple[int, Verdict]:
    """Let a job evict tasks of b1 by its own share and the victim's floor."""
    assertion = Assertion(Threshold((), (share, 0.0), job=evictor), (), 9, (floor,))
    claim = Claim(0, 0, tasks, seen=0, evict=tuple((each, 8) for each in victims or (1,)))
    return member.transact(Transaction(evictor, (claim,), assertion=assertion))[0].claims[0]


def test_within_a_pool_a_job_takes_what_another_holds_above_its_floor(make: Make) -> None:
    cell = make().cell
    member = prepared(cell)
    submit(cell, "b2", "b", 8)
    cell.pools.set(Pools((Pool("a"), Pool("b"))), cell.pools.get().version, 0, "ada")
    assert of_job(member, "b2", 4.0, Floor("b1", (8.0, inf)), 1) == (0, Verdict.SHARE)
    assert of_job(member, "b2", 4.0, Floor("b1", (6.0, inf)), 8) == (2, Verdict.SHARE), "b1 keeps six"
    assert of_job(member, "b2", 2.0, Floor("b1", (0.0, inf)), 8) == (0, Verdict.SHARE), "b2 has its share"
    assert of_job(member, "b2", 4.0, Floor("b1", (9.0, 0.0)), 1) == (1, Verdict.PLACED), "it keeps one resource"
    assert of_job(member, "b2", 4.0, Floor("b1", (9.0, 0.0), every=True), 1) == (0, Verdict.SHARE)
    assert of_job(member, "b2", 4.0, Floor("a1", (0.0, 0.0)), 1) == (0, Verdict.PRECEDENCE), "no floor of the victim"


def test_a_floor_covers_no_higher_precedence_within_a_pool(make: Make) -> None:
    cell = make().cell
    member = prepared(cell)
    cell.pools.set(Pools((Pool("a"), Pool("b"))), cell.pools.get().version, 0, "ada")
    low = JobSpec("low", "low", "batch", (TaskGroup((1, 0), 2),), 19, spec={"pool": "b", "user": "u"})
    cell.jobs.submit([low], 0, "ada")
    floor = Floor("b1", (0.0, inf))
    assert of_job(member, "low", 4.0, floor, 1) == (0, Verdict.PRECEDENCE)
    assert of_job(member, "a1", 4.0, floor, 1) == (1, Verdict.PLACED), "across pools precedence does not count"


def test_a_gang_takes_from_floors_as_one_set(make: Make) -> None:
    cell = make().cell
    member = prepared(cell)
    gang = JobSpec("g", "g", "batch", (TaskGroup((1, 0), 4),), 20, Gang.YES, {"pool": "b", "user": "u"})
    cell.jobs.submit([gang], 0, "ada")
    for least, placed in ((5.0, 0), (4.0, 4)):
        assertion = Assertion(Threshold((), (4.0, 0.0), job="g"), (), 9, (Floor("b1", (least, inf)),))
        claim = Claim(0, 0, 4, seen=0, evict=((1, 8),))
        outcome = member.transact(Transaction("g", (claim,), Mode.GANG, assertion=assertion))[0]
        assert outcome.placed == placed


def test_a_lane_that_was_empty_at_the_sync_counts(make: Make) -> None:
    """The lane of a lost, delayed task holds and wants nothing at the sync; then its job grows and is placed."""
    cell = make().cell
    member = prepared(cell)
    submit(cell, "a2", "a", 1, user="z")
    snapshot = ArraySnapshot(2)
    snapshot.apply(cell.schedulers.sync(Position()))
    snapshot.lanes.learn(cell.schedulers.lanes(snapshot.lanes.unknown()))
    assert member.place("a2", (0, 1), evict=((1, 1),)).placed == 0, "no precedence"
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0")], 0, "e0")
    assert member.place("a2", (0, 1)).accepted
    cell.executors.end([TaskEnd(0, 2, EndKind.LOST)], 0, "e0")
    snapshot.apply(cell.schedulers.sync(snapshot.position))
    known, serial = snapshot.lanes.by_leaf(), snapshot.lanes.complete_to
    assert known == {"a": [2, 3], "b": [1]}
    cell.jobs.resize("a2", {0: 5}, 0, "ada")
    floor = Assertion(Threshold(("a",), (4.0, 0.0), (2, 3)), (Threshold(("b",), (3.0, 0.0), (1,)),), serial)
    claim = Claim(0, 0, 4, seen=0, evict=((1, 8),))
    assert member.transact(Transaction("a2", (claim,), assertion=floor))[0].accepted, "one on free room, three evict"
    assertion = Assertion(
        Threshold(("a",), (4.0, 0.0), tuple(known["a"])), (Threshold(("b",), (0.0, 0.0), (1,)),), serial
    )
    claim = Claim(0, 0, 1, seen=0, evict=((1, 8),))
    outcome = member.transact(Transaction("a1", (claim,), assertion=assertion))[0]
    assert outcome.claims == ((0, Verdict.SHARE),), "its pool holds four in the lane that was empty"
