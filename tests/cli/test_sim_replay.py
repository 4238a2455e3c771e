"""`omega sim replay`: what it prints and writes, what it refuses, and that twin and store agree."""

import csv
import gzip
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cli.conftest import Omega
from tests.contract.trace_samples import SAMPLES
from tests.tiers import first

HEADER = "; Version: 2.2\n; MaxNodes: 4\n; MaxProcs: 16\n"
SHARED = os.environ.get("OMEGA_SHARED")


def _swf(rows: list[tuple[int, int, int, int]], path: Path) -> Path:
    """A log of jobs: submission, run time, processors, user."""
    lines = [
        f"{i} {at} 0 {run} {processors} -1 -1 {processors} {max(run, 1)} -1 1 {user} 1 1 1 1 -1 -1"
        for i, (at, run, processors, user) in enumerate(rows, 1)
    ]
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def alone() -> Omega:
    """The program without a store: a replay needs none."""
    return Omega(None)


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """An hour of a cluster that is full at times."""
    rng = Random(7)
    at = sorted(rng.randint(0, 3000) for _ in range(80))
    return _swf(
        [(t, rng.choice((0, 5, 60, 600)), rng.randint(1, 12), rng.randint(1, 3)) for t in at], tmp_path / "busy.swf"
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_document_and_files_agree(alone: Omega, busy: Path, tmp_path: Path) -> None:
    out, batsim = tmp_path / "out", tmp_path / "jobs.csv"
    document = alone.json("sim", "replay", str(busy), "--drain", "2", "--records", str(out), "--batsim", str(batsim))
    jobs, tasks, units = _rows(out / "jobs.csv"), _rows(out / "tasks.csv"), _rows(batsim)
    metrics: dict[str, Any] = document["metrics"]["jobs"]["all"]
    assert metrics["jobs"] == len(jobs) == 80
    assert metrics["states"]["finished"] == 80
    assert metrics["tasks_finished"] == len(tasks) == len(units)
    assert metrics["wait_s"]["mean"] == pytest.approx(sum(float(job["wait_s"]) for job in jobs) / 80)
    assert metrics["bounded_slowdown"]["max"] == max(float(job["bounded_slowdown"]) for job in jobs) > 1
    seconds = 86_400 * document["days"]
    work = sum(float(row["execution_time"]) for row in units)
    assert document["metrics"]["utilisation"]["mean"]["cpu"] == pytest.approx(work / seconds / 16)
    assert document["utilisation"]["cpu"] == pytest.approx(work / seconds / 16)
    assert document["files"] == [str(out / f"{name}.csv") for name in ("jobs", "tasks", "users", "utilisation")] + [
        str(batsim)
    ]
    assert {user["user"]: user["jobs"] for user in document["metrics"]["fairness"]["users"]} == {
        user: sum(job["user"] == user for job in jobs) for user in ("user-1", "user-2", "user-3")
    }
    assert [each["placement"] for each in document["policies"]] == ["OwnPart", "ServicePlacement"]
    assert "placement" not in document["settings"]


@pytest.mark.server
def test_twin_and_store_have_one_digest(alone: Omega, busy: Path, store_url: str) -> None:
    words = ("sim", "replay", str(busy), "--hours", "1", "--scheduler", "batch=2", "--scheduler", "batch")
    on_twin = alone.json(*words)
    on_store = alone.json(*words, "--store", store_url)
    other_seed = alone.json(*words, "--seed", "1")
    assert on_store["digest"] == on_twin["digest"] != other_seed["digest"]
    assert on_store["metrics"] == on_twin["metrics"]
    assert set(on_twin["schedulers"]) == {"batch/0", "batch/1", "batch/2", "service/0"}


def test_records_as_parquet(alone: Omega, busy: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    alone.run("sim", "replay", str(busy), "--records", str(tmp_path / "out"), "--parquet")
    assert parquet.read_table(tmp_path / "out" / "jobs.parquet").num_rows == 80


def test_paper_mode_is_compared(alone: Omega, busy: Path) -> None:
    plain = alone.json("sim", "replay", str(busy), "--compare-paper")
    paper = alone.json("sim", "replay", str(busy), "--paper")
    rows = {(row["figure"], row["kind"]): row for row in plain["compare_paper"]}
    wait = rows["wait mean", "batch"]
    assert wait["as traced"] == plain["batch"]["wait_mean"]
    assert wait["paper mode"] == paper["batch"]["wait_mean"]
    assert wait["little"] == {"no failures": True, "no preemption": True, "paper mode": True}
    assert [each["preemption"] for each in paper["policies"]] == ["NoPreemption", "NoPreemption"]
    assert "no failures: no figure differs from the run as traced" in alone.text(
        "sim", "replay", str(busy), "--compare-paper"
    )


def test_the_lightweight_simulator_is_beside_it(alone: Omega, busy: Path) -> None:
    document = alone.json("sim", "replay", str(busy), "--compare-lightweight")
    assert [(row["kind"], row["simulator"]) for row in document["compare_lightweight"]] == [
        ("batch", "replay"), ("batch", "lightweight"),
    ]  # fmt: skip
    assert document["compare_lightweight"][0]["conflict_fraction"] == document["batch"]["conflict_fraction"]
    assert document["compare_lightweight"][1]["jobs"] > 0


def test_a_scheduler_of_another_kind_takes_jobs(alone: Omega, busy: Path) -> None:
    words = ("sim", "replay", str(busy), "--scheduler", "mapreduce")
    assert "add --takes KIND" in alone.error(*words)
    document = alone.json(*words, "--takes", "batch", "--share", "0.5")
    assert 0 < document["mapreduce"]["jobs_submitted"] < 80
    assert document["mapreduce"]["jobs_submitted"] + document["batch"]["jobs_submitted"] == 80


@pytest.mark.parametrize(
    "architecture", first(1, ["monolithic-single", "two-level", "monolithic-multi", "partitioned"])
)
def test_other_architectures(alone: Omega, busy: Path, architecture: str) -> None:
    document = alone.json("sim", "replay", str(busy), "--architecture", architecture, "--paper", "--drain", "0.2")
    assert document["architecture"] == architecture
    assert document["metrics"]["jobs"]["all"]["tasks_started"] > 0


def test_pools_of_a_file(alone: Omega, busy: Path, tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools:\n  - name: queue-1\n", encoding="utf-8")
    document = alone.json(
        "sim", "replay", str(busy), "--pools", str(pools), "--hours", "0.05", "--records", str(tmp_path)
    )
    assert document["pools"]
    assert {job["pool"] for job in _rows(tmp_path / "jobs.csv")} == {"queue-1"}


def test_a_refused_export_comes_after_the_results(alone: Omega, busy: Path, tmp_path: Path) -> None:
    words = ("sim", "replay", str(busy), "--batsim", str(tmp_path / "jobs.csv"), "--batsim-unit", "3")
    result = alone.run(*words, code=1)
    assert "Jain's index" in result.stdout
    assert result.stderr.splitlines()[-1].startswith("error: export: machine n")
    assert not (tmp_path / "jobs.csv").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--parquet",), "--parquet is the form of --records DIRECTORY"),
        (("--batsim-unit", "1"), "--batsim-unit is for --batsim FILE.csv"),
        (("--scheduler", "nosuch"), "unknown scheduler 'nosuch'; known: batch, mapreduce, service"),
        (("--scheduler", "batch=0"), "'0' is no number of schedulers; want 1 to 64"),
        (("--architecture", "two-level"), "scheduler service evicts, and sees only offers in two-level"),
        (("--batsim", "x.csv", "--batsim-unit", "0"), "--batsim-unit 0: want more than 0"),
        (("--hours", "0"), "0.0 is not in the range"),
    ],
)
def test_options_that_make_no_sense(alone: Omega, busy: Path, words: tuple[str, ...], said: str) -> None:
    code = 2 if "sim replay" in said or words[0] in ("--parquet", "--hours") or words == ("--batsim-unit", "1") else 1
    code = 2 if words[-1] == "batch=0" else code
    assert said in alone.error("sim", "replay", str(busy), *words, code=code)


# Traces of all formats, whole and broken


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.chaos
def test_every_format_is_replayed(alone: Omega, tmp_path: Path, name: str) -> None:
    path = SAMPLES[name].write(tmp_path / name)
    document = alone.json("sim", "replay", str(path), "--drain", "1", "--records", str(tmp_path / "records"))
    assert document["trace"]["format"] == name
    assert document["metrics"]["jobs"]["all"]["states"]["finished"] > 10
    assert document["over_commit"]["machines"] == 0


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "omega"])
def test_a_row_of_another_trace_and_a_truncated_gzip(alone: Omega, tmp_path: Path, name: str) -> None:
    """The error names the file, and the row of another trace's columns; nothing else is printed."""
    sample = SAMPLES[name]
    path = sample.write(tmp_path / name)
    file = tmp_path / name / sample.file
    whole = gzip.decompress(file.read_bytes()).decode().splitlines(keepends=True)
    row = len(whole) // 2
    file.write_bytes(gzip.compress("".join([*whole[:row], sample.bad_row, *whole[row:]]).encode()))
    assert f"{file}:{row + 1}" in alone.error("sim", "replay", str(path))
    skipped = alone.json("sim", "replay", str(path), "--skip-bad-rows")
    assert any(f"{file}:{row + 1}" in each["places"] for each in skipped["trace"]["defects"])
    file.write_bytes(gzip.compress("".join(whole).encode())[:-20])
    assert str(file) in alone.error("sim", "replay", str(path))


def test_a_missing_part_in_the_middle(alone: Omega, tmp_path: Path) -> None:
    directory = SAMPLES["google-2011"].write(tmp_path / "google")
    (directory / "task_events" / "part-00001-of-00500.csv.gz").unlink()
    assert "task_events: part 00001 is missing between others" in alone.error("sim", "replay", str(directory))
    skipped = alone.json("sim", "replay", str(directory), "--skip-bad-rows")
    assert any("parts missing" in each["what"] for each in skipped["trace"]["defects"])


def test_a_recording_cut_in_the_middle_is_replayed_up_to_the_cut(alone: Omega, tmp_path: Path) -> None:
    """As any trace with --paper, and without options as a comparison with what happened."""
    file = SAMPLES["omega"].write(tmp_path / "omega")
    words = ("sim", "replay", str(file), "--paper")
    whole = alone.json(*words)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert "the file is cut or has no end; it is read up to there" in alone.run(*words).stderr
    cut = alone.json(*words)
    assert [each["rule"] for each in cut["trace"]["defects"]].count("cut") == 1
    assert "cut" not in [each["rule"] for each in whole["trace"]["defects"]]
    assert 0 < cut["trace"]["seconds"] < whole["trace"]["seconds"]
    assert 0 < cut["metrics"]["jobs"]["all"]["jobs"] < whole["metrics"]["jobs"]["all"]["jobs"]
    assert f"{file} is cut; it is read up to the cut" in alone.run("sim", "replay", str(file)).stderr


@pytest.mark.parametrize("words", [("--batch", "+2"), ("--placement", "best-fit")])
def test_options_of_comparisons_alone(alone: Omega, busy: Path, tmp_path: Path, words: tuple[str, str]) -> None:
    file = SAMPLES["omega"].write(tmp_path / "omega")
    said = alone.error("sim", "replay", str(file), *words, "--paper", code=2)
    assert f"{words[0]} {words[1]} is for comparisons" in said
    assert "for recordings" in alone.error("sim", "replay", str(busy), *words, code=2)


def test_an_export_of_enlarged_machines_says_so(alone: Omega, tmp_path: Path) -> None:
    path, file = SAMPLES["google-2011"].write(tmp_path / "google"), tmp_path / "jobs.csv"
    words = ("sim", "replay", str(path), "--batsim", str(file))
    enlarged, plain = alone.json(*words, "--factor", "2"), alone.json(*words, "--factor", "1")
    said = "machines have 2 × their capacity in the trace"
    assert [any(said in note for note in each["notes"]) for each in (enlarged, plain)] == [True, False]


def test_a_directory_that_is_no_trace(alone: Omega, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n", encoding="utf-8")
    assert f"trace {tmp_path}: no trace of a supported format" in alone.error("sim", "replay", str(tmp_path))
    assert "no such file or directory" in alone.error("sim", "replay", str(tmp_path / "nothing"))


def test_a_trace_without_length(alone: Omega, tmp_path: Path) -> None:
    path = _swf([(0, 0, 1, 1)], tmp_path / "zero.swf")
    assert "its period has no length; add --drain HOURS" in alone.error("sim", "replay", str(path))
    document = alone.json("sim", "replay", str(path), "--drain", "0.01", "--hours", "5")
    assert document["days"] == pytest.approx(0.01 / 24)
    assert document["metrics"]["jobs"]["all"]["states"]["finished"] == 1


def test_a_word_where_a_number_belongs(alone: Omega, busy: Path) -> None:
    busy.write_text(busy.read_text(encoding="utf-8").replace("\n4 ", "\nfour ", 1), encoding="utf-8")
    assert f"{busy}:7" in alone.error("sim", "replay", str(busy))
    assert alone.json("sim", "replay", str(busy), "--skip-bad-rows")["metrics"]["jobs"]["all"]["jobs"] == 79


# The published trace


@pytest.mark.chaos
@pytest.mark.server
@pytest.mark.skipif(not SHARED, reason="OMEGA_SHARED names no folder of published traces")
def test_the_first_hour_of_the_google_trace_on_twin_and_store(alone: Omega, store_url: str) -> None:
    path = str(Path(SHARED or "") / "traces" / "google-2011")
    on_twin = alone.json("sim", "replay", path, "--hours", "1")
    on_store = alone.json("sim", "replay", path, "--hours", "1", "--store", store_url)
    assert on_store["digest"] == on_twin["digest"]
    assert on_twin["residents"] == {"tasks": 144_339, "placed": 132_969, "waiting": 11_370, "on_unknown_machines": 13}
