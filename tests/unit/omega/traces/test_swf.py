"""The reader of the Standard Workload Format, on hand-made logs."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang
from omega.traces import Trace, TraceOptions, read_trace

HEADER = "; Computer: Tiny\n; MaxNodes: 3\n; MaxProcs: 8\n; Note: a note\n;       that goes on\n"


def row(
    number: int,
    submit: object,
    *,
    wait: object = 0,
    run: object = 10,
    processors: int = 1,
    requested: int = -1,
    wanted: object = -1,
    status: int = 1,
    user: int = 1,
    queue: int = -1,
) -> str:
    fields = (
        number,
        submit,
        wait,
        run,
        processors,
        -1,
        -1,
        requested,
        wanted,
        -1,
        status,
        user,
        1,
        -1,
        queue,
        -1,
        -1,
        -1,
    )
    return " ".join(map(str, fields))


def read(directory: Path, *rows: str, header: str = HEADER, **options: Any) -> Trace:
    path = directory / "log.swf"
    path.write_text(header + "\n".join(rows) + "\n")
    return read_trace(path, TraceOptions(**options))


def counts(trace: Trace) -> dict[str, int]:
    return {defect.rule: defect.count for defect in trace.defects}


def test_jobs_are_gangs_of_tasks_of_one_processor(tmp_path: Path) -> None:
    trace = read(tmp_path, row(1, 100, processors=5, wanted=60, queue=2), row(2, 107.5, run=2.25))
    first, second = trace.workload.arrivals
    assert (first.at_seconds, second.at_seconds) == (0.0, 7.5)
    assert (first.job.gang, second.job.gang) == (Gang.YES, Gang.NO)
    assert [(group.need, group.count, group.duration_ms) for group in first.job.groups] == [((1_000,), 5, 60_000)]
    assert first.job.spec == {"user": "user-1", "pool": "queue-2"}
    assert first.durations[0].tolist() == [10_000_000] * 5
    assert second.durations[0].tolist() == [2_250_000]
    assert second.job.groups[0].duration_ms == 2_250
    assert [machine.capacity for machine in trace.workload.machines] == [(3_000,), (3_000,), (2_000,)]
    assert trace.workload.dimensions.names == ("cpu",)
    assert trace.facts["notes"] == ["a note that goes on"]


def test_rows_without_a_start_and_contradictory_ones_are_counted_with_their_numbers(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        row(1, 0),
        row(2, 1, run=-1, wait=-1, processors=-1, status=5),  # cancelled with no start
        row(3, 2, run=0, wait=0, processors=0, status=5),  # start 0
        row(4, 3, wait=-30),  # starts before its submission
        row(5, 4, run=-7),  # ends before its start
    )
    assert counts(trace) == {
        "never-started": 2,
        "ends-before-start": 1,
        "starts-before-submission": 1,
        "no-requested-time": 2,
    }
    places = {defect.rule: [place.rsplit(":", 1)[1] for place in defect.places] for defect in trace.defects}
    assert (places["never-started"], places["ends-before-start"]) == (["7", "8"], ["10"])
    assert [arrival.job.id for arrival in trace.workload.arrivals] == ["1", "4"]
    assert trace.facts["waits"] == 1
    assert trace.facts["recorded_wait"]["p100"] == 0


def test_jobs_of_no_length_are_kept(tmp_path: Path) -> None:
    trace = read(tmp_path, row(1, 0, run=0), row(2, 0, run=5), row(3, 5, run=0))
    assert [arrival.durations[0].tolist() for arrival in trace.workload.arrivals] == [[0], [5_000_000], [0]]
    assert (counts(trace)["zero-length"], trace.seconds) == (2, 5.0)


def test_a_job_that_overran_its_request_runs_on_or_is_cut(tmp_path: Path) -> None:
    rows = row(1, 0, run=100, wanted=60), row(2, 0, run=50, wanted=60)
    for overruns, lasting in (("run", 100), ("cut", 60)):
        trace = read(tmp_path, *rows, overruns=overruns)
        assert trace.workload.arrivals[0].durations[0].tolist() == [lasting * 1_000_000]
        assert [arrival.job.groups[0].duration_ms for arrival in trace.workload.arrivals] == [60_000, 60_000]
        assert counts(trace) == {"overran": 1}


def test_archives_contain_comments_anywhere_extra_columns_and_disorder(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        row(1, 50),
        "; a comment in the middle",
        "",
        row(2, 20) + " 7 8",
        row(2, 60),
        row(3, -5),
        row(4, 70, processors=-1, requested=2),
        row(5, 70, processors=-1),
        row(6, 70, processors=9),
        row(7, 80, run=4, status=2),
        row(7, 85, run=4, status=3),
        row(7, 80, run=8),
        row(8, 90, run=3, status=2),
    )
    assert [(a.job.id, a.at_seconds, a.job.total) for a in trace.workload.arrivals] == [
        ("2", 0.0, 1),
        ("3", 0.0, 1),
        ("1", 30.0, 1),
        ("2.2", 40.0, 1),
        ("4", 50.0, 2),
        ("7", 60.0, 1),
        ("8", 70.0, 1),
    ]
    assert counts(trace) == {
        "extra-columns": 1,
        "out-of-order": 2,
        "partial-row": 2,
        "number-twice": 1,
        "no-processors": 1,
        "too-large": 1,
        "negative-submission": 1,
        "no-requested-time": 7,
    }


@pytest.mark.parametrize(
    ("header", "options", "machines"),
    [
        ("; MaxNodes: 3\n", {}, [1, 1, 1]),
        ("; MaxProcs: 4 (of 8)\n", {}, [1, 1, 1, 1]),
        ("; MaxNodes: 2\n; MaxProcs: 1,200\n", {}, [600, 600]),
        ("; MaxProcs: 5\n", {"processors": 2}, [2, 2, 1]),
        ("", {}, [1, 1]),  # as many as the largest job
        ("; MaxNodes: 9\n; MaxProcs: 2\n", {}, [1, 1]),
        ("; MaxProcs: 12001\n", {}, [3] * 4000 + [1]),
    ],
)
def test_machines_are_those_of_the_header(
    tmp_path: Path, header: str, options: dict[str, Any], machines: list[int]
) -> None:
    trace = read(tmp_path, row(1, 0, processors=2), header=header, **options)
    capacities = [spec.capacity[0] // 1000 for spec in trace.workload.machines]
    assert (len(capacities), sum(capacities)) == (len(machines), sum(machines))
    assert max(capacities) == max(machines)
    assert trace.facts["processors_guessed"] == (not header)


def test_a_job_larger_than_a_gang_has_tasks_as_large_as_a_machine(tmp_path: Path) -> None:
    header = "; MaxNodes: 2000\n; MaxProcs: 8000\n"
    (arrival,) = read(tmp_path, row(1, 0, processors=5003), header=header).workload.arrivals
    assert [(group.need, group.count) for group in arrival.job.groups] == [((4_000,), 1_250), ((3_000,), 1)]
    assert [len(column) for column in arrival.durations] == [1_250, 1]


def test_a_part_of_the_jobs_can_be_read(tmp_path: Path) -> None:
    rows = [row(number, 10 * number, processors=2) for number in range(1, 6)]
    assert len(read(tmp_path, *rows, tasks=3).workload.arrivals) == 2
    assert len(read(tmp_path, *rows, seconds=20).workload.arrivals) == 3


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("1 2 3", r"log\.swf:7: 3 fields; want 18"),
        (row(9, "soon"), r"log\.swf:7: 'soon' is not a number"),
        (row(9, "nan"), r"log\.swf:7: a number is not finite"),
        (row(9, "1e300"), r"log\.swf:7: a number is not finite"),
    ],
)
def test_bad_rows_are_named_or_counted(tmp_path: Path, line: str, wrong: str) -> None:
    with pytest.raises(BadInput, match=wrong):
        read(tmp_path, row(1, 0), line)
    trace = read(tmp_path, row(1, 0), line, row(2, 5), skip_bad_rows=True)
    assert len(trace.workload.arrivals) == 2
    assert counts(trace)["bad-row"] == 1


def test_a_log_that_is_cut_is_named_or_read_up_to_there(tmp_path: Path) -> None:
    text = HEADER + "".join(row(number, number * 17 % 1009) + "\n" for number in range(20_000))
    whole = gzip.compress(text.encode())
    path = tmp_path / "log.swf.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match=r"log\.swf\.gz:\d+: cannot be read"):
        read_trace(path)
    trace = read_trace(path, TraceOptions(skip_bad_rows=True))
    assert 1_000 < len(trace.workload.arrivals) < 20_000
    assert counts(trace)["cut-short"] == 1


def test_a_log_is_known_by_its_rows(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(HEADER + row(1, 0) + "\n")
    assert read_trace(tmp_path / "log.txt").format == "swf"
    (tmp_path / "log.txt").write_text("name,cpu\n1,2\n")
    with pytest.raises(BadInput, match=r"log\.txt: no trace of a supported format"):
        read_trace(tmp_path / "log.txt")
    with pytest.raises(BadInput, match="no row of a job"):
        read(tmp_path, header=HEADER)
