"""When a scheduler looks again: the rule of every driver of the attempt loop, live or simulated.

A scheduler looks at once when it has news, else when its queue names a time (`Queue.next_due`), else when it is told.
It is told what its blocked jobs wait for: freed room, raised limits, and placements of the jobs that `Watch` names.
News are jobs that arrived, and something that it asked for and that happened since its copy of the cell was made.
Which jobs it gets is decided when they are taken up (`Scheduler.admit`): not those that are held or wait for others.
"""

from operator import lt

from omega.cellstate.replies import Waits
from omega.schedulers.queue.queue import Queue

SMALLEST = 5e-7
"""Half of a microsecond, in which simulations count time: a time (seconds) so near has come."""


def rest(until: float | None, now: float, *, news: bool) -> float | None:
    """Return how long a scheduler waits (seconds): 0 to look at once, None until it is told of something."""
    if news or (until is not None and until - now <= SMALLEST):
        return 0.0
    return None if until is None else until - now


def looks_at(until: float | None, now: float) -> float:
    """Return the time of a look (seconds): a time that is due may be a rounding error ahead of the driver's clock."""
    return now if until is None or rest(until, now, news=False) else max(now, until)


class Watch:
    """What a scheduler asks to be told of: nothing (None), or freed room and the placements of some jobs."""

    def __init__(self, queue: Queue) -> None:
        """Ask for nothing."""
        self._queue = queue
        self.asked: Waits | None = None

    def changes(self) -> bool:
        """Return whether blocked jobs now wait for something else; `ask` makes it the question."""
        return self._queue.awaited() != (None if self.asked is None else self.asked.awaited)

    @property
    def needs_less(self) -> bool:
        """Whether a blocked job may be placed on less room than the scheduler asked to be told of."""
        if self.asked is None or not self.asked.least:
            return False
        least = self._queue.least_needed()
        return not least or any(map(lt, least, self.asked.least))

    def ask(self) -> Waits | None:
        """Return what is asked for from now on; what happened since the copy was made is to be looked up once."""
        awaited, before = self._queue.awaited(), self.asked
        self.asked = None if awaited is None else Waits(awaited, self._queue.least_needed())
        if self.asked is not None and (before is None or before.awaited != awaited):
            self.told()
        return self.asked

    def told(self) -> None:
        """Look at everything that blocked jobs wait for: the scheduler was told that some of it happened."""
        self._queue.look_now()
