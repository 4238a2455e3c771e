"""The twin's fast path for simple, frequent calls, with the same result as the full one.

Simple are a transaction of one task group with all claims accepted as a whole - no victims, no limits - and the end of
whole finished runs. tests/property compares both paths exactly.
"""

from collections.abc import Sequence

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.pools import is_bounded
from omega.cellstate.memory.ranges import span_count, span_take
from omega.cellstate.memory.tasks import book, count_admitted, note_again
from omega.cellstate.memory.words import Group, JobRow, MachineRow
from omega.cellstate.transaction import Claim, Detection, Ending, Mode, Outcome, Transaction, Verdict, all_placed


def unlimited(ledger: Ledger, j: JobRow) -> bool:
    """Return whether a job's claims allow the fast path: nothing is limited, and any machine may take them."""
    return j.kind.unrestricted and not j.commands and not (ledger.pools_state and is_bounded(ledger, j))


def commit_fast(ledger: Ledger, transaction: Transaction, j: JobRow) -> Outcome | None:
    """Validate and apply a simple transaction; None, without effect, for any other."""
    claims, number = transaction.claims, transaction.claims[0].group
    if not 0 <= number < len(j.groups):
        return None
    g = j.groups[number]
    find, rest, need, guards, base = ledger.M.get, ledger.free, g.need, ledger.guards, ledger.base
    coarse, total = transaction.detection == Detection.COARSE, 0
    stands: list[MachineRow] = []
    for machine, group, count, seen, evict in claims:
        m = find(machine)
        if m is None or m.state or evict or group != number:
            break
        if count == 1:
            free = rest[machine] - need
        elif 0 < count <= g.many:
            free = rest[machine] - need * count
        else:
            break
        if free & guards != guards or (coarse and seen != (m.number if m.stamp < base else m.before)):
            break
        rest[machine] = free
        if count != 1:
            total += count - 1
        stands.append(m)
    else:
        total += len(stands)
        whole = transaction.mode == Mode.GANG and total == j.unplaced and not j.delayed
        if total <= g.unplaced and (whole or not j.gang):
            place_all(ledger, j, g, stands, claims, total)
            if total == len(claims):
                return all_placed(total)
            return Outcome(tuple((claim.count, Verdict.PLACED) for claim in claims))
    for m, claim in zip(stands, claims, strict=False):
        rest[m.index] += need * claim.count
    return None


def place_all(
    ledger: Ledger, j: JobRow, g: Group, stands: Sequence[MachineRow], claims: Sequence[Claim], total: int
) -> None:
    """Touch and place for every claim, on its machine in `stands`; the room is already deducted."""
    stamp, base, placement, loud = ledger.stamp, ledger.base, ledger.placements, ledger.log or ledger.mailboxes
    numbers, waiting = ledger.numbers, g.waiting
    note_again(ledger, j)
    first = waiting[0]
    singles = total == len(stands) and waiting[1] - first + 1 >= total
    for i, m in enumerate(stands):
        if m.stamp != stamp:
            if m.stamp < base:
                m.before = m.number
            m.stamp = stamp
            numbers[m.index] += 1
        placement += 1
        if singles:
            tasks: tuple[int, ...] = (first, first)
            first += 1
        else:
            tasks, waiting = span_take(waiting, claims[i].count)
        m.runs[placement] = g, tasks
        if loud:
            ledger.message(m, "+", placement, m.index, g, tasks, g.duration, 1 if m.leaving or g.leaving else 0)
            ledger.fact("place", placement, m.index, g, tasks)
    g.waiting = span_take(waiting, total)[1] if singles else waiting
    g.runs.update(zip(range(ledger.placements + 1, placement + 1), [m.index for m in stands], strict=True))
    ledger.placements = placement
    ledger.trail += [m.index for m in stands]
    before = j.placed
    g.unplaced, g.placed = g.unplaced - total, g.placed + total
    j.unplaced, j.placed = j.unplaced - total, before + total
    book(ledger, j.kind, g, total)
    count_admitted(ledger, j, before)
    ledger.touch_job(j)
    ledger.transactions += 1


def finish_all(ledger: Ledger, endings: Sequence[Ending], *, moves: bool) -> list[int]:
    """End whole finished runs; every ending must be of that form."""
    find, rest, numbers, stamp, counts = ledger.M.get, ledger.free, ledger.numbers, ledger.stamp, list[int]()
    group: Group | None = None
    total = 0
    for machine, placement, *_ in endings:
        m = find(machine)
        run = m.runs.get(placement) if m and placement > 0 else None
        if m is None or run is None:
            counts.append(0)
            continue
        g, tasks = run
        if g is not group:
            if group:
                count_finished(ledger, group, total)
            group, total = g, 0
        count = 1 if tasks[0] == tasks[-1] else span_count(tasks)
        del m.runs[placement], g.runs[placement]
        if m.stamp != stamp:
            m.stamp = stamp
            numbers[machine] += moves
            ledger.trail.append(m.index)
        rest[machine] += g.need if count == 1 else g.need * count
        total += count
        counts.append(count)
        if ledger.log:
            ledger.fact("finished", placement, m.index, g, tasks, m.number, m.capacity, m.free, "-")
    if group:
        count_finished(ledger, group, total)
    return counts


def count_finished(ledger: Ledger, g: Group, count: int) -> None:
    """Count tasks of a group as finished."""
    j = g.job
    before = j.placed
    ledger.freed = True
    book(ledger, j.kind, g, -count)
    g.placed, j.placed = g.placed - count, before - count
    g.finished += count
    count_admitted(ledger, j, before)
    ledger.touch_job(j)
