"""Trees with their expected values from the public tests of YTsaurus: everything that the calculator prints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omega import pools
from omega.schedulers.fairshare.guarantees import inferred
from omega.schedulers.fairshare.satisfaction import is_below_fair_share

FILE = json.loads((Path(__file__).parent / "ytsaurus-cases.json").read_text("utf-8"))
INPUT = ("total_resources", "tree", "options", "seconds_since_previous_update")
EXACT = 1e-9
TOLERANCE = 0.8
"""Of starvation."""


def variants() -> list[Any]:
    found = []
    for case in FILE["cases"]:
        found.append(pytest.param(case, case["options"], id=case["name"]))
        more = case.get("also_holds_with_options")
        if more:
            found.append(pytest.param(case, {**case["options"], **more}, id="-".join([case["name"], *more])))
    return found


def compare(case: dict[str, Any], found: dict[str, Any]) -> None:
    """Compare what is expected; a list is in the order that the file states, a mapping names some resources."""
    for name, expected in case["expected"].items():
        for field, value in expected.items():
            got = found["elements"][name][field]
            if isinstance(got, dict):
                wanted = dict(zip(FILE["vector_order"], value, strict=True)) if isinstance(value, list) else value
                scale = max([1.0, *wanted.values()]) if field == "volume" else 1.0
                want = pytest.approx(wanted, rel=0, abs=scale * max(case["tolerance"], EXACT))
                assert {key: got[key] for key in wanted} == want, (name, field)
            elif isinstance(value, float):
                assert got == pytest.approx(value, abs=EXACT), (name, field)
            else:
                assert got == value, (name, field)


@pytest.mark.parametrize(("case", "options"), variants())
def test_the_tree_gives_the_published_values(case: dict[str, Any], options: dict[str, Any]) -> None:
    given = pools.from_document({name: case[name] for name in INPUT} | {"options": options})
    found = pools.computed(*given)
    compare(case, found)
    for name in case.get("within_limits", ()):
        one = found["elements"][name]
        for resource, limit in one["limits_share"].items():
            assert one["strong_guarantee_share"][resource] + one["integral"][resource] <= limit + EXACT
    if "reports" in case:
        assert any(case["reports"] in error for error in found["errors"]) == bool(case["reports"])


def of(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in FILE["cases"] if case.get(kind)]


@pytest.mark.parametrize("case", of("guaranteed"))
def test_strong_guarantees(case: dict[str, Any]) -> None:
    tree = pools.from_document({name: case[name] for name in INPUT})[0]
    for table, wanted in ((pools.fair_shares(tree).guaranteed, case["guaranteed"]), (inferred(tree), case["inferred"])):
        got = {name: dict(zip(tree.resources, table[tree.numbers[name]].tolist(), strict=True)) for name in wanted}
        for name, amounts in wanted.items():
            assert got[name] == pytest.approx(amounts, abs=EXACT), name


@pytest.mark.parametrize("case", of("partition"))
def test_partitions_of_running_tasks(case: dict[str, Any]) -> None:
    tree = pools.from_document({name: case[name] for name in INPUT})[0]
    shares = pools.fair_shares(tree)
    for name, given in case["partition"].items():
        at = [job.name for job in tree.jobs].index(name)
        tasks = np.tile(tree.share(tree.vector(given["task"])), (given["tasks"], 1))
        if "first" in given:
            tasks[0] = tree.share(tree.vector(given["first"]))
        element = (shares.jobs[at], shares.job_demand[at], shares.job_usage[at])
        kept = tree.share(tree.vector(given["protected"], np.inf)) if given.get("protected") else None
        protected, aggressively = pools.partition(tasks, element, tuple(given["thresholds"]), kept)
        preemptible = given["tasks"] - protected - aggressively
        if "expected" in given:
            assert [protected, aggressively, preemptible] == given["expected"]
        else:
            assert preemptible == given["preemptible"]


@pytest.mark.parametrize("case", of("status"))
def test_who_is_below_its_fair_share(case: dict[str, Any]) -> None:
    tree = pools.from_document({name: case[name] for name in INPUT})[0]
    shares = pools.fair_shares(tree)
    jobs = [job.name for job in tree.jobs]
    for name, status in case["status"].items():
        if name in jobs:
            at = jobs.index(name)
            element = (shares.jobs[at], shares.job_demand[at], shares.job_usage[at])
        else:
            at = tree.numbers[name]
            element = (shares.pools[at], shares.pool_demand[at], shares.pool_usage[at])
        assert is_below_fair_share(*element, TOLERANCE, job=name in jobs) == (status == "below"), name
