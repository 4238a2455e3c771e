"""Workloads from YAML files: machines, pools, arrivals, and what is refused."""

from pathlib import Path

import pytest

from omega.cellstate.errors import BadInput
from omega.workload import presets
from omega.workload.file import read_workload, with_pools

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "pools-workload.yaml"
JOB = "{name: j, pool: a, tasks: [{resources: {cpu: 1}}]}"


def written(folder: Path, machines: str = "[{cpu: 4, memory: 1Gi}]", pools: str = "[{name: a}]", jobs: str = "") -> str:
    path = folder / "w.yaml"
    path.write_text(f"machines: {machines}\npools: {pools}\njobs: [{jobs or JOB}]\n")
    return str(path)


def test_the_example_has_machines_pools_and_arrivals_in_order() -> None:
    found = read_workload(str(EXAMPLE))
    assert found.capacity == (50 * 4000, 50 * 16 * 1024)
    assert [pool.name for pool in found.pools.pools] == ["production", "web", "reports", "research"]
    assert [arrival.at_seconds for arrival in found.arrivals[3:7]] == [0, 60, 65, 70]
    assert len({arrival.job.id for arrival in found.arrivals}) == len(found.arrivals) == 47
    assert {arrival.job.spec["pool"] for arrival in found.arrivals} == {"web", "reports", "research"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"machines": "[]"}, "w.yaml:1: list should have at least 1 item"),
        ({"machines": "[{cpu: 4}]"}, "w.yaml:1: field required"),
        ({"pools": "[{name: b}]"}, "job j names the unknown pool a"),
        ({"pools": "[{name: a}, {name: b, parent: a}]"}, "job j names pool a, which has pools below it"),
        ({"jobs": JOB.replace("name: j", "name: j, copies: 0")}, r"w.yaml jobs\[0\]: copies 0; want 1 to 1,000,000"),
        ({"jobs": JOB.replace("name: j", "name: j, at: soon")}, "'soon' is not a duration"),
        ({"jobs": JOB.replace("cpu", "cpus")}, r"w.yaml jobs\[0\].*cpus"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changed: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_workload(written(tmp_path, **changed))


def test_a_tree_of_some_machines_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "machines: [{cpu: 1, memory: 1Gi}]\ntrees: [{name: x, machines: \"a == 'b'\"}]\npools: [{name: a}]\n"
    )
    with pytest.raises(BadInput, match="a simulation has one tree"):
        read_workload(str(path))


def test_jobs_of_other_workloads_belong_to_the_leaf_pools_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text("pools: [{name: top}, {name: a, parent: top}, {name: b}]\n")
    small = presets.draw("C", 0, 0.005, rate=1.0, size=presets.Size(100, 16_000, 32_768))
    found = with_pools(small, str(path))
    assert [arrival.job.spec["pool"] for arrival in (*found.residents, *found.arrivals)][:4] == ["a", "b", "a", "b"]
    assert found.pools.configured
    path.write_text("pools: []\n")
    with pytest.raises(BadInput, match="no pools"):
        with_pools(small, str(path))
