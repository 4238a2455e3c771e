"""Windows of Google's 2011 trace: any parts of it, tasks without all of their rows, machines that come and go."""

from pathlib import Path

import pytest

from omega.cellstate.errors import BadInput
from omega.traces.google import NOT_SEEN
from omega.workload.workload import MachineEvent
from tests.unit.omega.traces.tiny_google import Row, at, counts, job, on, task, traced, write, write_trace

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(9)


def test_tasks_without_a_submission_arrive_with_their_job(tmp_path: Path) -> None:
    """Five of a job's hundred tasks have a submission; of another the start stands 1 µs before it."""
    tasks = [task(at(1), 1, index, SUBMIT) for index in range(5)]
    tasks += [task(at(2), 1, index, SCHEDULE) for index in range(100)]
    tasks += [task(at(3), 2, 0, SCHEDULE), task(at(3.000001), 2, 0, SUBMIT)]
    tasks += [task(at(22), 1, index, FINISH) for index in range(100)]
    tasks += [task(at(23), 2, 0, FINISH)]
    write_trace(tmp_path, [job(at(1), 1), job(at(3.000001), 2)], tasks)
    trace = traced(tmp_path)
    whole, late = trace.workload.arrivals
    assert (whole.job.total, whole.at_seconds, len(whole.job.groups)) == (100, 1.0, 1)
    assert whole.durations[0].tolist() == late.durations[0].tolist() * 100 == [20_000_000] * 100
    assert late.at_seconds == pytest.approx(3.000001)
    assert (counts(trace)["no-submission"], counts(trace)["early-schedule"]) == (95, 1)
    assert whole.durations[0].base is not None
    assert late.durations[0].base is whole.durations[0].base, "one column has the durations of all tasks"


def test_indices_in_no_row_are_counted(tmp_path: Path) -> None:
    write_trace(tmp_path, [], [task(at(1), 1, index, SUBMIT) for index in (0, 1, 99)])
    trace = traced(tmp_path)
    assert trace.workload.tasks == 3
    assert counts(trace)["index-gaps"] == 97


def test_jobs_without_a_row_and_parts_without_rows_are_counted(tmp_path: Path) -> None:
    write_trace(tmp_path, [job(at(1), 1)], [task(at(1), number, 0, SUBMIT) for number in (1, 2, 3)], [])
    found = {defect.rule: (defect.count, defect.places) for defect in traced(tmp_path).defects}
    part = tmp_path / "task_events" / "part-00001-of-00500.csv.gz"
    assert found["no-job-row"] == (2, ())
    assert found["no-rows"] == (1, (str(part),))
    part.write_bytes(b"")
    with pytest.raises(BadInput, match=r"part-00001.*:1: cannot be read \(it is empty\)"):
        traced(tmp_path)


def test_events_after_the_end_of_the_trace_are_left_out(tmp_path: Path) -> None:
    rows = [task(at(1), 1, 0, SUBMIT), on(5, task(at(2), 1, 0, SCHEDULE)), task(at(9), 2, 0, SUBMIT)]
    write_trace(tmp_path, [], [*rows, on(5, task(2**63 - 1, 1, 0, FINISH))])
    trace = traced(tmp_path)
    assert counts(trace) == {"after-end": 1, "no-end": 1, "never-ran": 1}
    assert trace.seconds == 9


def window(directory: Path, rows: list[Row], jobs: list[Row], number: int = 7) -> None:
    write_trace(directory, [], [])
    for table, given in (("task_events", rows), ("job_events", jobs)):
        (directory / table / "part-00000-of-00500.csv.gz").unlink()
        write(directory / table / f"part-{number:05}-of-00500.csv.gz", given)


def test_a_window_that_begins_later_shows_what_ran_by_its_first_rows(tmp_path: Path) -> None:
    rows = [
        task(at(1000), 9, 0, SUBMIT),
        on(6, task(at(1010), 1, 0, FINISH)),  # ran on machine 6
        on(5, task(at(1011), 1, 1, EVICT)),  # ran on 5, evicted: runs again for 4 s
        task(at(1012), 1, 1, SUBMIT),
        on(5, task(at(1013), 1, 1, SCHEDULE)),
        on(5, task(at(1017), 1, 1, FINISH)),
        on(7, task(at(1020), 2, 0, SCHEDULE)),  # waited
        task(at(1021), 3, 0, KILL),  # waited
        on(7, task(at(1030), 2, 0, FINISH)),
        on(8, task(at(1031), 4, 0, UPDATE_RUNNING)),
        task(at(1032), 5, 0, UPDATE_PENDING),
        on(6, task(at(1040), 6, 0, FINISH)),  # its job is submitted in the window, its task's rows are missing
    ]
    window(tmp_path, rows, [job(at(1001), 6)])
    trace = traced(tmp_path)
    there = {
        arrival.job.name.removeprefix("google2011/"): [column.tolist() for column in arrival.machines]
        for arrival in trace.workload.residents
    }
    names = [machine.name for machine in trace.workload.machines]
    assert names == ["5", "6", "7", "8"]
    assert there == {"1": [[1, 0]], "2": [[-1]], "3": [[-1]], "4": [[3]], "5": [[-1]]}
    assert {a.job.name: a.at_seconds for a in trace.workload.arrivals} == {"google2011/9": 0.0, "google2011/6": 1.0}
    lasting = {a.job.name[11:]: a.durations[0].tolist() for a in (*trace.workload.residents, *trace.workload.arrivals)}
    assert lasting["1"] == [10_000_000, 4_000_000]
    assert lasting["2"] == [10_000_000]
    assert lasting["6"] == [39_000_000]
    assert (trace.facts["running"], trace.facts["waiting"], trace.facts["snapshot"]) == (3, 3, False)
    assert trace.seconds == 40


def test_machines_come_change_and_go(tmp_path: Path) -> None:
    machines: list[Row] = [
        (0, 5, 0, "p", 0.5, 0.5),
        (0, 6, 0, "p", 0.5, 0.5),
        (at(3), 6, 1, "p", 0.5, 0.5),
        (at(4), 6, 1, "p", 0.5, 0.5),  # again: counted
        (at(5), 7, 0, "p", 1, ""),
        (at(6), 5, 2, "p", 0.25, 0.5),
        (at(500), 7, 1, "p", 1, 1),  # after the window
    ]
    write_trace(tmp_path, [], [task(at(1), 1, 0, SUBMIT), task(at(9), 2, 0, SUBMIT)], machines=machines)
    trace = traced(tmp_path, factor=2.0)
    events = [
        (e.at_seconds, e.machine.name, e.machine.capacity, e.up)
        for e in trace.workload.events
        if isinstance(e, MachineEvent)
    ]
    assert [(machine.name, machine.capacity) for machine in trace.workload.machines] == [
        ("5", (8_000, 1_024)),
        ("6", (8_000, 1_024)),
    ]
    assert events == [
        (3.0, "6", (8_000, 1_024), False),
        (5.0, "7", (16_000, 0), True),
        (6.0, "5", (4_000, 1_024), True),
    ]
    assert (counts(trace)["unknown-machine"], counts(trace)["no-capacity"]) == (1, 1)
    assert "on-unknown-machine" not in counts(trace)


def test_scaled_residents_fit_their_machines(tmp_path: Path) -> None:
    rows = [on(5, task(0, number, 0, event, cpu=0.3, memory=0.1)) for number in range(4) for event in (0, 1)]
    write_trace(tmp_path, [], [*rows, task(at(1), 9, 0, SUBMIT)])
    kept, scaled = (traced(tmp_path, residents=residents) for residents in ("keep", "scale"))
    assert [a.job.groups[0].need for a in kept.workload.residents] == [(2_400, 103)] * 4
    assert kept.workload.machines[0].capacity == (6_200, 396)
    assert (kept.facts["machines_over"], kept.facts["machines_over_factor"]) == (1, 1)
    assert scaled.workload.machines[0].capacity == (4_000, 256)
    assert [a.job.groups[0].need for a in scaled.workload.residents] == [(1_000, 64)] * 4
    assert scaled.workload.arrivals[0].job.groups[0].need == (2_000, 128), "arrivals ask for what they ask"


def test_tasks_that_wait_at_the_beginning_come_last_in_their_group(tmp_path: Path) -> None:
    tasks = [
        task(0, 1, 0, SUBMIT),
        on(5, task(0, 1, 1, SUBMIT)),
        on(5, task(0, 1, 1, SCHEDULE)),
        task(at(1), 2, 0, SUBMIT),
    ]
    write_trace(tmp_path, [], tasks)
    (resident,) = traced(tmp_path).workload.residents
    assert [where.tolist() for where in resident.machines] == [[0, -1]]


def test_tasks_that_no_row_of_a_later_window_has_are_stated(tmp_path: Path) -> None:
    window(tmp_path, [task(at(1000), 9, 0, SUBMIT)], [])
    assert NOT_SEEN in traced(tmp_path).guessed
    write_trace(tmp_path / "first", [], [task(at(1000), 9, 0, SUBMIT)])
    assert NOT_SEEN not in traced(tmp_path / "first").guessed


def test_a_window_may_begin_later_than_its_parts(tmp_path: Path) -> None:
    """What the rows before it show decides: here that is all there is, as the first part is among them."""
    rows = [
        on(5, task(0, 1, 0, SUBMIT)),
        on(5, task(0, 1, 0, SCHEDULE)),  # runs throughout
        task(at(1), 2, 0, SUBMIT),
        on(6, task(at(2), 2, 0, SCHEDULE)),
        task(at(3), 3, 0, SUBMIT),  # waits
        task(at(4), 4, 0, SUBMIT),
        on(6, task(at(5), 4, 0, SCHEDULE)),
        on(6, task(at(6), 4, 0, FINISH)),  # is gone
        on(6, task(at(7), 4, 1, SCHEDULE)),  # its submission is missing, and its job came before
        task(at(20), 5, 0, SUBMIT),
        on(6, task(at(30), 2, 0, FINISH)),
        on(6, task(at(31), 5, 0, SCHEDULE)),
        on(6, task(at(33), 5, 0, FINISH)),
    ]
    write_trace(tmp_path, [job(at(4), 4)], rows, machines=[(0, 5, 0, "p", 1, 1), (at(9), 6, 0, "p", 1, 1)])
    trace = traced(tmp_path, start_seconds=10.0)
    there = {a.job.name[11:]: [column.tolist() for column in a.machines] for a in trace.workload.residents}
    assert there == {"1": [[0]], "2": [[1]], "3": [[-1]], "4": [[1]]}
    lasting = {a.job.name[11:]: a.durations[0].tolist() for a in (*trace.workload.residents, *trace.workload.arrivals)}
    assert (lasting["2"], lasting["5"]) == ([20_000_000], [2_000_000])
    assert [(a.job.name[11:], a.at_seconds) for a in trace.workload.arrivals] == [("5", 10.0)]
    assert (trace.seconds, trace.workload.events) == (23.0, [])
    assert "only-end" not in counts(trace)
    with pytest.raises(BadInput, match=r"begins 34 s after its first row; the last is at 33 s"):
        traced(tmp_path, start_seconds=34.0)
