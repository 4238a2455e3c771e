"""`omega sim run`: the figures scripts rely on, the same run on a real store, errors in a line."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Omega

SMALL = ("sim", "run", "--workload", "C", "--machines", "300", "--days", "0.02")
HEADER = "job_id,workload,submit_s,num_tasks,task_duration_s,cpus_per_task,mem_gb_per_task\n"


@pytest.fixture
def sim() -> Omega:
    """The program; nothing here needs a store of its own."""
    return Omega(None)


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """A file with a prefill, ten batch jobs and two service jobs."""
    rows = ["p,Prefill,0,4,100000,1.0,4.0"]
    rows += [f"b{i},Batch,{i * 30},6,500,0.5,1.0" for i in range(10)]
    rows += [f"s{i},Service,{i * 100},3,5000,1.0,2.0" for i in range(2)]
    path = tmp_path / "small.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def without_time(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "wall_seconds"}


def test_the_document_has_the_agreed_fields(sim: Omega) -> None:
    found = sim.json(*SMALL)
    assert {"architecture", "days", "wall_seconds", "jobs", "tasks", "batch", "service", "utilisation"} <= set(found)
    assert {"submitted", "scheduled", "abandoned"} == set(found["jobs"])
    wanted = {"wait_mean", "wait_p90", "busyness_median", "busyness_mad", "conflict_fraction"}
    assert wanted <= set(found["batch"])
    assert wanted <= set(found["service"])
    assert 0.5 < found["utilisation"]["cpu"] < 0.75
    assert found["jobs"]["submitted"] > 200
    assert found["configuration"]["machines"] == 300


def test_the_same_seed_gives_the_same_run(sim: Omega) -> None:
    first, second = sim.json(*SMALL), sim.json(*SMALL)
    assert without_time(first) == without_time(second)
    assert sim.json(*SMALL, "--seed", "1")["digest"] != first["digest"]


def test_a_file_and_its_cell(sim: Omega, workload: Path) -> None:
    found = sim.json(
        "sim",
        "run",
        "--workload",
        str(workload),
        "--machines",
        "20",
        "--cpu",
        "4",
        "--memory",
        "16Gi",
        "--days",
        "0.02",
        "--architecture",
        "monolithic-multi",
        "--t-job-service",
        "10",
    )
    assert found["settings"]["batch"] == 1, "named as its option"
    assert found["jobs"] == {"submitted": 12, "scheduled": 12, "abandoned": 0}
    assert found["service"]["busyness_median"] == pytest.approx((2 * 10.015 + 10 * 0.13) / 1728)


def test_a_store_gives_the_same_run(sim: Omega, workload: Path, store_url: str) -> None:
    words = ("sim", "run", "--workload", str(workload), "--machines", "12", "--days", "0.02")
    on_store = sim.json(*words, "--store", store_url)
    assert on_store["digest"] == sim.json(*words)["digest"]
    assert on_store["jobs"]["scheduled"] == 12


def test_people_get_tables(sim: Omega) -> None:
    text = sim.text(*SMALL, "--batch", "2", "--workload", "B")
    assert text.startswith("B (calibrated)")
    assert "batch/1" in text
    assert "in use" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--architecture", "anarchy"), "unknown architecture 'anarchy'; known: monolithic-single"),
        (("--workload", "D"), "no such preset; known: A, B, C"),
        (("--workload", "nowhere.csv"), "no such file"),
        (("--placement", "worst"), "unknown placement 'worst'"),
        (("--offers", "none"), "unknown offers 'none'"),
        (("--architecture", "monolithic-multi", "--batch", "2"), "monolithic-multi has one"),
        (("--cpu", "4x"), "'4x' is not an amount"),
        (("--t-job-batch", "nan"), "want a time from 0 on"),
        (("--store", "unix:///nowhere/store.sock"), "/nowhere/store.sock"),
    ],
)
def test_what_makes_no_sense_is_said(sim: Omega, words: tuple[str, ...], says: str) -> None:
    assert says in sim.error("sim", "run", "--days", "0.01", *words)


def test_a_bad_row_is_named(sim: Omega, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(HEADER + "1,Batch,0,1,-5,1,1\n")
    said = sim.error("sim", "run", "--workload", str(path))
    assert f"{path}:2: column 5 (task_duration_s)" in said
    assert "rate is for presets" in sim.error("sim", "run", "--workload", str(path), "--rate", "2")


def test_wrong_usage(sim: Omega) -> None:
    sim.error("sim", "run", "--t-job-batch", "-1", code=2)
    sim.error("sim", "run", "--detection", "rough", code=2)


OWN = """
import omega

tight = omega.Scheduler("tight", placement=omega.BestFit())
evicting = omega.Scheduler("batch", preemption=omega.PrecedencePreemption())
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module and a file in the current directory, each with schedulers."""
    (tmp_path / "own_of_simulation.py").write_text(OWN)
    (tmp_path / "loose.toml").write_text('kind = "loose"\n[ordering]\npolicy = "weighted-fair"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_of_simulation", raising=False)


TIGHT, LOOSE, EVICTING = "own_of_simulation:tight", "loose.toml", "own_of_simulation:evicting"


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("architecture", ["shared-state", "partitioned", "two-level"])
def test_several_own_schedulers_share_the_jobs_in_every_architecture_of_several(
    sim: Omega, workload: Path, architecture: str
) -> None:
    found = sim.json(
        "sim",
        "run",
        "--workload",
        str(workload),
        "--machines",
        "20",
        "--days",
        "0.02",
        "--architecture",
        architecture,
        "--scheduler",
        TIGHT,
        "--scheduler",
        LOOSE,
        "--share",
        "0.8",
    )
    taken = {kind: found[kind]["jobs_scheduled"] for kind in ("batch", "service", "tight", "loose")}
    assert sum(taken.values()) == 12
    assert taken["service"] == 2
    assert min(taken["tight"], taken["loose"]) > 0
    assert set(found["schedulers"]) == {"batch/0", "service/0", "tight/0", "loose/0"}


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("architecture", ["monolithic-single", "monolithic-multi"])
def test_a_monolithic_architecture_takes_one_own_scheduler(sim: Omega, workload: Path, architecture: str) -> None:
    words = ("sim", "run", "--workload", str(workload), "--days", "0.02", "--architecture", architecture)
    found = sim.json(*words, "--scheduler", TIGHT)
    assert found["batch"]["jobs_scheduled"] + found["service"]["jobs_scheduled"] == 12
    said = sim.error(*words, "--scheduler", TIGHT, "--scheduler", LOOSE)
    assert said == f"simulation: 2 schedulers of your own; {architecture} has one for all jobs"


@pytest.mark.usefixtures("own")
def test_the_table_shows_evictions_and_two_level_refuses_who_evicts(sim: Omega) -> None:
    words = (
        "sim",
        "run",
        "--workload",
        "C",
        "--machines",
        "20",
        "--days",
        "0.01",
        "--rate",
        "6",
        "--scheduler",
        EVICTING,
    )
    table = {line.split()[0]: line.split() for line in sim.text(*words).splitlines() if line}
    assert table["kind"][5] == "evicted"
    document = sim.json(*words)
    evicted = {kind: document[kind]["tasks_evicted"] for kind in ("batch", "service")}
    assert {kind: int(table[kind][5]) for kind in evicted} == evicted
    assert evicted["batch"] > 0
    said = sim.error(*words, "--architecture", "two-level")
    assert said == "simulation: scheduler batch evicts, and sees only offers in two-level"


WITH_POOLS = """
machines: [{count: 4, cpu: 4, memory: 4Gi}]
trees: [{name: default, preemption: {starvation_timeout: 2, starvation_tolerance: 1, backoff: 0.5}}]
pools: [{name: a}, {name: b}]
jobs:
  - {name: early, pool: a, tasks: [{count: 16, resources: {cpu: 1}, duration: 1h}]}
  - {name: late, pool: b, at: 10s, tasks: [{count: 16, resources: {cpu: 1}, duration: 1h}]}
"""


def test_pools_of_a_workload_in_table_document_and_figures(sim: Omega, tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(WITH_POOLS)
    run = ("sim", "run", "--workload", str(path), "--days", "0.0005")
    found = sim.json(*run, "--figures", str(tmp_path))
    a, b = found["pools"]["a"], found["pools"]["b"]
    assert (a["tasks_evicted"], b["tasks_evicted"]) == (8, 0)
    assert 8 * 10 < a["wasted_seconds"] < 8 * 20
    assert a["usage_mean"] > b["usage_mean"] > 0.2
    assert (tmp_path / "pools.svg").exists()
    assert (tmp_path / "pools.png").exists()
    table = sim.text(*run)
    assert re.search(r"^a +\d+\.\d% +\d+\.\d% +cpu +\d\.\d\d +8 ", table, re.MULTILINE), table
    assert "pools" not in sim.json(*SMALL)
    assert "machines 3" in sim.error(*run, "--machines", "3")
    assert "figures show pools" in sim.error(*SMALL, "--figures", str(tmp_path))
