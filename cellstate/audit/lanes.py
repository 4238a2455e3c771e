"""Lanes against the jobs in them, their queues and the change list (invariant 6 of the audit)."""

from collections import Counter
from collections.abc import Iterator

from omega.cellstate import ranges
from omega.cellstate.audit.reading import CellState
from omega.cellstate.audit.register import Register
from omega.cellstate.audit.rules import Violation
from omega.cellstate.inspection import Inspection, LaneBook
from omega.cellstate.lanes import BASE, MOST_WANTED, Lane, lane_of
from omega.cellstate.model import Job


def lanes_follow_from_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: a lane's counts, demand and use are those of its live jobs; jobs and queue entries name their lane."""
    if inspection.version != cell_state.version:
        return  # it changed during the reading
    expected: dict[int, list[int]] = {}
    for job in cell_state.jobs.values():
        if any(group.unplaced or group.placed for group in job.groups):
            _count(job, expected.setdefault(job.lane, [0] * (4 + 2 * cell_state.size)), cell_state.size)
            lane, own = inspection.lanes.get(job.lane), lane_of(job.kind, job.precedence, job.spec)
            if lane is None or lane.name not in (str(own), str(Lane(job.kind, 0))):
                yield Violation(6, f"names lane {job.lane}, which is that of {lane and lane.name!r}", f"job {job.id}")
    for number in sorted(expected.keys() | inspection.lanes.keys()):
        lane = inspection.lanes.get(number)
        counts = [lane.live, lane.pending, *lane.wanted, *lane.held, lane.tasks, lane.running] if lane else []
        if counts != expected.get(number):
            what = f"counts {counts} (live, pending, wanted, held, tasks, running), its jobs {expected.get(number)}"
            yield Violation(6, what, f"lane {number}")
    yield from _queues(inspection, cell_state)
    yield from _names(inspection)
    yield from _rows(inspection)


def _count(job: Job, counts: list[int], size: int) -> None:
    counts[0] += 1
    counts[1] += job.pending
    for group in job.groups:
        waiting = 0 if group.waiting == ranges.EMPTY or group.copies else ranges.count(group.waiting)
        for d, need in enumerate(group.need):
            counts[2 + d] += min(MOST_WANTED, need * waiting)
            counts[2 + size + d] += need * group.placed
        counts[-2] += group.placed
    counts[-1] += any(group.placed for group in job.groups)


def _queues(inspection: Inspection, cell_state: CellState) -> Iterator[Violation]:
    last: Counter[int] = Counter()
    for entry in inspection.queued:
        job = cell_state.jobs.get(entry.job)
        if job is not None and entry.lane != job.lane:
            yield Violation(6, f"is queued in lane {entry.lane} and belongs to {job.lane}", f"job {entry.job}")
        last[entry.lane] = max(last[entry.lane], int(entry.arrival))
    for number, lane in inspection.lanes.items():
        if not last[number] <= lane.arrival <= inspection.counters["arrivals"]:
            yield Violation(6, f"its last arrival is {lane.arrival}, in its queue {last[number]}", f"lane {number}")


def _names(inspection: Inspection) -> Iterator[Violation]:
    """Names and lanes match; each number from 1 on belongs to a lane or is free; serials are unique."""
    names = {lane.name: number for number, lane in inspection.lanes.items()}
    for name in sorted(names.keys() ^ inspection.lane_names.keys()):
        yield Violation(6, "does not lead to a lane of that name", f"lane name {name}")
    for name, number in inspection.lane_names.items():
        if names.get(name, number) != number:
            yield Violation(6, f"leads to lane {number} and is that of {names[name]}", f"lane name {name}")
    numbers = sorted([*inspection.lanes, *inspection.spare_lanes])
    if numbers != list(range(1, len(numbers) + 1)):
        yield Violation(6, f"numbers of lanes and free ones are {numbers}", "lanes spare")
    serials = Counter(lane.serial for lane in inspection.lanes.values())
    for serial, count in serials.items():
        if count > 1 or not 0 < serial <= inspection.counters["lanes"]:
            yield Violation(6, f"serial {serial} is of {count} lanes, or was never given out", "lanes")


def _rows(inspection: Inspection) -> Iterator[Violation]:
    """Check that the last row of a lane in the change list equals its record."""
    last: dict[int, list[int]] = {}
    for change in inspection.changes:
        for row in change.lanes.tolist():
            last[row[0] - BASE] = row
    for number, row in last.items():
        lane = inspection.lanes.get(number)
        if lane is None and any((row[2], *row[4:])):
            yield Violation(6, f"is in the change list as {row[1:]}, and is gone", f"lane {number}")
        elif lane is not None and row[1:] != _row(lane):
            yield Violation(6, f"is {_row(lane)}, by the change list {row[1:]}", f"lane {number}")


def _row(lane: LaneBook) -> list[int]:
    return [lane.serial, lane.pending, lane.arrival, *lane.wanted, *lane.held]
