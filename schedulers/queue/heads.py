"""The first jobs of many lanes, in the policy's order: a lane is looked at again only when something of it changed."""

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush

from schedulers.queue.ranks import Place, Ranks

MANY = 24
"""Number of lanes above which keeping their order costs less than looking at all of them."""
Head = Callable[[Hashable], tuple[float, int] | None]
"""Returns key and tie of the first due job of a lane; None when it has none."""


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

    @property
    def stale(self) -> bool:
        """Whether all lanes are to be looked at."""
        return self._serial != self._ranks.serial

    def first(self, lanes: Iterable[Hashable]) -> tuple[Place, Hashable] | None:
        """Return the place of the first due job of all, and its lane, or None. `lanes`: all of them, when `stale`."""
        if self.stale:
            self._build(lanes)
        for lane in (*self._ranks.take_changed(), *self.changed):
            self._look(lane)
        self.changed.clear()
        while self._heap:
            place, _, lane = self._heap[0]
            if self._places.get(lane) != place:
                heappop(self._heap)
                continue
            if self._place(lane) == place:
                return place, lane
            heappop(self._heap)
            self._look(lane)
        return None

    def _build(self, lanes: Iterable[Hashable]) -> None:
        self._serial = self._ranks.serial
        self._ranks.take_changed()
        self._places = {lane: place for lane in lanes if (place := self._place(lane)) is not None}
        self._heap = [(place, entry, lane) for entry, (lane, place) in enumerate(self._places.items())]
        self._entries = len(self._heap)
        heapify(self._heap)

    def _place(self, lane: Hashable) -> Place | None:
        head = self._head(lane)
        return None if head is None else (self._ranks.rank(lane), *head)

    def _look(self, lane: Hashable) -> None:
        place = self._place(lane)
        if place is None:
            self._places.pop(lane, None)
        elif self._places.get(lane) != place:
            self._places[lane] = place
            self._entries += 1
            heappush(self._heap, (place, self._entries, lane))
