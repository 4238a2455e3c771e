"""Times of a log on one clock, the server's.

An entry has the time of its author's clock. Entries of schedulers also have the offset of that clock, as the scheduler
measured it at its last heartbeat. For other authors the offset follows from when the recorder read the entries. An
entry was written before the call that read it, and after the call before that, if that call had read all there was.
The offset of an author is the one nearest to 0 that satisfies this for all its entries. Times then never decrease.
"""

from collections.abc import Sequence
from typing import NamedTuple

from omega.cellstate.events import LogEntry
from omega.cellstate.transaction import Basis

SLACK_MS = 20
"""Time between the read of a page and the read of the clock after it, at most."""


class Window(NamedTuple):
    """A page of the log: its entries, and between which times of the server they were written (None: unknown)."""

    entries: int
    from_ms: int | None
    to_ms: int


def server_times(entries: Sequence[LogEntry], windows: Sequence[Window]) -> list[int]:
    """Return the time of each entry (ms) on the server's clock."""
    own = [Basis.read(entry.basis).ahead_ms if entry.basis else None for entry in entries]
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    pages = [window for window in windows for _ in range(window.entries)]
    for entry, ahead, window in zip(entries, own, pages, strict=True):
        if ahead is None:
            high[entry.by] = min(high.get(entry.by, window.to_ms - entry.at_ms), window.to_ms - entry.at_ms)
            if window.from_ms is not None:
                least = window.from_ms - SLACK_MS - entry.at_ms
                low[entry.by] = max(low.get(entry.by, least), least)
    offsets = {by: _nearest(low.get(by), most) for by, most in high.items()}
    times, before = list[int](), 0
    for entry, ahead, window in zip(entries, own, pages, strict=True):
        at_ms = entry.at_ms + (offsets[entry.by] if ahead is None else ahead)
        before = max(before, min(at_ms, window.to_ms))
        times.append(before)
    return times


def _nearest(low: int | None, high: int) -> int:
    """Return the offset nearest to 0 between two bounds; where a clock was set meanwhile, their middle."""
    if low is not None and low > high:
        return (low + high) // 2
    return min(max(0, low if low is not None else min(0, high)), high)
