"""The list of jobs, and changes of many of them."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from omega.cellstate.errors import OmegaError
from omega.client.client import Client
from omega.queries.mirror.job_table import JobFilter
from omega.queries.units import count, listing
from omega.web.access.visitors import Reader, Submitter
from omega.web.console.live import PARTS
from omega.web.console.page import View, back, refused, show
from omega.web.console.render import link_of
from omega.web.reading import read_form
from omega.web.service import Served

router = APIRouter(include_in_schema=False)
ROWS = (50, 100, 200)
"""Rows of a page that a visitor may choose."""
MOST_CHANGED = 1_000
"""Jobs that one form may change."""
FILTERS = ("state", "kind", "user", "pool", "name", "reason")


def _view(given: Mapping[str, str]) -> View:
    """Return the page of a list; the command has the filters that it knows, the note names the others."""
    options = "".join(f" --{name} {quote(given[name])}" for name in ("kind", "state", "user") if name in given)
    others = [name for name in ("pool", "name", "reason") if name in given]
    query = f"?{urlencode(given)}" if given else ""
    return View(
        template="jobs.html", section="jobs", title="Jobs", command=f"omega job list --json{options}",
        path=f"/v1/jobs{query}", note=f"not filtered by {listing(others)}" if others else "",
    )  # fmt: skip


@router.get("/cells/{cell}/jobs")
async def jobs(
    request: Request, _: Reader, cell: str, sort: str = "-submitted", limit: int = ROWS[0], cursor: str = "",
    *, pick: bool = False,
) -> Response:  # fmt: skip
    """List jobs by pages; with `pick` all jobs of the page are selected."""
    given = {name: request.query_params[name] for name in FILTERS if request.query_params.get(name)}
    rows = min(max(limit, 1), ROWS[-1])
    link = link_of(cell)
    more = given | {"limit": str(rows) if rows != ROWS[0] else ""}

    def order(key: str) -> str:
        return link("jobs", **more, sort=f"-{key}" if sort == key else key)

    def read(mirror: Any) -> Mapping[str, Any]:
        document = mirror.jobs(JobFilter(**given), sort=sort, limit=rows, cursor=cursor or None)
        following, table = document["next"], mirror.held.table
        pools = {row["id"]: table.pools.texts[table.value("pool", table.row(row["id"]))] for row in document["jobs"]}
        return {
            "page": document,
            "pools": pools,
            "counts": mirror.held.table.state_counts(),
            "given": given,
            "limit": rows,
            "rows": ROWS,
            "sort": {"by": sort, "link": order},
            "older": "" if following is None else link("jobs", **more, sort=sort, cursor=following),
            "newer": link("jobs", **more, sort=sort) if cursor else "",
            "kinds": sorted({each["member"].partition("/")[0] for each in mirror.schedulers()["schedulers"]}),
            "reasons": sorted(mirror.reasons()),
            "picked": pick and PARTS not in request.headers,  # jobs that come later were not selected
            "pick": link("jobs", **more, sort=sort, cursor=cursor, pick="" if pick else "1"),
            "here": link("jobs", **more, sort=sort, cursor=cursor),
        }

    return await show(request, cell, _view(given), read)


@router.post("/cells/{cell}/jobs/change")
async def change(request: Request, served: Served, visitor: Submitter, cell: str) -> Response:
    """Stop, hold or release jobs. Stopping is confirmed on a page of its own.

    The form has what to ``do``, each ``job``, and the page to go back to (``here``); ``sure`` is the confirmation, and
    ``force`` changes jobs of other users too.
    """
    form, link = await read_form(request), link_of(cell)
    do, jobs, here = form.get("do", ""), list(dict.fromkeys(form.getlist("job"))), form.get("here", "")
    to = here if here.startswith(link("jobs")) else link("jobs")
    call = {"stop": Client.stop, "hold": Client.hold, "release": Client.release}.get(do)
    if not jobs:
        return back(to, "No job is selected.", "error")
    if call is None or len(jobs) > MOST_CHANGED:
        return back(to, f"unknown change {do!r}" if call is None else f"more than {MOST_CHANGED:,} jobs", "error")
    if do == "stop" and not form.get("sure"):
        return await _confirm(request, cell, jobs, to)
    force = bool(form.get("force")) and visitor.may("operator")
    try:
        answer = await served.call(cell, visitor.user, call, *jobs, force=force)
    except OmegaError as error:
        return await refused(request, cell, _view({}), to, error)
    return back(to, f"{count(len(answer['jobs']), 'job')} {_DONE[do]}.")


_DONE = {"stop": "stopped", "hold": "held", "release": "released"}


async def _confirm(request: Request, cell: str, ids: Sequence[str], to: str) -> Response:
    """Show the jobs that are about to be stopped."""
    view = View(
        template="stop.html", section="jobs", title=f"Stop {count(len(ids), 'job')}?",
        command=f"omega job stop --json {' '.join(map(quote, ids[:3]))}{' …' * (len(ids) > 3)}", path="/v1/jobs",
    )  # fmt: skip

    def read(mirror: Any) -> Mapping[str, Any]:
        rows = [mirror.job_row(each) for each in ids]
        known = [row for row in rows if row is not None]
        return {
            "jobs": known,
            "gone": len(rows) - len(known),
            "placed": sum(row["counts"]["placed"] for row in known),
            "others": sorted(
                {row["user"] for row in known if row["user"] and row["user"] != request.state.visitor.user}
            ),
            "here": to,
        }

    return await show(request, cell, view, read)
