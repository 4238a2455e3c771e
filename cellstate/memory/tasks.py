"""Tasks of a cell in memory: placed, ended, lost, copied; and what follows for their jobs, up to the end of a call.

What ``lua/parts/tasks.lua``, ``losses.lua``, ``copies.lua``, ``links.lua`` and ``publish.lua`` say. Amounts on machines
(`occupy`) and of kinds and pools (`book`) are separate from the records, because a commit validates with the first and
writes the second later.
"""

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from omega.cellstate import rules
from omega.cellstate.memory.pools import book_in_pools, count_in_pools
from omega.cellstate.memory.state import Block, GroupRow, JobRow, Loss, MachineRow, State
from omega.cellstate.model import RUNS_CHUNK, Gang, JobState
from omega.cellstate.ranges import NONE, Flat, span_add, span_count, span_read, span_split, span_take, span_text
from omega.cellstate.replies import ALONE, ANY_JOB, Housekept
from omega.cellstate.tasks import UNPLACING, EndKind, Retried, TaskEnd
from omega.cellstate.transaction import Basis, Placed

ENDS = (EndKind.FINISHED, EndKind.FAILED, EndKind.STOPPED)
WORDS = {how: how.name.lower() for how in EndKind}
OUTRUN = "outrun"
"""Reason of a task that was stopped because its copy, or its original, finished first."""
MAILBOX_MOST = 20_000
"""Entries of a mailbox: the messages of a call."""
RELEASES = 200
"""Jobs that one call releases or stops because others ended."""
DUE_JOBS, TICK_MS, WEEK_MS = 100, 60_000, 604_800_000
"""Jobs that one call of housekeeping looks at; how often it notes the last placement, and for how long."""


def occupy(m: MachineRow, g: GroupRow, count: int) -> None:
    """Deduct room for tasks on a machine, or free it."""
    m.free -= g.need * count


def book(c: State, g: GroupRow, count: int) -> None:
    """Add tasks to the use of a kind and of pools, or subtract them."""
    g.job.kind.used += g.need * count
    if c.pools_state:
        book_in_pools(c, g, count)


def count_admitted(c: State, j: JobRow, before: int) -> None:
    """Count the job as admitted in its kind and its pools while it has placed tasks."""
    more = (j.placed > 0) - (before > 0)
    if more:
        j.kind.jobs += more
        if c.pools_state:
            count_in_pools(c, j, more)


# Placements


def place(c: State, g: GroupRow, m: MachineRow, count: int) -> None:
    """Record `count` tasks of a group as one run on a machine."""
    if count > 1 and g.copies:  # each copy is a run of its own
        for _ in range(count):
            place(c, g, m, 1)
        return
    j = g.job
    tasks, g.waiting = span_take(g.waiting, count)
    # It starts only when leaving tasks on this machine, or of this group elsewhere, are gone (semantics 2).
    hold = 1 if m.leaving or g.leaving else 0
    c.placements = placement = c.placements + 1
    g.unplaced, g.placed = g.unplaced - count, g.placed + count
    m.runs[placement] = g, tasks
    g.runs[placement] = m.index
    before = j.placed
    j.placed, j.unplaced = before + count, j.unplaced - count
    count_admitted(c, j, before)
    c.touch_job(j)
    if c.mailboxes or c.logs:
        what = placement, m.index, j.id, g.number, span_text(tasks)
        c.message(m, "+", *what, g.asked.duration_ms, hold)
        c.fact("place", *what, ",".join(map(str, g.amounts)))


def place_block(
    c: State, g: GroupRow, machines: Sequence[int], counts: Sequence[int] | None = None, *, alone: bool = True
) -> Block:
    """Record runs on these machines, of one task each without `counts`, as a block, which takes tasks in a row.

    Their room is deducted already. Only in a cell without log and mailboxes, which have something of each run. `alone`:
    in a call of its own, which the caller announces; else the caller has booked the tasks and touched the machines.
    """
    j, (task, last), before = g.job, g.waiting, c.placements
    c.placements = until = before + len(machines)
    total = until - before if counts is None else sum(counts)
    block = c.blocks[before + 1] = Block(g, task, range(before + 1, until + 1), machines, counts, total)
    g.waiting = (task + total, last) if task + total <= last else NONE
    g.unplaced -= total
    g.placed += total
    j.unplaced = left = j.unplaced - total
    if not j.placed:
        j.kind.jobs += 1
        if c.pools_state:
            count_in_pools(c, j, 1)
    j.placed += total
    if not alone:
        return block
    j.kind.used += g.need * total
    if c.pools_state:
        book_in_pools(c, g, total)
    if c.counted:
        c.count_in_lane(j)
    if c.numbered:
        _raise_numbers(c, machines)
    c.trail += machines
    c.transactions += 1
    if j.arrival and not left:
        c.dequeue(j)
    return block


def place_whole(c: State, j: JobRow, machines: Sequence[int]) -> None:
    """Record all tasks of a job without groups on these machines, one each; their room is deducted already."""
    before, total = c.placements, j.unplaced
    c.placements = until = before + total
    j.placements, j.machines, j.counts, j.group = range(before + 1, until + 1), machines, None, 0
    j.tasks = total
    j.placed, j.unplaced = total, 0
    c.blocks[before + 1] = j
    kind = j.kind
    kind.jobs += 1
    kind.used += j.need * total
    if c.numbered:
        _raise_numbers(c, machines)
    c.trail += machines
    c.transactions += 1
    if j.arrival:
        c.dequeue(j)


def _end_whole(c: State, j: JobRow, at_ms: int) -> int:
    """End all tasks of a job that was placed as a whole."""
    del c.blocks[j.placements[0]]
    machines, need, free, kind = j.machines, j.need, c.free, j.kind
    for machine in machines:
        free[machine] += need
    total, lane = j.tasks, j.lane
    j.placed = 0
    kind.used -= need * total
    kind.jobs -= 1
    if c.numbered and c.release_moves_number:
        _raise_numbers(c, machines)
    c.trail += machines
    c.transactions += 1
    if c.keep_jobs or c.done or lane.live == 1:
        c.complete(j)
        c.tidy()
    else:  # the same without a list of the jobs that ended
        j.state, j.complete = JobState.DONE, True
        lane.live -= 1
        lane.version = c.version + 1
        c.drop(j)
    c.announce(at_ms, "-")
    return total


def end_block(c: State, placed: Placed, at_ms: int) -> int:
    """End all of these tasks as finished, as `end` for each run. Returns their number."""
    first = placed.placements[0]
    noted = c.blocks.get(first)
    if type(noted) is JobRow and noted.made is None and not (c.waited or c.blocked):
        return _end_whole(c, noted, at_ms)
    block = _refold(c, placed) if noted is None else noted.block
    if block is None or block.row.losses:  # its tasks may have losses, which their end deletes
        return sum(end(c, placed.endings(), at_ms, "-"))
    g, free = block.row, c.free
    del c.blocks[first]
    if g.newest is block and block.older is None:
        g.newest = None
    else:
        block.unlink()
    j, need, machines, counts = g.job, g.need, block.machines, block.counts
    if counts is None:
        total = len(machines)
        for machine in machines:
            free[machine] += need
    else:
        total = sum(counts)
        for machine, count in zip(machines, counts, strict=True):
            free[machine] += need * count
    g.placed -= total
    g.finished += total
    j.placed = left = j.placed - total
    j.kind.used -= need * total
    if not left:
        j.kind.jobs -= 1
    if c.pools_state:
        book_in_pools(c, g, -total)
        if not left:
            count_in_pools(c, j, -1)
    if c.counted:
        c.count_in_lane(j)
    if c.numbered and c.release_moves_number:
        _raise_numbers(c, machines)
    c.trail += machines
    c.transactions += 1
    if c.waited or c.blocked:
        c.open()
        c.left_by.add(j.lane.number)
        c.touch_job(j)
        publish(c, at_ms, "-")
        return total
    if not (left or j.unplaced or j.delayed):
        c.complete(j)
        c.tidy()
    c.announce(at_ms, "-")
    return total


def _raise_numbers(c: State, machines: Sequence[int]) -> None:
    """Raise the numbers of machines that one transaction changed."""
    numbers = c.numbers
    for machine in set(machines):
        numbers[machine] += 1


def _refold(c: State, placed: Placed) -> Block | None:
    """Take whole runs out of the records of their machines, as the block they were; None when they must stay."""
    found = list[tuple[int, int, GroupRow, int, int]]()
    if c.copied or not c.quiet:
        return None
    for machine, placement in zip(placed.machines, placed.placements, strict=True):
        run = c.M[machine].runs.get(placement)
        if run is None or len(run[1]) != 2 or run[0].losses:
            return None
        found.append((machine, placement, run[0], *run[1]))
    for machine, placement, g, _, _ in found:
        del c.M[machine].runs[placement], g.runs[placement]
    tasks = [last - first + 1 for _, _, _, first, last in found]
    first = placed.placements[0]
    counts = None if max(tasks) == 1 else tasks
    block = c.blocks[first] = Block(found[0][2], found[0][3], placed.placements, placed.machines, counts, sum(tasks))
    return block


def split_block(c: State, block: Placed) -> list[Placed]:
    """Keep the runs of a new block apart, of one task each, because they end one by one; returns each."""
    runs = zip(block.placements, block.machines, strict=True)
    each_alone = [Placed((placement,), (machine,), None, block.group) for placement, machine in runs]
    first = block.placements[0]
    noted = c.blocks.pop(first, None)
    if noted is not None:
        known = noted.block
        known.unlink()
        for task, run in enumerate(each_alone, known.task):
            c.blocks[run.placements[0]] = Block(known.row, task, run.placements, run.machines, None, 1)
    return each_alone


# Ends


def take_off(c: State, m: MachineRow, placement: int, part: Flat, how: EndKind, reason: str) -> int:
    """Take tasks of a run off its machine; the caller has freed the amounts. Returns how many there were.

    Evicted and stopped tasks stay as leaving until their end is acknowledged (semantics 2). An optional task
    that is evicted, lost or failed is dropped from the total and never pending again (4). Lost tasks are delayed,
    or fail; those of an at-most-once group fail when they are evicted too (26).
    """
    g, tasks = m.runs[placement]
    j = g.job
    gone, rest = span_split(tasks, part)
    count = span_count(gone)
    met = meet(c, g, gone, how, reason)
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
        c.message(m, "-", placement, m.index, span_text(gone))
        if how is EndKind.EVICTED and j.gang is Gang.STRICT:
            c.strict.append(j)
    before = j.placed
    g.placed, j.placed = g.placed - count, before - count
    c.left_by.add(j.lane.number)
    j.begun = j.begun or how is not EndKind.FINISHED
    count_admitted(c, j, before)
    c.touch_job(j)
    if met and met.kept and g.losses:
        forget_losses(c, g, met.kept, placement)
    lasting = how in (EndKind.FINISHED, EndKind.STOPPED) or j.state > JobState.HELD
    dropped, spent = g.copies or (g.optional and not lasting), NONE
    if dropped:
        g.total -= count
        if g.copies:
            forget_losses(c, g, gone)
    elif ending:
        spent = _count_off(c, m, g, placement, ending, how)
    g.failed += span_count(spent)
    if c.logs:
        c.fact(WORDS[how], placement, m.index, j.id, g.number, span_text(gone), *state_words(m), reason)
    if dropped:
        c.fact("drop", j.id, g.number, count, WORDS[how])
    if spent:
        c.fact("fail", j.id, g.number, span_text(spent), WORDS[how])
    if met:
        _follow(c, met, how, reason)
    return count


def state_words(m: MachineRow) -> tuple[int, str]:
    """Return the number and the allocated amounts of a machine, as facts have them."""
    return m.number, ",".join(map(str, m.allocated))


def _count_off(c: State, m: MachineRow, g: GroupRow, placement: int, ending: Flat, how: EndKind) -> Flat:
    """Count tasks that were taken off as ended, or put them back; return those that are not placed again."""
    if how in ENDS or g.job.state > JobState.HELD:
        _count_ended(g, how, span_count(ending))
        if g.losses:
            forget_losses(c, g, ending)
    elif how in (EndKind.LOST, EndKind.RETRIED):
        return lose(c, g, ending, placement, m.index if how is EndKind.RETRIED else None)
    elif g.asked.once:
        return ending  # it was started, so it is not placed again
    else:
        if g.losses:
            forget_losses(c, g, ending, placement)
        put_back(g, ending)
    return NONE


def put_back(g: GroupRow, tasks: Flat) -> int:
    """Let tasks wait again, or for the first time; return their number."""
    count = span_count(tasks)
    g.waiting = span_add(g.waiting, tasks)
    g.unplaced, g.job.unplaced, g.job.returned = g.unplaced + count, g.job.unplaced + count, True
    return count


def _count_ended(g: GroupRow, how: EndKind, count: int) -> None:
    """Count tasks as finished, failed or stopped; tasks of a stopped job always count as stopped."""
    if how is EndKind.FINISHED:
        g.finished += count
    elif how is EndKind.FAILED:
        g.failed += count
    else:
        g.stopped += count


def end_tasks(
    c: State, m: MachineRow, placement: int, part: Flat | None, how: EndKind, reason: str, transaction: int,
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
    c.transaction = transaction
    if how is EndKind.FINISHED and g.copies:
        _win(c, g, gone)
        g, _ = m.runs[placement]
    c.touch(m, transaction, moves=moves)
    occupy(m, g, -count)
    book(c, g, -count)
    return take_off(c, m, placement, gone, how, reason)


def end_all(c: State, m: MachineRow, how: EndKind, reason: str) -> int:
    """End all tasks on a machine that are not leaving. Returns their number."""
    live = [run for run in m.runs if run > 0]
    return sum(end_tasks(c, m, placement, None, how, reason, c.stamp) for placement in live)


def acknowledge(c: State, m: MachineRow, placement: int, part: Flat | None, reason: str = "") -> int:
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
    c.touch_job(g.job)
    c.fact("left", placement, m.index, g.job.id, g.number, span_text(gone), *([reason] if reason else []))
    return count


def live_runs(c: State, g: GroupRow) -> list[tuple[int, int]]:
    """Return (placement id, machine) of the runs that are not leaving, by chunk of the last task and by id."""
    runs = [(placement, index) for placement, index in g.runs.items() if placement > 0]
    return sorted(runs, key=lambda run: (c.M[run[1]].runs[run[0]][1][-1] // RUNS_CHUNK, run[0]))


def evict_gangs(c: State, reason: str, transaction: int) -> int:
    """Evict the rest of every strict gang that evictions left with too few tasks. Returns their number."""
    count, jobs = 0, c.strict
    for j in jobs:
        c.strict = []
        for g in j.groups if j.breaks(j.placed) else ():
            for placement, index in live_runs(c, g):
                count += end_tasks(c, c.M[index], placement, None, EndKind.EVICTED, reason, transaction)
    c.strict = []
    return count


def end(c: State, endings: Sequence[TaskEnd], at_ms: int, by: str) -> list[int]:
    """End tasks; returns for each ending the number of tasks it ended."""
    c.unfold()
    c.open()
    c.lost_at = at_ms if any(ending.how in UNPLACING for ending in endings) else 0
    counts = [_end(c, ending) for ending in endings]
    if any(counts):
        c.transactions += 1
        publish(c, at_ms, by)
    return counts


def _end(c: State, ending: TaskEnd) -> int:
    machine, placement, how, tasks, reason, job_id, submitted_ms = ending
    m, n = c.M.get(machine), 0
    part = None if tasks == "*" else span_read(tasks)
    run = m.runs.get(-placement if how is EndKind.LEFT else placement) if m else None
    meant = c.J.get(job_id)
    if meant is not None and submitted_ms and meant.submitted != submitted_ms:
        meant = None
    if run is not None and job_id and (run[0].job.id != job_id or meant is None):
        pass  # a store that lost versions gives placement ids and ids of jobs again
    elif m and how is EndKind.LEFT:
        n = acknowledge(c, m, placement, part, reason)
        if n:
            c.trail.append(m.index)
    elif m:
        why = reason or "-"
        n = end_tasks(c, m, placement, part, how, why, c.stamp, moves=c.release_moves_number)
        if c.strict:
            n += evict_gangs(c, why, c.stamp)
    if n == 0 and meant is not None and how in (EndKind.FINISHED, EndKind.FAILED):
        n = _end_late(c, meant, machine, placement, part, how)
    return n


def _end_late(c: State, j: JobRow, machine: int, placement: int, part: Flat | None, how: EndKind) -> int:
    """Record the end of tasks before they were declared lost, if not placed since (semantics 27)."""
    count = 0
    for g in j.groups if j.state <= JobState.HELD else ():
        taken = NONE
        for loss in g.losses:
            if loss.placement != placement or g.copies:
                continue
            inside = loss.tasks if part is None else span_split(loss.tasks, part)[0]
            if not loss.due:
                inside, rest = span_split(g.waiting, inside)
                if inside:
                    g.waiting = rest
                    g.unplaced, j.unplaced = g.unplaced - span_count(inside), j.unplaced - span_count(inside)
            taken = span_add(taken, inside)
        if taken:
            forget_losses(c, g, taken)
            count += span_count(taken)
            _count_ended(g, how, span_count(taken))
            c.touch_job(j)
            c.fact("late", placement, machine, j.id, g.number, span_text(taken), WORDS[how])
    return count


# Losses


def keep_losses(g: GroupRow, losses: Iterable[Loss]) -> None:
    """Set a group's losses, without those of no task."""
    g.losses = tuple(loss for loss in losses if loss.tasks)
    delayed = sum(span_count(loss.tasks) for loss in g.losses if loss.due)
    g.job.delayed += delayed - g.delayed
    g.delayed, g.job.lossy = delayed, True


def _proven(c: State, placement: int) -> bool:
    """Return whether a placement ran for ten minutes; in a call without a time (a commit) by the last noted minute."""
    now = c.lost_at or next((at for at, _ in c.ticks), 0)
    return placement <= next((last for at, last in c.ticks if at <= now - rules.PROVEN_MS), 0)


def forget_losses(c: State, g: GroupRow, gone: Flat, placement: int | None = None) -> None:
    """Delete the losses of ended tasks.

    Those of tasks that are placed again, or continue as their copies, after a `placement` are kept without one, unless
    it ran for ten minutes.
    """
    unlinked = placement is not None and not _proven(c, placement)
    kept = list[Loss]()
    for loss in g.losses:
        inside, rest = span_split(loss.tasks, gone)
        kept.append(loss.of(rest))
        if unlinked:
            kept.append(loss._replace(tasks=inside, placement=0))
    keep_losses(g, kept)


def lose(c: State, g: GroupRow, gone: Flat, placement: int, retried_on: int | None = None) -> Flat:
    """Count a loss of tasks, or a failure on a machine that is retried; return those that are not placed again.

    The others are delayed.
    """
    kept: list[Loss] = []
    tasks_of: dict[tuple[int, int, int], Flat] = {}
    fresh, retried = gone, retried_on is not None
    first = (0, 1, retried_on) if retried_on is not None else (1, 0, -1)
    for loss in g.losses:
        inside, rest = span_split(loss.tasks, gone)
        if inside:
            fresh = span_split(fresh, inside)[1]
            times, failures, machine = (0, 0, -1) if _proven(c, placement) else (loss.times, *loss.retried)
            kind = (times + 1, failures, machine) if retried_on is None else (times, failures + 1, retried_on)
            tasks_of[kind] = span_add(tasks_of.get(kind, NONE), inside)
        kept.append(loss.of(rest))
    if fresh:
        tasks_of[first] = span_add(tasks_of.get(first, NONE), fresh)
    spent = NONE
    for (times, failures, machine), tasks in sorted(tasks_of.items()):
        if g.asked.once or (not retried and times > g.asked.budget):
            spent = span_add(spent, tasks)
        else:
            due = c.lost_at + (rules.retry_delay(failures) if retried else rules.loss_delay(times))
            kept.append(Loss(tasks, times, due, placement, Retried(failures, machine)))
    keep_losses(g, kept)
    return spent


def requeue(c: State, g: GroupRow, at_ms: float) -> Flat:
    """Queue the delayed tasks of a group that are due; return them."""
    due = [loss for loss in g.losses if 0 < loss.due <= at_ms]
    back = NONE
    for loss in due:
        back = span_add(back, loss.tasks)
    if back:
        keep_losses(g, [loss._replace(due=0) if loss in due else loss for loss in g.losses])
        c.touch_job(g.job)
        put_back(g, back)
    return back


def _due_of(j: JobRow) -> int | None:
    """Return when the first delayed task of a job is due, of a whole gang the last; None when there is none."""
    due = [loss.due for g in j.groups for loss in g.losses if loss.due]
    return (max if j.whole else min)(due) if due else None


# Copies (semantics 41)


class Copied(NamedTuple):
    """Copies of tasks that end: their group, their runs (machine, placement), and those that wait.

    `kept`: the tasks that continue as their copies; `ends`: the copies end with the tasks.
    """

    group: GroupRow
    kept: Flat
    runs: list[tuple[MachineRow, int]]
    waiting: Flat
    ends: bool


def meet(c: State, g: GroupRow, gone: Flat, how: EndKind, reason: str) -> Copied | None:
    """Return the copies of tasks that end; None when they have none."""
    j, number = g.job, g.number + 1
    if g.copies or number == len(j.groups) or not j.groups[number].copies or not j.groups[number].losses:
        return None
    copies = j.groups[number]
    ends = how in (EndKind.FINISHED, EndKind.STOPPED) or j.state > JobState.HELD
    ends = ends and not (how is EndKind.STOPPED and reason == OUTRUN)
    kept, waiting, runs = NONE, NONE, []
    placed = {c.M[index].runs[placement][1]: (c.M[index], placement)
              for placement, index in copies.runs.items() if placement > 0}  # fmt: skip
    for loss in sorted(copies.losses, key=lambda each: each.tasks):
        if not span_split(gone, loss.tasks)[0]:
            continue
        if loss.tasks in placed:
            runs.append(placed[loss.tasks])
            kept = kept if ends else span_add(kept, loss.tasks)
        else:
            waiting = span_add(waiting, loss.tasks)
    return Copied(copies, kept, runs, waiting, ends) if runs or waiting else None


def _follow(c: State, met: Copied, how: EndKind, reason: str) -> None:
    """After the end of tasks: promote their copies, or end them."""
    if met.waiting:
        remove_copies(c, met.group, met.waiting)
    for m, placement in met.runs:
        if met.ends:
            why = OUTRUN if how is EndKind.FINISHED else reason
            end_tasks(c, m, placement, None, EndKind.STOPPED, why, c.transaction)
        else:
            _promote(c, met.group, m, placement, WORDS[how])


def _win(c: State, g: GroupRow, task: Flat) -> None:
    """Stop the original of a copy that finishes before it; the copy is promoted."""
    for loss in g.losses:
        if loss.tasks == task:
            end_tasks(c, c.M[loss.retried.machine], loss.placement, task, EndKind.STOPPED, OUTRUN, c.transaction)


def _promote(c: State, g: GroupRow, m: MachineRow, placement: int, how: str) -> None:
    """Make the run of a copy one of the group of its original, which ended in this way."""
    original, (_, task) = g.job.groups[g.number - 1], m.runs[placement]
    c.touch(m, c.transaction)
    m.runs[placement] = original, task
    del g.runs[placement]
    original.runs[placement] = m.index
    _forget_copies(g, task)
    g.placed, g.total, original.placed = g.placed - 1, g.total - 1, original.placed + 1
    c.fact("promote", placement, m.index, original.job.id, original.number, span_text(task), how)


def remove_copies(c: State, g: GroupRow, tasks: Flat) -> None:
    """Remove waiting copies."""
    j, count = g.job, span_count(tasks)
    _forget_copies(g, tasks)
    g.waiting = span_split(g.waiting, tasks)[1]
    g.unplaced, g.total, j.unplaced = g.unplaced - count, g.total - count, j.unplaced - count
    c.touch_job(j)
    c.fact("unneeded", j.id, g.number, span_text(tasks))


def _forget_copies(g: GroupRow, tasks: Flat) -> None:
    keep_losses(g, [loss.of(span_split(loss.tasks, tasks)[1]) for loss in g.losses])


# Jobs that wait for others to end


def stop_unplaced(c: State, j: JobRow) -> int:
    """Stop the unplaced tasks of a job, also delayed ones. Returns their number."""
    for g in j.groups:
        if g.copies and g.unplaced:
            remove_copies(c, g, g.waiting)
    count = j.unplaced + j.delayed
    for g in j.groups:
        if g.copies:
            continue
        g.stopped += g.unplaced + g.delayed
        g.unplaced, g.delayed, g.waiting, g.losses = 0, 0, NONE, ()
    j.unplaced = j.delayed = 0
    return count


def set_free(c: State, j: JobRow) -> None:
    """Release a job that nothing holds back: it becomes pending again."""
    c.touch_job(j)
    j.state, j.returned = JobState.ACTIVE, True


def finished(j: JobRow) -> bool:
    """Return whether an ended job finished: all tasks of its present version did, and it was not stopped."""
    stopped = j.state in (JobState.STOPPED, JobState.ABANDONED)
    return not stopped and all(g.finished + g.failed * g.replaced == g.total for g in j.groups)


def end_waits(c: State, before: Iterable[JobRow]) -> None:
    """End the waits of jobs for jobs that ended in this call, or `before` it: they are released or stopped.

    At most RELEASES of them; housekeeping continues.
    """
    left, met = RELEASES, list[tuple[str, str]]()
    todo = [*before, *(j for j in c.changed_jobs if not (j.complete or j.unplaced or j.placed or j.delayed))]
    for j in todo:
        if not j.complete:  # it waits no longer, however it ended
            met += [(wait.rstrip("+"), j.id) for wait in j.waits]
        if j.awaited and left:
            ids, well = list(islice(c.waiters.get(j.id, ()), left)), finished(j)
            for job_id in ids:
                _end_wait(c, c.J[job_id], j, todo, well=well)
            met += [(j.id, job_id) for job_id in ids]
            j.awaited, left = len(ids) == left, left - len(ids)
            if not j.awaited:
                c.touch_job(j)
        if j.awaited:
            c.releasing.append(j.id)
    for job_id, waiter in met:
        waiters = c.waiters.get(job_id, {})
        waiters.pop(waiter, None)
        if not waiters:
            c.waiters.pop(job_id, None)


def _end_wait(c: State, other: JobRow, j: JobRow, todo: list[JobRow], *, well: bool) -> None:
    """Process the end of a job for one that waits for it."""
    if other.state is not JobState.HELD:  # stopped by this call, because of another job
        return
    met = {f"{j.id}+", j.id}
    never = j.id in other.waits and not well
    c.touch_job(other)
    other.waits = [wait for wait in other.waits if wait not in met or (never and wait == j.id)]
    if never:  # its record keeps the dependency that can no longer be satisfied
        count = stop_unplaced(c, other)
        other.state = JobState.STOPPED
        c.fact("stop", other.id, count, f"after:{j.id}")
        todo.append(other)
    elif not other.waits:
        set_free(c, other)
        c.fact("release", other.id, j.id)
    else:
        c.fact("met", other.id, j.id)


# The end of a call


def publish(
    c: State, at: int, by: str, basis: Basis | None = None, ended_before: Sequence[JobRow] = (), settings: str = ""
) -> None:  # fmt: skip
    """End waits, complete jobs, update queues and what is due; deliver messages, wake schedulers, and announce.

    `ended_before`: jobs that ended before this call and that others still wait for.
    """
    if c.waited:
        end_waits(c, ended_before)
    for j in c.changed_jobs:
        noted = j.lossy and not j.complete
        c.conclude(j)
        if noted and (j.state <= JobState.HELD or j.state is JobState.DONE):
            due = _due_of(j)
            c.due.pop(j.id, None)
            if due is not None:
                c.due[j.id] = due
    for job_id in c.releasing:
        c.due[job_id] = 0
    if c.pend:
        c.write_pending()
    if c.blocked and (c.freed or c.left_by or c.gained):
        _notify_blocked(c)
    for executor, lines in c.messages_now.items():
        mailbox = c.messages.setdefault(executor, [])
        mailbox.append(lines)
        if len(mailbox) > MAILBOX_MOST:
            c.messages[executor] = [["!"]]  # overfull: a mark to read everything
    if c.left_lanes or c.retired:
        c.tidy()
    c.announce(at, by, basis, settings)


def _notify_blocked(c: State) -> None:
    """Notify live schedulers with blocked jobs: all of changed machines, those that wait for it of a placement.

    The owners of the lanes whose tasks left room are told alone, unless one has not looked since it was told last.
    """
    waiting = {name for name in c.blocked if name in c.scheduler_members and c.scheduler_members[name].lives}
    everybody = c.freed
    if c.left_by and not everybody:
        owners = [c.lane_owners.get(number, "") for number in c.left_by]
        everybody = any(owner not in waiting or owner in c.wakes for owner in owners)
        if not everybody:
            c.wakes.update(dict.fromkeys(owners, ALONE))
    for name in waiting:
        awaited, least, _ = c.blocked[name]
        if everybody or (c.left_by and not least) or any(j.name in awaited or ANY_JOB in awaited for j in c.gained):
            c.wakes.setdefault(name, "1")


def housekeep(c: State, at_ms: int, by: str, most: int = 1_000) -> Housekept:
    """End tasks of stopped and abandoned jobs, at most `most` runs; queue lost tasks again (semantics 24, 26).

    Release jobs that wait for ended ones. `at_ms` stands for the server's time.
    """
    c.unfold()
    c.open()
    c.now_ms = at_ms
    tick(c, at_ms)
    due = sorted((when, job_id) for job_id, when in c.due.items() if when <= at_ms)[:DUE_JOBS]
    ids = [job_id for _, job_id in due]
    runs = [
        run
        for j in map(c.J.get, ids) if j is not None and j.state > JobState.HELD
        for g in j.groups for run in live_runs(c, g)
    ]  # fmt: skip
    ended = sum(
        end_tasks(c, c.M[index], placement, None, EndKind.STOPPED, "-", c.stamp) for placement, index in runs[:most]
    )
    queued, resumed = 0, list[JobRow]()
    for job_id in ids:
        j = c.J.get(job_id)
        if j is not None and j.state <= JobState.HELD:
            queued += _requeue_due(c, j, at_ms)
        if j is not None and j.complete and j.awaited:
            resumed.append(j)
        if j is None or not (j.delayed if j.state <= JobState.HELD else j.placed):
            c.due.pop(job_id, None)
    if ended + queued or resumed:
        c.transactions += bool(ended)
        publish(c, at_ms, by, ended_before=resumed)
    more = len(runs) > most or len(ids) == DUE_JOBS or bool(c.releasing)
    return Housekept(ended, queued, more=more)


def tick(c: State, now: int) -> None:
    """Record the last placement id of this minute; older entries are thinned out."""
    if now - (c.ticks[0][0] if c.ticks else 0) < TICK_MS:
        return
    kept = list[tuple[int, int]]()
    for at, last in reversed(((now, c.placements), *c.ticks)):
        span = TICK_MS
        while span * 16 <= now - at:
            span *= 2
        if now - at <= WEEK_MS and (not kept or at // span > kept[-1][0] // span):
            kept.append((at, last))
    c.ticks = tuple(reversed(kept))


def _requeue_due(c: State, j: JobRow, now: int) -> int:
    """Queue the delayed tasks of a job that are due; return their number."""
    due, count = _due_of(j), 0
    for g in j.groups if due is not None and due <= now else ():
        back = requeue(c, g, now)
        if back:
            c.fact("requeue", j.id, g.number, span_text(back))
            count += span_count(back)
    return count


def retire(c: State, now_ms: int, most: int = 1_000) -> int:
    """Delete finished jobs older than the cell keeps them, at most `most`; returns their number."""
    marks, limit = c.times, -1
    last_version, last = marks[-1] if marks else (-1, 0)
    now = max(now_ms, last)
    if last_version < c.version and (not marks or (now - last) * 64 >= c.keep_ms):
        marks.append((c.version, now))
    for i, (version, ms) in enumerate(tuple(marks)):
        if ms <= now - c.keep_ms:
            limit = version
            c.times = marks[i:]
    old = list(takewhile(lambda entry: entry[1] <= limit, islice(c.done, most)))
    return c.forget(len(old))
