"""The list of cells, and the page of one: what runs, waits and fails now."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from omega.cellstate.errors import Refused
from omega.queries import event_text, units
from omega.web.access.visitors import Reader
from omega.web.console import charts
from omega.web.console.event_rows import event_rows
from omega.web.console.page import View, frame_of, show
from omega.web.console.render import link_of, render
from omega.web.service import Served

router = APIRouter(include_in_schema=False)
MOST_EVENTS = 12
HOUR_MS = 3_600_000
CELL = View(
    template="cell.html", section="cell", title="Cell", command="omega cell status --json", path="/v1/cell"
)  # fmt: skip
CELLS = View(template="cells.html", section="", title="Cells", command="omega cell list --json", path="/v1/cells")


@router.get("/")
async def root(request: Request, served: Served, _: Reader, cells: str = "") -> Response:
    """Redirect to the default or only cell; list all cells if there are several, or on request."""
    if not cells:
        try:
            return RedirectResponse(link_of(await served.cell_name(None))(""), 303)
        except Refused:
            pass  # several cells and no default
    names = await served.mirrors.names()
    page = render("cells.html", frame_of(request, CELLS), {"names": names})
    return HTMLResponse(page.html)


@router.get("/cells/{cell}/")
async def cell_page(request: Request, _: Reader, cell: str) -> Response:
    """Show a cell."""
    return await show(request, cell, CELL, _cell)


def _cell(mirror: Any) -> Mapping[str, Any]:
    status, reasons = mirror.cell_status(), mirror.reasons()
    events = mirror.events(limit=MOST_EVENTS)["events"]
    return {
        "status": status,
        "counts": mirror.held.table.state_counts(),
        "room": mirror.room(),
        "reasons": sorted(reasons.items(), key=lambda each: -each[1]["jobs"]),
        "events": event_rows(mirror, events[-MOST_EVENTS:])[::-1],
        "charts": _charts(mirror),
        "since_ms": mirror.since_ms,
        "schedulers": mirror.schedulers()["schedulers"],
    }


def _charts(mirror: Any) -> Sequence[Mapping[str, Any]]:
    """Return the lines of busyness, wait and conflict fraction of the busiest schedulers."""
    history, now_ms = mirror.history(), mirror.at_ms
    since_ms = max(history["since_ms"], now_ms - HOUR_MS)
    own = {name: _rates(each) for name, each in history["schedulers"].items()}
    busiest = sorted(sorted(own, key=lambda name: -sum(filter(None, own[name]["busyness"])))[: charts.MOST_LINES])
    ends = {"left": event_text.clock(since_ms, now_ms)[:-4], "right": "now"}
    drawn = []
    for what, title, text in _LINES:
        at_ms = {name: own[name]["at_ms"] for name in busiest}
        series = {name: charts.sampled(at_ms[name], own[name][what], since_ms, now_ms) for name in busiest}
        known = [each for values in series.values() for each in values if each is not None]
        top = 1.0 if what == "busyness" else charts.nice(max(known, default=0.0))
        last = {name: text(value) for name in busiest if (value := (own[name][what] or [None])[-1]) is not None}
        label = f"{title} over time, now {', '.join(map(' '.join, last.items())) or 'unknown'}"
        drawing = charts.lines(series, label, top=top, top_text=text(top), texts=last, **ends)
        drawn.append({"title": title, "drawing": drawing, "of": len(own)})
    return drawn


def _rates(series: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the samples of a scheduler with its busyness."""
    waiting = series["waiting"]
    return {**series, "busyness": [None if share is None else 1 - share for share in waiting]}


_LINES: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("busyness", "Busyness", lambda value: units.percent(value, 1)),
    ("wait_seconds", "Mean wait", units.seconds),
    ("conflict_fraction", "Conflict fraction", units.fraction),
)
