"""What every reader of traces keeps to, on a small trace of its format, whole and broken."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omega.cellstate.errors import BadInput
from omega.traces import READERS, Trace, TraceOptions, TraceReader, read_trace, reader_of
from omega.traces.digest import trace_digest
from tests.contract.trace_samples import SAMPLES, Sample

NAMES = [reader.name for reader in READERS]
ROWS = [name for name in NAMES if name != "omega"]
"""Formats of rows; a recording has frames, and is read up to a cut (tests/contract/test_recorder.py)."""
SKIP = TraceOptions(skip_bad_rows=True)
Edit = Callable[[str], str]


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest) -> Sample:
    return SAMPLES[request.param]


@pytest.fixture(params=ROWS)
def rows(request: pytest.FixtureRequest) -> Sample:
    return SAMPLES[request.param]


def edited(sample: Sample, directory: Path, edit: Edit) -> Path:
    """Write a sample, and change the text of its file."""
    path = sample.write(directory)
    file = directory / sample.file
    file.write_bytes(gzip.compress(edit(gzip.decompress(file.read_bytes()).decode()).encode()))
    return path


def counts(trace: Trace) -> dict[str, int]:
    return {defect.rule: defect.count for defect in trace.defects}


def one_line(error: pytest.ExceptionInfo[BadInput]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_there_is_a_sample_of_every_reader() -> None:
    assert sorted(SAMPLES) == sorted(NAMES)


def test_a_trace_is_known_by_its_own_reader_alone(sample: Sample, tmp_path: Path) -> None:
    path = sample.write(tmp_path)
    assert [reader for reader in READERS if reader.recognises(path)] == [reader_of(path)]
    assert SAMPLES[reader_of(path).name] is sample


def test_the_workload_is_sound(sample: Sample, tmp_path: Path) -> None:
    trace = read_trace(sample.write(tmp_path))
    workload, dimensions = trace.workload, len(trace.workload.dimensions)
    times = [arrival.at_seconds for arrival in workload.arrivals]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= trace.seconds
    assert JOBS_AT_LEAST <= len(times) <= sample.arrivals
    jobs = [arrival.job for arrival in (*workload.residents, *workload.arrivals)]
    assert len({job.id for job in jobs}) == len(jobs)
    for arrival in (*workload.residents, *workload.arrivals):
        assert len(arrival.durations) == len(arrival.job.groups)
        for group, lasting in zip(arrival.job.groups, arrival.durations, strict=True):
            assert lasting.dtype == np.int64
            assert (len(lasting), len(group.need)) == (group.count, dimensions)
            assert lasting.min() >= 0
    assert all(len(machine.capacity) == dimensions for machine in workload.machines)
    assert len({machine.name for machine in workload.machines}) == len(workload.machines)
    events = [event.at_seconds for event in workload.events]
    assert events == sorted(events)
    assert min(events, default=0.0) >= 0


JOBS_AT_LEAST = 250


def test_residents_name_machines_of_the_cell(sample: Sample, tmp_path: Path) -> None:
    workload = read_trace(sample.write(tmp_path)).workload
    for arrival in workload.residents:
        for group, where in zip(arrival.job.groups, arrival.machines, strict=True):
            assert len(where) == group.count
            assert where.dtype == np.int32
            assert -1 <= where.min() <= where.max() < len(workload.machines)
    assert all(not arrival.machines for arrival in workload.arrivals)


def test_the_same_files_are_the_same_trace(sample: Sample, tmp_path: Path) -> None:
    path = sample.write(tmp_path)
    assert trace_digest(read_trace(path)) == trace_digest(read_trace(path))


def test_digests_do_not_depend_on_hash_seeds(tmp_path: Path) -> None:
    paths = [str(sample.write(tmp_path / name)) for name, sample in SAMPLES.items()]
    program = (
        "import sys; from omega.traces import read_trace; from omega.traces.digest import trace_digest\n"
        "for path in sys.argv[1:]: print(trace_digest(read_trace(path)))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip
    assert len(found) == 1
    assert len(found.pop().split()) == len(SAMPLES)


def test_a_part_of_the_trace_begins_as_the_whole(sample: Sample, tmp_path: Path) -> None:
    path = sample.write(tmp_path)
    whole, part = (read_trace(path, options).workload for options in (None, TraceOptions(tasks=40)))
    kept = len(part.arrivals)
    assert sum(arrival.job.total for arrival in part.arrivals[:-2]) < 40 <= part.tasks
    assert [arrival.job for arrival in part.arrivals] == [arrival.job for arrival in whole.arrivals[:kept]]
    short = read_trace(path, TraceOptions(seconds=20.0))
    early = short.workload.arrivals
    assert 0 < len(early) < len(whole.arrivals)
    assert early[-1].at_seconds <= short.seconds == 20.0


def test_rows_in_another_order_are_sorted_and_counted(rows: Sample, tmp_path: Path) -> None:
    path = edited(rows, tmp_path, _last_first)
    trace = read_trace(path)
    times = [arrival.at_seconds for arrival in trace.workload.arrivals]
    assert times == sorted(times)
    assert counts(trace)["out-of-order"] > 0


def _last_first(text: str) -> str:
    head = [line for line in text.splitlines() if line.startswith((";", "name,"))]
    rows = [line for line in text.splitlines() if line not in head]
    return "\n".join([*head, rows[-1], *rows[:-1]]) + "\n"


def test_a_bad_row_is_named_or_counted(rows: Sample, tmp_path: Path) -> None:
    whole = len(read_trace(rows.write(tmp_path / "whole")).workload.arrivals)
    path = edited(rows, tmp_path / "bad", lambda text: text + rows.bad_row)
    lines = len(gzip.decompress((tmp_path / "bad" / rows.file).read_bytes()).splitlines())
    with pytest.raises(BadInput, match=f"{Path(rows.file).name}:{lines}: ") as error:
        read_trace(path)
    assert one_line(error)
    trace = read_trace(path, SKIP)
    assert counts(trace)["bad-row"] == 1
    assert len(trace.workload.arrivals) == whole


def test_a_file_that_is_cut_is_named_or_read_up_to_there(rows: Sample, tmp_path: Path) -> None:
    path = rows.write(tmp_path)
    file = tmp_path / rows.file
    whole = file.read_bytes()
    file.write_bytes(whole[: 3 * len(whole) // 4])
    with pytest.raises(BadInput, match=rf"{file.name}:\d+: cannot be read") as error:
        read_trace(path)
    assert one_line(error)
    trace = read_trace(path, SKIP)
    assert counts(trace)["cut-short"] == 1
    assert 10 < len(trace.workload.arrivals) < rows.arrivals


def test_an_empty_file_is_named(sample: Sample, tmp_path: Path) -> None:
    path = sample.write(tmp_path)
    for each in tmp_path.rglob("*.gz"):
        each.write_bytes(gzip.compress(b""))
    with pytest.raises(BadInput, match=str(tmp_path)) as error:
        read_trace(path)
    assert one_line(error)


@pytest.mark.parametrize(("own", "other"), list(permutations(ROWS, 2)))
def test_columns_of_another_trace_are_named_with_file_and_row(own: str, other: str, tmp_path: Path) -> None:
    sample = SAMPLES[own]
    path = sample.write(tmp_path / "own")
    SAMPLES[other].write(tmp_path / "other")
    (tmp_path / "own" / sample.file).write_bytes((tmp_path / "other" / SAMPLES[other].file).read_bytes())
    if reader_of(path).name == other:  # its rows decide, not its name
        assert read_trace(path).format == other
        return
    with pytest.raises(BadInput, match=rf"{Path(sample.file).name}:\d+: ") as error:
        read_trace(path)
    assert one_line(error)


@pytest.mark.parametrize("reader", READERS, ids=NAMES)
def test_every_rule_is_stated_on_the_page(reader: TraceReader) -> None:
    page = (Path(__file__).parents[2] / "docs" / "traces.md").read_text(encoding="utf-8")
    for rule in reader.rules:
        assert f"`{rule}`" in page, f"{reader.name}: {rule}"


def test_a_missing_part_in_the_middle_is_named_or_counted(tmp_path: Path) -> None:
    path = SAMPLES["google-2011"].write(tmp_path)
    (tmp_path / "task_events" / "part-00001-of-00500.csv.gz").unlink()
    with pytest.raises(BadInput, match="task_events: part 00001 is missing between others") as error:
        read_trace(path)
    assert one_line(error)
    assert counts(read_trace(path, SKIP))["missing-part"] == 1


def test_parts_in_another_order_are_one_trace(tmp_path: Path) -> None:
    """Names decide, not the order of the directory; times that go back between parts are sorted and counted."""
    path = SAMPLES["google-2011"].write(tmp_path)
    straight = read_trace(path)
    table = tmp_path / "task_events"
    first, second = (table / f"part-0000{number}-of-00500.csv.gz" for number in (0, 1))
    first.rename(table / "kept")
    second.rename(first)
    (table / "kept").rename(second)
    swapped = read_trace(path)
    assert counts(swapped)["out-of-order"] > 0
    assert [a.job for a in swapped.workload.arrivals] == [a.job for a in straight.workload.arrivals]


def test_a_part_that_is_there_twice_is_read_once(tmp_path: Path) -> None:
    path = SAMPLES["google-2011"].write(tmp_path)
    whole = read_trace(path)
    part = tmp_path / "task_events" / "part-00001-of-00500.csv.gz"
    part.with_suffix("").write_bytes(gzip.decompress(part.read_bytes()))
    twice = read_trace(path)
    assert counts(twice)["part-twice"] == 1
    assert twice.workload.tasks == whole.workload.tasks


@pytest.mark.parametrize(
    ("name", "said"),
    [("x.parquet", "Parquet is an unsupported format"), ("x.json", "JSON is an unsupported"), ("x.bin", "no trace of")],
)
def test_other_formats_are_named(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\x01" * 100)
    with pytest.raises(BadInput, match=f"{name}: {said}") as error:
        read_trace(tmp_path / name)
    assert "supported: Google" in one_line(error)


def test_a_part_of_a_trace_leads_to_the_whole(tmp_path: Path) -> None:
    for name, sample in SAMPLES.items():
        sample.write(tmp_path / name)
    table = tmp_path / "google-2011" / "task_events"
    for path in (table, table / "part-00000-of-00500.csv.gz"):
        with pytest.raises(BadInput, match=f"a part of a trace; name {tmp_path / 'google-2011'}$"):
            read_trace(path)
    with pytest.raises(BadInput, match=r"a directory with traces; name one, such as .*log\.swf\.gz"):
        read_trace(tmp_path / "swf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="empty: no trace of a supported format"):
        read_trace(tmp_path / "empty")


@pytest.mark.parametrize(
    "wrong",
    [
        {"tasks": 0}, {"fill": 1.5}, {"factor": float("nan")}, {"seconds": -1.0}, {"seconds": float("inf")},
        {"residents": "gone"}, {"service": ""}, {"constraints": "all"}, {"overruns": "no"}, {"shared_gpus": 2.0},
        {"processors": 0}, {"machines": -1}, {"largest_cpu": 0}, {"start_seconds": -1.0},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=f"trace: .*{next(iter(wrong.values()))}.*; want ") as error:
        TraceOptions(**wrong)
    assert one_line(error)
