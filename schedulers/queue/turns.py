"""Distributes room to blocked jobs in the policy's order, turn by turn where several jobs want it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.enforcing import kept_from_simulated, permitted
from omega.schedulers.fitting import Amounts, fitting
from omega.schedulers.queue.left_room import Machines
from omega.schedulers.queue.ranks import Place, Promise, Ranks, within
from omega.schedulers.queue.shapes import Alike, EquivalentJobs, GroupTable, Mask
from omega.schedulers.work import Work

Lines = NDArray[np.int64]
PORTIONS = 8
"""A turn gives a job at most this part of the remaining room, and at least one task."""


@dataclass(slots=True, eq=False)
class RequeueRound:
    """Machines, and the number of jobs requeued for them that have not been tried yet."""

    machines: Machines
    untried: int = 0


class BlockedGroups(Protocol):
    """The groups of blocked jobs among which room is distributed."""

    ranks: Ranks
    groups: dict[Alike, EquivalentJobs]
    table: GroupTable
    untried: int

    def first(self, alike: Alike) -> Work:
        """Return the first job of a group."""

    def discard(self, job_id: str) -> Work | None:
        """Remove and return a job."""

    def leave(self, alike: Alike) -> None:
        """Record that the jobs of a group left room to others: others like them may fit."""

    def put_again(self, alike: Alike, work: Work) -> None:
        """Move a job of a group to its present place."""


class Sharing:
    """Distributes the room of some machines to blocked jobs, in the policy's order.

    `room`: of each machine, what is distributed (None: all that is free), and for how long (seconds) it stayed free.
    """

    def __init__(
        self, blocked: BlockedGroups, snapshot: Snapshot, machines: Machines, promise: Promise | None,
        room: Amounts | None = None, stayed: float = 0.0,
    ) -> None:  # fmt: skip
        """Create; nothing is distributed yet."""
        self.blocked, self.snapshot, self.promise, self.lines = blocked, snapshot, promise, blocked.table
        self.offered, self.stayed = machines, stayed
        self.machines, self.room = self._with_room(machines, snapshot) if room is None else (machines, room)
        """Those of the machines that may hold a task, and their room."""
        self.left = False
        """Whether some job left room to others."""
        self._refused = set[Alike]()
        """Groups whose first job was refused, and had been given nothing in this round."""
        self._given: dict[str, Work] = {}
        self._unknown = True
        """Whether room was given since the groups that fit were computed."""

    def _with_room(self, machines: Machines, snapshot: Snapshot) -> tuple[Machines, Amounts]:
        room = snapshot.amounts(machines)
        fits = (room >= self.lines.smallest()[:, None]).all(axis=0)
        return machines[fits], room[:, fits]

    def among(self, waiting: Mask) -> list[Work]:
        """Remove and return, in the policy's order, jobs of the groups `waiting` that the room may hold."""
        lines, requeued, ranked = self.lines, list[Work](), False
        if not len(self.machines):
            return requeued
        while True:
            if self._unknown:
                waiting = waiting & (lines.least <= self.room.max(axis=1)).all(axis=1)
                self._unknown, ranked = False, False
            candidates = np.flatnonzero(waiting)
            if not len(candidates):
                break
            if len(candidates) > 1 and not ranked:
                lines.rerank(self.blocked.ranks)
                ranked = True
            line, rival = lines.first_two(candidates)
            alike = lines.alike[line]
            if alike is None:
                raise TypeError(line)
            if self.promise is not None and (rival is not None or self.blocked.ranks.bounds):
                works, waiting[line] = self._turn(alike, self.promise, alone=rival is None)
                if alike in self._refused:
                    waiting[self._refused_like(alike, line, candidates)] = False
            else:
                works = self._of_group(alike, rival)
                waiting[line] = bool(works) and (alike in self.blocked.groups)
            requeued += works
        return self._requeue(requeued)

    def _requeue(self, works: list[Work]) -> list[Work]:
        """Count jobs, and those that were given tasks, as requeued; those that left the room are blocked again."""
        for work in self._given.values():
            self.blocked.discard(work.id)
        works += self._given.values()
        round_ = RequeueRound(self.offered, len(works))
        for work in works:
            work.requeued_by = round_
        self.blocked.untried += len(works)
        return works

    def _turn(self, alike: Alike, promise: Promise, *, alone: bool) -> tuple[list[Work], bool]:
        """Give the first job of a group some tasks; return jobs that need no turns, and whether the group may get more.

        A job gets what is due to it, and more of room that stayed free for others in vain.
        """
        work, ranks = self.blocked.first(alike), self.blocked.ranks
        group = self.blocked.groups[alike]
        jobs = len(group.works)
        due = ranks.ordering.due(work, partial(group.alike, work.job.precedence)) if ranks.bounds else None
        if due is None and alone:
            works = self._of_group(alike, None)
            return works, bool(works) and (alike in self.blocked.groups)
        given = work.admitted or [0] * len(work.left)
        most = work.left if due is None else within(work, due) or work.left
        if due is not None and all(tasks <= had for tasks, had in zip(most, given, strict=True)):
            if not ranks.ordering.beyond(work, self.stayed):
                if not any(given):
                    self._refused.add(alike)
                self._leave(alike)
                return [], False
            due, most = None, work.left
        tasks = [min(most_, left) - had for most_, left, had in zip(most, work.left, given, strict=True)]
        together = max(0, work.least - sum(given))
        may = not together or self._may_hold(work, tasks, together)
        turn = self._taken(work, tasks, jobs if due is None and not together else 0) if may else []
        if not any(turn):
            return [], any(given) and self._next(alike, work)
        if sum(turn) < together:
            turn = tasks  # all of a gang is tried: other machines may hold the rest
        promise(work, turn)
        self._unknown = True
        work.admitted = [had + more for had, more in zip(given, turn, strict=True)]
        self._given[work.id] = work
        if work.admitted == work.left:
            return [], self._next(alike, work)
        self.blocked.put_again(alike, work)
        return [], True

    def _leave(self, alike: Alike) -> None:
        """Record that a group leaves the room to others."""
        self.left = True
        self.blocked.leave(alike)

    def _refused_like(self, alike: Alike, line: int, lines: Lines) -> Lines:
        """Of these lines, return those of the same lane to which no room is due either: they need no less."""
        table, work = self.lines, self.blocked.first(alike)
        if work.least or sum(map(bool, work.left)) > 1:
            return lines[:0]
        like = lines[(table.lane[lines] == table.lane[line]) & (table.least[lines] >= table.least[line]).all(axis=1)]
        found = list[int]()
        for each in like.tolist():
            other = table.alike[each]
            if other is not None and self.blocked.first(other).job.precedence <= work.job.precedence:
                found.append(each)
                self._leave(other)
        return np.array(found, dtype=np.int64)

    def _taken(self, work: Work, tasks: Sequence[int], jobs: int) -> list[int]:
        """Deduct the room of these tasks by group as far as they fit; return how many they are.

        `jobs`: how many take turns, 0 for none.
        """
        taken = [0] * len(tasks)
        for group, rest in enumerate(tasks):
            if rest > 0:
                need, mask = work.need(group), _of_use(work, group, self.snapshot, self.machines)
                fits = int(_units(self.room, need, mask).sum())
                taken[group] = min(rest, fits and 1 + fits // (PORTIONS * jobs) if jobs else fits)
                _take(self.room, need, mask, taken[group])
        return taken

    def _may_hold(self, work: Work, tasks: Sequence[int], least: int) -> bool:
        """Return whether so many of these tasks by group may fit: on the machines, or on all that are up."""
        fits = self._fits(work, tasks, self.machines, self.room) >= least
        up = self.machines if fits else np.flatnonzero(self.snapshot.up)
        return fits or self._fits(work, tasks, up, self.snapshot.amounts(up)) >= least

    def _fits(self, work: Work, tasks: Sequence[int], machines: Machines, room: Amounts) -> int:
        """Return how many of these tasks fit, where groups do not compete for room."""
        return sum(
            min(rest, int(_units(room, work.need(group), _of_use(work, group, self.snapshot, machines)).sum()))
            for group, rest in enumerate(tasks)
            if rest
        )

    def _next(self, alike: Alike, work: Work) -> bool:
        """Give a job no more; return whether others of its group may get some."""
        self.blocked.discard(work.id)
        return alike in self.blocked.groups

    def _of_group(self, alike: Alike, rival: Place | None) -> list[Work]:
        """Remove and return the jobs of a group before `rival` that may fit; deduct their room."""
        first = self.blocked.first(alike)
        groups = [group for group, left in enumerate(first.left) if left]
        needs = [first.need(group) for group in groups]
        masks = [_of_use(first, group, self.snapshot, self.machines) for group in groups]
        budget = [int(_units(self.room, need, mask).sum()) for need, mask in zip(needs, masks, strict=True)]
        takes, requeued = [0] * len(groups), list[Work]()
        # Group by group: room that the first jobs cannot use must reach the next ones.
        while (alike in self.blocked.groups) and max(budget) > 0:
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
        self._unknown = True
        return requeued


def _of_use(work: Work, group: int, snapshot: Snapshot, machines: Machines) -> Mask | None:
    """Return the machines that a group may run on, as far as known, and waits for; None for all of them."""
    bound = work.job.spec or snapshot.pools.divided
    may = permitted(work, group, snapshot) if bound and snapshot.attributes.used else None
    mask = None if may is None else may[machines] | snapshot.attributes.stale[machines]
    if work.notes and (awaited := work.awaits(group, snapshot.attributes.version)) is not None:
        near = np.isin(machines, awaited)
        mask = near if mask is None else mask & near
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
