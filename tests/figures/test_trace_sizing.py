"""Figures 15 and 16 on a made trace and a made file of SWIM."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.experiments.finding import Conclusion
from omega.experiments.plots.trace_sizing import draw_sizing
from omega.experiments.sizing_claims import judged
from omega.experiments.trace_mapreduce import MapReduceForm, MapReduceOutcome, simulated_policies, swim_jobs
from omega.experiments.trace_run import TraceRun
from omega.traces.swim import read_swim
from omega.workload.mapreduce import POPULAR, load
from omega.workload.workload import Arrival
from tests.figures.made_trace import write_made

HOURS = 0.3
"""Less than the made trace has."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TraceRun:
    return TraceRun(trace=str(write_made(tmp_path_factory.mktemp("made"))), factor=1.0)


def write_swim(path: Path, jobs: int, gap: int = 2) -> Path:
    rows = (f"job{n}\t{10 + n * gap}\t{gap}\t{1 << (n % 40)}\t{n % 2}\t0\n" for n in range(jobs))
    path.write_bytes(gzip.compress("".join(rows).encode()))
    return path


def outcome(run: TraceRun, swim: Path | None = None) -> MapReduceOutcome:
    return simulated_policies(MapReduceForm(run, str(swim) if swim else None, HOURS, 20.0))


def test_load_is_the_sum_of_what_runs_at_each_instant() -> None:
    group = TaskGroup((7, 3), 3, 50_000)
    durations = (np.array([10_000_000, 35_000_000, 500_000_000], dtype=np.int64),)
    arrivals = [
        Arrival(5.0, JobSpec("a", "a", "batch", (group,)), durations),
        Arrival(30.0, JobSpec("b", "b", "batch", (group,))),
    ]
    found = load(arrivals, 10.0, 12)
    for tick in range(12):
        now = tick * 10.0
        first = sum(now + 10 > 5.0 and int((5.0 + span / 1e6) / 10) > tick for span in durations[0].tolist())
        second = 3 if 3 <= tick < 8 else 0
        assert found[tick].tolist() == [7.0 * (first + second), 3.0 * (first + second)], tick


def test_jobs_of_swim_arrive_as_in_the_file_with_popular_worker_counts(run: TraceRun, tmp_path: Path) -> None:
    jobs = read_swim(write_swim(tmp_path / "made.tsv.gz", 400))
    workload, _ = run.workload()
    found = swim_jobs(jobs, workload, 0, 300.0)
    assert [job.at for job in found[:3]] == [0.0, 2.0, 4.0]
    assert len(found) == 150
    counts = [sum(job.asked == number for job in found) for number in POPULAR]
    assert sum(counts) == 150
    assert min(counts) > 20
    assert {job.need for job in found} <= {each.job.groups[0].need for each in workload.arrivals}
    assert [job.asked for job in swim_jobs(jobs, workload, 1, 300.0)] != [job.asked for job in found]


def test_more_workers_never_make_a_job_slower_and_idle_cells_give_all_they_want(run: TraceRun, tmp_path: Path) -> None:
    found = outcome(run, write_swim(tmp_path / "made.tsv.gz", 400))
    for results in found.results.values():
        assert results["as-asked"].speedups == pytest.approx(1.0, abs=1e-6)
        assert results["max-parallelism"].speedups.min() >= 1 - 1e-6
    assert found.source.endswith("hours of the trace")
    with_tables = simulated_policies(MapReduceForm(run, None, 1.0, 60.0))
    assert "drawn from the tables" in with_tables.source


@pytest.mark.parametrize("number", [15, 16])
@pytest.mark.chaos
def test_a_figure_of_policies_is_drawn_and_judged(run: TraceRun, number: int, tmp_path: Path) -> None:
    found = outcome(run, write_swim(tmp_path / "made.tsv.gz", 800, gap=1))
    draw_sizing(number, found, tmp_path / "f.svg", tmp_path / "f.png")
    text = (tmp_path / "f.svg").read_text()
    assert "machines are not simulated" in text
    assert "made.tsv.gz" in text
    claims = judged(found)
    assert {each.figure for each in claims} == {15, 16}
    assert all(not each.fitted for each in claims)
    assert all(each.fitted for each in judged(outcome(run))[:2])


def test_few_jobs_of_swim_are_insufficient(run: TraceRun, tmp_path: Path) -> None:
    found = outcome(run, write_swim(tmp_path / "few.tsv.gz", 50))
    benefit = judged(found)[0]
    assert benefit.verdict is Conclusion.INSUFFICIENT
    none = outcome(replace(run, seed=5), write_swim(tmp_path / "one.tsv.gz", 1))
    assert judged(none)[0].verdict in (Conclusion.INSUFFICIENT, Conclusion.UNKNOWN)
