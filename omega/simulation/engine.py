"""The event queue: events in whole microseconds, ties in order of scheduling.

At one instant, what happens in the cell comes before what schedulers do: they look at all of it at once, as live, where
no two things happen at the same time and both are there when a scheduler wakes up.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any

SECOND = 1_000_000
Action = Callable[[Any], object]
Event = tuple[int, int, Action, Any]
_LATE = 1 << 60
"""Added to the numbers of events that come after the others of their instant."""
NEVER = 1 << 62
"""Later than any event (microseconds)."""


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
        # Events from a feed: their times and contents, how many were processed, and when the next one is due.
        self._times: Sequence[int] = ()
        self._brought: Sequence[Any] = ()
        self._fed, self._due = 0, NEVER
        self._bring: Action = repr

    def at(self, time: int, action: Action, what: Any = None) -> None:
        """Call ``action(what)`` at a time, which is not before now."""
        self._asked += 1
        heappush(self._queue, (time, self._asked, action, what))

    def feed(self, times: Sequence[int], what: Sequence[Any], action: Action) -> None:
        """Call ``action(what[i])`` at ``times[i]``, in ascending order, before other events of the same instant.

        They need no place in the queue. An engine is fed once.
        """
        self._times, self._brought, self._bring = (*times, NEVER), what, action
        self._fed, self._due = 0, self._times[0]

    def after(self, time: int, action: Action, what: Any = None) -> None:
        """As `at`, after the other events of that time: what a scheduler does."""
        self._asked += 1
        heappush(self._queue, (time, self._asked + _LATE, action, what))

    @property
    def more_now(self) -> bool:
        """Whether more is to happen at the present instant, apart from what schedulers do."""
        queue, now = self._queue, self.now
        return self._due <= now or (len(queue) > 0 and queue[0][0] <= now and queue[0][1] < _LATE)

    def pass_to(self, time: int) -> bool:
        """Advance to a time if no other event is due before it in this run; return whether it did. Counts an event.

        Only for an action that has nothing more to do at the present instant.
        """
        queue = self._queue
        if time > self._until or self._due <= time or (queue and queue[0][0] <= time):
            return False
        self.now, self.seconds = time, time / SECOND
        self.events += 1
        return True

    def run(self, until: float = inf) -> None:
        """Process events up to a time in microseconds, inclusive."""
        queue, times, brought, bring, events = self._queue, self._times, self._brought, self._bring, 0
        self._until = until = min(until, NEVER - 1)
        while True:
            due = self._due
            if queue and queue[0][0] < due:
                now, asked, action, what = heappop(queue)
                if now > until:
                    heappush(queue, (now, asked, action, what))
                    break
                self.now, self.seconds = now, now / SECOND
                action(what)
            elif due <= until:
                at, self.now, self.seconds = self._fed, due, due / SECOND
                self._fed = at + 1
                self._due = times[at + 1]
                bring(brought[at])
            else:
                break
            events += 1
        self.events += events
