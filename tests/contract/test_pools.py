"""Pools in the store and in its twin: compare-and-set, numbers, limits, what pools hold (docs/pools.md)."""

from dataclasses import replace

import pytest

from omega.cellstate.errors import BadInput, Overtaken, Refused
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Integral, Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Mode, Verdict
from tests.contract.conftest import AnyCell, Member, Stand, job


def in_pool(name: str, pool: str = "", user: str = "ada", count: int = 4, precedence: int = 0) -> JobSpec:
    extra = {"user": user} | ({"pool": pool} if pool else {})
    return JobSpec(name, name, "batch", (TaskGroup((1, 2), count),), precedence, spec=extra)


def put(cell: AnyCell, *pools: Pool, trees: tuple[PoolTree, ...] = (PoolTree(),)) -> Pools:
    return cell.pools.set(Pools(pools, trees), cell.pools.get().version, 0, "ada")


def test_pools_are_read_back_as_they_were_set(cell: AnyCell) -> None:
    assert cell.pools.get() == Pools()
    assert not cell.pools.get().configured
    pools = (
        Pool("prod", weight=2.5, guarantee={"cpu": 6}, limits={"cpu": 20, "tasks": 9, "jobs": 3}, lending={"cpu": 1}),
        Pool("prod/api", "prod", guarantee={"cpu": 4}, mode="fifo", sort_keys=("start_time",), users=("ada", "bö b"),
             integral=Integral("burst", flow={"cpu": 0}, burst={"cpu": 3}),
             preemption=PreemptionSettings(threshold=2.0, backoff=0.5)),
        Pool("research", tree="gpu", reclaim="never"),
    )  # fmt: skip
    trees = (PoolTree(default_parent="prod", operators_from=900), PoolTree("gpu", "gpu == 'yes'"))
    stored = put(cell, *pools, trees=trees)
    assert [pool.number for pool in stored.pools] == [1, 2, 3]
    assert cell.pools.get() == stored
    assert [replace(pool, number=0) for pool in stored.pools] == list(pools)
    assert stored.trees == trees
    words = [fact.event[:3] for fact in cell.log.facts() if fact.version == stored.version]
    assert words[:3] == [("pool", "prod", "1"), ("pool", "prod/api", "2"), ("pool", "research", "3")]
    assert words[3][0] == "trees"


def test_pools_are_in_the_order_of_their_numbers(cell: AnyCell) -> None:
    first = put(cell, Pool("a"), Pool("b"))
    changed = put(cell, Pool("c"), first.by_name["b"], first.by_name["a"])
    assert [(pool.name, pool.number) for pool in changed.pools] == [("a", 1), ("b", 2), ("c", 3)]
    assert cell.pools.get() == changed


def test_only_who_read_the_present_pools_changes_them(cell: AnyCell) -> None:
    first = put(cell, Pool("a"))
    assert cell.pools.set(first, first.version, 1, "bob") == first, "equal pools change nothing"
    assert cell.counters()["version"] == first.version
    second = put(cell, Pool("a", weight=2))
    with pytest.raises(Overtaken, match=f"version is now {second.version}, not {first.version}"):
        cell.pools.set(Pools((Pool("b"),)), first.version, 1, "bob")
    assert cell.pools.get() == second


def test_the_first_of_the_removed_pools_with_jobs_is_named(cell: AnyCell) -> None:
    put(cell, Pool("a"), Pool("y"), Pool("z"))
    for kind, pool in (("batch", "z"), ("service", "y")):
        cell.jobs.submit([job(kind, kind=kind, spec={"pool": pool, "user": "ada"})], 0, "ada")
    with pytest.raises(Refused, match="pool y"):
        put(cell, Pool("a"))


def test_a_removed_pool_gives_its_number_to_nobody(cell: AnyCell) -> None:
    put(cell, Pool("a"), Pool("b"))
    put(cell, Pool("a"))
    stored = put(cell, Pool("a"), Pool("b"), Pool("c"))
    assert {pool.name: pool.number for pool in stored.pools} == {"a": 1, "b": 3, "c": 4}
    assert not put(cell).configured
    assert [pool.number for pool in put(cell, Pool("a")).pools] == [5]


def test_only_users_that_a_pool_and_those_above_it_admit_may_submit(cell: AnyCell) -> None:
    put(
        cell,
        Pool("prod", users=("ada", "bö b", "cy")),
        Pool("api", "prod", users=("bö b", "cy", "dan")),
        Pool("web", "prod"),
        Pool("open"),
        Pool("cy", "prod", users=("dan",)),
        trees=(PoolTree(default_parent="prod"),),
    )

    def answer(pool: str, user: str) -> tuple[str, str]:
        (found,) = cell.jobs.submit([in_pool(f"j{pool}-{user[0]}{len(user)}", pool, user)], 0, "ada")
        return found.status, found.holder

    assert answer("api", "bö b") == ("new", "")
    assert answer("api", "ada") == ("user", "api"), "the list of the pool itself"
    assert answer("api", "dan") == ("user", "api"), "the list of the pool above it"
    assert answer("web", "ada") == ("new", "")
    assert answer("web", "a") == ("user", "web"), "a part of a name is another user"
    assert answer("open", "eve") == ("new", "")
    assert answer("", "ada") == ("new", ""), "an ephemeral pool is below the default parent"
    assert answer("", "eve") == ("user", "eve")
    assert answer("", "cy") == ("user", "cy"), "the configured pool of the user's name"
    assert cell.jobs.get("jweb-a1") is None


def test_a_list_of_users_that_changes_holds_for_later_jobs_alone(cell: AnyCell) -> None:
    put(cell, Pool("a", users=("ada",)))
    assert cell.jobs.submit([in_pool("first", "a")], 0, "ada")[0].status == "new"
    put(cell, Pool("a", users=("bob",)))
    assert cell.jobs.submit([in_pool("first", "a")], 0, "ada")[0].status == "same"
    assert cell.jobs.submit([in_pool("second", "a")], 0, "ada")[0].status == "user"
    assert cell.jobs.submit([in_pool("third", "a", "bob")], 0, "bob")[0].status == "new"
    put(cell, Pool("a"))
    assert cell.jobs.submit([in_pool("second", "a")], 0, "ada")[0].status == "new"


def test_a_pool_with_jobs_stays_a_leaf(cell: AnyCell) -> None:
    put(cell, Pool("a"), Pool("b", "a"), Pool("c"))
    cell.jobs.submit([in_pool("j", "b")], 0, "ada")
    version = cell.counters()["version"]
    for pools in ((Pool("a"), Pool("c")), (Pool("a"), Pool("b", "a"), Pool("c", "b"))):
        with pytest.raises(Refused, match="pool b: has live jobs"):
            put(cell, *pools)
    assert cell.counters()["version"] == version
    cell.jobs.stop("j", 1, "ada")
    assert [pool.name for pool in put(cell, Pool("a"), Pool("c")).pools] == ["a", "c"]


def test_jobs_name_a_leaf_once_pools_are_configured(cell: AnyCell) -> None:
    assert cell.jobs.submit([in_pool("early", "any")], 0, "ada")[0].status == "new"
    put(cell, Pool("a"), Pool("b/x@y", "a"))
    asked = [
        in_pool("inner", "a"),
        in_pool("unknown", "söme thing"),
        in_pool("leaf", "b/x@y"),
        in_pool("own", user="bob"),
    ]
    answers = [(each.status, each.holder) for each in cell.jobs.submit(asked, 0, "ada")]
    assert answers == [("pool", "a"), ("pool", "söme thing"), ("new", ""), ("new", "")]
    for name in ("early", "leaf", "own"):
        cell.jobs.stop(name, 1, "ada")
    put(cell)
    assert cell.jobs.submit([in_pool("free", "a")], 0, "ada")[0].status == "new", "nothing is configured any more"


def test_limits_bind_the_pool_and_everything_below(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("top", limits={"cpu": 5}), Pool("a", "top", limits={"tasks": 3}), Pool("b", "top"), Pool("c"))
    cell.jobs.submit([in_pool("x", "a"), in_pool("y", "b"), in_pool("z", "c")], 0, "ada")
    assert member.place("x", (0, 4)).claims == ((3, Verdict.LIMIT),)
    assert member.place("y", (1, 4)).claims == ((2, Verdict.LIMIT),)
    assert member.place("z", (2, 4)).accepted, "no limit binds it"
    assert cell.pools.use() == {"top": PoolUse(2, 5, (5, 10)), "a": PoolUse(1, 3, (3, 6))}
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 1, "e0")
    assert cell.pools.use() == {"top": PoolUse(1, 2, (2, 4)), "a": PoolUse(0, 0, (0, 0))}
    assert member.place("y", (1, 2)).accepted


def test_a_limit_of_jobs_counts_those_that_run(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("a", limits={"jobs": 1}))
    cell.jobs.submit([in_pool("x", "a"), in_pool("y", "a")], 0, "ada")
    assert member.place("x", (0, 1)).accepted
    assert member.place("y", (0, 1)).claims == ((0, Verdict.LIMIT),)
    assert member.place("x", (0, 3)).accepted, "it runs already"


def test_evictions_make_room_below_a_limit(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("a", limits={"cpu": 4}))
    cell.jobs.submit([in_pool("x", "a"), in_pool("y", "a", precedence=9)], 0, "ada")
    assert member.place("x", (0, 4)).accepted
    assert member.place("y", (0, 4)).claims == ((0, Verdict.LIMIT),)
    assert member.place("y", (0, 4), evict=((1, 4),)).accepted
    assert cell.pools.use() == {"a": PoolUse(1, 4, (4, 8))}


def test_a_pool_that_moves_takes_what_runs_along(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("big", limits={"tasks": 9}), Pool("small", limits={"tasks": 2}), Pool("leaf", "big"))
    cell.jobs.submit([in_pool("x", "leaf")], 0, "ada")
    assert member.place("x", (0, 3)).accepted
    put(cell, Pool("big", limits={"tasks": 9}), Pool("small", limits={"tasks": 2}), Pool("leaf", "small"))
    assert {name: use.tasks for name, use in cell.pools.use().items()} == {"big": 0, "small": 3}
    assert member.place("x", (0, 1)).claims == ((0, Verdict.LIMIT),), "over its limit it takes nothing"
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0-1")], 1, "e0")
    assert member.place("x", (0, 1)).accepted
    assert {name: use.tasks for name, use in cell.pools.use().items()} == {"big": 0, "small": 2}


def test_limits_set_while_jobs_run_count_them(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([in_pool("x", "a"), in_pool("own", user="bob")], 0, "ada")
    assert member.place("x", (0, 2)).accepted
    assert member.place("own", (0, 2)).accepted
    put(cell, Pool("users", limits={"tasks": 2}), Pool("a", limits={"cpu": 2}),
        trees=(PoolTree(default_parent="users"),))  # fmt: skip
    assert {name: use.tasks for name, use in cell.pools.use().items()} == {"users": 2, "a": 2}
    assert member.place("own", (1, 1)).claims == ((0, Verdict.LIMIT),), "its ephemeral pool is below users"


def test_a_failed_gang_books_nothing(cell: AnyCell, stand: Stand) -> None:
    put(cell, Pool("a", limits={"tasks": 3}))
    cell.machines.join("e9", [MachineSpec("m9", (100, 100))], 0)
    cell.jobs.submit([in_pool("x", "a")], 0, "ada")
    member = stand.member("batch/7")
    assert member.place("x", (0, 2), (1, 2), mode=Mode.GANG).claims == ((0, Verdict.ABORTED), (0, Verdict.LIMIT))
    assert cell.pools.use() == {"a": PoolUse(0, 0, (0, 0))}
    assert member.place("x", (0, 3)).accepted


def test_every_writer_is_validated(cell: AnyCell) -> None:
    with pytest.raises(BadInput, match="weights are from"):
        put(cell, Pool("a", weight=0))
    assert not cell.pools.get().configured
