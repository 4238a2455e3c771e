"""What went wrong lately, read from the end of the log."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omega.queries.events import Event, events, extent, since_time

if TYPE_CHECKING:
    from cellstate.ports import Queries

LATELY_SECONDS = 900
MOST_VERSIONS = 5_000
"""Versions of the log that are read: some 0.2 s."""
KINDS = ("failed", "lost", "evicted", "conflict")
NAMES = {"conflict": "conflicts"}


@dataclass(slots=True)
class Recently:
    """How many tasks failed, were lost or evicted, and how many claims conflicted, within `seconds`."""

    seconds: int = LATELY_SECONDS
    whole: bool = True
    """Whether the log was read as far back as that; a busy cell's has only the newest."""
    total: "Counter[str]" = field(default_factory=Counter)
    machines: "dict[int, Counter[str]]" = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        """Count an event."""
        if event.kind in KINDS and event.machine is not None:
            count = 1 if event.kind == "conflict" else event.count or 0
            self.total[event.kind] += count
            self.machines.setdefault(event.machine, Counter())[event.kind] += count

    def of(self, machine: int) -> "Counter[str]":
        """Return the counts of one machine, by kind of event."""
        return self.machines.get(machine, Counter())

    def as_json(self, machine: int | None = None) -> dict[str, int]:
        """Return the counts by name, of one machine or of all."""
        found = self.total if machine is None else self.of(machine)
        return {NAMES.get(kind, kind): found[kind] for kind in KINDS}


def recently(cell: "Queries", now_ms: int) -> Recently:
    """Read errors of the last quarter of an hour from the log."""
    kept = extent(cell)
    since = max(since_time(cell, now_ms - 1000 * LATELY_SECONDS, kept), kept.newest - MOST_VERSIONS)
    found = Recently()
    for event in events(cell, since, kept.newest, KINDS):
        if event.at_ms >= now_ms - 1000 * LATELY_SECONDS:
            found.hear(event)
    first = cell.facts(since, 1) if kept.newest - since >= MOST_VERSIONS else []
    if first:
        found.seconds, found.whole = min(LATELY_SECONDS, max(0, now_ms - first[0].at_ms) // 1000), False
    return found
