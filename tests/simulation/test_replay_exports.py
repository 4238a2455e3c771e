"""Files of a replay: CSV, Parquet, and Batsim's jobs.csv as evalys reads it."""

import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import TaskGroup
from omega.cellstate.tasks import EndKind
from omega.replay.batsim import HEADINGS, Export, export
from omega.replay.cpu_units import assign
from omega.replay.fairness import fairness_of
from omega.replay.tables import (
    Table,
    jobs_table,
    tasks_table,
    users_table,
    utilisation_table,
    write_csv,
    write_parquet,
)
from omega.replay.utilisation import utilisation_of
from omega.replay.waits import times_of
from omega.simulation.records import RUNNING
from tests.simulation.replay_cases import HORIZON, MICRO, Case, Row, arrival, drawn, made

SEEDS = range(12)
ONE = TaskGroup((1000, 100), 1, 5000)


def _units(text: str) -> list[int]:
    """The numbers of ``0-3 7``."""
    pairs = [(piece.split("-")[0], piece.split("-")[-1]) for piece in text.split()]
    return [unit for first, last in pairs for unit in range(int(first), int(last) + 1)]


def _rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def _micro(seconds: float) -> int:
    return round(seconds / MICRO)


# Cpu units


@pytest.mark.parametrize(
    ("seed", "step", "size"), [*((seed, 1000, None) for seed in SEEDS), (1, 250, None), (2, 700, 100)]
)
def test_no_unit_has_two_tasks_at_an_instant(seed: int, step: int, size: int | None) -> None:
    case = drawn(seed, step)
    rows = _rows(export(case.columns, "w", size).table)
    assert len(rows) > 5
    for instant in range(HORIZON):
        there = [row for row in rows if _micro(row["starting_time"]) <= instant < _micro(row["finish_time"])]
        units = [unit for row in there for unit in _units(row["allocated_resources"])]
        assert len(units) == len(set(units))


@pytest.mark.parametrize("seed", SEEDS)
def test_units_are_those_of_the_machine(seed: int) -> None:
    """Machine after machine: units of machine i come after those of the machines before it, none is outside."""
    case = drawn(seed)
    units = assign(case.columns)
    largest = [max(case.capacity(t).get(f"m{i}", (0,))[0] for t in range(HORIZON)) // units.size for i in range(4)]
    rows = sorted(case.rows, key=lambda row: row.started)
    assert units.total == sum(largest)
    assert units.rounded == 0
    for row, intervals in zip(rows, units.of_placement, strict=True):
        begin = sum(largest[: row.machine])
        numbers = [unit for first, last in intervals for unit in range(first, last + 1)]
        assert len(numbers) == case.need(row)[0] // units.size
        assert set(numbers) <= set(range(begin, begin + largest[row.machine]))


def test_units_pass_on_at_one_instant() -> None:
    """A task of the whole machine ends, one of no duration passes by, another of the whole machine starts."""
    jobs = [arrival(i, 0, TaskGroup((2000, 100), 1)) for i in range(3)]
    case = made([(2000, 1000)], [], jobs, [Row(0, 0, 0, 0, 0, 10), Row(1, 0, 0, 0, 10, 20), Row(2, 0, 0, 0, 10, 10)])
    assert export(case.columns, "w").table["allocated_resources"] == ["0-1"] * 3


def test_an_over_committed_replay_is_refused() -> None:
    case = made(
        [(1500, 1000)], [], [arrival(i, 0, ONE) for i in range(2)], [Row(0, 0, 0, 0, 0, 10), Row(1, 0, 0, 0, 9, 10)]
    )
    with pytest.raises(Refused, match=r"export: 1 of 1 machines hold more cpu than they have, m0 at 9e-06 s first"):
        export(case.columns, "w")


def test_fractions_are_exact_in_smaller_units_and_rounded_in_chosen_ones() -> None:
    jobs = [arrival(0, 0, TaskGroup((1500, 100), 1)), arrival(1, 0, ONE)]
    case = made([(4000, 1000)], [], jobs, [Row(0, 0, 0, 0, 0, 10), Row(1, 0, 0, 0, 0, 10)])
    exact = export(case.columns, "w")
    assert exact.table["allocated_resources"] == ["0-2", "3-4"]
    assert exact.notes == ["a cpu unit is 500m cpu"]
    assert exact.units == 8
    rounded = export(case.columns, "w", 1000)
    assert rounded.table["allocated_resources"] == ["0-1", "2"]
    assert rounded.notes == [
        "1 requests are fractions of a unit of 1 cpu, rounded up: utilisation by this file is higher"
    ]


def test_rounded_requests_may_not_fit() -> None:
    jobs = [arrival(i, 0, TaskGroup((500, 100), 1)) for i in range(2)]
    case = made([(1000, 1000)], [], jobs, [Row(0, 0, 0, 0, 0, 10), Row(1, 0, 0, 0, 0, 10)])
    with pytest.raises(Refused, match=r"machine m0 at 0 s has too few units of 1 cpu for requests rounded up"):
        export(case.columns, "w", 1000)
    assert export(case.columns, "w").table["allocated_resources"] == ["0", "1"]


# Batsim's form


def _told() -> Case:
    jobs = [arrival(0, 0, ONE), arrival(1, 5, TaskGroup((2000, 100), 3, 7000)), arrival(2, 8, TaskGroup((0, 100), 1))]
    rows = [
        Row(0, 0, 0, 0, 0, -1, RUNNING), Row(1, 0, 0, 1, 10, 20, EndKind.EVICTED), Row(1, 0, 0, 1, 30, 50),
        Row(1, 0, 1, 1, 20, 20), Row(2, 0, 0, 0, 9, 10),
    ]  # fmt: skip
    return made([(1000, 1000), (2000, 1000)], jobs[:1], jobs[1:], rows)


def test_rows_have_all_columns_of_batsim() -> None:
    exported = export(_told().columns, "w0")
    assert tuple(exported.table) == HEADINGS
    rows = _rows(exported.table)
    assert [row["job_id"] for row in rows] == ["j0.0.0", "j1.0.0", "j1.0.1", "j1.0.0#1"]
    first, evicted, brief, again = rows
    assert first == {
        "job_id": "j0.0.0", "workload_name": "w0", "submission_time": 0.0, "requested_number_of_resources": 1,
        "requested_time": 5.0, "success": 0, "starting_time": 0.0, "execution_time": HORIZON / 1_000_000,
        "finish_time": HORIZON / 1_000_000, "waiting_time": 0.0, "turnaround_time": HORIZON / 1_000_000, "stretch": 1.0,
        "allocated_resources": "0",
    }  # fmt: skip
    assert (evicted["success"], evicted["submission_time"], evicted["waiting_time"]) == (0, 5e-6, 5e-6)
    assert (again["success"], again["submission_time"], again["turnaround_time"]) == (1, 20e-6, 30e-6)
    assert again["stretch"] == 1.5
    assert (brief["stretch"], brief["execution_time"], brief["allocated_resources"]) == (None, 0.0, "1-2")


def test_what_has_no_row_is_counted() -> None:
    assert export(_told().columns, "w0").notes == [
        "1 tasks never started and have no row",
        "1 placements request no cpu and have no row",
        "1 rows are further placements of tasks that were evicted, lost or retried",
        "1 tasks still ran at the end; they have success 0",
        "1 tasks have no duration and no stretch",
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_task_has_one_row_for_each_placement(seed: int) -> None:
    case = drawn(seed)
    rows = _rows(export(case.columns, "w").table)
    own = sorted(
        (f"{case.jobs[row.job].job.id}.{row.group}.{row.task}", row.started, case.until(row))
        for row in case.rows
        if case.need(row)[0]
    )
    assert (
        sorted(
            (row["job_id"].partition("#")[0], _micro(row["starting_time"]), _micro(row["finish_time"])) for row in rows
        )
        == own
    )
    assert len({row["job_id"] for row in rows}) == len(rows)
    for row in rows:
        assert row["starting_time"] - row["submission_time"] == pytest.approx(row["waiting_time"])
        assert row["waiting_time"] >= 0
        assert row["waiting_time"] + row["execution_time"] == pytest.approx(row["turnaround_time"])


def _jobset(exported: Export, path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of evalys and of what it imports
        jobset = pytest.importorskip("evalys.jobset", reason="evalys is not installed", exc_type=ImportError)
        write_csv(exported.table, path)
        assert tuple(jobset.JobSet.columns) == HEADINGS
        return jobset.JobSet.from_csv(str(path), resource_bounds=(0, exported.units - 1))


def _slow(case: Case) -> Case:
    """The same with seconds for microseconds: evalys rounds to a microsecond."""
    million = 1_000_000

    def later(time: int) -> int:
        return time * million if time >= 0 else time

    rows = [row._replace(started=later(row.started), ended=later(row.ended)) for row in case.rows]
    jobs = [type(each)(each.at_seconds * million, each.job) for each in case.jobs]
    residents = len(case.workload.residents)
    machines = [(cpu, memory) for cpu, memory in (machine.capacity for machine in case.workload.machines)]
    return Case(made(machines, jobs[:residents], jobs[residents:], []).workload, jobs, rows, HORIZON * million)


def _steady(seed: int) -> Case:
    """A random run of seconds whose machines stay."""
    case = drawn(seed)
    rows = [row for row in case.rows if row.machine != 3 and row.how != EndKind.LOST]
    rows = [row for row in rows if row.machine or case.until(row) <= 20]
    return _slow(Case(case.workload, case.jobs, rows))


@pytest.mark.parametrize("seed", SEEDS)
def test_evalys_finds_the_same_utilisation(seed: int, tmp_path: Path) -> None:
    case = _steady(seed)
    columns = case.columns
    exported = export(columns, "w")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobset = _jobset(exported, tmp_path / "jobs.csv")
        load, bounds = jobset.utilisation, jobset.MaxProcs
    ours = utilisation_of(columns)
    assert bounds * 1000 == sum(machine.capacity[0] for machine in case.workload.machines)
    assert load.area.sum() / (HORIZON * bounds) == pytest.approx(ours.mean()["cpu"])
    instants = [float(second) + 0.5 for second in range(HORIZON)]
    theirs = [
        float(load.load[load.index <= instant].iloc[-1]) if (load.index <= instant).any() else 0.0
        for instant in instants
    ]
    held = [case.held(int(instant * 1_000_000))[0] / 1000 for instant in instants]
    assert theirs == pytest.approx(held)


def test_evalys_draws_the_file(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobset = _jobset(export(_steady(3).columns, "w"), tmp_path / "jobs.csv")
        from matplotlib import pyplot as plt

        plt.switch_backend("agg")
        jobset.plot(with_details=True)
        plt.savefig(tmp_path / "evalys.png")
        axes = plt.gcf().axes
        plt.close("all")
    assert len(axes) == 4
    assert len(axes[3].patches) >= len(jobset.df)


# Records


def test_records_of_jobs_and_tasks(tmp_path: Path) -> None:
    columns = _told().columns
    write_csv(jobs_table(columns, times_of(columns)), tmp_path / "new" / "jobs.csv")
    write_csv(tasks_table(columns), tmp_path / "tasks.csv")
    with (tmp_path / "new" / "jobs.csv").open(newline="") as file:
        resident, job, _ = csv.DictReader(file)
    assert (resident["resident"], resident["state"], resident["wait_s"]) == ("true", "running", "")
    assert job == {
        "job": "j1", "name": "job/1", "kind": "batch", "user": "", "pool": "", "precedence": "0", "resident": "false",
        "state": "pending", "submitted_s": "5e-06", "first_attempt_s": "", "first_start_s": "1e-05", "end_s": "",
        "tasks": "3", "tasks_started": "2", "tasks_finished": "2", "evictions": "1", "losses": "0", "wait_s": "5e-06",
        "response_s": "", "run_s": "", "bounded_slowdown": "",
    }  # fmt: skip
    with (tmp_path / "tasks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["how"] for row in rows] == ["running", "finished", "evicted", "finished", "finished"]
    assert rows[2] == {
        "job": "j1", "group": "0", "task": "0", "attempt": "0", "machine": "m1", "resident": "false",
        "started_s": "1e-05", "ended_s": "2e-05", "how": "evicted", "wait_s": "5e-06", "cpu_millicores": "2000",
        "memory_mib": "100",
    }  # fmt: skip
    assert (rows[4]["attempt"], rows[4]["wait_s"]) == ("1", "")


def test_text_with_commas_and_quotes_survives(tmp_path: Path) -> None:
    columns = made([(1000, 1000)], [], [arrival(0, 0, ONE, user='a,"b"')], []).columns
    write_csv(jobs_table(columns, times_of(columns)), tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["user"] == 'a,"b"'


def test_parquet_has_the_same_values(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    columns = drawn(5).columns
    times = times_of(columns)
    fairness, utilisation = fairness_of(columns, times), utilisation_of(columns)
    for table in (
        jobs_table(columns, times), tasks_table(columns), users_table(fairness), utilisation_table(utilisation)
    ):  # fmt: skip
        write_parquet(table, tmp_path / "table.parquet")
        read = parquet.read_table(tmp_path / "table.parquet")
        assert read.to_pydict() == {name: list(column) for name, column in table.items()}
        assert "null" not in {str(each) for each in read.schema.types}


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(BadInput, match=r"pip install 'omega-scheduler\[parquet\]'"):
        write_parquet({"a": [1]}, tmp_path / "a.parquet")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        write_csv({"a": [1]}, tmp_path / "file" / "a.csv")
