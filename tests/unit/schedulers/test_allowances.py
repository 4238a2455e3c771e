"""What a leaf pool may take now, on snapshots that say what pools hold and want."""

from dataclasses import replace

import pytest

from omega.cellstate.pools import Epoch, Pool, Pools, PoolShare, PoolTree
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.ordering.cell_pools import CellPools
from omega.testing import snapshot, work

DEMAND = 1_000


def epoch_of(totals: dict[str, int], shares: dict[str, tuple[str, float, float]], number: int = 1) -> Epoch:
    """By pool: its tree, its share and its demand as parts of the tree; what was asked for is no more than demand."""
    none = (0.0,)
    pools = {
        name: PoolShare(
            name=name, parent="<Root>", tree=tree, weight=1.0, fair_share=(share,), demand=(demand,), usage=none,
            guarantee=none, integral=none, limits=none, promised=none, estimated=none, satisfaction=0.0,
        )
        for name, (tree, share, demand) in shares.items()
    }  # fmt: skip
    asked = dict.fromkeys(shares, (DEMAND,))
    return Epoch(
        number=number, version=1, pools_version=1, at_ms=0, by="ada", pools=pools, asked=asked,
        totals={tree: (total,) for tree, total in totals.items()},
    )  # fmt: skip


def two(held_a: int, wants_b: int, held_b: int = 0) -> tuple[CellPools, Snapshot]:
    """Two pools with half of 100 units each."""
    copy, policy = snapshot((100,)), CellPools()
    copy.pools, copy.resources = Pools((Pool("a"), Pool("b")), version=1), ("cpu",)
    copy.epoch = epoch_of({"default": 100}, {"a": ("default", 0.5, 10.0), "b": ("default", 0.5, 10.0)})
    copy.usage.capacity = (100,)
    copy.usage.state(("a", ""), (held_a,), (DEMAND - held_a,))
    copy.usage.state(("b", ""), (held_b,), (wants_b,))
    policy.observe(copy, 0.0)
    return policy, copy


def due(policy: CellPools, pool: str, need: int, waiting: int = 1) -> int:
    found = work(((need,), 100), name="j", pool=pool)
    tasks = policy.due(found, lambda: waiting)
    return found.left[0] if tasks is None else tasks[0]


@pytest.mark.parametrize(
    ("held", "wants", "need", "expected"),
    [
        (0, DEMAND, 1, 50),  # its share
        (50, DEMAND, 1, 0),  # the other pool lacks the rest
        (50, 20, 1, 30),  # it wants no more than that
        (50, 0, 1, 50),
        (30, 0, 1, 70),  # and what it lacks itself
        (40, DEMAND, 55, 0),  # the other one holds nothing: it lacks a whole task of more than its share
        (30, DEMAND, 15, 1),  # whole tasks of its own need
        (45, DEMAND, 10, 0),  # what lacks a part of a task waits for others that lack whole ones
    ],
)
def test_a_pool_takes_what_it_lacks_or_nobody_else_lacks(held: int, wants: int, need: int, expected: int) -> None:
    policy, _ = two(held, wants)
    assert due(policy, "a", need) == expected


def test_jobs_that_wait_get_equal_parts_in_turn() -> None:
    policy, copy = two(0, DEMAND)
    parts = list[int]()
    for _ in range(4):
        parts.append(due(policy, "a", 1, waiting=4))
        copy.usage.promise(("a", ""), (parts[-1],))
    assert parts == [13, 13, 12, 12]


def test_room_is_kept_for_a_second_and_not_again_until_the_pool_starts_a_task() -> None:
    policy, copy = two(50, DEMAND)
    job = work(((1,), 9), name="j", pool="a")
    assert not policy.beyond(job, 0.25)
    assert due(policy, "a", 1) == 0
    assert policy.beyond(job, 1.0)
    policy.observe(copy, 0.1)
    assert due(policy, "a", 1) == 50, "none is kept any more"
    copy.usage.state(("b", ""), (1,), (DEMAND - 1,))
    policy.observe(copy, 0.2)
    assert due(policy, "a", 1) == 0, "it started a task"


@pytest.mark.parametrize("owners", [1, 2, 5])
def test_each_of_several_owners_takes_its_part(owners: int) -> None:
    policy, copy = two(0, DEMAND)
    policy._allowances.place_in = lambda _: (0, owners)
    policy.observe(copy, 0.1)
    assert due(policy, "a", 1) == 50 // owners


def test_pools_of_another_tree_keep_none_of_its_machines() -> None:
    copy, policy = snapshot((100,), (100,)), CellPools()
    trees = (PoolTree("default"), PoolTree("racks", machines="rack = r1"))
    copy.pools = Pools((Pool("a"), Pool("b", tree="racks")), trees, version=1)
    copy.resources = ("cpu",)
    shares = {"a": ("default", 0.5, 1.0), "b": ("racks", 1.0, 10.0)}
    copy.epoch = replace(epoch_of({"default": 100, "racks": 100}, shares), asked={"a": (100,), "b": (DEMAND,)})
    copy.usage.capacity = (200,)
    copy.usage.state(("a", ""), (50,), (50,))
    copy.usage.state(("b", ""), (10,), (DEMAND - 10,))
    policy.observe(copy, 0.0)
    assert due(policy, "a", 1) == 50, "pool b lacks 90 units of other machines"


def test_a_pool_whose_jobs_wait_for_a_person_takes_nothing_from_others() -> None:
    """Lanes count what such jobs want, the epoch does not take it for demand."""
    copy, policy = snapshot((100,)), CellPools()
    copy.pools, copy.resources = Pools((Pool("a"), Pool("b")), version=1), ("cpu",)
    epoch = epoch_of({"default": 100}, {"a": ("default", 1.0, 10.0), "b": ("default", 0.0, 0.0)})
    copy.epoch, copy.usage.capacity = epoch, (100,)
    copy.usage.state(("a", ""), (0,), (DEMAND,))
    copy.usage.state(("b", ""), (0,), (DEMAND,))
    policy.observe(copy, 0.0)
    assert due(policy, "a", 1) == 100
    copy.usage.state(("a", ""), (0,), (2 * DEMAND,))
    policy.observe(copy, 9.0)  # more jobs came: shares are computed here
    assert due(policy, "a", 1) == 100
