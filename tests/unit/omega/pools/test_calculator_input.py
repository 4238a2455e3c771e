"""Each setting alone as the calculator of fair shares gets it: from a cell, and from a file with other names."""

from dataclasses import replace
from typing import Any

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import Integral, Leaf, Pool, Pools, PoolTree
from omega.pools.tree_file import from_document
from omega.schedulers import epochs
from omega.schedulers.fairshare.tree import Job, PoolState, Tree

OF_POOL: dict[str, Any] = {
    "weight": (2.5, Pool("p", weight=2.5)),
    "strong_guarantee": ({"cpu": 1.0}, Pool("p", guarantee={"cpu": 1.0})),
    "limits": ({"cpu": 2.0}, Pool("p", limits={"cpu": 2.0})),
    "mode": ("fifo", Pool("p", mode="fifo")),
    "fifo_sort_parameters": (["start_time"], Pool("p", sort_keys=("start_time",))),
    "compute_promised_guarantee": (True, Pool("p", promised=True)),
    "step_function_for_gang": (False, Pool("p", gang_steps=False)),
    "fifo_reordering_for_guarantee": (True, Pool("p", reorders_for_guarantee=True)),
}
OF_INTEGRAL: dict[str, Any] = {
    "type": ("burst", Integral("burst")),
    "flow": ({"cpu": 3.0}, Integral(flow={"cpu": 3.0})),
    "burst": ({"cpu": 4.0}, Integral(burst={"cpu": 4.0})),
    "relaxed_share_multiplier_limit": (5.0, Integral(relaxed_multiplier=5.0)),
    "can_accept_free_volume": (False, Integral(can_accept_free_volume=False)),
    "should_distribute_free_volume_among_children": (True, Integral(distributes_free_volume=True)),
}
OF_STATE: dict[str, Any] = {
    "volume": ({"cpu": 6.0}, PoolState(volume={"cpu": 6.0})),
    "last_share": (0.5, PoolState(last_share=0.5)),
    "enable_priority_strong_guarantee_adjustment": (True, PoolState(priority_guarantee=True)),
    "enable_priority_strong_guarantee_adjustment_donorship": (True, PoolState(guarantee_donor=True)),
}
OF_TREE: dict[str, Any] = {
    "step_function_for_gang": (True, PoolTree(gang_steps=True)),
    "improved_fit_factor": (True, PoolTree(improved_fit_factor=True)),
    "fifo_reordering_for_guarantee": (True, PoolTree(reorder_for_guarantee=True)),
    "should_distribute_free_volume_among_children": (True, PoolTree(distribute_free_volume=True)),
    "main_resource": ("memory", PoolTree(main_resource="memory")),
    "integral_smooth_period": (7.0, PoolTree(smooth_period=7.0)),
    "integral_pool_capacity_saturation_period": (8.0, PoolTree(saturation_period=8.0)),
    "relaxed_share_multiplier_limit": (9.0, PoolTree(relaxed_multiplier=9.0)),
    "infer_weight_from_guarantees_share_multiplier": (10.0, PoolTree(weight_multiplier=10.0)),
}
OF_JOB: dict[str, Any] = {
    "demand": ({"cpu": 1.0}, Job("j", "<Root>", {"cpu": 1.0})),
    "limits": ({"cpu": 3.0}, Job("j", "<Root>", {}, limits={"cpu": 3.0})),
    "weight": (4.0, Job("j", "<Root>", {}, weight=4.0)),
    "gang": (True, Job("j", "<Root>", {}, gang=True)),
    "start_time": (5.0, Job("j", "<Root>", {}, start_time=5.0)),
    "pending_job_count": (6, Job("j", "<Root>", {}, pending=6)),
    "best_allocation_share": ({"cpu": 0.5}, Job("j", "<Root>", {}, limits={"cpu": 50.0})),
}
TOTALS = {"cpu": 100.0, "memory": 100.0}


def read(*elements: dict[str, Any], **more: Any) -> Tree:
    return from_document({"total_resources": TOTALS, "tree": list(elements), **more})[0]


@pytest.mark.parametrize("name", OF_POOL)
def test_a_file_sets_one_setting_of_a_pool(name: str) -> None:
    value, pool = OF_POOL[name]
    assert read({"id": "p", "kind": "pool", name: value}).pools == [pool]


@pytest.mark.parametrize("name", OF_INTEGRAL)
def test_a_file_sets_one_setting_of_an_integral_guarantee(name: str) -> None:
    value, integral = OF_INTEGRAL[name]
    assert read({"id": "p", "kind": "pool", "integral": {name: value}}).pools == [Pool("p", integral=integral)]


@pytest.mark.parametrize("name", OF_STATE)
def test_a_file_sets_one_field_of_the_state_of_a_pool(name: str) -> None:
    value, state = OF_STATE[name]
    own = {name: value} if name.startswith("enable") else {"integral": {name: value}}
    tree = read({"id": "p", "kind": "pool", **own})
    assert (tree.pools, tree.states) == ([Pool("p")], {"p": state})


@pytest.mark.parametrize("name", OF_TREE)
def test_a_file_sets_one_option(name: str) -> None:
    value, options = OF_TREE[name]
    assert read(options={name: value}).options == options


@pytest.mark.parametrize("name", OF_JOB)
def test_a_file_sets_one_field_of_a_job(name: str) -> None:
    value, job = OF_JOB[name]
    assert read({"id": "j", "kind": "job", name: value}).jobs == [job]


def test_a_file_has_names_and_parents() -> None:
    tree = read(
        {"id": "p", "kind": "pool"},
        {"id": "j", "kind": "job", "parent": "p", "demand": {"cpu": 2}, "usage": {"cpu": 1}},
    )
    assert tree.jobs == [Job("j", "p", {"cpu": 2.0}, usage={"cpu": 1.0})]
    assert tree.options == PoolTree()


def test_a_cell_hands_over_the_settings_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Tree] = []
    monkeypatch.setattr(epochs, "fair_shares", lambda tree, _: given.append(tree))
    plain = Pool("p", "top", weight=3.0, promised=True, integral=Integral("burst", flow={"cpu": 1}, burst={"cpu": 2}))
    limited = Pool("q", limits={"cpu": 9, "tasks": 1}, guarantee={"memory": 4}, borrowing={"memory": 2})
    tree = PoolTree(smooth_period=5.0, usage_half_life=6.0, usage_exponent=2.0)
    leaf = Leaf("p", demand=(3, 4), usage=(1, 2), gang=False, start=7, pending=8, jobs=["a", "b"], weight=2.5)
    gang = Leaf("q", demand=(1, 1), usage=(0, 0), gang=True, start=9, pending=1, jobs=["c"])
    epochs.compute(
        Pools((Pool("top"), plain, limited), (tree,)),
        {"default": [leaf, gang]}, {"default": (10, 20)}, ("cpu", "memory"),
        before={"p": ((11.0, 12.0), 0.25)}, decayed={"q": 0.5},
    )  # fmt: skip
    assert given == [
        Tree(
            {"cpu": 10.0, "memory": 20.0},
            [Pool("top"), plain, replace(limited, limits={"cpu": 9, "memory": 6}, borrowing={})],
            [
                Job(" a", "p", {"cpu": 3.0, "memory": 4.0}, usage={"cpu": 1.0, "memory": 2.0}, start_time=7.0,
                    pending=8, count=2, weight=2.5),
                Job(" c", "q", {"cpu": 1.0, "memory": 1.0}, usage={"cpu": 0.0, "memory": 0.0}, gang=True,
                    start_time=9.0, weight=1.0)
            ],
            tree,
            states={
                "p": PoolState(volume={"cpu": 11.0, "memory": 12.0}, last_share=0.25), "q": PoolState(decay=0.5)
            },
            quanta={"cpu": 10},
        )
    ]  # fmt: skip


def test_bounds_of_a_tree_in_a_file_are_those_of_each_option() -> None:
    bounds = {
        "integral_smooth_period": (1e-3, 1e10), "integral_pool_capacity_saturation_period": (1e-3, 1e10),
        "relaxed_share_multiplier_limit": (1, 1e6), "infer_weight_from_guarantees_share_multiplier": (1e-9, 1e9),
    }  # fmt: skip
    for name, both in bounds.items():
        for bound, beyond in zip(both, (both[0] / 2, both[1] * 2), strict=True):
            read(options={name: bound})
            with pytest.raises(BadInput, match=name):
                read(options={name: beyond})
