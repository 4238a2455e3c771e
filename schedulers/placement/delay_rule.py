"""The levels of delay scheduling: when a job that waits for local machines may take others (Zaharia et al., 2010).

Level 0 is the machines with the data, the last level any machine. A job passes a level after a number of refused offers
(Algorithm 2 of the paper, D) or after a time (the form of its Hadoop Fair Scheduler, W1 and W2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf


class DelayReset(Enum):
    """What a launch does to the waits that follow."""

    TASK = "task"
    """Nothing: each task waits from its first refused offer, and no wait is begun again."""
    JOB = "job"
    """The job is at the level of the launch again and waits anew, as in the paper."""


@dataclass(slots=True)
class Waiting:
    """How far a job or a task group has waited."""

    level: int = 0
    """The level of the last launch (`DelayReset.JOB`)."""
    since: float | None = None
    """Time of the first refused offer (seconds) since it began to wait; None before that."""
    skips: int = 0
    """Number of refused offers since then."""


@dataclass(frozen=True, slots=True)
class DelayRule:
    """When a job passes a level. `skips`: refused offers per level; None: it waits for the time of each level.

    It is pure arithmetic on a `Waiting`, so a simulation of slots can use it with levels of its own.
    """

    skips: tuple[int, ...] | None = None
    reset: DelayReset = DelayReset.TASK

    def reached(self, waiting: Waiting, waits: Sequence[float], now: float) -> tuple[int, float]:
        """Return the worst level that is allowed now, and when the next one will be (seconds; infinite if unknown).

        `waits` are the times of the levels but the last (seconds).
        """
        level, last, since = waiting.level, len(waits), waiting.since
        if self.skips is not None:
            passed = 0
            while level < last:
                passed += self.skips[level] if level < len(self.skips) else 0
                if waiting.skips < passed:
                    break
                level += 1
            return level, inf
        if since is None:
            while level < last and waits[level] <= 0:
                level += 1
            return level, inf
        until = since
        while level < last:
            until += waits[level]
            if now < until:
                break
            level += 1
        return level, until

    def takes(self, waiting: Waiting, level: int, waits: Sequence[float], now: float) -> bool:
        """Return whether one offer at a level is taken at a time (seconds), and record the launch or the refusal."""
        if level > waiting.level:
            if self.reset is DelayReset.TASK and level <= self.reached(waiting, waits, now)[0]:
                return True
            self.refused(waiting, now)  # a launch of the job makes up for it
            if level > self.reached(waiting, waits, now)[0]:
                return False
        self.launched(waiting, level)
        return True

    def refused(self, waiting: Waiting, now: float, offers: int = 1) -> None:
        """Record that a job refused so many offers of free room at a time (seconds)."""
        waiting.skips += offers
        if waiting.since is None:
            waiting.since = now

    def launched(self, waiting: Waiting, level: int) -> None:
        """Record that a task was placed at a level."""
        if self.reset is DelayReset.JOB:
            waiting.level, waiting.since, waiting.skips = level, None, 0
