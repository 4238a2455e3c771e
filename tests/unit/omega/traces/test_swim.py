"""The reader of SWIM files, on hand-made files and the published samples: jobs of a workload."""

from pathlib import Path

import numpy as np
import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import After
from omega.traces import Trace, TraceOptions, read_trace
from omega.traces.digest import trace_digest
from omega.traces.swim import BINS, SwimJob, drawn_maps


def read(directory: Path, text: str, **options: object) -> Trace:
    (directory / "jobs.tsv").write_text(text)
    return read_trace(directory / "jobs.tsv", TraceOptions(**options))  # type: ignore[arg-type]


def counts(trace: Trace) -> dict[str, int]:
    return {defect.rule: defect.count for defect in trace.defects}


def test_maps_are_drawn_within_the_published_bins_in_order_of_size() -> None:
    jobs = [SwimJob(f"j{size}", 0.0, size * 7919 % 10_007, shuffle_bytes=size % 2) for size in range(10_007)]
    drawn = drawn_maps(jobs, seed=3)
    maps = np.array([count for count, _ in drawn])
    assert drawn == drawn_maps(jobs, seed=3) != drawn_maps(jobs, seed=4)
    for least, most, share, reduces in BINS:
        inside = (maps >= least) & (maps <= most)
        assert inside.mean() == pytest.approx(share / 101, abs=1e-3)
        assert {count for at, (_, count) in enumerate(drawn) if inside[at]} == {0, reduces}
    ranked = maps[np.argsort([job.input_bytes for job in jobs], kind="stable")]
    bounds = np.searchsorted([most for _, most, _, _ in BINS], ranked)
    assert (np.diff(bounds) >= 0).all(), "larger inputs are in later bins"


def test_reduces_are_a_job_after_the_maps(tmp_path: Path) -> None:
    rows = "".join(f"j{at}\t{100 + at}\t1\t{at}\t{at % 2}\t0\n" for at in range(200))
    trace = read(tmp_path, rows)
    jobs = {arrival.job.id: arrival for arrival in trace.workload.arrivals}
    reduces = {name: arrival for name, arrival in jobs.items() if name.endswith("-reduce")}
    assert reduces
    for name, arrival in reduces.items():
        maps = jobs[name.removesuffix("-reduce")]
        assert arrival.job.after == (After(maps.job.id),)
        assert arrival.at_seconds == maps.at_seconds
    assert len(jobs) - len(reduces) == 200
    assert trace.workload.arrivals[0].at_seconds == 0.0
    for arrival in trace.workload.arrivals:
        least, most = (150e6, 312e6) if "-reduce" in arrival.job.id else (12e6, 26e6)
        assert least <= arrival.durations[0].min() <= arrival.durations[0].max() <= most


def machines_of(trace: Trace, job: str) -> set[str]:
    (spec,) = (each.job.groups[0].spec for each in trace.workload.arrivals if each.job.id == job)
    return set(spec["locality"]["machines"])


def test_jobs_with_one_path_read_the_same_blocks(tmp_path: Path) -> None:
    rows = "".join(f"j{at}\t{at}\t1\t{at}\t0\t0\t{path}\tout\n" for at, path in enumerate(("hot", "cold", "hot", "")))
    trace = read(tmp_path, rows + "j4\t9\t1\t99\t0\t0\thot\n")  # the largest one: on most machines
    assert machines_of(trace, "j0") <= machines_of(trace, "j2")
    assert "locality" not in trace.workload.arrivals[4].job.groups[0].spec
    assert not machines_of(trace, "j0") & machines_of(trace, "j1")
    assert len(machines_of(trace, "j3")) >= 3
    assert trace.facts["jobs_on_shared_paths"] == trace.facts["hottest_path"] == 3
    assert (trace.facts["paths"], trace.facts["machines_guessed"]) == (2, True)


def test_disorder_extra_columns_and_equal_names_are_counted(tmp_path: Path) -> None:
    rows = "a b\t5\t1\t1e3\t0\t0\r\n\na b\t3.5\t1\t2\t0\t0\nc\t9\t1\t3\t0\t0\tin\tout\tmore\n"
    trace = read(tmp_path, rows, machines=10)
    assert [(each.job.id, each.at_seconds) for each in trace.workload.arrivals if "reduce" not in each.job.id] == [
        ("a_b", 0.0),
        ("a_b.2", 1.5),
        ("c", 5.5),
    ]
    assert counts(trace) == {"out-of-order": 1, "name-twice": 1, "extra-columns": 1}
    assert len(trace.workload.machines) == 10


def test_a_part_of_the_jobs_can_be_read(tmp_path: Path) -> None:
    rows = "".join(f"j{at}\t{at}\t1\t1\t0\t0\n" for at in range(50))
    whole = read(tmp_path, rows).workload.arrivals
    assert [each.job.id for each in read(tmp_path, rows, seconds=10).workload.arrivals] == [f"j{n}" for n in range(11)]
    assert read(tmp_path, rows, tasks=1).workload.arrivals[0].job == whole[0].job


def test_other_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"jobs\.tsv:1: 1 columns; want name"):
        read(tmp_path, "time,job\n")
    with pytest.raises(BadInput, match="no row of a job"):
        read(tmp_path, "")


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("FB-2009_samples_24_times_1hr_0.tsv.gz", False),
        ("FB-2010_samples_24_times_1hr_withInputPaths_first500.tsv.gz", True),
    ],
)
def test_the_published_samples(shared_directory: Path, name: str, paths: bool) -> None:
    path = shared_directory / "traces/swim-facebook" / name
    if not path.exists():
        pytest.skip(f"no sample of SWIM at {path}")
    trace = read_trace(path)
    maps = [each.job.total for each in trace.workload.arrivals if "-reduce" not in each.job.id]
    assert sum(count == 1 for count in maps) / len(maps) == pytest.approx(39 / 101, abs=0.01)
    assert (trace.facts["hottest_path"] > 1) is paths
    assert trace.defects == ()
    assert trace_digest(trace) == trace_digest(read_trace(path))
