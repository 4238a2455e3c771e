"""A wrong file or setting is one line: what, where, what to do."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.agreement import CAPACITY
from omega.cellstate.errors import BadInput
from omega.simulation import Settings, Simulation
from omega.workload.reference import COLUMNS, read_reference
from omega.workload.workload import Workload
from tests.simulation.tiny import TINY

HEADER = ",".join(COLUMNS)
GOOD = "1,Batch,10,5,60.0,0.5,1.0"


def file_of(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2,Batch,20,5,60.0,0.5", ":3: 6 columns where there are 7"),
        ("2,Batch,20,5,60.0,0.5,1.0,9", ":3: 8 columns"),
        ("2,Nightly,20,5,60.0,0.5,1.0", r":3: column 2 \(workload\): 'Nightly'; want Prefill, Batch, Service"),
        ("2,Batch,soon,5,60.0,0.5,1.0", r":3: column 3 \(submit_s\): 'soon'; want a number"),
        ("2,Batch,-1,5,60.0,0.5,1.0", r":3: column 3 \(submit_s\): '-1'; want a number from 0 on"),
        ("2,Batch,9,5,60.0,0.5,1.0", r":3: column 3 \(submit_s\): '9'; before the Batch job above \(10\)"),
        ("2,Batch,20,0,60.0,0.5,1.0", r":3: column 4 \(num_tasks\): '0'; want a whole number from 1 on"),
        ("2,Batch,20,2.5,60.0,0.5,1.0", r":3: column 4 \(num_tasks\): '2.5'"),
        ("2,Batch,20,5,-60,0.5,1.0", r":3: column 5 \(task_duration_s\): '-60'; want a number from 0 on"),
        ("2,Batch,20,5,nan,0.5,1.0", r":3: column 5 \(task_duration_s\): 'nan'"),
        ("2,Batch,20,5,60.0,-0.5,1.0", r":3: column 6 \(cpus_per_task\): '-0.5'"),
        ("2,Batch,20,5,60.0,0.5,1e400", r":3: column 7 \(mem_gb_per_task\): '1e400'"),
        ("1,Batch,20,5,60.0,0.5,1.0", r":3: column 1 \(job_id\): '1'; there is a job of this id above"),
        ("a b,Batch,20,5,60.0,0.5,1.0", r":3: column 1 \(job_id\): 'a b'"),
        ("2,Prefill,20,5,60.0,0.5,1.0", r":3: column 3 \(submit_s\): '20'; prefill is there from 0 on"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    path = file_of(tmp_path, HEADER, GOOD, row)
    with pytest.raises(BadInput, match=rf"jobs\.csv{message}"):
        read_reference(path, 10, CAPACITY)


def test_kinds_may_follow_one_another(tmp_path: Path) -> None:
    """Each kind is in order of its own; together they are put in order."""
    path = file_of(tmp_path, HEADER, GOOD, "2,Service,3,1,60.0,0.5,1.0")
    assert [each.job.id for each in read_reference(path, 10, CAPACITY).arrivals] == ["2", "1"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), r"jobs\.csv:1: the first line is not job_id"),
        ((HEADER,), "no job arrives"),
        (("job,kind", GOOD), r"jobs\.csv:1: the first line is not job_id"),
        ((HEADER, '"1,Batch'), r"jobs\.csv:2: cannot be read"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_reference(file_of(tmp_path, *lines), 10, CAPACITY)


def test_no_file_and_no_machines(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nothing\.csv: no such file"):
        read_reference(tmp_path / "nothing.csv", 10, CAPACITY)
    with pytest.raises(BadInput, match="a cell of 0 machines; want at least 1"):
        read_reference(file_of(tmp_path, HEADER, GOOD), 0, CAPACITY)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architecture": "anarchy"}, "unknown architecture 'anarchy'; known: monolithic-single, monolithic-multi"),
        ({"placement": "worst"}, "unknown placement 'worst'; known: random"),
        ({"sharing": "lottery"}, "unknown sharing 'lottery'; known: hash, round-robin"),
        ({"t_job_batch": -1.0}, "t_job_batch is -1 s; want a time from 0 on"),
        ({"t_task_service": float("nan")}, "t_task_service is nan s"),
        ({"days": 0.0}, "0 days; want more than 0"),
        ({"batch_schedulers": 0}, "0 batch schedulers; want 1 to 256"),
        ({"batch_schedulers": 2, "architecture": "monolithic-multi"}, "monolithic-multi has one"),
        ({"shares": {"batch": 1.0}}, "want one above 0 for each of batch, service"),
    ],
)
def test_a_setting_that_makes_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Settings(**settings)  # type: ignore[arg-type]


def test_jobs_nobody_schedules() -> None:
    with pytest.raises(BadInput, match="jobs of kind prefill; there are schedulers for batch, service"):
        Simulation(Workload(TINY.machines, [], TINY.residents, ""), Settings())


def test_copies_of_slow_tasks_are_simulated_elsewhere() -> None:
    copied = replace(TINY.arrivals[-1].job, name="c", spec={"speculation": {}})
    arrivals = [*TINY.arrivals[:-1], replace(TINY.arrivals[-1], job=copied)]
    with pytest.raises(BadInput, match="job c has speculation; omega sim copies simulates that"):
        Simulation(replace(TINY, arrivals=arrivals), Settings())
