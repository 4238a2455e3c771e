"""When a scheduler looks again: the rule of every driver of the attempt loop, live or simulated.

A scheduler looks at once when it has news, else when its queue names a time (`Queue.next_due`), else when it is told.
It is told what its blocked jobs wait for: freed room, raised limits, and placements of the jobs that `Watch` names.
News are jobs that arrived, and something that it asked for and that happened since its copy of the cell was made.
Which jobs it gets is decided when they are taken up (`Scheduler.admit`): not those that are held or wait for others.
"""

from omega.cellstate.replies import Awaited
from omega.schedulers.policies import Preemption
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
        self.awaited: Awaited | None = None

    def changes(self, preemption: Preemption) -> bool:
        """Return whether blocked jobs now wait for something else; `ask` makes it the question."""
        return self._queue.awaited(preemption) != self.awaited

    def ask(self, preemption: Preemption) -> Awaited | None:
        """Return what is asked for from now on; what happened since the copy was made is to be looked up once."""
        self.awaited = self._queue.awaited(preemption)
        if self.awaited is not None:
            self.told()
        return self.awaited

    def told(self) -> None:
        """Look at everything that blocked jobs wait for: the scheduler was told that some of it happened."""
        self._queue.look_now()
