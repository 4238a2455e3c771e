"""Fair sharing among pools: who is next, as the calculator divides the cell; usage follows the shares."""

from collections import Counter
from collections.abc import Mapping

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.errors import BadInput
from omega.schedulers.comparisons.file_pools import FairPools, PoolSettings

CELL = (60, 60)


def filled(policy: FairPools, each: Mapping[str, tuple[int, int]], tasks: int = 1_000) -> Counter[str]:
    """Fill the cell task by task with endless demand of pools, each of tasks of one size; how many each holds."""
    copy = ArraySnapshot(2)
    usage = copy.usage
    usage.capacity = CELL
    for pool, need in each.items():
        usage.state((pool, ""), (0, 0), (need[0] * tasks, need[1] * tasks))
    policy.observe(copy, 0.0)
    left, counts, open_ = list(CELL), Counter[str](), set(each)
    while open_:
        pool = min(sorted(open_), key=policy.rank)
        need = each[pool]
        if all(free >= amount for free, amount in zip(left, need, strict=True)):
            usage.take("", pool, need)
            left = [free - amount for free, amount in zip(left, need, strict=True)]
            counts[pool] += 1
        else:
            open_.remove(pool)
    return counts


def test_weights_divide_the_cell() -> None:
    pools = {"a": PoolSettings(), "b": PoolSettings(weight=2), "c": PoolSettings(weight=3)}
    assert filled(FairPools(pools=pools), dict.fromkeys("abc", (1, 1))) == {"a": 10, "b": 20, "c": 30}


def test_a_guarantee_comes_on_top() -> None:
    pools = {"a": PoolSettings(guarantee={"cpu": 30, "memory": 30}), "b": PoolSettings(), "c": PoolSettings()}
    assert filled(FairPools(pools=pools), dict.fromkeys("abc", (1, 1))) == {"a": 40, "b": 10, "c": 10}


def test_children_share_what_their_parent_gets() -> None:
    pools = {"team": PoolSettings(), "x": PoolSettings("team"), "y": PoolSettings("team"), "solo": PoolSettings()}
    found = filled(FairPools(pools=pools), dict.fromkeys(("x", "y", "solo"), (1, 1)))
    assert found == {"x": 15, "y": 15, "solo": 30}


def test_two_resources_are_divided_by_dominant_share() -> None:
    """60 cpu and 60 memory: 2 cpu a task against 2 memory a task."""
    assert filled(FairPools(), {"a": (2, 1), "b": (1, 2)}) == {"a": 20, "b": 20}


def test_pools_that_start_together_are_served_in_turn() -> None:
    """The poorest pool is served again only when it is the poorest still: 2 and 2 of 4, not 3 and 1."""
    copy = ArraySnapshot(2)
    copy.usage.capacity = (4, 4)
    for pool in "ab":
        copy.usage.state((pool, ""), (2, 2) if pool == "a" else (0, 0), (5, 5))
    policy = FairPools()
    policy.observe(copy, 0.0)
    started = []
    for _ in range(2):
        pool = min("ab", key=policy.rank)
        copy.usage.promise((pool, ""), (1, 1))
        started.append(pool)
    assert started == ["b", "b"]


def test_a_pool_that_appears_gets_its_share() -> None:
    copy = ArraySnapshot(2)
    copy.usage.capacity = CELL
    copy.usage.state(("a", ""), (60, 60), (0, 0))
    policy = FairPools(period=1.0)
    policy.observe(copy, 0.0)
    assert policy.rank("b") < policy.rank("a")


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        ({"a": PoolSettings("b"), "b": PoolSettings("a")}, "form a circle"),
        ({"a": PoolSettings("nowhere")}, "which is no pool"),
        ({"a": PoolSettings(weight=0)}, "weights are above 0"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(pools: Mapping[str, PoolSettings], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        FairPools(pools=pools)


def test_before_the_first_epoch_a_choice_leaves_the_ranks_of_other_pools() -> None:
    ordering = FairPools()
    assert ordering.kin(("a", "", (True,))) == ordering.kin(("a", "", (False,))) == "a"
    assert ordering.kin(("", "ada", ())) == ordering.kin(("", "bob", ()))
    assert ordering.kin(("a", "", ())) != ordering.kin(("b", "", ()))
