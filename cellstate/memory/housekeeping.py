"""Housekeeping of the twin: ``lua/housekeep.lua``."""

from cellstate.cell import Housekept
from cellstate.memory.ranges import span_count
from cellstate.memory.session import MemorySession
from cellstate.memory.words import JobRow
from cellstate.model import JobState
from cellstate.transaction import How

JOBS, TICK_MS, WEEK_MS = 100, 60_000, 604_800_000


class MemoryHousekeeping(MemorySession):
    """End tasks of stopped and abandoned jobs; queue lost tasks again."""

    def chores(self) -> dict[str, int]:
        """Return the jobs that are due for housekeeping: from when (ms)."""
        return {job_id: when for when, job_id in sorted((when, job_id) for job_id, when in self.due.items())}

    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        """See Cell.housekeep; `at_ms` stands for the server's time."""
        self.unfold()
        self.open()
        self.now_ms = at_ms
        self.tick(at_ms)
        due = sorted((when, job_id) for job_id, when in self.due.items() if when <= at_ms)[:JOBS]
        ids = [job_id for _, job_id in due]
        runs = [
            run
            for j in map(self.J.get, ids) if j is not None and j.state > JobState.HELD
            for g in j.groups for run in self.live_runs(g)
        ]  # fmt: skip
        ended = sum(
            self.end_tasks(self.M[index], placement, None, How.STOPPED, "-", self.stamp)
            for placement, index in runs[:most]
        )
        queued = 0
        for job_id in ids:
            j = self.J.get(job_id)
            if j is not None and j.state <= JobState.HELD:
                queued += self._requeue_due(j, at_ms)
            if j is None or not (j.delayed if j.state <= JobState.HELD else j.placed):
                self.due.pop(job_id, None)
        if ended + queued:
            self.transactions += bool(ended)
            self.publish(at_ms, by)
        return Housekept(ended, queued, more=len(runs) > most or len(ids) == JOBS)

    def tick(self, now: int) -> None:
        """Record the last placement id of this minute; older entries are thinned out."""
        if now - (self.ticks[0][0] if self.ticks else 0) < TICK_MS:
            return
        kept = list[tuple[int, int]]()
        for at, last in reversed(((now, self.placements), *self.ticks)):
            span = TICK_MS
            while span * 16 <= now - at:
                span *= 2
            if now - at <= WEEK_MS and (not kept or at // span > kept[-1][0] // span):
                kept.append((at, last))
        self.ticks = tuple(reversed(kept))

    def placed_by(self) -> tuple[tuple[int, int], ...]:
        """See Cell.placed_by."""
        return self.ticks

    def _requeue_due(self, j: JobRow, now: int) -> int:
        due, count = self.due_of(j), 0
        for g in j.groups if due is not None and due <= now else ():
            back = self.requeue(g, now)
            if back:
                self.fact("requeue", j.id, g.number, back)
                count += span_count(back)
        return count
