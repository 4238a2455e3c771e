"""The owners of leaf pools follow what these cost, and who lives."""

from collections.abc import Mapping
from random import Random

import pytest

from omega.schedulers.balance import GROW_SECONDS, SHRINK_SECONDS, UNEQUAL_SECONDS, Balance, loads_of
from omega.schedulers.sharing import Ownership, divided, owner_of_leaf

FOUR = ("batch/0", "batch/1", "batch/2", "batch/3")
BEAT = 1.7


def after(
    balance: Balance, seconds: float, loads: Mapping[str, Mapping[str, float]], start: float = 0.0,
    members: tuple[str, ...] = FOUR, leaves: tuple[str, ...] = ("a", "b", "c", "d"),
) -> float:  # fmt: skip
    """Give the same loads at each heartbeat for some time; return the time then."""
    now = start
    while now < start + seconds + BEAT:
        balance.step(now, members, leaves, loads)
        now += BEAT
    return now


def number(balance: Balance, leaf: str) -> int:
    return len(balance.owners[leaf])


def test_every_pool_has_one_live_owner_and_each_scheduler_as_many() -> None:
    balance = Balance()
    balance.step(0.0, FOUR, {f"p{i}" for i in range(60)}, {})
    owners = [each for (each,) in balance.owners.values()]
    assert sorted({owners.count(name) for name in FOUR}) == [15]
    before = dict(balance.owners)
    balance.step(1.0, FOUR[:3], set(before), {})
    assert {name for each in balance.owners.values() for name in each} == set(FOUR[:3])
    moved = [leaf for leaf in before if balance.owners[leaf] != before[leaf]]
    assert {before[leaf] for leaf in moved} == {(FOUR[3],)}, "those of the lost one alone"


def test_a_pool_that_fills_its_owners_time_gets_more_and_loses_them_again() -> None:
    balance = Balance(divided("abcd", FOUR))
    now = after(balance, GROW_SECONDS, {FOUR[0]: {"a": 0.9}})
    assert number(balance, "a") == 2
    loads = {name: {"a": 0.9} for name in balance.owners["a"]}
    now = after(balance, GROW_SECONDS, loads, now)
    assert number(balance, "a") == 4
    loads = {name: {"a": 0.9} for name in FOUR}
    now = after(balance, 60.0, loads, now)
    assert set(balance.owners["a"]) == set(FOUR), "not more than there are"
    now = after(balance, SHRINK_SECONDS, {name: {"a": 0.1} for name in FOUR}, now)
    assert number(balance, "a") == 2
    after(balance, SHRINK_SECONDS, {name: {"a": 0.1} for name in FOUR[:2]}, now)
    assert number(balance, "a") == 1


def test_pools_that_grow_together_get_different_schedulers() -> None:
    balance = Balance({"a": FOUR[:1], "b": FOUR[1:2]})
    after(balance, GROW_SECONDS, {FOUR[0]: {"a": 0.9}, FOUR[1]: {"b": 0.9}}, leaves=("a", "b"))
    assert sorted((*balance.owners["a"], *balance.owners["b"])) == sorted(FOUR)


def test_a_scheduler_with_much_more_to_do_than_others_gives_a_pool_away_after_a_while() -> None:
    balance = Balance({"a": FOUR[:1], "b": FOUR[:1], "c": FOUR[1:2], "d": FOUR[2:3]})
    loads = {FOUR[0]: {"a": 0.35, "b": 0.2}, FOUR[1]: {"c": 0.1}, FOUR[2]: {"d": 0.1}}
    now = after(balance, UNEQUAL_SECONDS - 2 * BEAT, loads)
    assert balance.owners["b"] == FOUR[:1]
    now = after(balance, 2 * BEAT, loads, now)
    assert sorted((balance.owners["a"], balance.owners["b"])) == [FOUR[:1], FOUR[3:]]


def test_a_pool_that_nobody_configured_grows_as_well() -> None:
    balance = Balance()
    owner = owner_of_leaf(FOUR, "ada")
    after(balance, GROW_SECONDS, {owner: {"ada": 0.9}}, leaves=())
    assert balance.owners["ada"][0] == owner
    assert number(balance, "ada") == 2
    after(balance, 2 * SHRINK_SECONDS, {}, 100.0, leaves=())
    assert balance.owners.get("ada") is None, "it falls to a hash again"


@pytest.mark.parametrize("seed", range(20))
def test_every_job_has_an_owner_whatever_happens(seed: int) -> None:
    """Members come and go, pools too, loads are anything; each job of each pool has exactly one owner by the table."""
    rng, balance, now = Random(seed), Balance(), 0.0
    pools, names = [f"p{i}" for i in range(20)], [f"batch/{i}" for i in range(8)]
    for _ in range(200):
        members = tuple(sorted(rng.sample(names, rng.randint(1, 8))))
        leaves = set(rng.sample(pools, rng.randint(0, 20)))
        loads = {each: {leaf: rng.random() for leaf in rng.sample(pools, 3)} for each in members}
        balance.step(now, members, leaves, loads)
        now += rng.choice((0.5, 1.7, 20.0))
        assert leaves <= balance.owners.keys()
        owns = [Ownership(each, members, dict(balance.owners)) for each in members]
        for job in (f"j{i}" for i in range(8)):
            leaf = rng.choice(pools)
            assert sum(each.owns(job, leaf) for each in owns) == 1


def test_loads_divide_the_time_by_jobs() -> None:
    assert loads_of([("a", 3), ("b", 1), ("c", 0)], 0.8) == pytest.approx({"a": 0.6, "b": 0.2})
    assert loads_of([], 0.8) == {}
