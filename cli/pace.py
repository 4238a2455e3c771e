"""How long something still takes, from how long it took so far."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cli import words

TICK_SECONDS = 10.0
"""How often progress is printed where no bar can be drawn."""


@dataclass
class Pace:
    """Estimates the seconds that are left of pieces of unequal weight, `workers` of them at a time.

    What is in work counts as half done; otherwise the first estimates of several workers would be too long by their
    number.
    """

    total: float
    workers: int = 1
    clock: Callable[[], float] = time.monotonic
    done: float = 0.0
    pieces: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin now."""
        self._began = self.clock()

    def finish(self, weight: float) -> None:
        """Note that a piece of this weight is done."""
        self.done += weight
        self.pieces += 1

    def left(self) -> float | None:
        """Return the seconds that are left, None before the first piece is done."""
        if self.done <= 0:
            return None
        rest = self.total - self.done
        working = min(rest, 0.5 * (self.workers - 1) * self.done / self.pieces)
        return (self.clock() - self._began) * (rest - working) / (self.done + working)

    def text(self) -> str:
        """Return ``about 2m05s left``, empty before the first piece is done."""
        left = self.left()
        return "" if left is None else f"about {words.age(left)} left"


@contextmanager
def ticking(tell: Callable[[float], None], every: float = TICK_SECONDS) -> Iterator[None]:
    """Call `tell` with the seconds since the start, again and again, from a thread of its own."""
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
