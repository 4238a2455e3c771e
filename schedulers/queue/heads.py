"""The first jobs of many lanes, in the policy's order: a lane is looked at again only when something of it changed."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from omega.schedulers.queue.ranks import SOME, Place, Ranks

Head = Callable[[Hashable], Sequence[Any] | None]
"""Returns key and tie of the first due job of a lane, perhaps with more; None when it has none."""


class Heads:
    """Lanes by the place of their first job. Entries that are out of date stay until they surface."""

    def __init__(self, ranks: Ranks, head: Head) -> None:
        """Hold nothing."""
        self._ranks, self._head = ranks, head
        self._heap: list[tuple[Place, int, Hashable]] = []
        self._places: dict[Hashable, Place] = {}
        self._serial, self._entries = -1, 0
        self.changed: list[Hashable] = []
        """Lanes that got or lost a job since the last call."""

    def first(self, lanes: Iterable[Hashable]) -> tuple[Place, Hashable] | None:
        """Return the place of the first job of all, and its lane, or None. `lanes`: all that have jobs, perhaps more.

        The job may have left; its lane is then to be named in `changed`.
        """
        ranks = self._ranks
        if self._serial != ranks.serial or ranks.stale or self.changed or ranks.changed:
            self._follow(lanes)
        heap, places = self._heap, self._places
        while heap:
            place, _, lane = heap[0]
            if places.get(lane) is place:
                return place, lane
            heappop(heap)
        return None

    def _follow(self, lanes: Iterable[Hashable]) -> None:
        """Look at what has changed."""
        ranks = self._ranks
        if self._serial != ranks.serial or len(self._heap) > 4 * len(self._places) + 64:
            self._build(list(lanes))
        if changed := self.changed:
            self.changed = []
            if changed == ranks.changed:  # mostly the lane of the job that was chosen last
                ranks.changed = []
            for lane in changed if len(changed) == 1 else set(changed):
                self._look(lane)
        if ranks.stale:
            self._rank_all()
        elif ranks.changed:
            self._rank_again(ranks.take_changed())

    def move_first(self, rank: float, head: Sequence[Any] | None) -> None:
        """Place the lane that `first` returned by its rank and its first job; None: it has none."""
        heap, lane = self._heap, self._heap[0][2]
        if head is None:
            heappop(heap)
            del self._places[lane]
            return
        place = self._places[lane] = rank, head[0], head[1]
        self._entries += 1
        heapreplace(heap, (place, self._entries, lane))

    def _rank_all(self) -> None:
        """Order all lanes by their present ranks; their first jobs are the same."""
        self._ranks.take_changed()
        if places := self._places:
            lanes = list(places)
            _, keys, ties = zip(*places.values(), strict=True)
            ranks = self._ranks.several(lanes)
            self._places = dict(zip(lanes, zip(ranks, keys, ties, strict=True), strict=True))
            self._order()

    def _rank_again(self, lanes: list[Hashable]) -> None:
        """Order lanes by their present ranks; their first jobs are the same."""
        places, rank, reranked = self._places, self._ranks.rank, list[tuple[Hashable, Place]]()
        for lane in lanes:
            known = places.get(lane)
            if known is not None and known[0] != (now := rank(lane)):
                reranked.append((lane, (now, known[1], known[2])))
        if len(reranked) * SOME > len(places):
            places.update(reranked)
            self._order()
        else:
            for lane, place in reranked:
                self._put(lane, place)

    def _order(self) -> None:
        self._entries = len(self._places)
        self._heap = list(zip(self._places.values(), range(self._entries), self._places, strict=True))
        heapify(self._heap)

    def _build(self, lanes: Iterable[Hashable]) -> None:
        self._serial = self._ranks.serial
        self._ranks.take_changed()
        self.changed.clear()
        head = self._head
        firsts = {lane: first for lane in lanes if (first := head(lane)) is not None}
        ranks = self._ranks.several(list(firsts))
        places = zip(firsts.items(), ranks, strict=True)
        self._places = {lane: (rank, first[0], first[1]) for (lane, first), rank in places}
        self._order()

    def _look(self, lane: Hashable) -> None:
        head = self._head(lane)
        if head is None:
            self._places.pop(lane, None)
            return
        place = self._ranks.rank(lane), head[0], head[1]
        if self._places.get(lane) != place:
            self._put(lane, place)

    def _put(self, lane: Hashable, place: Place) -> None:
        self._places[lane] = place
        self._entries += 1
        heap = self._heap
        if heap and heap[0][2] == lane:
            heapreplace(heap, (place, self._entries, lane))
        else:
            heappush(heap, (place, self._entries, lane))
