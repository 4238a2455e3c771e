"""The arithmetic of the rules of a cell: pure functions of numbers, the one statement of each rule in Python.

The in-memory cell, schedulers and explanations share them; the specification is the Lua (docs/semantics.md). What is
fair between pools stands in `fairness`. The audit uses none of this: it derives and folds.
"""

from collections.abc import Iterable

MANY = 1 << 62
"""More tasks than any machine, limit or job has."""

# Room and limits (semantics 7 and 9)


def fits(room: Iterable[int], need: Iterable[int], most: int = MANY) -> int:
    """Return how many tasks of a need fit into free amounts, at most `most`; none where some amount is below 0."""
    for free, amount in zip(room, need, strict=True):
        if free < 0:
            return 0
        if amount > 0 and free < amount * most:
            most = free // amount
    return most


def admits(limits: Iterable[int | None], used: Iterable[int], need: Iterable[int], most: int = MANY) -> int:
    """Return how many further tasks of a need limits admit, at most `most`; a limit may be exceeded already."""
    for limit, has, amount in zip(limits, used, need, strict=True):
        if limit is not None and amount > 0 and limit - has < amount * most:
            most = max(0, limit - has) // amount
    return most


# Gangs (semantics 8)


def lacks(least: int, placed: int, unplaced: int) -> int:
    """Return how many of its unplaced tasks a gang with a minimum must place together; 0 when it has enough."""
    return max(0, min(least - placed, unplaced))


# Losses and failures (semantics 26)

FIRST_MS, LONGEST_MS = 1_000, 300_000
"""Delay after a first loss, and maximum delay."""
RETRY_MS, LONGEST_RETRY_MS = 30_000, 3_600_000
"""Delay after a first failure that is retried, and maximum delay."""
PROVEN_MS = 600_000
"""Time after which a running placement is proven: its earlier losses and failures count no longer."""


def loss_delay(times: int) -> int:
    """Return how long tasks wait after their loss number `times`, in milliseconds."""
    return min(LONGEST_MS, FIRST_MS << (times - 1))


def retry_delay(failures: int) -> int:
    """Return how long tasks wait after their failure number `failures` that is retried, in milliseconds."""
    return min(LONGEST_RETRY_MS, RETRY_MS << (failures - 1))
