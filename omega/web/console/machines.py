"""Machines: the heat map and the list, one machine, and changes of its state."""

from collections.abc import Mapping, Sequence
from functools import partial
from shlex import quote as quote_word
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput, OmegaError, Refused
from omega.client.client import Client
from omega.queries.fleet import STATES
from omega.queries.units import count
from omega.web.access.visitors import Operator, Reader
from omega.web.api.slashes import decoded
from omega.web.console.event_rows import event_rows
from omega.web.console.heat import LEVELS, heat_map, selected
from omega.web.console.page import View, back, refused, show
from omega.web.console.render import link_of
from omega.web.reading import read_form
from omega.web.service import Served, Service

router = APIRouter(include_in_schema=False)
MOST_ROWS = 50
MOST_CHANGED = 1_000
"""Machines that one form may change."""
MOST_GROUPS = 600
"""Values of an attribute by which the map is grouped without being asked."""
MACHINES = View(
    template="machines.html", section="machines", title="Machines", command="omega machine list --json",
    path="/v1/machines",
)  # fmt: skip


class Shown(BaseModel):
    """What the page of machines shows: a list of machines in a state, with a level of the map, or of a block."""

    state: str = ""
    level: str = ""
    color: str = ""
    """The resource whose use colours the map; empty: the fullest of each machine."""
    group: str | None = None
    """The attribute that divides the map; None: one that fits, empty: none."""
    value: str | None = None
    """The value of this attribute of the machines in the list."""
    block: int = 0
    """The first block of the map."""
    after: int | None = None
    """The index after which the page of the list begins."""

    def without_pages(self) -> Mapping[str, Any]:
        """Return all but the positions of the map and the list."""
        return self.model_dump(exclude={"block", "after"})


@router.get("/cells/{cell}/machines")
async def machines(request: Request, _: Reader, cell: str, asked: Annotated[Shown, Query()]) -> Response:
    """Show all machines as squares, and a page of the list."""
    link, same = link_of(cell), asked.without_pages()

    def read(mirror: Any) -> Mapping[str, Any]:
        names = [name for name in mirror.attribute_names() if name != "machine"]
        group = _group(mirror, names) if asked.group is None else asked.group if asked.group in names else ""
        columns = mirror.machine_columns([group] if group else [])
        shown = heat_map(columns, asked.color, group, asked.block)
        page = _page(mirror, columns, asked, group)
        return {
            "map": shown,
            "levels": LEVELS,
            "resources": list(columns.fraction),
            "attributes": names,
            "group": group,
            "asked": asked,
            "following": "" if shown.following is None else link("machines", **same, block=shown.following),
            "first": link("machines", **same) if asked.block else "",
            "page": page,
            "older": "" if page["next"] is None else link("machines", **same, after=page["next"]) + "#list",
            "newer": "" if asked.after is None else link("machines", **same) + "#list",
            "states": STATES,
        }

    return await show(request, cell, _view(asked.state), read)


def _view(state: str) -> View:
    if not state:
        return MACHINES
    return View(
        template=MACHINES.template, section=MACHINES.section, title=MACHINES.title,
        command=f"{MACHINES.command} --state {quote_word(state)}",
        path=f"{MACHINES.path}?{urlencode({'state': state})}",
    )  # fmt: skip


def _group(mirror: Any, names: list[str]) -> str:
    """Return the attribute that divides the machines: ``rack`` if they have it, else the one with most values."""
    sizes = {name: len(mirror.held.snapshot.attributes.values(name)) - 1 for name in names}
    if sizes.get("rack", 0) > 1:
        return "rack"
    return max((name for name, size in sizes.items() if 1 < size <= MOST_GROUPS), key=sizes.__getitem__, default="")


def _page(mirror: Any, columns: Any, asked: Shown, group: str) -> Mapping[str, Any]:
    """Return a page of the list in the form of ``omega machine list``."""
    state = asked.state if asked.state in STATES else None
    attributes = {group: asked.value} if group and asked.value else {}
    if asked.level not in LEVELS:
        known: Mapping[str, Any] = mirror.machines(
            state=state, limit=MOST_ROWS, after=asked.after, attributes=attributes
        )
        return known
    found = selected(columns, asked.level, asked.color)
    later = found if asked.after is None else found[found > asked.after]
    shown = later[:MOST_ROWS].tolist()
    rows = [row for index in shown for row in _row(mirror, index)]
    return {"total": len(found), "next": shown[-1] if len(shown) < len(later) else None, "machines": rows}


def _row(mirror: Any, index: int) -> Sequence[Mapping[str, Any]]:
    """Return a machine in the form of the list, if it is not gone."""
    rows: Sequence[Mapping[str, Any]] = mirror.machines(limit=1, after=index - 1)["machines"]
    return [row for row in rows if row["index"] == index]


@router.get("/cells/{cell}/card")
async def card(request: Request, _: Reader, cell: str, machine: Annotated[int, Query(ge=0)]) -> Response:
    """Return a machine of the map in a line, by its index, for the script."""
    view = View(template="card.html", section="machines", title="", command="", path="/v1/machines")
    return await show(request, cell, view, lambda mirror: {"machines": _row(mirror, machine)})


@router.get("/cells/{cell}/machines/{name}")
async def machine(request: Request, served: Served, visitor: Reader, cell: str, name: str) -> Response:
    """Show a machine (by name or index): its tasks, its last events, its state."""
    name = decoded(name)
    view = View(
        template="machine.html", section="machines", title=f"Machine {name}",
        command=f"omega machine status --json --verbose {quote_word(name)}",
        path=f"/v1/machines/{quote(name, safe='')}",
    )  # fmt: skip

    async def load() -> Mapping[str, Any]:
        return {"machine": await served.call(cell, visitor.user, Client.machine, name, verbose=True)}

    def read(mirror: Any) -> Mapping[str, Any]:
        return {"event_rows": partial(event_rows, mirror)}

    return await show(request, cell, view, read, fetch=load)


@router.post("/cells/{cell}/machines/change")
async def change(request: Request, served: Served, visitor: Operator, cell: str) -> Response:
    """Drain machines, or mark them as up or down. Marking as down is confirmed, because tasks start elsewhere.

    The form has what to ``do`` and each ``machine``; ``deadline`` is the time after which tasks on drained machines are
    evicted, such as ``5m`` (empty: never), and ``sure`` confirms that machines are down.
    """
    form = await read_form(request)
    names = list(dict.fromkeys(form.getlist("machine")))
    to = link_of(cell)("machines", *(names if len(names) == 1 else ()))
    try:
        answer = await _changed(served, visitor.user, cell, form, names)
    except OmegaError as error:
        return await refused(request, cell, MACHINES, to, error) if names else back(to, str(error), "error")
    done = f"{count(len(answer['machines']), 'machine')} {DONE[form['do']]}."
    return back(to, " ".join((done, *answer.get("warnings", ()))))


DONE = {"drain": "drained", "up": "marked as up", "down": "marked as down"}


async def _changed(
    served: Service, user: str, cell: str, form: Mapping[str, str], names: Sequence[str]
) -> Mapping[str, Any]:
    do, deadline = form.get("do", ""), form.get("deadline", "").strip()
    if not names:
        raise Refused("No machine is selected.")
    if do not in DONE or len(names) > MOST_CHANGED:
        raise BadInput(f"unknown change {do!r}" if do not in DONE else f"more than {MOST_CHANGED:,} machines")
    if do == "down" and not form.get("sure"):
        raise Refused("Not marked as down: confirm that its tasks start on other machines.")
    if do == "drain":
        limit = parse_duration(deadline) if deadline else None
        return await served.call(cell, user, Client.drain, *names, deadline_ms=limit)
    return await served.call(cell, user, Client.up if do == "up" else Client.down, *names)
