"""The event queue: events in whole microseconds, ties in order of scheduling."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

SECOND = 1_000_000
Action = Callable[[Any], object]
Event = tuple[int, int, Action, Any]
Fed = tuple[int, Any]
FIRST = 1 << 60
"""Fed events precede other events of the same instant."""


def microseconds(seconds: float) -> int:
    """Return a time or duration in whole microseconds, rounded."""
    return round(seconds * SECOND)


class Engine:
    """Virtual time. `now` is in microseconds, `seconds` the same in seconds."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self.now = 0
        self.seconds = 0.0
        self.events = 0
        self._queue: list[Event] = []
        self._asked = 0
        self._until = -inf

    def at(self, time: int, action: Action, what: Any = None) -> None:
        """Call ``action(what)`` at a time, which is not before now."""
        self._asked += 1
        heappush(self._queue, (time, self._asked, action, what))

    def feed(self, times: Iterator[Fed], action: Action) -> None:
        """Call ``action(what)`` for all (time, what) of an ordered iterator; only the next one is in the queue.

        They precede other events of the same instant.
        """
        queue, order = self._queue, count(-FIRST)

        def step(what: Any) -> None:
            for time, following in times:
                heappush(queue, (time, next(order), step, following))
                break
            action(what)

        for time, what in times:
            heappush(queue, (time, next(order), step, what))
            break

    def pass_to(self, time: int) -> bool:
        """Advance to a time if no other event is due before it in this run; return whether it did. Counts an event.

        Only for an action that has nothing more to do at the present instant.
        """
        queue = self._queue
        if time > self._until or (queue and queue[0][0] <= time):
            return False
        self.now, self.seconds = time, time / SECOND
        self.events += 1
        return True

    def run(self, until: float = inf) -> None:
        """Process events up to a time in microseconds, inclusive."""
        queue, events, self._until = self._queue, 0, until
        while queue:
            event = heappop(queue)
            self.now, _, action, what = event
            if self.now > until:
                heappush(queue, event)
                break
            self.seconds = self.now / SECOND
            events += 1
            action(what)
        self.events += events
