"""Parts of the log as lists of events: the first after a version, the last, and what comes next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from omega.cellstate.cuts import Sightings
from omega.cellstate.errors import Refused
from omega.cellstate.transaction import Position
from omega.queries.events import CHUNK, Event, Extent, events, events_of, extent, since_time
from omega.queries.job_history import past
from omega.queries.jobs import find_job
from omega.queries.names import Names

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

FEW = 2
"""Versions read first: a call of a busy scheduler has hundreds of events."""
WINDOW = 2_000
"""Versions read at once when the last events are searched for."""
Wanted: TypeAlias = Callable[[Event], bool]


class Missing(NamedTuple):
    """Versions without events, from the first to the last of them.

    ``gap``: they are no longer in the log; ``lost``: the store lost them after they were read, in a failover.
    """

    why: Literal["gap", "lost"]
    first: int
    last: int

    def as_json(self) -> dict[str, Any]:
        """Return the versions as plain values."""
        return {self.why: {"from": self.first, "to": self.last}}


@dataclass(frozen=True, slots=True)
class Filter:
    """Kinds of events (empty: all) and the id of their job (None: any)."""

    kinds: frozenset[str] = frozenset()
    job: str | None = None

    def __call__(self, event: Event) -> bool:
        """Return whether an event passes."""
        return self.job in (None, event.job) and (not self.kinds or event.kind in self.kinds)


def job_id(cell: "Cell", asked: str) -> str:
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
    gap: Missing | None


def list_events(cell: "Cell", since: int | None, limit: int, wanted: Wanted) -> EventList:
    """Return the first `limit` events after a version, or without one the last. Those of one version stay together.

    Those of one job are the last ones of its record, and of the newest versions of the log.
    """
    kept = extent(cell)
    if since is None:
        job = wanted.job if isinstance(wanted, Filter) else None
        last = _last(cell, kept, limit, wanted) if job is None else _last_of_job(cell, job, limit, wanted)
        return EventList(last, kept.first, kept.newest, None)
    gap = Missing("gap", since + 1, kept.first - 1) if since + 1 < kept.first else None
    first = _first(cell, max(since, kept.first - 1), kept.newest, limit, wanted)
    at = first[-1].version if first and len(first) >= limit else kept.newest
    return EventList(first, kept.first, at, gap)


def events_json(cell: "Cell", since: int | None, limit: int, wanted: Wanted) -> dict[str, Any]:
    """Return the events of `list_events` as plain values, with the versions that the log has and lacks."""
    return page_json(cell, list_events(cell, since, limit, wanted))


def page_json(cell: "Cell", page: EventList) -> dict[str, Any]:
    """Return a list of events as plain values."""
    gap = page.gap and page.gap.as_json()["gap"]
    head = {"cell": cell.name, "first_version": page.first_version, "version": page.at, "gap": gap}
    return head | {"events": listed_json(cell, page.events)}


def listed_json(cell: "Cell", listed: Sequence[Event | Missing]) -> list[dict[str, Any]]:
    """Return events and gaps as plain values; those of tasks of an array with names and indices.

    Those of copies of slow tasks have the field ``copies``.
    """
    names = Names(cell)
    names.read_tasks(each for each in listed if isinstance(each, Event))
    names.read_copies(each for each in listed if isinstance(each, Event))
    return [each.as_json() | (_of_tasks(each, names) if isinstance(each, Event) else {}) for each in listed]


def _of_tasks(event: Event, names: Names) -> dict[str, Any]:
    return names.tasks(event) | ({"copies": True} if names.are_copies(event) else {})


def _first(cell: "Cell", after: int, newest: int, limit: int, wanted: Wanted) -> list[Event]:
    first: list[Event] = []
    for event in events(cell, after, newest):
        if len(first) >= limit and (not first or event.version != first[-1].version):
            break
        if wanted(event):
            first.append(event)
    return first


def _last(cell: "Cell", kept: Extent, limit: int, wanted: Wanted) -> list[Event]:
    """Return the last `limit` events, found by going back window by window."""
    last: list[Event] = []
    width, oldest, newest = FEW, kept.first - 1, kept.newest
    while newest > oldest and len(last) < limit:
        last = [*filter(wanted, events(cell, max(oldest, newest - width), newest)), *last]
        newest -= width
        width = min(WINDOW, 4 * width)
    return _end(last, limit)


def _end(events: list[Event], limit: int) -> list[Event]:
    """Return the last `limit` events, and further ones of the first one's version."""
    start = max(0, len(events) - limit)
    while 0 < start < len(events) and events[start - 1].version == events[start].version:
        start -= 1
    return events[start:]


def _last_of_job(cell: "Cell", job: str, limit: int, wanted: Wanted) -> list[Event]:
    """Return the last `limit` events of a job: of the newest entries of the log, and of its record."""
    read = cell.log.newest_facts(0, job)
    last = _end(list(filter(wanted, events_of(cell, read.facts))), limit)
    record = cell.jobs.get(job) if len(last) < limit else None
    if record is None:
        return last
    before = (event for event in past(cell, record).events if event.version <= read.after)
    last = [*filter(wanted, before), *last]
    return last[max(0, len(last) - limit) :]


class JobTail:
    """Continues to read the events of a job since a time; versions that come faster than they are read are skipped."""

    def __init__(self, cell: "Cell", job: str, since_ms: int, most_behind: int) -> None:
        """Begin at `since_ms`, at most `most_behind` versions before the newest."""
        self.cell, self.job, self.most_behind, self.partings = cell, job, most_behind, cell.sightings.partings
        self.at = since_time(cell, since_ms, extent(cell))

    def read(self) -> list[Event]:
        """Return the next events of the job."""
        newest, seen = self.cell.counters()["version"], self.cell.sightings
        if seen.partings != self.partings:
            self.partings, self.at = seen.partings, min(self.at, seen.agreed)
        self.at = max(self.at, newest - self.most_behind)
        after, self.at = self.at, newest
        return [event for event in events(self.cell, after, newest) if event.job == self.job]


class Tail:
    """Continues to read the log: `at` is the version up to which everything was read."""

    def __init__(self, cell: "Cell", after: int | None, wanted: Wanted, *, newest: bool = False) -> None:
        """Begin after a version; without one at the newest version, or with the oldest that is kept."""
        if after is None:
            kept = extent(cell)
            after = kept.newest if newest else kept.first - 1
        self.at, self.wanted = after, wanted
        self.seen = Sightings()

    def read(self, cell: "Cell") -> tuple[list[Event | Missing], bool]:
        """Return what comes next, and whether that was all. Missing versions have an entry of their own."""
        position, agreed = self._compare(cell)
        kept, at = extent(cell), self.at
        entries: list[Event | Missing] = []
        if (left := min(kept.newest, self.at if agreed is None else agreed)) < at:
            entries.append(Missing("lost", left + 1, at))
            at = left
        if at + 1 < kept.first:
            entries.append(Missing("gap", at + 1, kept.first - 1))
            at = kept.first - 1
        newest = min(kept.newest, max(position.version, at))
        to = min(newest, at + CHUNK)
        entries += [event for event in events(cell, at, to) if self.wanted(event)]
        self.at = to  # last: a read that fails is repeated as a whole
        if agreed is not None:
            self.seen.cut_after(agreed)
        self.seen.add(position)
        return entries, to == newest

    def _compare(self, cell: "Cell") -> tuple[Position, int | None]:
        """Return the present version, and the last one that is left when the store lost some that were read."""
        standing = cell.standing([self.seen.last] if self.seen.last.version else [])
        if standing.first_lost is None:
            return standing.present, None
        standing = cell.standing(self.seen.all())
        return standing.present, standing.agreed or 0
