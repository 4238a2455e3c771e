"""Estimates of the remaining time from the time spent so far."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omega.queries import units

TICK_SECONDS = 10.0
"""Interval of progress lines where bars cannot be drawn."""


@dataclass
class Pace:
    """Estimates the remaining seconds of pieces of unequal weight, `workers` of them at a time.

    Pieces in progress count as half done; otherwise the first estimates of several workers would be too long by a
    factor of their number.
    """

    total: float
    workers: int = 1
    clock: Callable[[], float] = time.monotonic
    done: float = 0.0
    pieces: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def finish(self, weight: float) -> None:
        """Record a finished piece of this weight."""
        self.done += weight
        self.pieces += 1

    def left(self) -> float | None:
        """Return the remaining seconds, None before the first piece is finished."""
        if self.done <= 0:
            return None
        rest = self.total - self.done
        working = min(rest, 0.5 * (self.workers - 1) * self.done / self.pieces)
        return (self.clock() - self._began) * (rest - working) / (self.done + working)

    def text(self) -> str:
        """Return ``about 2m05s left``, empty before the first piece is finished."""
        left = self.left()
        return "" if left is None else f"about {units.age(left)} left"


@contextmanager
def ticking(tell: Callable[[float], None], every: float = TICK_SECONDS) -> Iterator[None]:
    """Call `tell` repeatedly with the seconds since the start, from its own thread."""
    over, began = threading.Event(), time.monotonic()

    def tick() -> None:
        while not over.wait(every):
            tell(time.monotonic() - began)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
