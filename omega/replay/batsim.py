"""A replay in the form of Batsim's ``jobs.csv``, which evalys reads: one row for each task."""

from collections.abc import Sequence
from dataclasses import dataclass

from omega.cellstate.resources import format_amount
from omega.cellstate.tasks import EndKind
from omega.replay.columns import Columns, State
from omega.replay.cpu_units import Interval, assign
from omega.replay.machines import SECOND
from omega.replay.tables import Table
from omega.workload.workload import Microseconds

HEADINGS = (
    "job_id", "workload_name", "submission_time", "requested_number_of_resources", "requested_time", "success",
    "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time", "stretch",
    "allocated_resources",
)  # fmt: skip
"""The columns of evalys' `JobSet.columns`, in this order. Times are seconds."""


@dataclass(frozen=True, slots=True)
class Export:
    """Rows of the file, and in `notes` what they leave out or change."""

    table: Table
    units: int
    """Cpu units in the cell: `resource_bounds` of evalys are 0 and this number less 1."""
    notes: list[str]


def export(columns: Columns, workload_name: str, unit: int | None = None) -> Export:
    """Return the rows of a run; `unit` is the size of a cpu unit in millicores (default: the largest exact one).

    A task that was evicted, lost or retried has another row for each further placement, with ``#1``, ``#2``, … after
    its id, as Batsim names resubmitted jobs; such a row is submitted when the placement before ended. A task that still
    runs at the end of the run ends there without success. Refused when the replay is over-committed.
    """
    units = assign(columns, unit)
    records, jobs = columns.records, columns.jobs
    submitted = _submitted(columns)
    until, attempts = columns.until, columns.attempt
    ran, turnaround = until - records.started, until - submitted
    counts = [sum(last - first + 1 for first, last in intervals) for intervals in units.of_placement]
    ids = [each.job.id for each in records.jobs]
    requested = [[group.duration_ms / 1000 for group in each.job.groups] for each in records.jobs]
    table = {
        "job_id": [
            f"{ids[job]}.{group}.{task}" + (f"#{attempt}" if attempt else "")
            for job, group, task, attempt in zip(
                *(each.tolist() for each in (records.job, records.group, records.task, attempts)), strict=True
            )
        ],
        "workload_name": [workload_name] * len(ids_of := records.job.tolist()),
        "submission_time": (submitted / SECOND).tolist(),
        "requested_number_of_resources": counts,
        "requested_time": [requested[job][group] for job, group in zip(ids_of, records.group.tolist(), strict=True)],
        "success": (records.how == EndKind.FINISHED).astype(int).tolist(),
        "starting_time": (records.started / SECOND).tolist(),
        "execution_time": (ran / SECOND).tolist(),
        "finish_time": (until / SECOND).tolist(),
        "waiting_time": ((records.started - submitted) / SECOND).tolist(),
        "turnaround_time": (turnaround / SECOND).tolist(),
        "stretch": [a / b if b else None for a, b in zip(turnaround.tolist(), ran.tolist(), strict=True)],
        "allocated_resources": [_text(intervals) for intervals in units.of_placement],
    }
    kept = [bool(intervals) for intervals in units.of_placement]
    if not all(kept):
        table = {
            name: [value for value, keep in zip(column, kept, strict=True) if keep] for name, column in table.items()
        }
    present = jobs.state != State.ABSENT
    never = int((jobs.tasks - jobs.started)[present].sum())
    facts = {
        "never": never, "rounded": units.rounded, "without": kept.count(False),
        "again": int((attempts > 0).sum()), "running": int((records.ended < 0).sum()),
        "brief": int((ran == 0).sum()),
    }  # fmt: skip
    return Export({name: table[name] for name in HEADINGS}, units.total, _notes(units.size, facts))


def _submitted(columns: Columns) -> Microseconds:
    """Return when each placement was requested: with its job, or at the end of the placement before of its task."""
    submitted = columns.jobs.submitted[columns.records.job].copy()
    repeats = columns.repeats
    again = repeats.attempt > 0
    submitted[repeats.row[again]] = columns.records.ended[repeats.before[again]]
    return submitted


def _text(intervals: Sequence[Interval]) -> str:
    """Return intervals as evalys reads them: ``0-3 7``."""
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in intervals)


def _notes(size: int, facts: dict[str, int]) -> list[str]:
    unit = format_amount("cpu", size)
    said = {
        "never": "tasks never started and have no row",
        "without": "placements request no cpu and have no row",
        "rounded": f"requests are fractions of a unit of {unit} cpu, rounded up: utilisation by this file is higher",
        "again": "rows are further placements of tasks that were evicted, lost or retried",
        "running": "tasks still ran at the end; they have success 0",
        "brief": "tasks have no duration and no stretch",
    }
    notes = [] if size == 1_000 else [f"a cpu unit is {unit} cpu"]
    return notes + [f"{facts[name]:,} {text}" for name, text in said.items() if facts[name]]
