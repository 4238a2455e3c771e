"""The twin's lanes: ``lua/parts/lanes.lua``, and the reading of their queues in ``delta.lua``."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from omega.cellstate.lanes import BASE, MOST_LANES, MOST_WANTED, Lane
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.records import GroupRow, JobRow, LaneRow
from omega.cellstate.packing import packed
from omega.cellstate.replies import Rows
from omega.cellstate.transaction import Intake


def lane_named(ledger: Ledger, lane: Lane) -> LaneRow:
    """Return a lane by its name, creating it. With too many lanes, all further jobs of a kind share one."""
    row = ledger.lane_names.get(lane)
    if row is None and len(ledger.L) >= MOST_LANES:
        lane = Lane(lane.kind, 0)
        row = ledger.lane_names.get(lane)
    if row is None:
        ledger.lane_serials += 1
        number = ledger.spare_lanes.pop() if ledger.spare_lanes else len(ledger.L) + 1
        row = ledger.lane_names[lane] = ledger.L[number] = LaneRow(number, ledger.lane_serials, lane)
    return row


def join_lane(ledger: Ledger, j: JobRow, lane: Lane) -> None:
    """Count a new job in its lane."""
    row = j.lane = ledger.lane_names.get(lane) or lane_named(ledger, lane)
    row.live += 1
    if ledger.counted:
        count_in_lane(ledger, j)


def count_in_lane(ledger: Ledger, j: JobRow) -> None:
    """Update the lane of a changed job."""
    lane = j.lane
    lane.version = ledger.version + 1
    for g in j.groups:
        if g.wanted != g.unplaced and not g.copies:  # copies hold room, and are no demand
            lane.wanted += _wants(g, g.unplaced) - _wants(g, g.wanted)
            g.wanted = g.unplaced
        if g.held != g.placed:
            lane.held += g.need * (g.placed - g.held)
            g.held = g.placed


def leave_lane(ledger: Ledger, lane: LaneRow) -> None:
    """Remove an ended job. A lane without live jobs is deleted, and its number free."""
    lane.live -= 1
    lane.version = ledger.version + 1
    ledger.left_lanes.append(lane)


def write_lanes(ledger: Ledger) -> None:
    """Delete lanes without live jobs."""
    left, ledger.left_lanes = ledger.left_lanes, []
    for lane in sorted(left, key=lambda each: each.number):
        if not lane.live and ledger.L.get(lane.number) is lane:
            del ledger.L[lane.number], ledger.lane_names[lane.lane]
            ledger.spare_lanes.append(lane.number)
            ledger.gone_lanes.append(lane)


def enqueue(ledger: Ledger, j: JobRow, arrival: int) -> None:
    """Put a job at the end of its lane."""
    lane = j.lane
    lane.pending += 1
    lane.arrival = j.arrival = arrival
    lane.arrivals.append(arrival)
    lane.queue.append(j)
    lane.version = ledger.version + 1


def remove(ledger: Ledger, j: JobRow) -> None:
    """Remove a job from its lane's queue."""
    lane = j.lane
    j.arrival = 0
    lane.pending -= 1
    lane.dead += 1
    lane.version = ledger.version + 1
    if lane.dead > 64 and 2 * lane.dead > len(lane.queue):
        pairs = [(a, job) for a, job in zip(lane.arrivals, lane.queue, strict=True) if job.arrival == a]
        lane.arrivals, lane.queue, lane.dead = [a for a, _ in pairs], [job for _, job in pairs], 0


def queued(lane: LaneRow, after: int = 0) -> Iterator[JobRow]:
    """Yield the pending jobs of a lane after an arrival."""
    start = bisect_right(lane.arrivals, after)
    entries = zip(islice(lane.arrivals, start, None), islice(lane.queue, start, None), strict=True)
    return (j for a, j in entries if j.arrival == a)


def pending_of(ledger: Ledger, kind: str) -> list[JobRow]:
    """Return the pending jobs of a kind, in the order of becoming pending."""
    jobs = (j for lane in ledger.L.values() if lane.lane.kind == kind for j in queued(lane))
    return sorted(jobs, key=lambda j: j.arrival)


def next_jobs(ledger: Ledger, asked: Intake) -> tuple[list[int | None], list[JobRow]]:
    """Return the next jobs of some lanes in the owned buckets, and the number per lane (None: not requested)."""
    counts, jobs = list[int | None](), list[JobRow]()
    for number, after, most in asked.lanes:
        want = min(most, asked.most - len(jobs))
        if want <= 0:
            counts.append(None)
            continue
        lane = ledger.L.get(number)
        mine = []
        if lane is not None and lane.lane.kind == asked.kind:
            mine = list(islice((j for j in queued(lane, after) if asked.owned[j.bucket] == "1"), want))
        counts.append(len(mine))
        jobs += mine
    return counts, jobs


def lane_rows(ledger: Ledger, lanes: Iterable[LaneRow]) -> Rows:
    """Return rows of the change list."""
    size = len(ledger.dimensions)
    rows = [(BASE + each.number, each.serial, each.pending, each.arrival, *ledger.spread(each.wanted),
             *ledger.spread(each.held)) for each in lanes]  # fmt: skip
    return np.array(rows, dtype=np.int64).reshape(-1, 4 + 2 * size)


def lanes_since(ledger: Ledger, version: int, *, full: bool) -> Rows:
    """Return the lanes that changed after a version, or all of them."""
    if full:
        return lane_rows(ledger, ledger.L.values())
    gone = [each for each in ledger.gone_lanes if each.version > version]
    now = [each for each in ledger.L.values() if each.version > version]
    return lane_rows(ledger, sorted([*gone, *now], key=lambda each: each.serial))


def use_of_lanes(ledger: Ledger) -> dict[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return use and demand by (pool, user)."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for each in ledger.L.values():
        whose = each.lane.pool, each.lane.user
        held, wanted = sums.get(whose, (0, 0))
        sums[whose] = held + each.held, wanted + each.wanted
    return {whose: (ledger.spread(held), ledger.spread(wanted)) for whose, (held, wanted) in sums.items()}


def lanes_of(ledger: Ledger, numbers: Iterable[int] | None = None) -> dict[int, tuple[int, Lane]]:
    """Return the serials and names of existing lanes (None: all)."""
    chosen = ledger.L if numbers is None else [number for number in numbers if number in ledger.L]
    return {number: (ledger.L[number].serial, ledger.L[number].lane) for number in chosen}


def _wants(g: GroupRow, tasks: int) -> int:
    """Return the demand of tasks, packed and bounded."""
    if max(g.amounts) * tasks <= MOST_WANTED:
        return g.need * tasks
    return packed([min(MOST_WANTED, amount * tasks) for amount in g.amounts])
