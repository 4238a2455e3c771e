"""Jobs that fit nowhere, indexed by their needs; freed room is distributed in the policy's order.

Each group of equivalent jobs is tested once against the changed machines, however many jobs it has (semantics 19), and
all groups share the room of these machines in the policy's order (semantics 32): room for one job requeues no other.
Once all jobs requeued for some machines have been tried, the room left there is offered to the others.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.array_snapshot import distinct
from omega.cellstate.replies import Awaited, awaited_of
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import demands
from omega.schedulers.constraints.evaluation import kept_from_simulated, permitted
from omega.schedulers.fitting import Amounts, fitting
from omega.schedulers.queue.group_table import GroupTable, Mask
from omega.schedulers.queue.ranks import Place, Promise, Ranks
from omega.schedulers.queue.shapes import Alike, ByShape
from omega.schedulers.work import Work

Machines = NDArray[np.int64]


PORTIONS = 8
"""A turn gives a job at most this part of the remaining room, and at least one task."""

POLICY = "a policy"
"""What requeued a job for another reason than freed room or a raised limit."""


@dataclass(slots=True, eq=False)
class RequeueRound:
    """Machines, and the number of jobs requeued for them that have not been tried yet."""

    machines: Machines
    untried: int = 0


class Blocked(ByShape):
    """Jobs that fit on no machine."""

    def __init__(self, ranks: Ranks) -> None:
        """Create without jobs."""
        super().__init__(ranks)
        self._table = GroupTable()
        self.again: list[Machines] = []
        """Machines with room left after all jobs requeued for them have been tried."""
        self._others: dict[Alike, frozenset[str]] = {}
        self._nearby: dict[Alike, frozenset[str]] = {}
        self.untried = 0
        """Number of jobs that were requeued for freed room and have not been tried."""
        # Names of jobs whose runs matter to groups, and of those near which groups must run, with how many groups.
        self._names, self._near = Counter[str](), Counter[str]()

    def add(self, work: Work) -> Alike:
        """Add a job that did not fit."""
        alike = super().add(work)
        line = self._put(alike)
        if len(self.groups[alike].works) == 1:
            self._index(alike, work)
        if work.requeued_by is not None:
            if work.requeued_by is not POLICY:
                self._table.unfit[line] = True
            self.tried(work)
        return alike

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
        self._table.drop(alike)
        _count_off(self._names, self._others.pop(alike, ()))
        _count_off(self._near, self._nearby.pop(alike, ()))

    def _put(self, alike: Alike) -> int:
        key, tie, first = self.groups[alike].first()
        return self._table.put(alike, first, (key, tie))

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
        if alike is not None:
            if alike in self.groups:
                self._put(alike)
            else:
                self._drop(alike)
        return work

    def clear(self) -> list[Work]:
        """Remove and return every job."""
        self._table, self.again, self._others, self._nearby = GroupTable(), [], {}, {}
        self._names, self._near = Counter(), Counter()
        return super().clear()

    def covers(self, work: Work) -> bool:
        """Whether a job is like blocked ones that fit nowhere now, so that an attempt at it would fail as theirs did.

        Not while room that was freed is being given out, nor where a policy delays the jobs.
        """
        if self.untried or self.again:
            return False
        group = self.groups.get((self.ranks.lane(work), self.shape_of(work)))
        if group is None:
            return False
        first = group.first()[2]
        return not (first.until or first.again)

    def others(self) -> set[str]:
        """Return the names of the jobs whose runs matter to a job here."""
        return set(self._names)

    def awaited(self) -> Awaited:
        """Return the names of the jobs whose placements may let a job here be placed: those near which one must run."""
        return awaited_of(self._near) if self._near else ()

    # Requeueing

    def requeue(self, snapshot: Snapshot, promise: Promise | None = None) -> list[Work]:
        """Remove and return the jobs that room freed since the last call may hold, and no more.

        With a `promise`, ranks follow the distribution: no job is requeued for more than its turns gave it.
        """
        fresh, again = snapshot.freed(), self.again
        self.again = []
        if not self.groups or not (len(fresh) or again):
            return []
        lines = self._table
        if len(fresh) and lines.unfit.any():
            lines.unfit &= ~(lines.least <= snapshot.amounts(fresh).max(axis=1)).all(axis=1)
        machines = distinct([fresh, *again]) if again else fresh
        return Sharing(self, snapshot, machines, promise).among(~lines.unfit)

    def requeue_near(self, snapshot: Snapshot, names: Collection[str], promise: Promise | None = None) -> list[Work]:
        """Remove and return the jobs that may fit now because jobs to which they have a relation started or ended."""
        concerned = np.zeros(len(self._table.unfit), dtype=np.bool_)
        for alike, others in self._others.items():
            concerned[self._table.of[alike]] = not others.isdisjoint(names)
        machines = np.flatnonzero(snapshot.up)
        if not (concerned.any() and len(machines)):
            return []
        self._table.unfit[concerned] = False
        return Sharing(self, snapshot, machines, promise).among(concerned)


class Sharing:
    """Distributes the room of some machines to blocked jobs, in the policy's order."""

    def __init__(self, blocked: Blocked, snapshot: Snapshot, machines: Machines, promise: Promise | None) -> None:
        """Create; nothing is distributed yet."""
        self.blocked, self.snapshot, self.machines, self.promise = blocked, snapshot, machines, promise
        self.lines, self.room = blocked._table, snapshot.amounts(machines)  # noqa: SLF001 - the other half of Blocked
        self.given: dict[str, list[int]] = {}

    def among(self, waiting: Mask) -> list[Work]:
        """Remove and return, in the policy's order, jobs of the groups `waiting` that the room may hold."""
        lines, round_, requeued = self.lines, RequeueRound(self.machines), list[Work]()
        lines.rerank(self.blocked.ranks)
        while True:
            waiting = waiting & (lines.least <= self.room.max(axis=1)).all(axis=1)
            candidates = np.flatnonzero(waiting)
            if not len(candidates):
                break
            line, rival = lines.first_two(candidates)
            alike = lines.alike[line]
            if alike is None:
                raise TypeError(line)
            if self.promise is not None and rival is not None:
                works, waiting[line] = self._turn(alike, self.promise)
                lines.rerank(self.blocked.ranks)
            else:
                works = self._of_group(alike, rival)
                waiting[line] = bool(works) and alike in self.blocked.groups
            requeued += works
        requeued += [work for job_id in self.given if (work := self.blocked.discard(job_id)) is not None]
        for work in requeued:
            work.requeued_by = round_
            if work.id in self.given and not work.gang:
                work.admitted = self.given[work.id]
        round_.untried = len(requeued)
        self.blocked.untried += len(requeued)
        return requeued

    def _turn(self, alike: Alike, promise: Promise) -> tuple[list[Work], bool]:
        """Give the first job of a group some tasks; return it when it gets no more, and whether its group does not."""
        work = self.blocked.first(alike)
        given = self.given.setdefault(work.id, [0] * len(work.left))
        turn = [0] * len(work.left)
        for group, left in enumerate(work.left):
            if rest := left - given[group]:
                need, mask = work.need(group), _of_use(work, group, self.snapshot, self.machines)
                fits = int(_units(self.room, need, mask).sum())
                turn[group] = min(rest, fits) if work.gang else min(rest, fits and 1 + fits // PORTIONS)
                _take(self.room, need, mask, turn[group])
                given[group] += turn[group]
        if not any(turn):
            if not any(given):
                del self.given[work.id]
                return [], False
        else:
            promise(work, turn)
            if not work.gang and given != work.left:
                return [], True
        self.blocked.discard(work.id)
        return [work], alike in self.blocked.groups

    def _of_group(self, alike: Alike, rival: Place | None) -> list[Work]:
        """Remove and return the jobs of a group before `rival` that may fit; deduct their room."""
        first = self.blocked.first(alike)
        groups = [group for group, left in enumerate(first.left) if left]
        needs = [first.need(group) for group in groups]
        masks = [_of_use(first, group, self.snapshot, self.machines) for group in groups]
        budget = [int(_units(self.room, need, mask).sum()) for need, mask in zip(needs, masks, strict=True)]
        takes, requeued = [0] * len(groups), list[Work]()
        # Group by group: room that the first jobs cannot use must reach the next ones.
        while alike in self.blocked.groups and max(budget) > 0:
            key, tie, work = self.blocked.groups[alike].first()
            if requeued and rival is not None and (self.blocked.ranks.rank(alike[0]), key, tie) > rival:
                break
            for i, left in enumerate(filter(None, work.left)):
                takes[i] += min(left, max(0, budget[i]))
                budget[i] -= left
            requeued.append(work)
            self.blocked.discard(work.id)
        for need, mask, count in zip(needs, masks, takes, strict=True):
            _take(self.room, need, mask, count)
        return requeued


def _of_use(work: Work, group: int, snapshot: Snapshot, machines: Machines) -> Mask | None:
    """Return the machines that a group may run on, as far as known; None for all of them."""
    bound = work.job.spec or snapshot.pools.divided
    may = permitted(work, group, snapshot) if bound and snapshot.attributes.used else None
    mask = None if may is None else may[machines] | snapshot.attributes.stale[machines]
    if not kept_from_simulated(work, snapshot):
        return mask
    real = ~snapshot.simulated[machines]
    return real if mask is None else mask & real


def _units(room: Amounts, need: Resources, mask: Mask | None) -> Amounts:
    """Return the number of tasks that each machine has room for; none outside the mask."""
    fits = fitting(room, need)
    if mask is not None:
        fits[~mask] = 0
    return fits


def _take(room: Amounts, need: Resources, mask: Mask | None, count: int) -> None:
    """Deduct the room of `count` tasks, from the first machines with room."""
    if count:
        fits = _units(room, need, mask)
        taken = np.clip(count - (np.cumsum(fits) - fits), 0, fits)
        room -= np.array(need, dtype=np.int64)[:, None] * taken


def _count_off(counts: Counter[str], each: Iterable[str]) -> None:
    """Decrease the count of each of these, and remove those with count 0."""
    for one in each:
        counts[one] -= 1
        if not counts[one]:
            del counts[one]
