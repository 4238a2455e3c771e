"""Losses of tasks in the twin; ``lua/parts/losses.lua``."""

from cellstate.memory.ranges import NONE, Spans, span_add, span_count, span_split
from cellstate.memory.waits import MemoryWaits
from cellstate.memory.words import Group, JobRow, LossRow
from cellstate.model import JobState
from cellstate.transaction import How

FIRST_MS, LONGEST_MS, PROVEN_MS = 1_000, 300_000, 600_000
"""Delay after a first loss, maximum delay, and time after which a running placement is proven."""


class MemoryLosses(MemoryWaits):
    """Losses of tasks: a lost task is delayed, then queued again; after too many losses it fails (semantics 26)."""

    ticks: tuple[tuple[int, int], ...] = ()
    """(ms, last placement id), newest first, for the placements that have run for ten minutes."""
    lost_at = 0
    """The time of this call (ms)."""

    def keep_losses(self, g: Group, losses: list[LossRow]) -> None:
        """Set a group's losses, without those of no task."""
        g.losses = [loss for loss in losses if loss.tasks]
        delayed = sum(span_count(loss.tasks) for loss in g.losses if loss.due)
        g.job.delayed += delayed - g.delayed
        g.delayed, g.job.lossy = delayed, True

    def forget_losses(self, g: Group, gone: Spans, *, unlinked: bool = False) -> None:
        """Delete the losses of ended tasks; with `unlinked` keep them without a placement."""
        kept = []
        for loss in g.losses:
            inside, rest = span_split(loss.tasks, gone)
            kept.append(LossRow(rest, loss.count, loss.due, loss.placement))
            if unlinked:
                kept.append(LossRow(inside, loss.count, loss.due, 0))
        self.keep_losses(g, kept)

    def proven(self, placement: int) -> bool:
        """Return whether a placement ran for ten minutes."""
        return placement <= next((last for at, last in self.ticks if at <= self.lost_at - PROVEN_MS), 0)

    def lose(self, g: Group, gone: Spans, placement: int) -> Spans:
        """Count a loss of tasks; return those that are not placed again. The others are delayed."""
        kept: list[LossRow] = []
        tasks_of: dict[int, Spans] = {}
        fresh = gone
        for loss in g.losses:
            inside, rest = span_split(loss.tasks, gone)
            if inside:
                fresh = span_split(fresh, inside)[1]
                n = 1 if self.proven(placement) else loss.count + 1
                tasks_of[n] = span_add(tasks_of.get(n, NONE), inside)
            kept.append(LossRow(rest, loss.count, loss.due, loss.placement))
        if fresh:
            tasks_of[1] = span_add(tasks_of.get(1, NONE), fresh)
        spent = NONE
        for n, tasks in sorted(tasks_of.items()):
            if g.once or n > g.budget:
                spent = span_add(spent, tasks)
            else:
                due = self.lost_at + min(LONGEST_MS, FIRST_MS * 2 ** (n - 1))
                kept.append(LossRow(tasks, n, due, placement))
        self.keep_losses(g, kept)
        return spent

    def requeue(self, g: Group, at_ms: float) -> Spans:
        """Queue the delayed tasks of a group that are due; return them."""
        j, back = g.job, NONE
        for loss in g.losses:
            if 0 < loss.due <= at_ms:
                back, loss.due = span_add(back, loss.tasks), 0
        if back:
            count = span_count(back)
            self.keep_losses(g, g.losses)
            self.touch_job(j)
            g.waiting = span_add(g.waiting, back)
            g.unplaced, j.unplaced, j.returned = g.unplaced + count, j.unplaced + count, True
        return back

    def due_of(self, j: JobRow) -> int | None:
        """Return when the first delayed task of a job is due, of a gang the last; None when there is none."""
        due = [loss.due for g in j.groups for loss in g.losses if loss.due]
        return (max if j.gang else min)(due) if due else None

    def end_late(self, j: JobRow, machine: int, placement: int, part: Spans | None, how: How) -> int:
        """Record the end of tasks before they were declared lost, if not placed since (semantics 27)."""
        count = 0
        for g in j.groups if j.state <= JobState.HELD else ():
            taken = NONE
            for loss in g.losses:
                if loss.placement != placement:
                    continue
                inside = loss.tasks if part is None else span_split(loss.tasks, part)[0]
                if not loss.due:
                    inside, rest = span_split(g.waiting, inside)
                    if inside:
                        g.waiting = rest
                        g.unplaced, j.unplaced = g.unplaced - span_count(inside), j.unplaced - span_count(inside)
                taken = span_add(taken, inside)
            if taken:
                self.forget_losses(g, taken)
                count += span_count(taken)
                self.count_ended(g, how, span_count(taken))
                self.touch_job(j)
                self.fact("late", placement, machine, j.id, g.number, taken, how.name.lower())
        return count

    def count_ended(self, g: Group, how: How, count: int) -> None:
        """Count tasks as finished, failed or stopped; tasks of a stopped job always count as stopped."""
        if how is How.FINISHED:
            g.finished += count
        elif how is How.FAILED:
            g.failed += count
        else:
            g.stopped += count

    def write_jobs(self) -> None:
        """See MemoryPublish; note when delayed tasks are due."""
        super().write_jobs()
        for j in self.changed_jobs:
            if j.lossy and (j.state <= JobState.HELD or j.state is JobState.DONE):
                due = self.due_of(j)
                self.due.pop(j.id, None)
                if due is not None:
                    self.due[j.id] = due
