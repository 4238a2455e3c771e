"""Parts of the log as lists of events: the first after a version, the last, and what comes next."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from omega.cellstate.errors import Refused
from omega.queries.events import CHUNK, Event, events, extent, since_time
from omega.queries.finding import find_job

if TYPE_CHECKING:
    from omega.cellstate.ports import Queries

WINDOW = 2_000
"""Versions read at once when the last events are searched for."""
Wanted: TypeAlias = Callable[[Event], bool]


class Gap(NamedTuple):
    """Versions that are no longer in the log: the first and the last of them."""

    first: int
    last: int

    def as_json(self) -> dict[str, Any]:
        """Return the gap as plain values."""
        return {"gap": {"from": self.first, "to": self.last}}


class Lost(NamedTuple):
    """Versions that were read, and that the store then lost, in a failover for example."""

    first: int
    last: int

    def as_json(self) -> dict[str, Any]:
        """Return the loss as plain values."""
        return {"lost": {"from": self.first, "to": self.last}}


@dataclass(frozen=True, slots=True)
class Filter:
    """Kinds of events (empty: all) and the id of their job (None: any)."""

    kinds: frozenset[str] = frozenset()
    job: str | None = None

    def __call__(self, event: Event) -> bool:
        """Return whether an event passes."""
        return self.job in (None, event.job) and (not self.kinds or event.kind in self.kinds)


def job_id(cell: "Queries", asked: str) -> str:
    """Return the id of a job as commands take it; text that names no kept job is an id: its events may remain."""
    try:
        return find_job(cell, asked).id
    except Refused:
        return asked


@dataclass(slots=True)
class EventList:
    """Events of a part of the log; `at` is the last version read, `gap` the number of missing versions before."""

    events: list[Event]
    first_version: int
    at: int
    gap: Gap | None


def list_events(cell: "Queries", since: int | None, limit: int, wanted: Wanted) -> EventList:
    """Return the first `limit` events after a version, or without one the last. Those of one version stay together."""
    kept = extent(cell)
    if since is None:
        return EventList(_last(cell, kept.first - 1, kept.newest, limit, wanted), kept.first, kept.newest, None)
    gap = Gap(since + 1, kept.first - 1) if since + 1 < kept.first else None
    found = _first(cell, max(since, kept.first - 1), kept.newest, limit, wanted)
    at = found[-1].version if found and len(found) >= limit else kept.newest
    return EventList(found, kept.first, at, gap)


def _first(cell: "Queries", after: int, newest: int, limit: int, wanted: Wanted) -> list[Event]:
    found: list[Event] = []
    for event in events(cell, after, newest):
        if len(found) >= limit and (not found or event.version != found[-1].version):
            break
        if wanted(event):
            found.append(event)
    return found


def _last(cell: "Queries", oldest: int, newest: int, limit: int, wanted: Wanted) -> list[Event]:
    """Return the last `limit` events, found by going back window by window."""
    found: list[Event] = []
    for after, to in _windows(oldest, newest):
        if len(found) >= limit:
            break
        found = [event for event in events(cell, after, to) if wanted(event)] + found
    start = max(0, len(found) - limit)
    while 0 < start < len(found) and found[start - 1].version == found[start].version:
        start -= 1
    return found[start:]


def _windows(oldest: int, newest: int) -> Iterator[tuple[int, int]]:
    width = 50
    while newest > oldest:
        yield max(oldest, newest - width), newest
        newest -= width
        width = min(WINDOW, 2 * width)


class JobTail:
    """Continues to read the events of a job since a time; versions that come faster than they are read are skipped."""

    def __init__(self, cell: "Queries", job: str, since_ms: int, most_behind: int) -> None:
        """Begin at `since_ms`, at most `most_behind` versions before the newest."""
        self.cell, self.job, self.most_behind = cell, job, most_behind
        self.at = since_time(cell, since_ms, extent(cell))

    def read(self) -> list[Event]:
        """Return the next events of the job."""
        newest = self.cell.counters()["version"]
        self.at = max(self.at, newest - self.most_behind)
        found = [event for event in events(self.cell, self.at, newest) if event.job == self.job]
        self.at = newest
        return found


@dataclass(slots=True)
class Tail:
    """Continues to read the log: `at` is the version up to which everything was read."""

    at: int
    wanted: Wanted

    @classmethod
    def begin(cls, cell: "Queries", after: int | None, wanted: Wanted, *, newest: bool = False) -> "Tail":
        """Begin after a version; without one at the newest version, or with the oldest that is kept."""
        if after is None:
            kept = extent(cell)
            after = kept.newest if newest else kept.first - 1
        return cls(after, wanted)

    def read(self, cell: "Queries") -> tuple[list[Event | Gap | Lost], bool]:
        """Return what comes next, and whether that was all. Missing versions have an entry of their own."""
        kept = extent(cell)
        found: list[Event | Gap | Lost] = []
        if self.at > kept.newest:
            found.append(Lost(kept.newest + 1, self.at))
            self.at = kept.newest
        if self.at + 1 < kept.first:
            found.append(Gap(self.at + 1, kept.first - 1))
            self.at = kept.first - 1
        to = min(kept.newest, self.at + CHUNK)
        found += [event for event in events(cell, self.at, to) if self.wanted(event)]
        self.at = to
        return found, to == kept.newest
