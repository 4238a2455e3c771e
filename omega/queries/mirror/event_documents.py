"""Events of the newest entries of the log as documents of ``omega events``."""

from typing import TYPE_CHECKING, Any, cast

from omega.queries.event_list import Filter, Missing, listed_json
from omega.queries.events import UNREADABLE, Event, events_of, log_words
from omega.queries.mirror.event_ring import facts_of
from omega.queries.mirror.index import Index

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.events import LogEntry
    from omega.queries.mirror.held_cell import HeldCell


def event_document(
    held: "HeldCell", after: Index | None, wanted: Filter, limit: int, before: int | None, *, known: bool
) -> dict[str, Any]:  # fmt: skip
    """Return events after an index, or the last ones (before a version)."""
    cell, ring, newest = cast("Cell", held), held.ring, held.snapshot.position.version
    first = max(held.log_first, ring.first or newest + 1)
    document = {"cell": held.name, "first_version": held.log_first}
    if after is None or not known:
        found = _last(held, wanted, limit, before)
        reset = {} if after is None else {"reset": str(after)}
        return document | {"version": newest, "gap": None, "events": listed_json(cell, found)} | reset
    gap = Missing("gap", after.version + 1, first - 1).as_json()["gap"] if after.version + 1 < first else None
    found = list[Event]()
    for entry in ring.after(after.version):
        if len(found) >= limit and found:
            break
        found += _events(held, entry, wanted)
    at = found[-1].version if found and len(found) >= limit else newest
    return document | {"version": at, "gap": gap, "events": listed_json(cell, found)}


def _last(held: "HeldCell", wanted: Filter, limit: int, before: int | None) -> list[Event]:
    """Return the last events; those of one version stay together."""
    parts = list[list[Event]]()
    count = 0
    for entry in held.ring.newest_first(before):
        if count >= limit:
            break
        parts.append(_events(held, entry, wanted))
        count += len(parts[-1])
    return [event for part in reversed(parts) for event in part]


def _events(held: "HeldCell", entry: "LogEntry", wanted: Filter) -> list[Event]:
    if wanted.job is not None and wanted.job not in entry.facts:
        return []
    words = log_words(wanted.kinds) if wanted.kinds and UNREADABLE not in wanted.kinds else None
    return [event for event in events_of(cast("Cell", held), facts_of(entry, words)) if wanted(event)]
