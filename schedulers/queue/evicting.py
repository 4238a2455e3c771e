"""Blocked jobs that may evict others: requeued when tasks were placed, or when new shares entitle them to room."""

from collections.abc import Collection
from itertools import islice
from random import Random

from omega.cellstate.fairness import leaf_of
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.policies import Asserting, Preemption
from omega.schedulers.preemption.constrained import suspects
from omega.schedulers.queue.blocked import Blocked
from omega.schedulers.queue.shapes import Alike
from omega.schedulers.work import Work

SCAN_SECONDS = 0.5
"""Minimum time between two scans for preemption by blocked jobs, after other jobs were placed."""
MOST_SCANNED = 8
"""Maximum number of groups of blocked jobs in one scan."""


class EvictingJobs:
    """The times at which blocked jobs are tried for evictions; their groups take turns."""

    def __init__(self, blocked: Blocked) -> None:
        """Scan these jobs."""
        self._blocked = blocked
        self.scan_at = 0.0
        """When blocked jobs may be scanned next (seconds)."""
        self._scanned = self._epoch = 0
        self.to_scan = 0
        """Number of groups of the current scan that have not been scanned; 0 while no job is blocked."""
        self._changes = -1
        """Changes of the snapshot at the last scan for victims."""
        self._known: Preemption | None = None
        self._asserting: Asserting | None = None
        """The preemption that `requeue` was given last, if it asserts; to find that out takes as long as a look."""
        self._related = set[Alike]()

    def others_moved(self, names: Collection[str]) -> None:
        """Scan the jobs with a relation to one of these again: other machines, unchanged ones too, are open to them."""
        if related := self._blocked.related(names):
            self._related.update(related)
            self.to_scan = len(self._blocked.groups)

    def next_due(self) -> float | None:
        """Return when the next scan is due (seconds); None when there is nothing to scan."""
        return self.scan_at if self.to_scan and len(self._blocked) else None

    def requeue(self, snapshot: Snapshot, preemption: Preemption, rng: Random, now: float) -> list[Work]:
        """Remove and return the blocked jobs that may evict now."""
        requeued = self._scan(snapshot, preemption, rng, now)
        if preemption is not self._known:
            self._known, self._asserting = preemption, preemption if isinstance(preemption, Asserting) else None
        if self._asserting is not None:
            if leaves := self._asserting.stirred():
                requeued += self._of_leaves(leaves)
            requeued += self._entitled(self._asserting, snapshot)
        return requeued

    def _scan(self, snapshot: Snapshot, preemption: Preemption, rng: Random, now: float) -> list[Work]:
        """Return the first jobs of some groups that might evict newly placed tasks; the groups take turns."""
        blocked = self._blocked
        if not preemption.evicts or not len(blocked):
            self.to_scan = 0
            self._related.clear()
            return []
        if snapshot.changes != self._changes:
            self._changes, self.to_scan = snapshot.changes, len(blocked.groups)
        if not self.to_scan or now < self.scan_at:
            return []
        self.scan_at = now + SCAN_SECONDS
        groups = list(blocked.groups)
        self._scanned %= len(groups)
        requeued = []
        for alike in (*groups[self._scanned :], *groups[: self._scanned])[:MOST_SCANNED]:
            work = blocked.first(alike)
            if alike in self._related or suspects(preemption, work, snapshot, rng):
                self._related.discard(alike)
                requeued.append(work)
                blocked.discard(work.id)
        self._scanned += MOST_SCANNED
        self.to_scan = max(0, self.to_scan - MOST_SCANNED)
        return requeued

    def _of_leaves(self, leaves: Collection[str]) -> list[Work]:
        """Remove and return the first blocked job of each group of these leaf pools."""
        firsts = [self._blocked.first(alike) for alike in self._blocked.groups]
        works = [work for work in firsts if leaf_of(*work.whose) in leaves]
        for work in works:
            self._blocked.discard(work.id)
        return works

    def _entitled(self, preemption: Asserting, snapshot: Snapshot) -> list[Work]:
        """After an epoch, remove and return some jobs of each pool that its shares entitle to room within the pool."""
        number = 0 if snapshot.epoch is None else snapshot.epoch.number
        if number == self._epoch:
            return []
        self._epoch, works = number, list[Work]()
        firsts = [self._blocked.first(alike) for alike in self._blocked.groups]
        for leaf in sorted({leaf_of(*work.whose) for work in firsts}):
            mine = (self._blocked.discard(job) for job in preemption.entitled(leaf, snapshot))
            works += islice((work for work in mine if work is not None), MOST_SCANNED)
        for work in works:
            work.entitled = True
        return works
