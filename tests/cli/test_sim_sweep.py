"""`omega sim sweep`: tables and plots, resumed where it stopped, processes and Dask, errors in a line."""

import json
from pathlib import Path

import pytest

from omega.cli.sim import executor
from tests.cli.conftest import Omega

SMALL = ("--machines", "60", "--days", "0.002", "--workers", "1")


@pytest.fixture
def sim() -> Omega:
    """The program; nothing here needs a store."""
    return Omega(None)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def test_every_combination_is_a_row(sim: Omega, results: Path, tmp_path: Path) -> None:
    plot = tmp_path / "out.svg"
    found = sim.json(
        "sim",
        "sweep",
        "--vary",
        "batch=1,2",
        "--vary",
        "rate=1..2",
        "--metric",
        "conflict_fraction",
        "busyness",
        "--plot",
        str(plot),
        "--results",
        str(results),
        *SMALL,
    )
    assert [(row["batch"], row["rate"]) for row in found["points"]] == [(1, 1.0), (1, 2.0), (2, 1.0), (2, 2.0)]
    assert set(found["points"][0]) == {
        "batch",
        "rate",
        "batch.conflict_fraction",
        "service.conflict_fraction",
        "batch.busyness_median",
        "service.busyness_median",
    }
    assert "conflict fraction" in plot.read_text()
    assert len(results.read_text().splitlines()) == 4


def test_what_is_finished_is_not_run_again(sim: Omega, results: Path) -> None:
    words = ("sim", "sweep", "--results", str(results), *SMALL)
    sim.text(*words, "--vary", "seed=0,1")
    before = results.read_text()
    text = sim.text(*words, "--vary", "seed=0..2", "--metric", "batch.wait", "utilisation")
    assert results.read_text().startswith(before)
    assert len(results.read_text().splitlines()) == 3
    assert text.splitlines()[0].split() == ["seed", "batch.wait_mean", "utilisation.cpu", "utilisation.memory"]
    text = sim.text(*words, "--vary", "seed=0..2", "--metric", "batch.wait", "--output", "batch.wait_mean,seed")
    assert text.splitlines()[0].split() == ["batch.wait_mean", "seed"]


def test_points_of_other_code_are_said_and_run_again(sim: Omega, results: Path) -> None:
    words = ("sim", "sweep", "--results", str(results), "--vary", "seed=0,1", *SMALL)
    sim.text(*words)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    old = [{**record, "key": f"old-{i}", "sources": "0ld"} for i, record in enumerate(lines)]
    results.write_text("".join(json.dumps(record) + "\n" for record in old))
    done = sim.run(*words)
    assert f"{results}: 2 points of Omega {lines[0]['version']} (sources 0ld) kept; simulated again" in done.stderr
    assert [json.loads(line)["digest"] for line in results.read_text().splitlines()] == [
        record["digest"] for record in (*old, *lines)
    ]
    assert "sources" not in sim.run(*words).stderr


@pytest.mark.chaos
def test_processes_do_the_same(sim: Omega, results: Path, tmp_path: Path) -> None:
    words = ("sim", "sweep", "--vary", "seed=0,1", *SMALL)
    alone = sim.json(*words, "--results", str(results))
    together = sim.json(*words, "--results", str(tmp_path / "other.jsonl"), "--workers", "2")
    assert alone["points"] == together["points"]
    digests = [
        {json.loads(line)["digest"] for line in path.read_text().splitlines()}
        for path in (results, tmp_path / "other.jsonl")
    ]
    assert digests[0] == digests[1]


def test_an_executor_out_of_reach_keeps_what_is_finished(
    sim: Omega, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executor, "ANSWER_SECONDS", 0.3)
    words = ("sim", "sweep", "--results", str(results), *SMALL)
    sim.text(*words, "--vary", "seed=0")
    said = sim.error(*words, "--vary", "seed=0,1", "--executor", "dask://127.0.0.1:1")
    assert said.startswith("executor dask://127.0.0.1:1: not reachable")
    assert f"1 finished point in {results}; run it again to resume" in said
    assert len(results.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--vary", "speed=1"), "unknown parameter 'speed'"),
        (("--vary", "architecture=none"), "unknown architecture 'none'"),
        (("--vary", "seed=1", "--metric", "joy"), "unknown metric 'joy'"),
        (("--vary", "seed=1,2", "--executor", "slurm://x"), "must be dask://HOST:PORT"),
        (("--vary", "workload=nowhere.csv"), "nowhere.csv: cannot be read"),
    ],
)
def test_what_makes_no_sense_is_said(sim: Omega, results: Path, words: tuple[str, ...], says: str) -> None:
    assert says in sim.error("sim", "sweep", "--results", str(results), *SMALL, *words)


def test_wrong_usage(sim: Omega, results: Path) -> None:
    sim.error("sim", "sweep", code=2)
    sim.error("sim", "sweep", "--vary", "seed=1", "--plot", "out.gif", code=2)
    sim.error("sim", "sweep", "--vary", "seed=1", "seed=2", code=2)


def test_a_file_of_something_else_is_not_touched(sim: Omega, tmp_path: Path) -> None:
    path = tmp_path / "diary.txt"
    path.write_text("Dear diary\n")
    assert "diary.txt:1" in sim.error("sim", "sweep", "--vary", "seed=1", "--results", str(path), *SMALL)
    assert path.read_text() == "Dear diary\n"
