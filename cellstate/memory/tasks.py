"""Tasks in the twin: placed, ended, requeued; ``lua/parts/tasks.lua``.

Amounts on machines (occupy) and of kinds (book) are separate from the records, because a commit validates with the
first and writes the second later.
"""

from omega.cellstate.memory.copies import OUTRUN, Copied, meet, promote, remove
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.losses import count_ended, forget_losses, lose
from omega.cellstate.memory.pools import book_in_pools, count_in_pools
from omega.cellstate.memory.ranges import NONE, Spans, span_add, span_count, span_split, span_take, spans
from omega.cellstate.memory.records import GroupRow, JobRow, KindRow, MachineRow
from omega.cellstate.model import RUNS_CHUNK, Gang, JobState
from omega.cellstate.tasks import EndKind

ENDS = (EndKind.FINISHED, EndKind.FAILED, EndKind.STOPPED)
WORDS = {how: how.name.lower() for how in EndKind}


def occupy(m: MachineRow, g: GroupRow, count: int) -> None:
    """Deduct room for tasks on a machine, or free it."""
    m.free -= g.need * count


def book(ledger: Ledger, k: KindRow, g: GroupRow, count: int) -> None:
    """Add tasks to the use of a kind and of pools, or subtract them."""
    k.used += g.need * count
    book_in_pools(ledger, g, count)


def count_admitted(ledger: Ledger, j: JobRow, before: int) -> None:
    """Count the job as admitted in its kind and its pools while it has placed tasks."""
    more = (j.placed > 0) - (before > 0)
    if more:
        j.kind.jobs += more
        count_in_pools(ledger, j, more)


def note_again(ledger: Ledger, j: JobRow) -> None:
    """Part two transactions of a job that follow one another in a call, for the audit."""
    if ledger.gained and ledger.gained[-1] is j:
        ledger.fact("again", j.id)


def place(ledger: Ledger, j: JobRow, group: int, m: MachineRow, count: int) -> None:
    """Record `count` tasks of a group as one run on a machine."""
    g = j.groups[group]
    if count > 1 and g.copies:  # each copy is a run of its own
        for _ in range(count):
            place(ledger, j, group, m, 1)
        return
    tasks, g.waiting = span_take(g.waiting, count)
    # It starts only when leaving tasks on this machine, or of this group elsewhere, are gone (semantics 2).
    hold = 1 if m.leaving or g.leaving else 0
    ledger.placements = placement = ledger.placements + 1
    g.unplaced, g.placed = g.unplaced - count, g.placed + count
    m.runs[placement] = g, tasks
    g.runs[placement] = m.index
    before = j.placed
    j.placed, j.unplaced = before + count, j.unplaced - count
    count_admitted(ledger, j, before)
    ledger.touch_job(j)
    ledger.message(m, "+", placement, m.index, g, tasks, g.duration, hold)
    ledger.fact("place", placement, m.index, g, tasks)


def take_off(ledger: Ledger, m: MachineRow, placement: int, part: Spans, how: EndKind, reason: str) -> int:
    """Take tasks of a run off its machine; the caller has freed the amounts. Returns how many there were.

    Evicted and stopped tasks stay as leaving until their end is acknowledged (semantics 2). An optional task
    that is evicted, lost or failed is dropped from the total and never pending again (4). Lost tasks are delayed,
    or fail; those of an at-most-once group fail when they are evicted too (26).
    """
    g, tasks = m.runs[placement]
    j = g.job
    gone, rest = span_split(tasks, part)
    count = span_count(gone)
    met = meet(ledger, g, gone, how, reason)
    ending = span_split(gone, met.kept)[1] if met else gone
    if rest:
        m.runs[placement] = g, rest
    else:
        del m.runs[placement], g.runs[placement]
    if how in (EndKind.EVICTED, EndKind.STOPPED):
        leaving = gone
        if -placement in m.runs:
            leaving = span_add(m.runs.pop(-placement)[1], gone)
        else:
            g.runs[-placement] = m.index
            g.leaving += 1
            m.leaving += 1
        m.runs[-placement] = g, leaving
        ledger.message(m, "-", placement, m.index, gone)
        if how is EndKind.EVICTED and j.gang is Gang.STRICT:
            ledger.strict.append(j)
    before = j.placed
    g.placed, j.placed = g.placed - count, before - count
    ledger.freed = True
    j.begun = j.begun or how is not EndKind.FINISHED
    count_admitted(ledger, j, before)
    ledger.touch_job(j)
    if met and met.kept and g.losses:
        forget_losses(ledger, g, met.kept, placement)
    lasting = how in (EndKind.FINISHED, EndKind.STOPPED) or j.state > JobState.HELD
    dropped, spent = g.copies or (g.optional and not lasting), NONE
    if dropped:
        g.total -= count
        if g.copies:
            forget_losses(ledger, g, gone)
    elif ending:
        spent = count_off(ledger, m, g, placement, ending, how)
    g.failed += span_count(spent)
    ledger.fact(WORDS[how], placement, m.index, g, gone, m.number, m.capacity, m.free, reason)
    if dropped:
        ledger.fact("drop", j.id, g.number, count, WORDS[how])
    if spent:
        ledger.fact("fail", j.id, g.number, spent, WORDS[how])
    if met:
        follow(ledger, met, how, reason)
    return count


def count_off(ledger: Ledger, m: MachineRow, g: GroupRow, placement: int, ending: Spans, how: EndKind) -> Spans:
    """Count tasks that were taken off as ended, or put them back; return those that are not placed again."""
    j = g.job
    if how in ENDS or j.state > JobState.HELD:
        count_ended(g, how, span_count(ending))
        if g.losses:
            forget_losses(ledger, g, ending)
    elif how in (EndKind.LOST, EndKind.RETRIED):
        return lose(ledger, g, ending, placement, m.index if how is EndKind.RETRIED else None)
    elif g.once:
        return ending  # it was started, so it is not placed again
    else:
        if g.losses:
            forget_losses(ledger, g, ending, placement)
        g.waiting, back = span_add(g.waiting, ending), span_count(ending)
        g.unplaced, j.unplaced, j.returned = g.unplaced + back, j.unplaced + back, True
    return NONE


def follow(ledger: Ledger, met: Copied, how: EndKind, reason: str) -> None:
    """After the end of tasks: promote their copies, or end them."""
    if met.waiting:
        remove(ledger, met.group, met.waiting)
    for m, placement in met.runs:
        if met.ends:
            why = OUTRUN if how is EndKind.FINISHED else reason
            end_tasks(ledger, m, placement, None, EndKind.STOPPED, why, ledger.transaction)
        else:
            promote(ledger, met.group, m, placement, WORDS[how])


def win(ledger: Ledger, g: GroupRow, task: Spans) -> None:
    """Stop the original of a copy that finishes before it; the copy is promoted."""
    for loss in list(g.losses):
        if loss.tasks == task:
            m = ledger.M[loss.machine]
            end_tasks(ledger, m, loss.placement, task, EndKind.STOPPED, OUTRUN, ledger.transaction)


def acknowledge(ledger: Ledger, m: MachineRow, placement: int, part: Spans | None, reason: str = "") -> int:
    """Record that leaving tasks are physically gone, and how they ended; None means all of them."""
    if -placement not in m.runs:
        return 0
    g, tasks = m.runs[-placement]
    gone, rest = span_split(tasks, tasks if part is None else part)
    count = span_count(gone)
    if count == 0:
        return 0
    if rest:
        m.runs[-placement] = g, rest
    else:
        del m.runs[-placement], g.runs[-placement]
        g.leaving -= 1
        m.leaving -= 1
    ledger.touch_job(g.job)
    ledger.fact("left", placement, m.index, g, gone, *([reason] if reason else []))
    return count


def end_tasks(
    ledger: Ledger, m: MachineRow, placement: int, part: Spans | None, how: EndKind, reason: str, transaction: int,
    *, moves: bool = True,
) -> int:  # fmt: skip
    """Free the amounts of tasks and take them off; None means the whole run. Returns their number."""
    if placement not in m.runs or placement < 0:
        return 0
    g, tasks = m.runs[placement]
    gone = tasks if part is None else span_split(tasks, part)[0]
    count = span_count(gone)
    if count == 0:
        return 0
    ledger.transaction = transaction
    if how is EndKind.FINISHED and g.copies:
        win(ledger, g, gone)
        g, _ = m.runs[placement]
    ledger.touch(m, transaction, moves=moves)
    occupy(m, g, -count)
    book(ledger, g.job.kind, g, -count)
    return take_off(ledger, m, placement, gone, how, reason)


def live_runs(ledger: Ledger, g: GroupRow) -> list[tuple[int, int]]:
    """Return (placement id, machine) of the runs that are not leaving, by chunk of the last task and by id."""
    runs = [(placement, index) for placement, index in g.runs.items() if placement > 0]
    return sorted(runs, key=lambda run: (ledger.M[run[1]].runs[run[0]][1][-1] // RUNS_CHUNK, run[0]))


def evict_gangs(ledger: Ledger, reason: str, transaction: int) -> int:
    """Evict the rest of every strict gang that evictions left with too few tasks. Returns their number."""
    count, jobs = 0, ledger.strict
    for j in jobs:
        ledger.strict = []
        for g in j.groups if j.breaks(j.placed) else ():
            for placement, index in live_runs(ledger, g):
                count += end_tasks(ledger, ledger.M[index], placement, None, EndKind.EVICTED, reason, transaction)
    ledger.strict = []
    return count


def part_of(text: str) -> Spans | None:
    """Return the tasks that an ending names; None for ``*``."""
    return None if text == "*" else spans(text)
