"""Losses of tasks in the twin; ``lua/parts/losses.lua``."""

from collections.abc import Iterable

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.ranges import NONE, Spans, span_add, span_count, span_split
from omega.cellstate.memory.records import GroupRow, JobRow, LossRow
from omega.cellstate.model import JobState
from omega.cellstate.tasks import EndKind

FIRST_MS, LONGEST_MS, PROVEN_MS = 1_000, 300_000, 600_000
"""Delay after a first loss, maximum delay, and time after which a running placement is proven."""
RETRY_MS, LONGEST_RETRY_MS = 30_000, 3_600_000
"""Delay after a first failure that is retried, and maximum delay."""


def keep_losses(g: GroupRow, losses: list[LossRow]) -> None:
    """Set a group's losses, without those of no task."""
    g.losses = [loss for loss in losses if loss.tasks]
    delayed = sum(span_count(loss.tasks) for loss in g.losses if loss.due)
    g.job.delayed += delayed - g.delayed
    g.delayed, g.job.lossy = delayed, True


def proven(ledger: Ledger, placement: int) -> bool:
    """Return whether a placement ran for ten minutes; in a call without a time (a commit) by the last noted minute."""
    now = ledger.lost_at or next((at for at, _ in ledger.ticks), 0)
    return placement <= next((last for at, last in ledger.ticks if at <= now - PROVEN_MS), 0)


def forget_losses(ledger: Ledger, g: GroupRow, gone: Spans, placement: int | None = None) -> None:
    """Delete the losses of ended tasks.

    Those of tasks that are placed again, or continue as their copies, after a `placement` are kept without one, unless
    it ran for ten minutes.
    """
    unlinked = placement is not None and not proven(ledger, placement)
    kept = []
    for loss in g.losses:
        inside, rest = span_split(loss.tasks, gone)
        kept.append(loss.of(rest))
        if unlinked:
            kept.append(loss.of(inside))
            kept[-1].placement = 0
    keep_losses(g, kept)


def lose(ledger: Ledger, g: GroupRow, gone: Spans, placement: int, retried_on: int | None = None) -> Spans:
    """Count a loss of tasks, or a failure on a machine that is retried; return those that are not placed again.

    The others are delayed.
    """
    kept: list[LossRow] = []
    tasks_of: dict[tuple[int, int, int], Spans] = {}
    fresh, retried = gone, retried_on is not None
    first = (0, 1, retried_on) if retried_on is not None else (1, 0, -1)
    for loss in g.losses:
        inside, rest = span_split(loss.tasks, gone)
        if inside:
            fresh = span_split(fresh, inside)[1]
            times, failures, machine = (
                (0, 0, -1) if proven(ledger, placement) else (loss.count, loss.failures, loss.machine)
            )
            kind = (times + 1, failures, machine) if retried_on is None else (times, failures + 1, retried_on)
            tasks_of[kind] = span_add(tasks_of.get(kind, NONE), inside)
        kept.append(loss.of(rest))
    if fresh:
        tasks_of[first] = span_add(tasks_of.get(first, NONE), fresh)
    spent = NONE
    for (times, failures, machine), tasks in sorted(tasks_of.items()):
        if g.once or (not retried and times > g.budget):
            spent = span_add(spent, tasks)
        else:
            wait = min(LONGEST_RETRY_MS, RETRY_MS << (failures - 1)) if retried else FIRST_MS << (times - 1)
            due = ledger.lost_at + (wait if retried else min(LONGEST_MS, wait))
            kept.append(LossRow(tasks, times, due, placement, failures=failures, machine=machine))
    keep_losses(g, kept)
    return spent


def requeue(ledger: Ledger, g: GroupRow, at_ms: float) -> Spans:
    """Queue the delayed tasks of a group that are due; return them."""
    j, back = g.job, NONE
    for loss in g.losses:
        if 0 < loss.due <= at_ms:
            back, loss.due = span_add(back, loss.tasks), 0
    if back:
        count = span_count(back)
        keep_losses(g, g.losses)
        ledger.touch_job(j)
        g.waiting = span_add(g.waiting, back)
        g.unplaced, j.unplaced, j.returned = g.unplaced + count, j.unplaced + count, True
    return back


def due_of(j: JobRow) -> int | None:
    """Return when the first delayed task of a job is due, of a whole gang the last; None when there is none."""
    due = [loss.due for g in j.groups for loss in g.losses if loss.due]
    return (max if j.whole else min)(due) if due else None


def end_late(ledger: Ledger, j: JobRow, machine: int, placement: int, part: Spans | None, how: EndKind) -> int:
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
            forget_losses(ledger, g, taken)
            count += span_count(taken)
            count_ended(g, how, span_count(taken))
            ledger.touch_job(j)
            ledger.fact("late", placement, machine, j.id, g.number, taken, how.name.lower())
    return count


def count_ended(g: GroupRow, how: EndKind, count: int) -> None:
    """Count tasks as finished, failed or stopped; tasks of a stopped job always count as stopped."""
    if how is EndKind.FINISHED:
        g.finished += count
    elif how is EndKind.FAILED:
        g.failed += count
    else:
        g.stopped += count


def note_due(ledger: Ledger, jobs: Iterable[JobRow]) -> None:
    """Note when the delayed tasks of jobs are due."""
    for j in jobs:
        if j.lossy and (j.state <= JobState.HELD or j.state is JobState.DONE):
            due = due_of(j)
            ledger.due.pop(j.id, None)
            if due is not None:
                ledger.due[j.id] = due
