"""The pending queue of a scheduler: every job with unplaced tasks, by its reason to wait (docs/decisions/0012).

A job is *ready* or backs off (`Ready`), or it is *blocked*: by room (`Blocked`), by a limit (`Limited`), by other jobs
or attributes, by tasks that would have to be evicted, or until a time that a policy set (`Work.until`). One policy
orders all of it, live and simulated: intake, freed room, raised limits (semantics 32).

Jobs at limits are requeued when limits or use admit some: what limits of pools still admit follows from what their jobs
hold and what was requeued (docs/pools.md, Limits). Jobs that may evict others are requeued when tasks were placed, or
when new shares entitle them to room.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from math import inf
from random import Random

from omega.cellstate.fairness import leaf_of
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.replies import Awaited, KindUse
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.usage import times
from omega.schedulers.constrained import suspects
from omega.schedulers.constraints.fetching import Fetch, lacking
from omega.schedulers.limits import Room, admitted, occupy, room_below, room_of_kind
from omega.schedulers.policies import Asserting, Ordering, Preemption
from omega.schedulers.queue.blocked import POLICY, Blocked
from omega.schedulers.queue.ranks import Place, Promise, Ranks, admit, within
from omega.schedulers.queue.ready import Ready
from omega.schedulers.queue.shapes import Alike, ByShape
from omega.schedulers.sharing import Keeps
from omega.schedulers.work import Work

REQUEUED_AT, REFUSED_AT = "limit: requeued at", "limit: refused at"
"""Notes of a job: limits and use of its last requeueing, and those at which the store then refused it."""
SCAN_SECONDS = 0.5
"""Minimum time between two scans for preemption by blocked jobs, or two looks whether other jobs were placed."""
MOST_SCANNED = 8
"""Maximum number of groups of blocked jobs in one scan."""
LOOK_SECONDS = 0.2
"""Minimum time between two fetches of other jobs' runs, or of the use of a kind, for blocked jobs."""
MOST_COUNTED = 64
"""Maximum number of jobs whose running tasks are counted in one attempt."""


class PoolRoom:
    """The room below the limits of pools."""

    def __init__(self, pools: Pools, use: Mapping[str, PoolUse]) -> None:
        """Begin with the stored use of the pools that carry limits."""
        self._pools = pools
        self._left = {
            name: room_below(each.limits, (each.jobs, each.tasks, *each.amounts)) for name, each in use.items()
        }
        self.state = pools.version, tuple(sorted((name, tuple(left)) for name, left in self._left.items()))
        """Equal when nothing changed."""

    def of(self, work: Work) -> list[Room]:
        """Return the room of a job's pool and of each pool above it that carries limits."""
        leaf = self._pools.pool_of(work.pool, work.user)
        return [self._left[pool.name] for pool in self._pools.chain(leaf) if pool.name in self._left]


class Limited(ByShape):
    """Jobs blocked with the verdict `limit`."""

    def __init__(self, ranks: Ranks) -> None:
        """Create an empty set."""
        super().__init__(ranks)
        self._seen: object = None

    def shape_of(self, work: Work) -> Hashable:
        """Return the shape and whether the job has running tasks: it is then admitted, and only amounts matter.

        Limits see what all policies see, and no more.
        """
        return (*work.shape(), _fresh(work))

    def add(self, work: Work) -> Alike:
        """Add a job that the store refused because of a limit.

        A job that was requeued and refused at the same use is no longer admitted: all its tasks ended.
        """
        work.notes[REFUSED_AT] = work.notes.pop(REQUEUED_AT, None)
        self._seen = None
        return super().add(work)

    @property
    def unknown(self) -> bool:
        """Return whether jobs wait and the limits may admit them by now."""
        return bool(self.groups) and self._seen is None

    def look_again(self) -> None:
        """Check again after a requeued job was tried: it may have left its part to others."""
        self._seen = None

    def requeue(self, use: KindUse, promise: Promise | None = None, room: PoolRoom | None = None) -> list[Work]:
        """Remove and return, in the policy's order, the jobs that the limits admit together; none without a change.

        `room`: what the limits of pools admit, None when no pool carries any.
        """
        now = use, room and room.state
        if now == self._seen:
            return []
        self._seen = now
        low, high = use.limits.precedence
        kind = room_of_kind(use)
        requeued: list[Work] = []
        places = {alike: self._place(alike) for alike in self.groups}
        while places:
            alike = min(places, key=places.__getitem__)
            work = self.first(alike)
            fresh = _fresh(work) or work.notes.get(REFUSED_AT) == now
            rooms, tasks = [kind] if room is None else [kind, *room.of(work)], list[int]()
            needs = [group.need for group in work.job.groups]
            if low <= work.job.precedence <= high:
                tasks = admitted(rooms, needs, work.left, fresh=fresh)
            if not any(tasks) or sum(tasks) < work.least:
                del places[alike]
                continue
            occupy(rooms, needs, tasks, fresh=fresh)
            requeued.append(work)
            self.discard(work.id)
            work.requeued_by, work.admitted = self, tasks
            work.notes[REQUEUED_AT] = now
            if alike not in self.groups:
                del places[alike]
            if promise is not None:
                promise(work, tasks)
                places = {each: self._place(each) for each in places}
            elif alike in places:
                places[alike] = self._place(alike)
        return requeued

    def _place(self, alike: Alike) -> Place:
        key, tie, _ = self.groups[alike].first()
        return self.ranks.rank(alike[0]), key, tie


def tries(works: Sequence[Work], ranks: Ranks, promise: Promise | None) -> list[Work]:
    """Return those of blocked jobs that are tried together for evictions, in order: as many as room is due to.

    Of a lane to whose jobs no more room is due some are: others of their pool may make room for them.
    """
    if promise is None or not ranks.bounds:
        return list(works)
    tried, more = list[Work](), Counter[Hashable]()
    for work in works:
        due = ranks.ordering.due(work, _alone)
        tasks = work.left if due is None else within(work, due) or work.left
        if any(tasks):
            promise(work, tasks)
        else:
            more[lane := ranks.lane(work)] += 1
            if more[lane] > MOST_SCANNED:
                continue
        tried.append(work)
    return tried


def _alone() -> int:
    """The number of jobs that wait, for one that is tried for its lane."""
    return 1


def _fresh(work: Work) -> bool:
    return not (work.placed or any(group.placed for group in work.job.groups))


class EvictingJobs:
    """The times at which blocked jobs are tried for evictions; their groups take turns."""

    def __init__(self, blocked: Blocked) -> None:
        """Scan these jobs."""
        self._blocked = blocked
        self.scan_at = 0.0
        """When blocked jobs may be scanned next (seconds)."""
        self.follows_use = False
        """Whether placements by others can permit an eviction: then the scheduler looks for them from time to time."""
        self._look_at = 0.0
        self._scanned = self._epoch = 0
        self.to_scan = 0
        """Number of groups of the current scan that have not been scanned; 0 while no job is blocked."""
        self._changes = -1
        """Changes of the snapshot at the last scan for victims."""
        self.asserting: Asserting | None = None
        """The preemption, if it evicts by shares of pools."""
        self._related = set[Alike]()

    def others_moved(self, names: Collection[str]) -> None:
        """Scan the jobs with a relation to one of these again: other machines, unchanged ones too, are open to them."""
        if related := self._blocked.related(names):
            self._related.update(related)
            self.to_scan = len(self._blocked.groups)

    def next_due(self) -> float | None:
        """Return when the next scan is due, or a look for placements by others (seconds); None: neither."""
        if not len(self._blocked):
            return None
        due = min(self.scan_at if self.to_scan else inf, self._look_at if self.follows_use else inf)
        return due if due < inf else None

    def requeue(
        self, snapshot: Snapshot, preemption: Preemption, rng: Random, now: float, promise: Promise | None = None
    ) -> list[Work]:
        """Remove and return the blocked jobs that may evict now."""
        if now >= self._look_at:
            self._look_at = now + SCAN_SECONDS
        requeued = self._scan(snapshot, preemption, rng, now)
        if self.asserting is not None:
            if leaves := self.asserting.stirred():
                requeued += self._of_leaves(leaves, promise)
            requeued += self._entitled(self.asserting, snapshot, now)
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

    def _of_leaves(self, leaves: Collection[str], promise: Promise | None) -> list[Work]:
        """Remove and return the first blocked jobs of some groups of these leaf pools."""
        firsts = [self._blocked.first(alike) for alike in self._blocked.groups]
        works = tries([work for work in firsts if leaf_of(*work.whose) in leaves], self._blocked.ranks, promise)
        for work in works:
            self._blocked.discard(work.id)
        return works

    def _entitled(self, preemption: Asserting, snapshot: Snapshot, now: float) -> list[Work]:
        """After an epoch, remove and return some jobs of each pool that its shares entitle to room within the pool.

        A job that is to be tried again later is among those that are tried, but not before its time.
        """
        number = 0 if snapshot.epoch is None else snapshot.epoch.number
        if number == self._epoch:
            return []
        self._epoch, works = number, list[Work]()
        firsts = [self._blocked.first(alike) for alike in self._blocked.groups]
        for leaf in sorted({leaf_of(*work.whose) for work in firsts}):
            mine = (self._blocked.get(job) for job in preemption.entitled(leaf, snapshot))
            works += islice((work for work in mine if work is not None), MOST_SCANNED)
        works = [work for work in works if work.again <= now]
        for work in works:
            self._blocked.discard(work.id)
            work.entitled = True
        return works


class Queue:
    """The pending queue. `now` and the times of jobs are seconds of the loop's clock."""

    def __init__(self, ordering: Ordering) -> None:
        """Create an empty queue."""
        self.ordering = ordering
        self.ranks = Ranks(ordering)
        self._take_note()
        self.ready = Ready(self.ranks)
        self.blocked = Blocked(self.ranks)
        self.limited = Limited(self.ranks)
        self._snapshot: Snapshot | None = None
        self._until: list[tuple[float, str]] = []
        self.evicting = EvictingJobs(self.blocked)
        self._look_at = 0.0
        self._fetched = -1
        """Changes of the snapshot when other jobs' runs were fetched last."""
        self._moved_leaves = set[str]()
        """Leaf pools whose use changed since the running tasks of their blocked jobs were counted."""
        self._to_count: list[str] = []
        """Blocked jobs whose running tasks are to be counted."""
        self.bound: Callable[[], Place | None] | None = None
        """The place of the best job that may still be in the store: none behind it is chosen, unless it was before."""
        self._held_back = False
        self._epoch: Epoch | None = None
        self.joined: list[Work] = []
        """Jobs that `choose` blocked without an attempt, until the scheduler has reported them."""

    def _take_note(self) -> None:
        """Store the methods of the ordering that are called for each job."""
        self.follows_use = type(self.ordering).observe is not Ordering.observe
        """Whether ranks depend on the use of users and pools."""

    def follow(self, ordering: Ordering) -> None:
        """Use another ordering for the jobs that are queued and those to come."""
        works = [*self.ready.clear(), *self.blocked.clear(), *self.limited.clear()]
        self.ordering = ordering
        self.ranks.follow(ordering)
        self._take_note()
        for work in sorted(works, key=lambda each: each.job.order):
            work.requeued_by = None
            self.ready.add(work)

    # Contents

    @property
    def has_blocked(self) -> bool:
        """Whether any job is blocked."""
        return bool(self.blocked.groups or self.limited.groups)

    @property
    def blocked_jobs(self) -> int:
        """Number of blocked jobs."""
        return len(self.blocked) + len(self.limited)

    def delayed(self, most: int) -> dict[str, tuple[float, str]]:
        """Return blocked jobs that a policy delays, with time (seconds) and level: earliest first, at most `most`."""
        times = sorted(self._until[:])  # another thread may call it
        works = ((until, self.blocked.get(job_id)) for until, job_id in times)
        waiting = ((work.id, (until, work.level)) for until, work in works if work and work.until == until)
        return dict(islice(waiting, most))

    def discard(self, job_id: str) -> Work | None:
        """Remove and return a job; None when it is not queued."""
        if self.has_blocked and (work := self.blocked.discard(job_id) or self.limited.discard(job_id)) is not None:
            return work
        return self.ready.discard(job_id)

    def block(self, work: Work) -> None:
        """Block a job that did not fit: it waits for room, or for a time that a policy set (`Work.until`)."""
        for time in (work.until, work.again):
            if time > 0:
                heappush(self._until, (time, work.id))
        by_limit = work.requeued_by is self.limited
        self.blocked.add(work)
        if by_limit:
            self.limited.look_again()

    def joins(self, work: Work) -> bool:
        """Block a job without an attempt where jobs like it are blocked: one was tried for all (semantics 19).

        A job that a policy requeued is tried: the one that was tried for all may be gone since.
        """
        to_try = work.attempts or work.requeued_by is not None or work.admitted is not None
        alike = None if to_try else self.blocked.like(work)
        if alike is None:
            return False
        work.again = alike.again
        self.block(work)
        return True

    def limit(self, work: Work) -> None:
        """Block a job by a limit."""
        self.tried(work)
        self.limited.add(work)

    def tried(self, work: Work) -> None:
        """Record that a requeued job was tried: others may get the room that it left."""
        if work.requeued_by is self.limited:
            self.limited.look_again()
        self.blocked.tried(work)

    def keep(self, keeps: Keeps) -> None:
        """Drop jobs that other schedulers own.

        A dropped job may have been requeued for room of which only this scheduler was notified: blocked jobs are then
        tried.
        """
        for work in [*self.blocked.works(), *self.limited.works()]:
            if not keeps(work.id, leaf_of(*work.whose)):
                self.blocked.discard(work.id)
                self.limited.discard(work.id)
        queued = self.ready.clear()
        kept = [work for work in queued if keeps(work.id, leaf_of(*work.whose))]
        for work in queued:
            if work.requeued_by is not None and not keeps(work.id, leaf_of(*work.whose)):
                self.tried(work)
        if len(kept) < len(queued):
            kept += self.blocked.clear()
            self.limited.look_again()
        for work in kept:
            self.ready.add(work)

    # Times of checks

    def next_due(self) -> float | None:
        """Return when the next step is due (seconds): 0 for at once, None when only an event can cause one.

        Room that was offered to blocked jobs and is left goes to the others at once, also in a simulation.
        """
        ready = self.ready.next_due() if self.ready.works else None
        if not (self.blocked.groups or self.limited.groups):
            return ready
        if self.blocked.again:
            return 0.0
        due = [ready]
        if self.limited.unknown or self._others_may_have_moved():
            due.append(self._look_at)
        due += (self.evicting.next_due(), self.blocked.next_due())
        while self._until and not self._waits(*self._until[0]):
            heappop(self._until)
        if self._until:
            due.append(self._until[0][0])
        return min((each for each in due if each is not None), default=None)

    def _others_may_have_moved(self) -> bool:
        """Whether machines changed since the runs of the jobs were fetched to which blocked jobs have relations."""
        return bool(self.blocked.others()) and self._snapshot is not None and self._snapshot.changes != self._fetched

    def awaited(self) -> Awaited | None:
        """Return the jobs whose placements are to notify this scheduler, as freed room does; None: no job is blocked.

        For a preemption that follows use it looks from time to time (`EvictingJobs`). For another one placements change
        nothing: what is free on a machine and what may be evicted there stay the same together.
        """
        return self.blocked.awaited() if self.blocked.groups or self.limited.groups else None

    def least_needed(self) -> Resources:
        """Return what a task of a blocked job needs at least; nothing where jobs wait for more than room.

        What limits admit, and where a job may be that keeps apart from another one, changes with any end of a task.
        """
        blocked = self.blocked
        if self.limited.groups or not blocked.groups or blocked.others():
            return ()
        return tuple(blocked.table.smallest().tolist())

    def _waits(self, until: float, job_id: str) -> bool:
        work = self.blocked.get(job_id)
        return work is not None and until in (work.until, work.again)

    def look_now(self) -> None:
        """Check at once: the scheduler was notified."""
        self._look_at = 0.0

    def asks(self, kind: str, snapshot: Snapshot, now: float) -> Fetch | None:
        """Return the data to fetch for blocked jobs."""
        if not self.has_blocked:
            return None
        # A blocked job may wait for a machine that joined or changed.
        attributes = snapshot.attributes.used and bool(len(self.blocked)) and lacking(snapshot)
        others, use = set[str](), ""
        held = self._holding(snapshot) if self.ranks.bounds and self._may_requeue(snapshot, now) else ()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            use = kind if len(self.limited) else ""
            if snapshot.changes != self._fetched:
                others, self._fetched = self.blocked.others(), snapshot.changes
        if not (attributes or others or use or held):
            return None
        return Fetch(attributes, others=tuple(sorted(others)), use=use, held=held)

    def _may_requeue(self, snapshot: Snapshot, now: float) -> bool:
        """Return whether blocked jobs may be requeued now, apart from pools whose stand changed."""
        moved = snapshot.epoch is not self._epoch or snapshot.changed_others
        if moved or self.evicting.scan_at <= now or (self._until and self._until[0][0] <= now):
            return True
        return self.blocked.is_offered(snapshot, now)

    def _holding(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the blocked jobs whose running tasks may have ended since they were counted, some at a time."""
        uncounted, self.blocked.uncounted = self.blocked.uncounted, set()
        if self._moved_leaves:
            holding = self.blocked.holding
            uncounted = uncounted.union(*(holding[leaf] for leaf in self._moved_leaves & holding.keys()))
            self._moved_leaves = set()
        self._to_count += sorted(uncounted.difference(self._to_count))
        count, self._to_count = self._to_count[:MOST_COUNTED], self._to_count[MOST_COUNTED:]
        return tuple(count)

    # Requeueing

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Pass the snapshot and the time to the policy; all ranks are computed again."""
        snapshot.now, self._snapshot = now, snapshot
        if self.follows_use:
            snapshot.usage.capacity = snapshot.total()
            self.ordering.observe(snapshot, now)
            self._forget_touched(snapshot)

    def _forget_touched(self, snapshot: Snapshot) -> None:
        touched = snapshot.usage.touched()
        if self.ranks.bounds:
            self._moved_leaves.update(leaf_of(*whose) for whose in touched)
        kin = self.ordering.touched(touched)
        if kin is None:
            self.ranks.forget()
        else:
            self.ranks.forget_kin(kin)

    def requeue(self, snapshot: Snapshot, preemption: Preemption, rng: Random, now: float) -> None:
        """Requeue the blocked jobs that may be placed now."""
        if not (self.blocked.groups or self.limited.groups):
            # Earlier changes of room, limits and other jobs concern no blocked job.
            if self.blocked.again:
                self.blocked.again = []
            snapshot.forget_freed()
            snapshot.use = None
            if self.evicting.to_scan:
                self.evicting.to_scan = 0
            if snapshot.changed_others:
                snapshot.changed_others = set()
            if self._until:
                self._until.clear()
            return
        promise = self._promise if self.follows_use else None
        if promise is not None:
            snapshot.usage.forget_promises()  # the jobs of the last choice hold what they were given
            self._forget_touched(snapshot)
        if self.ranks.bounds:
            self._note_dues(snapshot)
        requeued = self.blocked.requeue(snapshot, promise, now)
        if snapshot.changed_others:
            requeued += self.blocked.requeue_near(snapshot, snapshot.changed_others, promise)
            self.evicting.others_moved(snapshot.changed_others)
            snapshot.changed_others = set()
        if snapshot.use is not None:
            room = PoolRoom(snapshot.pools, snapshot.pool_use) if snapshot.pools.limited else None
            requeued += self.limited.requeue(snapshot.use, promise, room)
            snapshot.use = None
        requeued += self._due_again(now, promise)
        requeued += self.evicting.requeue(snapshot, preemption, rng, now, promise)
        for work in requeued:
            if work.requeued_by is None:
                work.requeued_by = POLICY
            work.not_before = 0.0
            self.ready.add(work)

    def _due_again(self, now: float, promise: Promise | None) -> list[Work]:
        """Remove and return the jobs that a policy delayed until now, some of them later."""
        works = dict[str, Work]()
        while self._until and self._until[0][0] <= now:
            until, job_id = heappop(self._until)
            if self._waits(until, job_id) and (work := self.blocked.get(job_id)) is not None:
                works[job_id] = work
        tried = tries(list(works.values()), self.ranks, promise)
        for work in tried:
            self.blocked.discard(work.id)
            del works[work.id]
        for work in works.values():
            work.again = now + SCAN_SECONDS
            heappush(self._until, (work.again, work.id))
        return tried

    def _note_dues(self, snapshot: Snapshot) -> None:
        """Record what may change the room that is due to blocked jobs."""
        if snapshot.epoch is not self._epoch:
            self._epoch, self.blocked.offers_all = snapshot.epoch, True
        if snapshot.held:
            self.blocked.learn(snapshot.held)
            snapshot.held = {}

    def _promise(self, work: Work, tasks: Sequence[int], lane: Hashable | None = None, key: str = "") -> None:
        """Count tasks of a job (of this lane) as placed until the next decision; its id is the key of a chosen job."""
        if self._snapshot is not None:
            promise, groups = self._snapshot.usage.promise, work.job.groups
            for group, count in enumerate(tasks):
                if count:
                    promise(work.whose, times(groups[group].need, count), (key, group) if key else None)
            self.ranks.forget_of(self.ranks.lane(work) if lane is None else lane)

    # Choice of jobs

    def choose(self, now: float, most: int) -> list[Work]:
        """Remove and return the next jobs by the policy, at most `most`."""
        if self.follows_use:
            return self._choose_by_use(now, most)
        bound = None if self._held_back or self.bound is None else self.bound()
        chosen: list[Work] = []
        blocked, left = self.blocked, most
        while left and (works := self.ready.pop_many(now, bound, left)):
            for work in works:
                work.not_before = 0.0
                if work.notes:
                    work.resume()
                if blocked.groups and self.joins(work):
                    self.joined.append(work)
                else:
                    chosen.append(work)
            left = most - len(chosen)
        self._held_back = bound is not None and not chosen
        return chosen

    def _choose_by_use(self, now: float, most: int) -> list[Work]:
        """Choose for a policy whose ranks follow the jobs chosen so far, and that may admit some of their tasks."""
        snapshot = self._snapshot
        if snapshot is not None:
            snapshot.usage.forget_promises()
            self._forget_touched(snapshot)
        bound = None if self._held_back or self.bound is None else self.bound()
        pop, blocked = self.ready.pop, self.blocked
        chosen = self._choose_several(now, bound, most)
        while len(chosen) < most and (work := pop(now, bound)) is not None:
            work.not_before = 0.0
            if work.notes:
                work.resume()
            if blocked.groups and self.joins(work):
                self.joined.append(work)
                continue
            # A preemption may help a job to which no room is due: by evictions within its pool.
            if not admit(self.ordering, work, partial(self._waiting, work, chosen)) and work.requeued_by is not POLICY:
                blocked.hold_back(work, snapshot)
                self.joined.append(work)
                continue
            chosen.append(work)
            self._promise(work, work.admitted or work.left, work.lane, work.id)
        self._held_back = bound is not None and not chosen
        return chosen

    def _waiting(self, work: Work, chosen: Sequence[Work]) -> int:
        """About how many jobs of the lane and precedence of one wait for room, those that were just chosen included."""
        lane, precedence = work.lane, work.job.precedence
        again = sum(1 for each in chosen if each.lane == lane and each.job.precedence == precedence and each.admitted)
        return again + self.ready.waiting(work)

    def _choose_several(self, now: float, bound: Place | None, most: int) -> list[Work]:
        """Choose as many jobs as one step may; for the rest, and for all while jobs are blocked, one by one."""
        ample = None if self.blocked.groups or self._snapshot is None else self.ordering.ample()
        if self._snapshot is None or ample is None:
            return []
        chosen = self.ready.pop_several(now, bound, most, self._snapshot.usage, ample)
        for work in chosen:
            if work.notes:
                work.resume()
        return chosen
