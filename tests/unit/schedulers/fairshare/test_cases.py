"""The numeric cases of the public sources: every expected value of every element, with and without equal options."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omega import pools

CASES = json.loads((Path(__file__).parent / "fair-share.json").read_text("utf-8"))
EXACT = 1e-9
SUMMARY = {"expected", "name", "group", "notes", "source", "tolerance", "tolerance_kind", "also_holds_with_options"}


def variants() -> list[Any]:
    found = []
    for case in CASES["fair_share_cases"]:
        found.append(pytest.param(case, {}, id=case["name"]))
        if case.get("also_holds_with_options"):
            found.append(pytest.param(case, case["also_holds_with_options"], id=case["name"] + "-improved"))
    return found


@pytest.mark.parametrize(("case", "more"), variants())
def test_the_tree_gives_the_published_values(case: dict[str, Any], more: dict[str, Any]) -> None:
    document = {name: value for name, value in case.items() if name not in SUMMARY}
    document["options"] = {**(case.get("options") or {}), **more}
    found = pools.computed(*pools.from_document(document))["elements"]
    order = CASES["meta"]["vector_order"]
    for name, expected in case["expected"].items():
        for field, value in expected.items():
            got = found[name][field]
            if isinstance(got, dict):
                wanted = [value[key] for key in order] if isinstance(value, dict) else value
                relative = max(case["tolerance"], EXACT) if field == "volume" else 0.0
                absolute = 0.0 if field == "volume" else max(case["tolerance"], EXACT)
                np.testing.assert_allclose(
                    [got[key] for key in order], wanted, relative, absolute, err_msg=f"{name} {field}"
                )
            else:
                assert got == (value if isinstance(value, str) else pytest.approx(value, abs=EXACT)), (name, field)


def test_inferred_weights() -> None:
    case = CASES["weight_inference_cases"][0]
    pool = {name: amount for name, amount in case["pools"].items() if "/" not in name}
    tree = [pools.Pool(name, guarantee={"cpu": 100 * amount} if amount else {}) for name, amount in pool.items()]
    tree += [
        pools.Pool(name.split("/")[1], name.split("/")[0], guarantee={"cpu": 100 * amount})
        for name, amount in case["pools"].items()
        if "/" in name
    ]
    options = pools.Options(weight_multiplier=case["multiplier"])
    found = pools.computed(pools.Tree({"cpu": 100}, tree, [], options))["elements"]
    for name, weight in case["expected"].items():
        assert found[name]["weight"] == pytest.approx(weight, abs=EXACT)


def test_partition_of_150_tasks() -> None:
    case = CASES["preemption_cases"][0]
    total = {key: value for key, value in case["total_resources"].items() if value}
    task = np.array([case["operation"]["allocation"][key] / value for key, value in total.items()])
    usage = 150 * task
    demand = usage + np.array([case["operation"]["pending_demand"][key] / value for key, value in total.items()])
    assert demand.max() == pytest.approx(case["expected"]["max_demand_share"])
    share = np.full(len(task), case["expected"]["max_fair_share"])
    thresholds = (
        case["config"]["aggressive_preemption_satisfaction_threshold"],
        case["config"]["preemption_satisfaction_threshold"],
    )
    assert pools.partition(np.tile(task, (150, 1)), (share, demand, usage), thresholds) == (50, 50)


def test_partition_with_protected_usage() -> None:
    task = np.array([0.1, 0.1])
    element = (np.ones(2), np.full(2, 1.5), np.ones(2))
    assert pools.partition(np.tile(task, (10, 1)), element, (0.4, 0.9), np.array([0.2, 0.1])) == (4, 5)


def test_the_running_example_of_drf() -> None:
    case = CASES["drf_cases"][0]
    tasks, picks = pools.task_by_task(np.array([9, 18.0]), np.array([[1, 4], [3, 1.0]]), np.ones(2))
    assert tasks == [case["expected"]["tasks"]["A"], case["expected"]["tasks"]["B"]]
    assert sorted(picks) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(("weights", "shares"), [((1, 1), (2 / 3, 2 / 3)), ((1, 2), (0.4, 0.8))])
def test_fluid_drf_of_the_running_example(weights: tuple[float, float], shares: tuple[float, float]) -> None:
    demand = 4.5 * np.array([[1 / 9, 4 / 18], [3 / 9, 1 / 18]])
    np.testing.assert_allclose(pools.fluid(demand, np.array(weights, float)).max(1), shares, atol=EXACT)


@pytest.mark.parametrize(
    ("demand", "dominant"),
    [
        ([(1, 0.5), (0.5, 1)], [2 / 3, 2 / 3]),
        ([(1, 1), (0, 1)], [1 / 2, 1 / 2]),
        ([(1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0.5, 1)], [1 / 2, 1 / 2, 2 / 3, 2 / 3]),
        # The first two claim a resource that they do not need: it costs them nothing and helps the third.
        ([(1, 0, 0.5), (1, 0, 0.5), (0, 1, 0), (0, 0.5, 1)], [1 / 2, 1 / 2, 3 / 4, 1 / 2]),
    ],
)
def test_fluid_drf_of_the_lecture(demand: list[tuple[float, ...]], dominant: list[float]) -> None:
    found = pools.fluid(np.array(demand, float), np.ones(len(demand)))
    np.testing.assert_allclose(found.max(1), dominant, atol=EXACT)


@pytest.mark.parametrize("method", ["drf", "naive-hdrf", "min-satisfaction-hdrf"])
def test_all_methods_agree_where_there_is_no_hierarchy(method: str) -> None:
    jobs = [("a", 1, {"cpu": 100, "memory": 400}), ("b", 2, {"cpu": 300, "memory": 100})]
    tree = [{"id": name, "kind": "job", "weight": weight, "demand": demand} for name, weight, demand in jobs]
    document = {"total_resources": {"cpu": 9, "memory": 18}, "tree": tree}
    found = pools.computed(*pools.from_document(document), method=method)["elements"]
    assert found["a"]["fair_share"] == pytest.approx({"cpu": 1.8 / 9, "memory": 7.2 / 18}, abs=EXACT)
    assert found["b"]["fair_share"] == pytest.approx({"cpu": 7.2 / 9, "memory": 2.4 / 18}, abs=EXACT)


def test_a_jump_at_suggestion_one_has_its_lower_value_for_heavier_children() -> None:
    """The second job of the FIFO pool starts where the first has the whole cluster: at the end of the suggestion."""
    jobs = [pools.Job("j1", "fifo", {"cpu": 13, "memory": 1}), pools.Job("j2", "fifo", {"memory": 2})]
    tree = [
        pools.Pool("top", guarantee={"cpu": 3}),
        pools.Pool("fifo", "top", weight=2, mode="fifo"),
        pools.Pool("x", "top"),
    ]
    shares = pools.fair_shares(pools.Tree({"cpu": 12, "memory": 12}, tree, jobs))
    np.testing.assert_allclose(shares.pools[1], [1, 1 / 13], atol=EXACT)
    np.testing.assert_allclose(shares.jobs, [[1.0, 1 / 13], [0.0, 0.0]], atol=EXACT)


def test_the_root_holds_the_guarantees_that_its_children_use() -> None:
    tree = [pools.Pool("idle", guarantee={"cpu": 30}), pools.Pool("busy", guarantee={"cpu": 30})]
    found = pools.computed(pools.Tree({"cpu": 100}, tree, [pools.Job("j", "busy", {"cpu": 100})]))["elements"]
    assert found[pools.ROOT]["strong"] == {"cpu": 0.3}
    assert found[pools.ROOT]["weight_proportional"] == pytest.approx({"cpu": 0.7})


def test_estimates_add_flows_and_divide_the_rest_by_weight() -> None:
    flow = pools.Integral("relaxed", flow={"cpu": 10})
    tree = [pools.Pool("a", guarantee={"cpu": 40}), pools.Pool("b", guarantee={"cpu": 20}, integral=flow)]
    tree += [pools.Pool("a1", "a", guarantee={"cpu": 10}), pools.Pool("a2", "a", weight=2)]
    jobs = [pools.Job("j", "a", {"cpu": 100})]
    found = pools.computed(pools.Tree({"cpu": 100}, tree, jobs))["elements"]
    estimated = {name: found[name]["estimated_guarantee"]["cpu"] for name in ("a", "b", "a1", "a2")}
    assert estimated == pytest.approx({"a": 0.4, "b": 0.2, "a1": 0.1 + 0.3 / 4, "a2": 0.3 * 2 / 4}, abs=EXACT)
    expected = {name: found[name]["promised_fair_share"]["cpu"] for name in ("a", "b")}
    assert expected == pytest.approx({"a": 0.4 + 0.15, "b": 0.3 + 0.15}, abs=EXACT)


def test_guarantees_with_priority_are_fitted_first() -> None:
    def adjusted(*, priority: bool, donor: bool) -> tuple[list[float], int]:
        tree = [
            pools.Pool("top", guarantee={"cpu": 60}, limits={"cpu": 40}),
            pools.Pool("first", "top", guarantee={"cpu": 30}),
            pools.Pool("second", "top", guarantee={"cpu": 30}),
        ]
        states = {
            "top": pools.PoolState(guarantee_donor=donor),
            "first": pools.PoolState(priority_guarantee=priority),
        }
        shares = pools.fair_shares(pools.Tree({"cpu": 100}, tree, [], states=states))
        return shares.guaranteed[2:, 0].round(9).tolist(), len(shares.errors)

    assert adjusted(priority=False, donor=True) == ([0.2, 0.2], 0)
    assert adjusted(priority=True, donor=True) == ([0.3, 0.1], 0)
    assert adjusted(priority=True, donor=False) == ([0.2, 0.2], 1)


def test_a_job_gets_no_more_than_whole_tasks_could_take() -> None:
    job = {"id": "j", "kind": "job", "demand": {"cpu": 10}, "best_allocation_share": {"cpu": 0.6}}
    found = pools.computed(*pools.from_document({"total_resources": {"cpu": 10}, "tree": [job]}))
    assert found["elements"]["j"]["fair_share"] == pytest.approx({"cpu": 0.6})


@pytest.mark.parametrize(("above", "received"), [(None, 0.0), ("pool", 10.0)])
def test_what_overflows_goes_to_siblings_but_not_directly_below_the_root(above: str | None, received: float) -> None:
    full, empty = (
        {"id": name, "kind": "pool", "integral": {"type": "relaxed", "flow": {"cpu": flow}, "volume": {"cpu": volume}}}
        for name, flow, volume in (("full", 1, 1e9), ("empty", 2, 0))
    )
    below = [pool if above is None else {**pool, "parent": above} for pool in (full, empty)]
    document = {
        "total_resources": {"cpu": 10},
        "tree": below if above is None else [{"id": above, "kind": "pool"}, *below],
        "options": {"should_distribute_free_volume_among_children": True},
        "seconds_since_previous_update": 10,
    }
    volumes = pools.computed(*pools.from_document(document))["elements"]
    assert volumes["full"]["volume"] == pytest.approx({"cpu": 1e9})
    assert volumes["empty"]["volume"] == pytest.approx({"cpu": 20 + received})


def test_fifo_loses_room_to_granularity() -> None:
    queue = [(np.array([1, 4.0]), 1000), (np.array([10, 1.0]), 500)]
    assert pools.fifo(np.array([[3200, 6400.0]]), queue) == [1000, 220]
    assert pools.fifo(np.tile([32, 64.0], (100, 1)), queue) == [1000, 113]


def starved(usage: dict[str, float]) -> pools.Tree:
    """Job n1 beside a pool of two jobs of different resources, the second of which wants what n1 wants."""
    return pools.Tree(
        {"cpu": 10, "gpu": 10},
        [pools.Pool("n2")],
        [
            pools.Job("n1", pools.ROOT, {"gpu": 10}, usage={"gpu": usage.get("n1", 0)}),
            pools.Job("n2.1", "n2", {"cpu": 10}, usage={"cpu": usage.get("n2.1", 0)}),
            pools.Job("n2.2", "n2", {"gpu": 10}),
        ],
    )


def test_naive_hierarchical_drf_starves_a_job_that_restarts() -> None:
    found = pools.computed(starved({"n1": 5, "n2.1": 10}), method="naive-hdrf")["elements"]
    assert found["n2.2"]["fair_share"]["gpu"] == 0
    assert found["n1"]["fair_share"]["gpu"] == pytest.approx(1, abs=EXACT)


def test_least_satisfaction_serves_the_job_that_restarts() -> None:
    found = pools.computed(starved({"n1": 5, "n2.1": 10}), method="min-satisfaction-hdrf")["elements"]
    assert found["n2.2"]["fair_share"]["gpu"] >= 0.25  # what its weights promise: half of a half


def test_hierarchical_drf_from_the_start() -> None:
    found = pools.computed(starved({}), method="min-satisfaction-hdrf")["elements"]
    expected = CASES["drf_cases"][2]["expected_hdrf"]
    for name, amounts in expected.items():
        for resource, amount in amounts.items():
            assert found[name]["fair_share"][resource] == pytest.approx(amount / 10, abs=EXACT)
