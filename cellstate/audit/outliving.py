"""Records that outlive the log against the machines and jobs of the cell (invariant 6 of the audit).

What a digest of the log counted follows from the cell where it has read the whole log: then tasks run, finished and
failed by their results as by the records of their jobs, and accounts hold what their lanes hold.
"""

from collections import Counter
from collections.abc import Iterator

from omega.cellstate.audit.reading import CellState
from omega.cellstate.audit.register import Register
from omega.cellstate.audit.rules import Violation
from omega.cellstate.digest.hours import Owner, Settled
from omega.cellstate.digest.results import CHUNK, FAILED, FINISHED, MOST_CHUNKS, RUNNING
from omega.cellstate.inspection import Inspection
from omega.cellstate.lanes import Lane
from omega.cellstate.model import Job


def records_belong_to_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: a history or result belongs to a stored job, and the chunks of results are those that are listed."""
    kept = inspection.records
    for job in sorted(kept.histories | {job for job, *_ in kept.chunks}):
        if job not in cell_state.jobs:
            yield Violation(6, "has a history or results and is not kept", f"job {job}")
    for job in sorted({job for job, *_ in kept.chunks.keys() | kept.listed} - kept.histories):
        yield Violation(6, "has results and no history", f"job {job}")
    for place in sorted(kept.chunks.keys() ^ kept.listed):
        yield Violation(6, "is listed or there, not both", "results {} {} {}".format(*place))


def results_follow_from_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: by their results as many tasks run, finished and failed as by the records of their jobs."""
    kept = inspection.records
    if kept.position.version > cell_state.version:
        yield Violation(6, f"is at version {kept.position.version}, beyond the cell's", "usage position")
    if not _has_read_all(inspection, cell_state):
        return
    states: dict[tuple[str, int], Counter[int]] = {}
    for (job_id, group, _chunk), found in kept.chunks.items():
        states.setdefault((job_id, group), Counter()).update(found)
    for job in cell_state.jobs.values():
        if job.order > kept.position.since_order:
            yield from _counted_alike(job, states)


def _counted_alike(job: Job, states: dict[tuple[str, int], Counter[int]]) -> Iterator[Violation]:
    for number, group in enumerate(job.groups):
        if group.indices > CHUNK * MOST_CHUNKS:
            continue
        counted = states.get((job.id, number), Counter())
        pairs = [(RUNNING, group.placed)] + [(FAILED, group.failed)] * (not group.optional)
        pairs += [(FINISHED, group.finished)] * (not group.copies)  # those that continued as their tasks
        for state, count in pairs:
            if counted[state] != count:
                what = f"{count} tasks of group {number} are in state {state}, by their results {counted[state]}"
                yield Violation(6, what, f"job {job.id}")


def accounts_hold_what_lanes_hold(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: the sums of use continue from what the placed tasks of each account hold."""
    if not _has_read_all(inspection, cell_state) or inspection.records.position.settled is not Settled.YES:
        return
    held: Counter[tuple[Owner, int]] = Counter()
    for book in inspection.lanes.values():
        lane = Lane.named(book.name)
        for at, amount in enumerate(book.held):
            held[Owner(lane.kind, lane.user, lane.pool), at] += amount
    levels = {
        (owner, at): amount
        for owner, amounts in inspection.records.position.levels.items()
        for at, amount in enumerate(amounts)
    }
    for place in sorted(held.keys() | levels.keys()):
        if held[place] != levels.get(place, 0):
            what = f"holds {levels.get(place, 0)} of resource {place[1]} by the sums of use, {held[place]} by its lanes"
            yield Violation(6, what, f"account {' '.join(place[0])}")


def _has_read_all(inspection: Inspection, cell_state: CellState) -> bool:
    return inspection.records.position.version == inspection.version == cell_state.version


def copied_jobs_are_listed(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: jobs whose tasks may have copies are listed by kind until they end; those that ended may be."""
    for job in cell_state.jobs.values():
        may, kind = any(group.copies for group in job.groups), inspection.copied.get(job.id)
        lives = any(group.unplaced or group.placed for group in job.groups)
        if (kind is None and may and lives) or (kind is not None and (not may or kind != job.kind)):
            listed = "not listed" if kind is None else f"listed under kind {kind}"
            what = f"of kind {job.kind} {'may' if may else 'may not'} have copies of tasks, and is {listed}"
            yield Violation(6, what, f"job {job.id}")


OUTLIVING = records_belong_to_jobs, results_follow_from_jobs, accounts_hold_what_lanes_hold, copied_jobs_are_listed
"""The checks of these records."""
