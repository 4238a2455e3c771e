"""The event queue: what happens next, in whole microseconds, ties in the order of asking."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf
from typing import Any

SECOND = 1_000_000
Action = Callable[[Any], object]
Event = tuple[int, int, Action, Any]


def microseconds(seconds: float) -> int:
    """A time or a span of time in whole microseconds, rounded."""
    return round(seconds * SECOND)


class Engine:
    """Virtual time. `now` is in microseconds, `seconds` the same for those who count in seconds."""

    def __init__(self) -> None:
        """Nothing is to happen yet."""
        self.now = 0
        self.seconds = 0.0
        self.events = 0
        self._queue: list[Event] = []
        self._asked = 0

    def at(self, time: int, action: Action, what: Any = None) -> None:
        """Call ``action(what)`` at a time, which is not before now."""
        self._asked += 1
        heappush(self._queue, (time, self._asked, action, what))

    def feed(self, times: Iterator[tuple[int, Any]], action: Action) -> None:
        """Call ``action(what)`` for all (time, what), which come in order; only the next one is in the queue."""

        def step(what: Any) -> None:
            following = next(times, None)
            if following is not None:
                self.at(following[0], step, following[1])
            action(what)

        first = next(times, None)
        if first is not None:
            self.at(first[0], step, first[1])

    def run(self, until: float = inf) -> None:
        """Let everything happen up to a time in microseconds, that instant included."""
        queue, events = self._queue, 0
        while queue and queue[0][0] <= until:
            self.now, _, action, what = heappop(queue)
            self.seconds = self.now / SECOND
            events += 1
            action(what)
        self.events += events
