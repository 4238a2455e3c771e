"""Jobs blocked by limits of their kind or of pools: requeued, in the policy's order, when limits or use admit some."""

from collections.abc import Hashable

from omega.cellstate.replies import KindUse
from omega.schedulers.queue.pool_room import PoolRoom, admitted, occupy, room_below
from omega.schedulers.queue.ranks import Place, Promise, Ranks
from omega.schedulers.queue.shapes import Alike, ByShape
from omega.schedulers.work import Work

REQUEUED_AT, REFUSED_AT = "limit: requeued at", "limit: refused at"
"""Notes of a job: limits and use of its last requeueing, and those at which the store then refused it."""


class Limited(ByShape):
    """Jobs blocked with the verdict `limit`."""

    def __init__(self, ranks: Ranks) -> None:
        """Create an empty set."""
        super().__init__(ranks)
        self._seen: object = None

    def shape_of(self, work: Work) -> Hashable:
        """Return the shape, and whether the job has running tasks: it is then admitted, and only amounts matter."""
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
        kind = room_below((use.limits.jobs, None, *use.limits.resources), (use.jobs, 0, *use.used))
        requeued: list[Work] = []
        places = {alike: self._place(alike) for alike in self.groups}
        while places:
            alike = min(places, key=places.__getitem__)
            work = self.first(alike)
            fresh = _fresh(work) or work.notes.get(REFUSED_AT) == now
            rooms, tasks = [] if room is None else room.of(work), list[int]()
            if low <= work.job.precedence <= high:
                tasks = admitted([kind], work, admitted(rooms, work, work.left, fresh=fresh), fresh=fresh)
            if not any(tasks) or (work.gang and sum(tasks) < work.remaining):
                del places[alike]
                continue
            occupy([kind, *rooms], work, tasks, fresh=fresh)
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
