"""Jobs blocked by limits of their kind or of pools: requeued, in the policy's order, when limits or use admit some.

What limits of pools still admit follows from what their jobs hold and what was requeued (docs/pools.md, Limits).
"""

from collections.abc import Hashable, Mapping

from omega.cellstate.pools import Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.replies import KindUse
from omega.schedulers.limits import Room, admitted, occupy, room_below, room_of_kind
from omega.schedulers.queue.ranks import Place, Promise, Ranks
from omega.schedulers.queue.shapes import Alike, ByShape
from omega.schedulers.work import Work

REQUEUED_AT, REFUSED_AT = "limit: requeued at", "limit: refused at"
"""Notes of a job: limits and use of its last requeueing, and those at which the store then refused it."""


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


def _fresh(work: Work) -> bool:
    return not (work.placed or any(group.placed for group in work.job.groups))
