"""What pools do not lend of their guarantees stays free for them, whoever commits (docs/pools.md, Limits)."""

from omega.cellstate.model import JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, PoolTree
from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Member
from tests.contract.test_epochs import next_epoch
from tests.contract.test_pools import put

LIMIT = Verdict.LIMIT


def jobs(cell: AnyCell, **pools: str) -> None:
    for name, pool in pools.items():
        extra = {"pool": pool} if pool else {"user": "bob"}
        cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1, 0), 50),), spec=extra)], 0, "ada")


def big(cell: AnyCell, cpu: int) -> int:
    """Leave one machine of so many cores that is up; its index."""
    (index,) = cell.machines.join("e0", [MachineSpec("big", (cpu, 100))], 0)
    for machine in cell.machines.all():
        if machine.index != index:
            cell.machines.set_state(machine.index, MachineState.DRAINED, 0, "ada")
    return index


def publish(cell: AnyCell, at_ms: int) -> None:
    assert cell.pools.publish_epoch(next_epoch(cell, at_ms), 1_000, at_ms)


def sound(cell: AnyCell) -> None:
    if isinstance(cell, RedisCell):
        assert verify(cell).violations == ()


def test_other_pools_leave_free_what_a_pool_does_not_lend(cell: AnyCell, member: Member) -> None:
    m = big(cell, 12)
    put(cell, Pool("a", guarantee={"cpu": 6}, lending={"cpu": 2}), Pool("b"))
    jobs(cell, x="a", y="b", own="")
    publish(cell, 1_000)
    assert member.place("y", (m, 12)).claims == ((8, LIMIT),), "four are kept"
    assert member.place("own", (m, 1)).claims == ((0, LIMIT),), "by ephemeral pools as well"
    sound(cell)
    assert member.place("x", (m, 3)).accepted
    assert member.place("y", (m, 1)).claims == ((0, LIMIT),), "one is still kept"
    assert member.place("x", (m, 1)).accepted
    cell.executors.end([TaskEnd(m, 1, EndKind.FINISHED, "0-1")], 1, "e0")
    assert member.place("x", (m, 2)).accepted, "beyond what it keeps it takes what is free"
    cell.executors.end([TaskEnd(m, 2, EndKind.FINISHED, "*")], 1, "e0")
    assert member.place("y", (m, 5)).claims == ((2, LIMIT),), "8 of 12: a holds three, of which it keeps four"
    sound(cell)


def test_a_pool_and_one_above_it_keep_parts_of_the_same_room(cell: AnyCell, member: Member) -> None:
    m = big(cell, 20)
    top = Pool("top", guarantee={"cpu": 10}, lending={"cpu": 2})
    put(cell, top, Pool("l", "top", guarantee={"cpu": 6}, lending={"cpu": 1}), Pool("r", "top"), Pool("other"))
    jobs(cell, x="l", y="r", z="other")
    publish(cell, 1_000)
    assert member.place("z", (m, 20)).claims == ((12, LIMIT),), "top keeps eight, five of them for l"
    assert member.place("y", (m, 20)).claims == ((3, LIMIT),)
    assert member.place("x", (m, 20)).claims == ((5, LIMIT),), "all is occupied"
    sound(cell)


def test_victims_give_back_what_they_occupy(cell: AnyCell, member: Member) -> None:
    m = big(cell, 6)
    cell.machines.join("e0", [MachineSpec("kept", (4, 100))], 0)
    put(cell, Pool("a", guarantee={"cpu": 4}, lending={"cpu": 0}), Pool("b"))
    for name, precedence in (("low", 0), ("high", 5)):
        spec = JobSpec(name, name, "batch", (TaskGroup((1, 0), 9),), precedence, spec={"pool": "b"})
        cell.jobs.submit([spec], 0, "ada")
    publish(cell, 1_000)
    assert member.place("low", (m, 6)).accepted
    assert member.place("high", (m + 1, 2)).claims == ((0, LIMIT),)
    assert member.place("high", (m, 2), evict=((1, 2),)).accepted
    assert [group.placed for name in ("low", "high") for group in cell.jobs.by_id([name])[name].groups] == [4, 2]
    assert member.place("low", (m, 1)).claims == ((0, LIMIT),)
    sound(cell)


def test_what_a_tree_has_is_that_of_the_last_epoch(cell: AnyCell, member: Member) -> None:
    """Without an epoch since pools lend in part nothing is bounded; machines that leave count from the next one on."""
    m = big(cell, 10)
    pools = Pool("a", guarantee={"cpu": 4}, lending={"cpu": 0}), Pool("b")
    put(cell, *pools)
    jobs(cell, x="a", y="b")
    assert member.place("y", (m, 7)).accepted
    put(cell, *pools, Pool("c"))
    assert member.place("y", (m, 1)).accepted
    publish(cell, 1_000)
    assert member.place("y", (m, 1)).claims == ((0, LIMIT),), "over what a keeps already"
    assert member.place("x", (m, 2)).accepted, "its own part it takes"
    put(cell, *pools)
    assert member.place("y", (m, 1)).claims != ((1, Verdict.PLACED),), "known from the epoch before the change"
    cell.machines.join("e0", [MachineSpec("more", (5, 100))], 2)
    publish(cell, 2_000)
    assert member.place("y", (m + 1, 5)).claims == ((3, LIMIT),)
    put(cell, Pool("a", guarantee={"cpu": 4}), Pool("b"))
    assert member.place("y", (m + 1, 2)).accepted, "all of the guarantee may be lent"
    sound(cell)


def test_trees_keep_apart(cell: AnyCell, member: Member) -> None:
    m = big(cell, 10)
    cell.machines.set_attributes(m, {"gpu": "yes"}, 0, "ada")
    put(
        cell,
        Pool("a", guarantee={"cpu": 4}, lending={"cpu": 0}),
        Pool("b"),
        Pool("g", tree="gpu"),
        trees=(PoolTree("gpu", "has gpu"), PoolTree("rest")),
    )
    jobs(cell, x="a", g="g")
    assert member.place("g", (m, 9)).accepted
    sound(cell)
