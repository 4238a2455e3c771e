"""The reader of Google's 2011 trace, on hand-made traces."""

import gzip
from pathlib import Path

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec
from omega.workload import Arrival, Workload
from omega.workload.quantiles import pairs, quantiles
from tests.unit.omega.traces.tiny_google import MACHINES, START, Row, at, counts, job, task, traced, write, write_trace

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(9)


def read(directory: Path, *, tasks: int = 100, fill: float = 1.0, seed: int = 0) -> Workload:
    return traced(directory, residents="thin", tasks=tasks, fill=fill, seed=seed).workload


def only(arrivals: object) -> JobSpec:
    assert isinstance(arrivals, list)
    (arrival,) = arrivals
    assert isinstance(arrival, Arrival)
    return arrival.job


def test_machines_up_at_the_beginning_join(tmp_path: Path) -> None:
    write_trace(tmp_path, [], [task(at(1), 9, 0, SUBMIT)])
    machines = read(tmp_path).machines
    assert [(machine.name, machine.capacity) for machine in machines] == [
        ("5", (4_000, 256)),
        ("6", (4_000, 256)),
        ("7", (8_000, 1_024)),
    ]
    assert [machine.attributes for machine in machines] == [{"platform": "platform-a"}] * 2 + [{}]


def test_a_job_arrives_with_all_its_tasks(tmp_path: Path) -> None:
    tasks = [
        task(at(4), 255, 0, SUBMIT, priority=9, scheduling_class=2),
        task(at(4), 255, 1, SUBMIT, priority=9, scheduling_class=2, apart=1),
        task(at(4.5), 255, 2, SUBMIT, priority=9, scheduling_class=2),
        task(at(5), 255, 0, SCHEDULE),
        task(at(5), 255, 1, SCHEDULE),
        task(at(6), 255, 2, SCHEDULE),
        task(at(10), 255, 0, FINISH),
        task(at(12), 255, 1, KILL),
        task(at(14), 255, 2, FAIL),
    ]
    write_trace(tmp_path, [job(at(4), 255, scheduling_class=2)], tasks)
    workload = read(tmp_path)
    assert [arrival.at_seconds for arrival in workload.arrivals] == [4.0]
    arrived = only(workload.arrivals)
    assert (arrived.id, arrived.name, arrived.kind, arrived.precedence) == (
        "0000000000ff",
        "google2011/255",
        "service",
        9,
    )
    assert arrived.spec == {"user": "user-255", "logical_name": "logical-255"}
    together, apart = arrived.groups
    assert (together.need, together.count, together.duration_ms) == ((2_000, 128), 2, 6_500)
    assert together.spec == {}
    assert (apart.need, apart.count, apart.duration_ms) == ((2_000, 128), 1, 7_000)
    assert apart.spec == {"different_machines": True}
    assert workload.tasks == 3


@pytest.mark.parametrize(
    ("priority", "scheduling_class", "kind"),
    [(9, 2, "service"), (11, 3, "service"), (9, 1, "service"), (9, 0, "service"), (8, 3, "batch"), (0, 0, "batch")],
)
def test_kind_is_by_priority(tmp_path: Path, priority: int, scheduling_class: int, kind: str) -> None:
    rows = [task(at(1), 1, 0, SUBMIT, priority=priority, scheduling_class=scheduling_class)]
    write_trace(tmp_path, [job(at(1), 1, scheduling_class=scheduling_class)], rows)
    assert only(read(tmp_path).arrivals).kind == kind


def test_an_evicted_run_does_not_count_and_a_retry_is_no_arrival(tmp_path: Path) -> None:
    tasks = [
        task(at(1), 1, 0, SUBMIT),
        task(at(2), 1, 0, SCHEDULE),
        task(at(50), 1, 0, EVICT),
        task(at(50), 1, 0, SUBMIT),
        task(at(60), 1, 0, SCHEDULE),
        task(at(63), 1, 0, FAIL),
        task(at(63), 1, 0, SUBMIT),
        task(at(64), 1, 0, SCHEDULE),
        task(at(99), 1, 0, FINISH),
    ]
    write_trace(tmp_path, [], tasks)
    workload = read(tmp_path)
    assert (workload.tasks, only(workload.arrivals).groups[0].duration_ms) == (1, 3_000)


def test_a_task_not_seen_to_end_lasts_as_seen_or_the_median(tmp_path: Path) -> None:
    median = quantiles("batch_task_seconds").quantile(0.5)
    tasks = [
        task(at(1), 1, 0, SUBMIT),
        task(at(2), 2, 0, SUBMIT),
        task(at(3), 3, 0, SUBMIT),
        task(at(3), 1, 0, SCHEDULE),
        task(at(9_000), 2, 0, SCHEDULE),
        task(at(9_003), 4, 0, FINISH),  # of a task submitted before the parts at hand
    ]
    write_trace(tmp_path, [], tasks)
    trace = traced(tmp_path, residents="thin", fill=1)
    workload = trace.workload
    durations = [arrival.job.groups[0].duration_ms for arrival in workload.arrivals]
    assert durations == [9_000_000, round(1000 * median), round(1000 * median)]
    assert counts(trace) == {"no-end": 2, "never-ran": 1, "only-end": 1}


def test_missing_requests_are_those_of_the_job_or_the_median(tmp_path: Path) -> None:
    tasks = [
        task(at(1), 1, 0, SUBMIT, cpu="", memory=""),
        task(at(1), 1, 1, SUBMIT, cpu=0.5, memory=0.5),
        task(at(2), 2, 0, SUBMIT, cpu="", memory=""),
        task(at(3), 3, 0, SUBMIT, cpu=0, memory=0),
    ]
    write_trace(tmp_path, [], tasks)
    trace = traced(tmp_path, residents="thin", fill=1)
    workload = trace.workload
    cpu, memory = pairs("batch_requests").median
    assert [group.need for arrival in workload.arrivals for group in arrival.job.groups] == [
        (4_000, 512),
        (-int(-8_000 * cpu // 1), -int(-1_024 * memory // 1)),
        (1, 1),  # a request of nothing still takes the smallest unit
    ]
    assert workload.arrivals[0].job.total == 2
    assert counts(trace)["no-request"] == 2


def test_reading_stops_at_whole_jobs_and_spans_parts(tmp_path: Path) -> None:
    first = [task(at(1), 1, 0, SUBMIT), task(at(2), 2, 0, SUBMIT), task(at(2), 3, 0, SUBMIT)]
    second = [task(at(2.5), 2, 1, SUBMIT), task(at(3), 2, 2, SUBMIT), task(at(4), 4, 0, SUBMIT)]
    write_trace(tmp_path, [], first, second)
    workload = read(tmp_path, tasks=2)
    assert [(arrival.job.name, arrival.job.total) for arrival in workload.arrivals] == [
        ("google2011/1", 1),
        ("google2011/2", 3),
    ]


def test_events_are_followed_only_so_far(tmp_path: Path) -> None:
    tasks = [
        task(at(1), 1, 0, SUBMIT),
        task(at(1), 1, 0, SCHEDULE),
        task(at(5_000), 1, 0, FINISH),
    ]
    write_trace(tmp_path, [], tasks, [("no", "row")])
    with pytest.raises(BadInput, match=r"part-00001.*:1: 2 fields"):
        traced(tmp_path, tasks=1, follow_seconds=10_000)
    short = traced(tmp_path, tasks=1, follow_seconds=1_000).workload
    assert only(short.arrivals).groups[0].duration_ms == round(1000 * quantiles("batch_task_seconds").quantile(0.5))


def test_tasks_a_job_gets_later_arrive_as_a_job_of_their_own(tmp_path: Path) -> None:
    tasks = [
        task(0, 16, 0, SUBMIT),
        task(0, 16, 0, SCHEDULE),
        task(at(5), 16, 1, SUBMIT),
        task(at(500), 16, 2, SUBMIT),
    ]
    write_trace(tmp_path, [job(0, 16)], tasks)
    workload = read(tmp_path)
    assert [arrival.job.id for arrival in workload.residents] == ["000000000010"]
    assert [(arrival.at_seconds, arrival.job.id) for arrival in workload.arrivals] == [
        (5.0, "000000000010-1"),
        (500.0, "000000000010-2"),
    ]


def residents(count: int) -> list[Row]:
    rows: list[Row] = []
    for number in range(1, count + 1):
        rows += [task(0, number, 0, SUBMIT), task(0, number, 0, SCHEDULE)]
    rows += [task(0, 900, 0, SUBMIT)]  # waits at 0 s
    return [*rows, task(at(30), 1, 0, FINISH), task(at(40), 901, 0, SUBMIT)]


def test_residents_run_on_for_what_is_left(tmp_path: Path) -> None:
    write_trace(tmp_path, [], residents(2))
    trace = traced(tmp_path, residents="thin", fill=1)
    workload = trace.workload
    median = round(1000 * quantiles("batch_task_seconds").quantile(0.5))
    assert [arrival.at_seconds for arrival in workload.residents] == [0.0, 0.0]
    assert [arrival.job.groups[0].duration_ms for arrival in workload.residents] == [30_000, median]
    assert counts(trace)["waiting-left-out"] == 1
    assert trace.facts["kept"]["tasks"] == trace.facts["running"] == 2


def test_residents_are_thinned_to_the_fill_and_by_the_seed(tmp_path: Path) -> None:
    # The cell has 16 cores and 1,536 MiB; every resident asks for 2 cores and 128 MiB.
    write_trace(tmp_path, [], residents(20))
    choices = set()
    for seed in range(8):
        workload = read(tmp_path, fill=0.6, seed=seed)
        assert len(workload.residents) == 4
        assert read(tmp_path, fill=0.6, seed=seed).residents == workload.residents
        assert "4 of them in 4 jobs" in workload.about
        choices.add(tuple(arrival.job.id for arrival in workload.residents))
    assert len(choices) > 1
    assert read(tmp_path, fill=0).residents == []


def test_no_directory_and_no_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere: no such file"):
        read(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="no trace of a supported format; supported: Google"):
        read(tmp_path)
    (tmp_path / "job_events").mkdir()
    with pytest.raises(BadInput, match="no machine_events/part"):
        read(tmp_path)
    write(tmp_path / "machine_events" / "part-00000-of-00001.csv.gz", MACHINES)
    with pytest.raises(BadInput, match="no job_events/part"):
        read(tmp_path)
    write(tmp_path / "job_events" / "part-00000-of-00500.csv.gz", [job(at(1), 1)])
    with pytest.raises(BadInput, match="no task_events/part"):
        read(tmp_path)


GOOD = task(at(1), 1, 0, SUBMIT)


@pytest.mark.parametrize(
    ("jobs", "tasks", "machines", "said"),
    [
        (
            [],
            [GOOD, task(at(1), 1, 1, SUBMIT)[:-1]],
            MACHINES,
            r"task_events/part-00000-of-00500\.csv\.gz:2: 12 f",
        ),
        ([], [GOOD, ("now", *GOOD[1:])], MACHINES, r"task_events/.*:2: 'now' is not a time"),
        ([], [GOOD, task(at(1), 1, 1, SUBMIT, cpu=-0.5)], MACHINES, r"task_events/.*:2: '-0.5' is not a share"),
        ([], [GOOD, task(at(1), 1, 1, SUBMIT, memory="nan")], MACHINES, r"task_events/.*:2: 'nan' is not a share"),
        ([], [GOOD, (at(1), "", "x", *GOOD[3:])], MACHINES, r"task_events/.*:2: 'x' is not a job"),
        ([], [GOOD, (at(1), "", -1, *GOOD[3:])], MACHINES, r"task_events/.*:2: '-1' is not a job"),
        ([], [GOOD, (*GOOD[:3], 1, *GOOD[4:8], -1, *GOOD[9:])], MACHINES, r"task_events/.*:2: '-1' is not a priority"),
        ([(1, 2)], [GOOD], MACHINES, r"job_events/.*:1: 2 fields; want 8"),
        ([("x", *job(1, 1)[1:])], [GOOD], MACHINES, r"job_events/.*:1: 'x' is not a time"),
        ([], [GOOD], [(0, 5, 0, "p", 2, 1)], r"machine_events/.*:1: '2' is not a share from 0 to 1"),
        ([], [GOOD], [(START + 1, 5, 0, "p", 1, 1)], r"no machine is up at the beginning"),
        ([], [task(at(1), 1, 0, FINISH)], MACHINES, r"no task is submitted"),
    ],
)
def test_malformed_rows_are_named(
    tmp_path: Path, jobs: list[Row], tasks: list[Row], machines: list[Row], said: str
) -> None:
    write_trace(tmp_path, jobs, tasks, machines=machines)
    with pytest.raises(BadInput, match=said) as raised:
        read(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_file_cut_short_or_no_gzip_is_named(tmp_path: Path) -> None:
    write_trace(tmp_path, [], [task(at(1), number, 0, SUBMIT) for number in range(500)])
    path = tmp_path / "task_events" / "part-00000-of-00500.csv.gz"
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"these are no rows", whole[:40] + b"\0\0\0\0" + whole[44:]):
        path.write_bytes(broken)
        with pytest.raises(BadInput, match=r"task_events/part-00000-of-00500\.csv\.gz:\d+: cannot be read"):
            read(tmp_path, tasks=1_000)
    path.write_bytes(gzip.compress("é\n".encode()))
    with pytest.raises(BadInput, match=r"csv\.gz:1: 1 fields; want 13"):
        read(tmp_path)


def test_unpacked_parts_are_read_too(tmp_path: Path) -> None:
    write_trace(tmp_path, [], [GOOD])
    path = tmp_path / "task_events" / "part-00000-of-00500.csv.gz"
    path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    path.unlink()
    assert read(tmp_path).tasks == 1


@pytest.mark.parametrize(("tasks", "fill"), [(0, 0.6), (1, -0.1), (1, 1.1), (1, float("nan"))])
def test_senseless_arguments(tmp_path: Path, tasks: int, fill: float) -> None:
    with pytest.raises(BadInput, match="want"):
        read(tmp_path, tasks=tasks, fill=fill)


def test_tasks_that_never_began_or_contradict_themselves_are_read(tmp_path: Path) -> None:
    """Cancelled before it began; begun at 0; begun before it was submitted; ended before it began: all are there."""
    tasks = [
        task(0, 2, 0, SCHEDULE),
        task(at(1), 1, 0, SUBMIT),
        task(at(1), 2, 0, SUBMIT),
        task(at(1), 3, 0, SCHEDULE),
        task(at(2), 3, 0, SUBMIT),
        task(at(2), 4, 0, SUBMIT),
        task(at(3), 1, 0, KILL),
        task(at(3), 2, 0, FINISH),
        task(at(3), 3, 0, FINISH),
        task(at(3), 4, 0, FINISH),
        task(at(4), 4, 0, SCHEDULE),
        task(at(4), 5, 0, SUBMIT),
        task(at(5), 5, 0, SCHEDULE),
        task(at(7), 5, 0, FINISH),
    ]
    write_trace(tmp_path, [], tasks)
    trace = traced(tmp_path, residents="thin", fill=1)
    workload = trace.workload
    median = round(1000 * quantiles("batch_task_seconds").quantile(0.5))
    assert [arrival.job.groups[0].duration_ms for arrival in workload.arrivals] == [median, 2_000, median, 2_000]
    assert counts(trace) == {
        "early-schedule": 1,
        "no-run": 1,
        "no-end": 1,
        "never-ran": 1,
        "on-unknown-machine": 1,
    }
