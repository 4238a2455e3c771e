"""The sums and indexes that the store keeps against machines and jobs (invariant 6 of the audit)."""

from collections import Counter
from collections.abc import Iterator

from omega.cellstate.audit.reading import CellState
from omega.cellstate.audit.register import Register
from omega.cellstate.audit.rules import Violation
from omega.cellstate.inspection import Inspection
from omega.cellstate.model import JobState, MachineState
from omega.cellstate.pages import head_of
from omega.cellstate.sums import DELAYED, TOTALS, Shape, totals_of


def sums_follow_from_records(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: machines are counted by shape, jobs are listed by submission, totals are those of all jobs."""
    if inspection.version != cell_state.version:
        return  # it changed during the reading
    size = cell_state.size
    rows = [row for row in cell_state.rows.values() if row[2] != MachineState.GONE]
    counts = Counter(Shape(MachineState(row[2]), row[3] % 2 == 1, tuple(row[4 : 4 + size])) for row in rows)
    for shape in sorted(counts.keys() | inspection.shapes.keys()):
        if counts[shape] != inspection.shapes.get(shape, 0):
            what = f"counts {inspection.shapes.get(shape, 0)} machines, there are {counts[shape]}"
            yield Violation(6, what, f"shapes {shape}")
    over = {row[0] for row in rows if any(map(int.__gt__, row[4 + size :], row[4 : 4 + size]))}
    unknown = set(inspection.over) - {row[0] for row in rows}
    if over - set(inspection.over) or unknown or len(set(inspection.over)) < len(inspection.over):
        what = f"lists the machines {inspection.over}, and {sorted(over)} hold more than they have"
        yield Violation(6, what, "shapes over")
    orders = {job.id: job.order for job in cell_state.jobs.values()}
    for job_id in sorted(orders.keys() | inspection.recent.keys()):
        if orders.get(job_id) != inspection.recent.get(job_id):
            what = (
                f"is at {inspection.recent.get(job_id)} of the index of submissions, its number is {orders.get(job_id)}"
            )
            yield Violation(6, what, f"recent {job_id}")
    yield from _totals(inspection, cell_state)


def waiters_follow_from_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """4: the jobs that wait for others are listed under these, and no others are."""
    expected = {
        f"{wait.job} {job.order:014} {job.id}"
        for job in cell_state.jobs.values() if job.state is JobState.HELD for wait in job.after
    }  # fmt: skip
    for member in sorted(expected ^ inspection.waiters.keys()):
        what = "is not listed, and its job waits" if member in expected else "is listed, and no job waits so"
        yield Violation(4, what, f"waiters {member}")
    for member, score in inspection.waiters.items():
        if score:
            yield Violation(4, f"has the score {score}, not 0", f"waiters {member}")


def _totals(inspection: Inspection, cell_state: CellState) -> Iterator[Violation]:
    """Check counters: jobs that are no longer kept ended, so a total has at least what those that are kept give."""
    least, now = totals_of(map(head_of, cell_state.jobs.values())), inspection.counters
    left = {name: now[name] - least[name] for name in sorted(TOTALS)}
    jobs = sum(left[f"jobs_{word}"] for word in ("finished", "failed", "stopped", "abandoned"))
    tasks = left["tasks_total"] - sum(left[f"tasks_{word}"] for word in ("finished", "failed", "stopped"))
    gone = now["jobs"] - len(cell_state.jobs)
    exact = ("jobs_held", "jobs_halted", "jobs_stopping", DELAYED, *(() if gone else sorted(TOTALS)))
    for name in sorted(TOTALS):
        if left[name] < 0 or (name in exact and left[name]):
            yield Violation(6, f"is {now[name]}, and the jobs that are kept have {least[name]}", f"meta {name}")
    if tasks or jobs > gone:
        what = f"of jobs that are no longer kept, {jobs} of {gone} ended, {tasks} tasks have not"
        yield Violation(6, what, "meta tasks_total")
