"""Each setting alone, through every form: file, settings, record, JSON, option. Its value must stay under its name.

The values below are written out, and no two of a kind are the same: a row of the table that takes the place of another
one, or a part of it, is seen in at least one form.
"""

from dataclasses import fields, replace
from typing import Any

import click
import msgpack
import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import DEFAULT_PREEMPTION, Integral, Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.pools.records import pack, unpack_pool, unpack_trees
from omega.cellstate.pools.rules import check
from omega.cellstate.resources import Dimensions
from omega.cli.pool import settings as options
from omega.cli.pool.set import command
from omega.pools.file import from_values
from omega.pools.form import as_document

DIMENSIONS = Dimensions(("cpu", "memory"))
GROUPS = {"integral": Integral, "preemption": PreemptionSettings}

POOL: dict[str, tuple[Any, Any, str]] = {
    "parent": ("top", "top", "--parent top"),
    "tree": ("gpu", "gpu", "--tree gpu"),
    "weight": (2.5, 2.5, "--weight 2.5"),
    "guarantee": ({"cpu": "1m"}, {"cpu": 1}, "--guarantee cpu=1m"),
    "limits": ({"cpu": "2m", "tasks": "7"}, {"cpu": 2, "tasks": 7}, "--limit cpu=2m --limit tasks=7"),
    "mode": ("fifo", "fifo", "--mode fifo"),
    "sort_keys": (["start_time"], ("start_time",), "--sort-keys start_time"),
    "users": (["ada", "bob"], ("ada", "bob"), "--user ada --user bob"),
    "reclaim": ("never", "never", "--reclaim never"),
    "borrowing": ({"cpu": "3m"}, {"cpu": 3}, "--borrowing cpu=3m"),
    "lending": ({"cpu": "4m"}, {"cpu": 4}, "--lending cpu=4m"),
    "promised": (True, True, "--promised true"),
    "gang_steps": (False, False, "--gang-steps false"),
    "reorders_for_guarantee": (True, True, "--reorders-for-guarantee true"),
    "integral.kind": ("relaxed", "relaxed", "--integral relaxed"),
    "integral.flow": ({"cpu": "5m"}, {"cpu": 5}, "--flow cpu=5m"),
    "integral.burst": ({"cpu": "6m"}, {"cpu": 6}, "--burst cpu=6m"),
    "integral.relaxed_multiplier": (3.5, 3.5, "--relaxed-multiplier 3.5"),
    "integral.can_accept_free_volume": (False, False, "--can-accept-free-volume false"),
    "integral.distributes_free_volume": (True, True, "--distributes-free-volume true"),
    "preemption.starvation_tolerance": (0.5, 0.5, "--preemption starvation_tolerance=0.5"),
    "preemption.starvation_timeout": (11.0, 11.0, "--preemption starvation-timeout=11"),
    "preemption.aggressive_starvation_timeout": (12.0, 12.0, "--preemption aggressive_starvation_timeout=12"),
    "preemption.aggressive_starvation": (True, True, "--preemption aggressive_starvation=yes"),
    "preemption.threshold": (13.0, 13.0, "--preemption threshold=13"),
    "preemption.aggressive_threshold": (0.25, 0.25, "--preemption aggressive_threshold=0.25"),
    "preemption.non_preemptible_usage": ({"cpu": "14m"}, {"cpu": 14}, "--non-preemptible cpu=14m"),
    "preemption.allocation_timeout": (15.0, 15.0, "--preemption allocation_timeout=15"),
    "preemption.backoff": (16.0, 16.0, "--preemption backoff=16"),
    "preemption.allow_regular_preemption": (False, False, "--preemption allow_regular_preemption=false"),
    "preemption.allow_aggressive_preemption": (False, False, "--preemption allow_aggressive_preemption=off"),
    "preemption.evict_over_capacity": (True, True, "--preemption evict_over_capacity=on"),
    "preemption.evict_over_limit": (True, True, "--preemption evict_over_limit=true"),
    "preemption.minimum_runtime": (17.0, 17.0, "--preemption minimum_runtime=17"),
    "preemption.evictions_per_minute": (18, 18, "--preemption evictions_per_minute=18"),
    "preemption.eviction_cost": (19.0, 19.0, "--preemption eviction_cost=19"),
    "preemption.gang_timeout": (20.0, 20.0, "--preemption gang_timeout=20"),
}
"""Path of each setting of a pool: value in a file and in JSON, value as a setting and in a record, options."""
TREE: dict[str, tuple[Any, Any, str]] = {
    "machines": ("has gpu", "has gpu", ""),
    "default_parent": ("top", "top", ""),
    "gang_steps": (True, True, ""),
    "improved_fit_factor": (True, True, ""),
    "reorder_for_guarantee": (True, True, ""),
    "distribute_free_volume": (True, True, ""),
    "main_resource": ("memory", "memory", ""),
    "smooth_period": (21.0, 21.0, ""),
    "saturation_period": (22.0, 22.0, ""),
    "relaxed_multiplier": (4.5, 4.5, ""),
    "weight_multiplier": (23.0, 23.0, ""),
    "usage_half_life": (24.0, 24.0, ""),
    "usage_exponent": (25.0, 25.0, ""),
    "partition_everywhere": (True, True, ""),
    "operators_from": (26, 26, ""),
} | {path: given for path, given in POOL.items() if path.startswith("preemption.")}
DEFAULTS: dict[str, Any] = {
    "parent": "<Root>", "tree": "", "weight": None, "guarantee": {}, "limits": {}, "mode": "fair_share",
    "sort_keys": ("weight", "start_time"), "users": (), "reclaim": "fair-share", "borrowing": {}, "lending": {},
    "promised": False, "gang_steps": True, "reorders_for_guarantee": False, "number": 0,
}  # fmt: skip
INTEGRAL_DEFAULTS: dict[str, Any] = {
    "kind": "none", "flow": {}, "burst": {}, "relaxed_multiplier": None, "can_accept_free_volume": True,
    "distributes_free_volume": None,
}  # fmt: skip
TREE_DEFAULTS: dict[str, Any] = {
    "name": "default", "machines": "", "default_parent": "<Root>", "gang_steps": False, "improved_fit_factor": False,
    "reorder_for_guarantee": False, "distribute_free_volume": False, "main_resource": "cpu", "smooth_period": 60.0,
    "saturation_period": 86_400.0, "relaxed_multiplier": 3.0, "weight_multiplier": None, "usage_half_life": None,
    "usage_exponent": 1.0, "partition_everywhere": False, "operators_from": None,
}  # fmt: skip
INHERITED: dict[str, Any] = {
    "starvation_tolerance": 0.8, "starvation_timeout": 30.0, "aggressive_starvation_timeout": 120.0,
    "aggressive_starvation": False, "threshold": 1.0, "aggressive_threshold": 0.2, "non_preemptible_usage": {},
    "allocation_timeout": None, "backoff": 5.0, "allow_regular_preemption": True, "allow_aggressive_preemption": True,
    "evict_over_capacity": False, "evict_over_limit": False, "minimum_runtime": 0.0, "evictions_per_minute": None,
    "eviction_cost": 0.0, "gang_timeout": 300.0,
}  # fmt: skip


def with_one(whole: Any, path: str, value: Any) -> Any:
    """Settings with one of them set."""
    group, _, name = path.rpartition(".")
    if group:
        return replace(whole, **{group: with_one(getattr(whole, group), name, value)})
    return replace(whole, **{name: value})


def nested(path: str, value: Any, *, in_file: bool = False) -> dict[str, Any]:
    """A plain value at its place."""
    group, dot, name = path.rpartition(".")
    own = {"type" if in_file and path == "integral.kind" else name: value}
    return {group: own} if dot else own


def paths(kind: type) -> set[str]:
    """The paths of all fields of a kind."""
    names = {each.name for each in fields(kind)}
    return (names - GROUPS.keys()).union(
        f"{group}.{each.name}" for group in names & GROUPS.keys() for each in fields(GROUPS[group])
    )


def test_every_setting_is_written_out_here() -> None:
    assert set(POOL) == paths(Pool) - {"name", "number"}
    assert set(TREE) == paths(PoolTree) - {"name"}


@pytest.mark.parametrize("path", POOL)
def test_a_setting_of_a_pool_keeps_its_name(path: str) -> None:
    in_file, value, words = POOL[path]
    pool = with_one(Pool("p"), path, value)
    row = {"name": "p", **nested(path, in_file, in_file=True)}
    assert from_values({"pools": [row]}, DIMENSIONS)[0].pools == (pool,)
    assert as_document(Pools((pool,)))["pools"] == [row]
    record = {"name": "p", **nested(path, list(value) if isinstance(value, tuple) else value)}
    assert msgpack.unpackb(pack(pool)) == record
    assert unpack_pool(pack(pool)) == pool
    given: dict[str, Any] = command.make_context("set", ["p", *words.split(" ")]).params
    given |= options.preemption(given["preemption"]) | {"users": given["users"] or None}
    assert options.changed(Pool("p"), given, DIMENSIONS) == pool
    assert options.changed(pool, command.make_context("set", ["p"]).params | {"users": None}, DIMENSIONS) == pool


@pytest.mark.parametrize("path", TREE)
def test_a_setting_of_a_tree_keeps_its_name(path: str) -> None:
    in_file, value, _ = TREE[path]
    tree = with_one(PoolTree("t"), path, value)
    row = {"name": "t", **nested(path, in_file)}
    assert from_values({"trees": [row]}, DIMENSIONS)[0].trees == (tree,)
    assert as_document(Pools((), (tree,)))["trees"] == [row]
    assert msgpack.unpackb(pack((tree,))) == [{"name": "t", **nested(path, value)}]
    assert unpack_trees(pack((tree,))) == (tree,)


def test_records_have_the_order_in_which_they_were_first_written() -> None:
    pool, tree = Pool("p", number=9), PoolTree("t")
    for path, (_, value, _) in POOL.items():
        pool = with_one(pool, path, value)
    for path, (_, value, _) in TREE.items():
        tree = with_one(tree, path, value)
    record = msgpack.unpackb(pack(pool))
    assert list(record) == [
        "name", "parent", "tree", "number", "weight", "guarantee", "limits", "mode", "sort_keys", "integral", "users",
        "reclaim", "borrowing", "lending", "preemption", "promised", "gang_steps", "reorders_for_guarantee",
    ]  # fmt: skip
    assert list(record["integral"]) == list(INTEGRAL_DEFAULTS)
    assert list(record["preemption"]) == list(INHERITED)
    assert list(msgpack.unpackb(pack((tree,)))[0]) == [*TREE_DEFAULTS, "preemption"]


def test_defaults_are_those_that_records_leave_out() -> None:
    assert {name: getattr(Pool("p"), name) for name in DEFAULTS} == DEFAULTS
    assert {name: getattr(Integral(), name) for name in INTEGRAL_DEFAULTS} == INTEGRAL_DEFAULTS
    assert {name: getattr(PoolTree(), name) for name in TREE_DEFAULTS} == TREE_DEFAULTS
    assert PreemptionSettings() == PreemptionSettings(**dict.fromkeys(INHERITED))
    assert PreemptionSettings(**INHERITED) == DEFAULT_PREEMPTION


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("weight", 0.0005, "weight 0.0005; weights are from 0.001 to 100,000"),
        ("weight", 100_001.0, "weight 100001.0; weights are from 0.001 to 100,000"),
        ("mode", "lifo", "mode 'lifo'; one of fair_share, fifo"),
        ("sort_keys", ("age",), "sort key 'age'; one of weight, start_time, pending_job_count"),
        ("reclaim", "always", "reclaim 'always'; one of never, guarantee, fair-share"),
        ("integral.kind", "x", "integral guarantee 'x'; one of none, burst, relaxed"),
        ("integral.relaxed_multiplier", 0.5, "relaxed_multiplier 0.5; want 1 to 10"),
        ("integral.flow", {"tasks": 1}, "flow: names 'tasks'; known: cpu, memory"),
        ("limits", {"slots": 1}, "limits: names 'slots'; known: cpu, memory, tasks, jobs"),
        ("borrowing", {"cpu": -1}, "borrowing: cpu is -1"),
        ("preemption.starvation_tolerance", 1.1, "starvation_tolerance 1.1; want a part of the fair share, at most 1"),
        ("preemption.threshold", 1001.0, "threshold 1001.0; want a multiple of the fair share, at most 1000"),
        ("preemption.aggressive_threshold", 1001.0, "aggressive_threshold 1001.0; want a multiple"),
        ("preemption.starvation_timeout", float("inf"), "starvation_timeout inf; want 0 or more"),
        ("preemption.evictions_per_minute", -1, "evictions_per_minute -1; want 0 or more"),
        ("preemption.non_preemptible_usage", {"jobs": 1}, "non_preemptible_usage: names 'jobs'; known: cpu, memory"),
    ],
)
def test_a_setting_is_bounded_by_its_own_row(path: str, value: object, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        check(Pools((with_one(Pool("p"), path, value),)), DIMENSIONS.names)
    assert str(refused.value).startswith(f"pool p: {message}")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        *((name, 0.0, f"{name} 0.0; want more than 0") for name in (
            "smooth_period", "saturation_period", "weight_multiplier", "usage_half_life", "usage_exponent")),
        ("relaxed_multiplier", 11.0, "relaxed_multiplier 11.0; want 1 to 10"),
        ("preemption.gang_timeout", -1.0, "gang_timeout -1.0; want 0 or more"),
    ],
)  # fmt: skip
def test_a_setting_of_a_tree_is_bounded_by_its_own_row(path: str, value: object, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        check(Pools((), (with_one(PoolTree("t"), path, value),)), DIMENSIONS.names)
    assert str(refused.value).startswith(f"pool tree 't': {message}")


def test_preemption_takes_no_amounts() -> None:
    with pytest.raises(BadInput, match="unknown setting 'non_preemptible_usage'"):
        options.preemption({"non_preemptible_usage": "5"})
    with pytest.raises(click.UsageError):
        command.make_context("set", ["p", "--promised", "perhaps"])


def test_options_name_their_values() -> None:
    shown = {each.name: each.make_metavar(click.Context(command)) for each in command.params}
    wanted = {"parent": "POOL", "tree": "TREE", "users": "USER", "weight": "FLOAT", "guarantee": "NAME=AMOUNT"}
    assert {name: shown[name] for name in wanted} == wanted


def test_a_file_without_a_version_names_none() -> None:
    assert from_values({}, DIMENSIONS) == (Pools(), None)
