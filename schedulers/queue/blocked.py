"""Jobs that fit nowhere, indexed by their needs; freed room is distributed in the policy's order.

Each group of equivalent jobs is tested once against the changed machines, however many jobs it has (semantics 19), and
all groups share the room of these machines in the policy's order (semantics 32): room for one job requeues no other.
Once all jobs requeued for some machines have been tried, the room left there is offered to the others.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from omega.cellstate.array_snapshot import distinct
from omega.cellstate.fairness import leaf_of
from omega.cellstate.replies import Awaited, awaited_of
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import demands
from omega.schedulers.fitting import Amounts
from omega.schedulers.queue.left_room import SMALL, LeftRooms, Machines
from omega.schedulers.queue.ranks import Promise, Ranks
from omega.schedulers.queue.shapes import Alike, ByShape, GroupTable
from omega.schedulers.queue.turns import RequeueRound, Sharing
from omega.schedulers.work import Work

NO_MACHINES = np.empty(0, dtype=np.int64)
POLICY = "a policy"
"""What requeued a job for another reason than freed room or a raised limit."""


class Blocked(ByShape):
    """Jobs that fit on no machine."""

    def __init__(self, ranks: Ranks) -> None:
        """Create without jobs."""
        super().__init__(ranks)
        self.table = GroupTable()
        self._freed: Machines = NO_MACHINES
        """Machines that gained room since the last distribution."""
        self.again: list[Machines] = []
        """Machines with room left after all jobs requeued for them have been tried."""
        self._waiting: set[Alike] = set()
        """Groups with jobs to which no room was due: others like them may fit."""
        self._refused: set[Alike] = set()
        self._refused_at = -1
        """Those that were offered the room at hand, and the changes of the snapshot then: until something changes, what
        is left of the room is not due to them either."""
        self._others: dict[Alike, frozenset[str]] = {}
        self._nearby: dict[Alike, frozenset[str]] = {}
        self.untried = 0
        """Number of jobs that were requeued for freed room and have not been tried."""
        self.holding: defaultdict[str, set[str]] = defaultdict(set)
        """Jobs with running tasks by leaf pool, where what is due to a job follows from them."""
        self.uncounted = set[str]()
        """Those of them that were added since their running tasks were counted."""
        self.left = LeftRooms()
        """Room that jobs left to others."""
        self.offers_all = False
        """Whether all room is to be offered: more of it may be due to jobs."""
        # Names of jobs whose runs matter to groups, and of those near which groups must run, with how many groups.
        self._names, self._near = Counter[str](), Counter[str]()

    def add(self, work: Work) -> Alike:
        """Add a job that did not fit."""
        alike = super().add(work)
        line = self._put(alike)
        self._note_holding(work)
        if len(self.groups[alike].works) == 1:
            self._index(alike, work)
        if work.requeued_by is not None:
            if work.requeued_by is not POLICY:
                self.table.unfit[line] = True
            self.tried(work)
        return alike

    def _note_holding(self, work: Work) -> None:
        if self.ranks.bounds and any(work.holds(group) for group in range(len(work.left))):
            self.holding[leaf_of(*work.whose)].add(work.id)
            self.uncounted.add(work.id)

    def hold_back(self, work: Work, snapshot: Snapshot | None) -> None:
        """Add a job to which no room is due now: all that could hold a task of it, or of another job, is offered.

        Jobs of its pool left room to it while it was tried, also room that is too small for it.
        """
        offered = isinstance(work.requeued_by, RequeueRound)  # just now
        self.tried(work)
        work.admitted = None
        alike = self.add(work)
        self._waiting.add(alike)
        if offered and snapshot is not None:
            if snapshot.changes != self._refused_at:
                self._refused, self._refused_at = set(), snapshot.changes
            self._refused.add(alike)
        if not (offered or self.offers_all):
            self.offers_all = snapshot is None or holds_one(snapshot, self.table.smallest())

    def leave(self, alike: Alike) -> None:
        """Record that the jobs of a group left room to others: others like them may fit."""
        self._waiting.add(alike)

    def put_again(self, alike: Alike, work: Work) -> None:
        """Move a job of a group to its present place: its key has changed."""
        self.groups[alike].put(self.ranks.within(work), work)
        self._put(alike)

    def learn(self, placed: Mapping[str, Sequence[int]]) -> None:
        """Take over from the store how many tasks of each group of some jobs run."""
        for job_id, tasks in placed.items():
            alike, work = self._of.get(job_id), self.get(job_id)
            if alike is not None and work is not None and work.learn(tasks):
                self.put_again(alike, work)

    def _index(self, alike: Alike, work: Work) -> None:
        """Count the conditions that a new group waits for."""
        if not work.job.spec:
            return
        wants = [demands(work.job, group) for group, left in enumerate(work.left) if left]
        near = frozenset(relation.job for each in wants for relation in each.near)
        if others := near.union(relation.job for each in wants for relation in each.apart):
            self._others[alike] = others
            self._names.update(others)
            self._near.update(near)
            self._nearby[alike] = near

    def _drop(self, alike: Alike) -> None:
        self._waiting.discard(alike)
        self._refused.discard(alike)
        self.table.drop(alike)
        _count_off(self._names, self._others.pop(alike, ()))
        _count_off(self._near, self._nearby.pop(alike, ()))

    def _put(self, alike: Alike) -> int:
        key, tie, first = self.groups[alike].first()
        return self.table.put(alike, first, (key, tie))

    def tried(self, work: Work) -> None:
        """Record that a requeued job was tried: it is placed, blocked again, or owned by another scheduler."""
        requeued, work.requeued_by = work.requeued_by, None
        if isinstance(requeued, RequeueRound):
            requeued.untried -= 1
            self.untried -= 1
            if not requeued.untried:
                self.again.append(requeued.machines)

    def discard(self, job_id: str) -> Work | None:
        """Remove and return a job; None when it is not here."""
        alike = self._of.get(job_id)
        work = super().discard(job_id)
        if work is not None and (holding := self.holding.get(leaf := leaf_of(*work.whose))) is not None:
            holding.discard(job_id)
            if not holding:
                del self.holding[leaf]
        if alike is not None:
            group = self.groups.get(alike)
            if group is None:
                self._drop(alike)
            else:
                self._put(alike)
        return work

    def clear(self) -> list[Work]:
        """Remove and return every job."""
        self.table, self.again, self._others, self._nearby = GroupTable(), [], {}, {}
        self._names, self._near = Counter(), Counter()
        self._waiting.clear()
        self._refused.clear()
        self.holding.clear()
        return super().clear()

    def like(self, work: Work) -> Work | None:
        """Return a blocked job like one: it fits nowhere now, so an attempt at the other would fail as its own did.

        None while room that was freed is being given out, and where a policy delays the job itself.
        """
        if self.untried or self.again:
            return None
        alike = self.ranks.lane(work), self.shape_of(work)
        group = self.groups.get(alike)
        if group is None or alike in self._waiting:
            return None
        first = group.first()[2]
        return None if first.until else first

    def next_due(self) -> float | None:
        """Return when room is offered again that jobs left (seconds): 0 for at once; None while there is none."""
        return 0.0 if self.offers_all else self.left.next_due()

    def is_offered(self, snapshot: Snapshot, now: float) -> bool:
        """Return whether there is room to distribute at a time in seconds."""
        due = self.next_due()
        return len(self._gather(snapshot)) > 0 or bool(self.again) or (due is not None and due <= now + SMALL)

    def _gather(self, snapshot: Snapshot) -> Machines:
        """Return the machines that gained room since the last distribution."""
        if len(freed := snapshot.freed()):
            self._freed = distinct([self._freed, freed]) if len(self._freed) else freed
        return self._freed

    def others(self) -> set[str]:
        """Return the names of the jobs whose runs matter to a job here."""
        return set(self._names)

    def related(self, names: Collection[str]) -> list[Alike]:
        """Return the groups of jobs with a relation to one of these."""
        return [alike for alike, others in self._others.items() if not others.isdisjoint(names)]

    def awaited(self) -> Awaited:
        """Return the names of the jobs whose placements may let a job here be placed: those near which one must run."""
        return awaited_of(self._near) if self._near else ()

    # Requeueing

    def requeue(self, snapshot: Snapshot, promise: Promise | None = None, now: float = 0.0) -> list[Work]:
        """Remove and return the jobs that room freed since the last call may hold, and no more, at a time in seconds.

        With a `promise`, ranks follow the distribution: no job is requeued for more than its turns gave it.
        """
        fresh, again, lines = self._gather(snapshot), self.again, self.table
        self._freed, self.again = NO_MACHINES, []
        if not self.groups:
            self.left, self.offers_all = LeftRooms(), False
            return []
        most = snapshot.amounts(fresh).max(axis=1) if len(fresh) else None
        if not (again or self.offers_all or self.left) and (most is None or (most < lines.smallest()).any()):
            return []  # as after most ends of tasks in a full cell
        if most is not None and lines.unfit.any():
            lines.unfit &= ~(lines.least <= most).all(axis=1)
        machines, waiting = distinct([fresh, *again]) if again else fresh, ~lines.unfit
        if snapshot.changes != self._refused_at:
            self._refused.clear()
        if self.offers_all:
            machines, self.offers_all = np.flatnonzero(snapshot.up), False
        waiting[[lines.of[alike] for alike in self._refused]] = False
        self.left.follow(snapshot, lines.smallest())
        sharing = Sharing(self, snapshot, machines, promise)
        if requeued := sharing.among(waiting):
            self.left.give(sharing.machines, sharing.room, lines.smallest())
        if sharing.left:
            self.left.add(sharing.machines, sharing.room, lines.smallest(), now)
        for offer in self.left.due(now):
            sharing = Sharing(self, snapshot, offer.machines, promise, offer.room, offer.stayed)
            requeued += sharing.among(~lines.unfit)
        return requeued

    def requeue_near(self, snapshot: Snapshot, names: Collection[str], promise: Promise | None = None) -> list[Work]:
        """Remove and return the jobs that may fit now because jobs to which they have a relation started or ended."""
        concerned = np.zeros(len(self.table.unfit), dtype=np.bool_)
        concerned[[self.table.of[alike] for alike in self.related(names)]] = True
        machines = np.flatnonzero(snapshot.up)
        if not (concerned.any() and len(machines)):
            return []
        self.table.unfit[concerned] = False
        return Sharing(self, snapshot, machines, promise).among(concerned)


def holds_one(snapshot: Snapshot, need: Amounts) -> bool:
    """Return whether some machine has room for a task."""
    fits = np.ones(snapshot.size, dtype=np.bool_)
    for room, amount in zip(snapshot.room, need.tolist(), strict=True):
        fits &= room >= amount
    return bool(fits.any())


def _count_off(counts: Counter[str], each: Iterable[str]) -> None:
    """Decrease the count of each of these, and remove those with count 0."""
    for one in each:
        counts[one] -= 1
        if not counts[one]:
            del counts[one]
