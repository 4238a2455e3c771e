"""Records of a replay as tables: jobs, placements of tasks, users, utilisation; written as CSV or Parquet."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.tasks import EndKind
from omega.replay.columns import Columns, State
from omega.replay.fairness import Fairness
from omega.replay.machines import SECOND
from omega.replay.utilisation import Utilisation
from omega.replay.waits import Floats, Times
from omega.simulation.records import RUNNING

Table = Mapping[str, Sequence[Any]]
"""Columns of equal length by name; a missing value is None."""
UNITS = {"cpu": "cpu_millicores", "memory": "memory_mib"}
"""Names of columns of amounts; other dimensions have their own name."""
REAL = ("_s", "_mean", "_mean_s", "_slowdown", "_share", "_held", "_capacity", "_utilisation")
"""Ends of the names of columns of real numbers, which may miss all values."""
HOW = {RUNNING: "running", **{int(kind): kind.name.lower() for kind in EndKind}}


def jobs_table(columns: Columns, times: Times) -> Table:
    """Return a row for each job that arrived or was resident."""
    jobs, records = columns.jobs, columns.records
    rows = np.flatnonzero(jobs.state != State.ABSENT)
    specs = [records.jobs[row].job for row in rows.tolist()]

    def numbers(values: NDArray[Any]) -> list[Any]:
        return list(values[rows].tolist())

    return {
        "job": [spec.id for spec in specs],
        "name": [spec.name for spec in specs],
        "kind": [spec.kind for spec in specs],
        "user": [str(spec.spec.get("user") or "") for spec in specs],
        "pool": [str(spec.spec.get("pool") or "") for spec in specs],
        "precedence": [spec.precedence for spec in specs],
        "resident": numbers(jobs.resident),
        "state": [State(value).name.lower() for value in jobs.state[rows]],
        "submitted_s": _seconds(jobs.submitted[rows]),
        "first_attempt_s": _seconds(records.first_attempt[rows]),
        "first_start_s": _seconds(jobs.first_start[rows]),
        "end_s": _seconds(jobs.end[rows]),
        "tasks": numbers(jobs.tasks),
        "tasks_started": numbers(jobs.started),
        "tasks_finished": numbers(jobs.finished),
        "evictions": numbers(jobs.evicted),
        "losses": numbers(jobs.lost),
        "wait_s": _known(times.wait[rows]),
        "response_s": _known(times.response[rows]),
        "run_s": _known(times.run[rows]),
        "bounded_slowdown": _known(times.slowdown[rows]),
    }


def tasks_table(columns: Columns) -> Table:
    """Return a row for each placement of a task, in order of start."""
    jobs, records = columns.jobs, columns.records
    ids, names = [each.job.id for each in records.jobs], columns.machines.names
    attempt, need = columns.attempt, columns.need
    counted = ~jobs.resident[records.job] & (attempt == 0)
    wait = np.where(counted, (records.started - jobs.submitted[records.job]) / SECOND, np.nan)
    return {
        "job": [ids[job] for job in records.job.tolist()],
        "group": records.group.tolist(),
        "task": records.task.tolist(),
        "attempt": attempt.tolist(),
        "machine": [names[machine] for machine in records.machine.tolist()],
        "resident": jobs.resident[records.job].tolist(),
        "started_s": _seconds(records.started),
        "ended_s": _seconds(records.ended),
        "how": [HOW[how] for how in records.how.tolist()],
        "wait_s": _known(wait),
        **{UNITS.get(name, name): need[:, d].tolist() for d, name in enumerate(columns.workload.dimensions.names)},
    }


def users_table(fairness: Fairness) -> Table:
    """Return a row for each user."""
    users = fairness.users
    return {
        "user": [each.user for each in users],
        "jobs": [each.jobs for each in users],
        "jobs_finished": [each.finished for each in users],
        "tasks": [each.tasks for each in users],
        "dominant_share": [each.share for each in users],
        "wait_mean_s": [each.wait_mean for each in users],
        "bounded_slowdown_mean": [each.slowdown_mean for each in users],
    }


def utilisation_table(utilisation: Utilisation) -> Table:
    """Return mean amounts over at most 1,440 equal spans of the run."""
    edges, held, has = utilisation.bins()
    table: dict[str, Sequence[Any]] = {"from_s": (edges[:-1] / SECOND).tolist(), "to_s": (edges[1:] / SECOND).tolist()}
    for d, name in enumerate(utilisation.names):
        unit = UNITS.get(name, name)
        share = np.divide(held[:, d], has[:, d], out=np.full(len(held), np.nan), where=has[:, d] > 0)
        table |= {
            f"{unit}_held": held[:, d].tolist(),
            f"{unit}_capacity": has[:, d].tolist(),
            f"{name}_utilisation": _known(share),
        }
    return table


def _seconds(times: NDArray[np.int64]) -> list[float | None]:
    return [None if time < 0 else time / SECOND for time in times.tolist()]


def _known(values: Floats) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - not a number


def _text(column: Sequence[Any]) -> Iterator[Any]:
    """Yield values as CSV has them: true and false as words, nothing for None."""
    return (("true" if each else "false") if isinstance(each, bool) else each for each in column)


def write_csv(table: Table, path: Path) -> None:
    """Write a table with a line of headings. Raises BadInput when the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table)
            writer.writerows(zip(*map(_text, table.values()), strict=True))
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror}); choose another place") from None


def check_parquet() -> None:
    """Raise BadInput without pyarrow, which writes Parquet."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise BadInput(
            "Parquet needs pyarrow; pip install 'omega-scheduler[parquet]', or leave out --parquet"
        ) from None


def write_parquet(table: Table, path: Path) -> None:
    """Write a table with nulls for missing values. Raises BadInput as `check_parquet` and `write_csv`."""
    check_parquet()
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    columns = {
        name: pa.array(column, type=pa.float64() if name.endswith(REAL) else None) for name, column in table.items()
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror}); choose another place") from None
