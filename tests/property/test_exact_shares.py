"""Fair shares of random trees against exact arithmetic: every value of every element, all features at once."""

from dataclasses import replace
from math import isfinite
from random import Random
from typing import Any

import numpy as np
import pytest

from omega import pools
from tests.property.exact_elements import ROOT
from tests.property.exact_pool_tree import Calculation
from tests.tiers import first

CLOSE = 1e-9
TOTALS = ({"cpu": 12, "memory": 24}, {"cpu": 20, "memory": 12, "gpu": 0}, {"user_slots": 12, "cpu": 12, "memory": 18})


def amounts(rng: Random, totals: dict[str, int], part: float, *, some: bool = False) -> dict[str, int]:
    return {name: rng.randint(0, int(total * part)) for name, total in totals.items() if not some or rng.random() < 0.6}


def integral(rng: Random, totals: dict[str, int]) -> dict[str, Any]:
    kind = rng.choice(("burst", "relaxed", "relaxed", "none"))
    seconds = rng.choice((0, 30, 100, 100_000))
    return {
        "type": kind,
        "flow": {"cpu": rng.randint(1, 5)},
        "burst": {"cpu": rng.randint(1, 5)} if kind == "burst" else {},
        "volume": {name: total * seconds // 4 for name, total in totals.items()},
        "last_share": rng.choice((0, 0.125, 0.5)),
        "relaxed_share_multiplier_limit": rng.choice((None, 2)),
        "can_accept_free_volume": rng.random() < 0.8,
        "should_distribute_free_volume_among_children": rng.choice((None, True, False)),
    }


def pool(rng: Random, name: str, parent: str, totals: dict[str, int], *, spends: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"id": name, "kind": "pool", "parent": parent}
    if rng.random() < 0.5:
        found["weight"] = rng.choice((0.5, 1, 2, 3))
    if rng.random() < 0.5:
        found["strong_guarantee"] = amounts(rng, totals, 0.6, some=True)
    if rng.random() < 0.3:
        found["limits"] = amounts(rng, totals, 1.2, some=True)
    if spends and rng.random() < 0.4:
        found["integral"] = integral(rng, totals)
    found["compute_promised_guarantee"] = rng.random() < 0.3
    found["step_function_for_gang"] = rng.random() < 0.9
    for end in ("", "_donorship"):
        found["enable_priority_strong_guarantee_adjustment" + end] = rng.random() < 0.3
    return found


def job(rng: Random, name: str, parent: str, totals: dict[str, int]) -> dict[str, Any]:
    demand = amounts(rng, totals, 1.1)
    used = rng.choice((0, 0, 0.5, 1))
    usage = {key: rng.randint(0, int(value * used)) for key, value in demand.items()}
    found: dict[str, Any] = {"id": name, "kind": "job", "parent": parent, "demand": demand, "usage": usage}
    found |= {"gang": rng.random() < 0.4, "start_time": rng.randint(0, 3), "pending_job_count": rng.randint(0, 2)}
    if rng.random() < 0.3:
        found["weight"] = rng.choice((0.5, 2))
    if rng.random() < 0.2:
        found["limits"] = amounts(rng, totals, 1.0, some=True)
    if rng.random() < 0.1:
        found["best_allocation_share"] = {name: rng.choice((0.25, 0.5, 1)) for name in totals if rng.random() < 0.7}
    return found


def document(rng: Random) -> dict[str, Any]:
    """A tree of some levels of pools; integral guarantees on one level, as they are used, or on any."""
    totals = rng.choice(TOTALS)
    inner, nested = [ROOT], rng.random() < 0.4
    tree = []
    for number in range(rng.randint(0, 6)):
        parent = rng.choice(inner)
        name = f"p{number}"
        found = pool(rng, name, parent, totals, spends=nested or parent == ROOT)
        spending = found.get("integral", {}).get("type", "none") != "none"
        if rng.random() < 0.3:
            keys = rng.sample(("weight", "start_time", "pending_job_count"), rng.randint(1, 3))
            found |= {"mode": "fifo", "fifo_sort_parameters": keys, "fifo_reordering_for_guarantee": rng.random() < 0.7}
        elif nested or not spending or rng.random() < 0.5:
            inner.append(name)
        tree.append(found)
    homes = [ROOT, *(one["id"] for one in tree)]
    tree += [job(rng, f"j{number}", rng.choice(homes), totals) for number in range(rng.randint(0, 7))]
    options = {
        "step_function_for_gang": rng.random() < 0.6,
        "improved_fit_factor": rng.random() < 0.4,
        "fifo_reordering_for_guarantee": rng.random() < 0.7,
        "should_distribute_free_volume_among_children": rng.random() < 0.5,
        "infer_weight_from_guarantees_share_multiplier": rng.choice((None, None, 4)),
        "integral_pool_capacity_saturation_period": rng.choice((300, 86_400)),
    }
    seconds = rng.choice((None, 1, 60, 5_000))
    return {"total_resources": totals, "tree": tree, "options": options, "seconds_since_previous_update": seconds}


def differences(made: dict[str, Any]) -> list[str]:
    exact, found = Calculation(made), pools.computed(*pools.from_document(made))["elements"]
    wrong = []

    def compare(name: str, field: str, wanted: Any, scale: float = 1.0) -> None:
        got = found[name][field]
        values = [got[key] for key in exact.names] if isinstance(got, dict) else [got]
        numbers = np.array([np.inf if value == "infinite" else value for value in values], float)
        expected = np.array([float(value) for value in (wanted if isinstance(wanted, tuple) else (wanted,))])
        if not np.allclose(numbers, expected, rtol=0, atol=CLOSE * scale, equal_nan=True):
            wrong.append(f"{name} {field}: {numbers.tolist()} instead of {expected.tolist()}")

    for name, one in exact.elements.items():
        strong, given, rest = exact.parts(one)
        compare(name, "fair_share", one.share)
        compare(name, "promised", one.promised)
        compare(name, "strong", strong)
        compare(name, "integral", given)
        compare(name, "weight_proportional", rest)
        compare(name, "weight", one.weight)
        compare(name, "estimated_guarantee", one.estimated)
        compare(name, "promised_fair_share", one.expected)
        if not one.is_job:
            compare(name, "volume", one.volume, 1e6)
            compare(name, "satisfaction", exact.satisfaction(one), 1e3)
        compare(name, "local_satisfaction", exact.local_satisfaction(one), 1e3)
        assert isfinite(float(sum(one.share)))
    return wrong


@pytest.mark.parametrize("seed", first(1, range(4)))
def test_random_trees_agree_with_exact_arithmetic(seed: int) -> None:
    rng = Random(f"exact/{seed}")
    for number in range(25):
        made = document(rng)
        assert not differences(made), (number, differences(made), made)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(4, 64))
def test_thousands_of_random_trees_agree_with_exact_arithmetic(seed: int) -> None:
    rng = Random(f"exact/{seed}")
    for number in range(50):
        made = document(rng)
        assert not differences(made), (number, differences(made), made)


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_a_leaf_of_several_jobs_is_as_many_equal_leaves(seed: int) -> None:
    rng = Random(f"counted/{seed}")
    for _ in range(20):
        made = document(rng)
        fifo = {one["id"] for one in made["tree"] if one.get("mode") == "fifo"}
        counts = {}
        for one in [one for one in made["tree"] if one["kind"] == "job"]:
            one["usage"] = rng.choice(({}, one["demand"]))
            if one["parent"] in fifo or one["gang"]:
                continue
            counts[one["id"]] = rng.randint(1, 3)
            at = made["tree"].index(one)
            made["tree"][at:at] = [{**one, "id": f"{one['id']}+{copy}"} for copy in range(1, counts[one["id"]])]
        exact, (tree, seconds) = Calculation(made), pools.from_document(made)
        jobs = [replace(one, count=counts.get(one.name, 1)) for one in tree.jobs if "+" not in one.name]
        shares = pools.fair_shares(replace(tree, jobs=jobs), seconds)
        for one, share in zip(jobs, shares.jobs, strict=True):
            np.testing.assert_allclose(share, [float(part) for part in exact.elements[one.name].share], atol=CLOSE)
        for name, number in tree.numbers.items():
            for field, found in (
                ("share", shares.pools),
                ("demand", shares.pool_demand),
                ("estimated", shares.estimated[0]),
            ):
                wanted = [float(part) for part in getattr(exact.elements[name], field)]
                np.testing.assert_allclose(found[number], wanted, atol=CLOSE, err_msg=f"{name} {field} {made}")
