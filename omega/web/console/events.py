"""The page of events: the newest first, of kinds, of a job, of one version."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from omega.cellstate.errors import Refused
from omega.queries import units
from omega.queries.events import KINDS
from omega.web.access.visitors import Reader
from omega.web.console.event_rows import EventRow, event_rows
from omega.web.console.page import View, show

router = APIRouter(include_in_schema=False)
VIEW = View(
    template="events.html", section="events", title="Events", command="omega events --json", path="/v1/events/list"
)
LIMIT = 100
"""Events on a page; those of one version stay together."""
FEW_OF_VERSION, MOST_OF_VERSION = 10, 1_000
"""Events of one version on the page: a call of a busy scheduler has thousands."""
MOST_DIGITS = 15


@router.get("/cells/{cell}/events")
async def events_page(
    request: Request, cell: str, _: Reader, *, kind: str = "", job: str = "", version: str = "", before: str = ""
) -> Response:
    """Show the newest events of a cell, those before a version, or those of one version."""
    at, end = number(version), number(before)

    def read(mirror: Any) -> Mapping[str, Any]:
        asked = _job_id(mirror, job)
        kinds = [kind] if kind in KINDS else []
        if at:
            found = mirror.events(before=at + 1, limit=1)
            events = [each for each in found["events"] if each.get("version") == at]
        else:
            found = mirror.events(kinds=kinds, job=asked or None, limit=LIMIT, before=end or None)
            events = found["events"]
        return {
            "rows": version_rows(mirror, events, MOST_OF_VERSION if at else FEW_OF_VERSION)[::-1],
            "kind": kind, "job": job, "version": at, "before": end, "kinds": KINDS,
            "first": found["first_version"],
            "older": events[0]["version"] if events and len(events) >= LIMIT and not at else 0,
        }  # fmt: skip

    return await show(request, cell, _view(kind if kind in KINDS else "", job, at), read)


def version_rows(mirror: Any, events: Sequence[Mapping[str, Any]], most: int) -> list[EventRow]:
    """Return rows of events, of each version at most those of the first `most` events and the number of the others."""
    rows: list[EventRow] = []
    for version, same in groupby(events, lambda event: event.get("version", 0)):
        listed = list(same)
        rows += event_rows(mirror, listed[:most])
        if rest := listed[most:]:
            text = f"and {units.count(len(rest), 'more event')} of this version"
            first = {name: rest[0][name] for name in ("at_ms", "by", "kind")}
            rows.append(EventRow(version=version, **first, detail=text, alike=most))
    return rows


def _job_id(mirror: Any, job: str) -> str:
    """Return the id of a job as commands take it; other text is an id, of which events may remain."""
    try:
        return str(mirror.find_job(job).id) if job else ""
    except Refused:
        return job


def number(text: str) -> int:
    """Return a positive number from a query; 0 for other text, which people may write there."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else 0


def _view(kind: str, job: str, version: int) -> View:
    """Return the view with the command and the address of the same events."""
    since = str(version - 1) if version else ""
    options = {name: value for name, value in (("kind", kind), ("job", job), ("since", since)) if value}
    words = [f"--{name} {shlex.quote(value)}" for name, value in options.items()]
    path = f"{VIEW.path}?{urlencode(options | {'limit': 1 if version else LIMIT})}"
    return replace(VIEW, command=" ".join([VIEW.command, *words]), path=path)
