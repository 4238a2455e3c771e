"""Answers of the console: pages of a cell, and the way back to one after a change."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from shlex import quote as quote_word
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from omega.cellstate.errors import OmegaError
from omega.web import problems
from omega.web.access.refusals import form_page
from omega.web.console.live import PARTS, Fetch, LivePages
from omega.web.console.render import Frame, Rendered, render
from omega.web.service import Service

if TYPE_CHECKING:
    from omega.web.access.visitors import Visitor

MESSAGE = "omega_message"
"""The cookie with the message of a change, for the page that is shown next."""
LONGEST_MESSAGE = 1_000
CHANGE_SECONDS = 2.0
"""Time in seconds for which the page after a change waits for a reading that has the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page: its template, the navigation's word for it, its title, and what gives the same data elsewhere."""

    template: str
    section: str
    title: str
    command: str
    """For example ``omega job list --json``."""
    path: str
    """For example ``/v1/jobs``, with its query; the cell is added."""
    method: str = "GET"
    """The method of requests to `path`; an address is a link only if it is GET."""
    note: str = ""
    """How what the command prints differs from the page."""
    page: str = ""
    """The address of the page where the answer to a form is also the answer to a form."""

    def url(self, cell: str) -> str:
        """Return the address under ``/v1`` in a cell."""
        return f"{self.path}{'&' if '?' in self.path else '?'}cell={quote(cell, safe='')}"


Read = Callable[[Any], Mapping[str, Any]]
"""Returns the values of a template from a mirror, whose lock is held."""


async def show(
    request: Request, cell: str, view: View, read: Read, *, fetch: Fetch | None = None, status: int = 200,
    error: str = "", **values: Any,
) -> Response:  # fmt: skip
    """Answer with a page of a cell; `values` are those that do not come from the mirror, `error` is shown above it.

    `fetch` returns values for which the store is read: it is called only when the page is rendered (LivePages).
    """
    served: Service = request.app.state.service
    pages: LivePages = request.app.state.pages
    mirror = await served.mirrors.cell(cell)
    changed = _message(request) is not None and PARTS not in request.headers
    if changed:
        await served.mirrors.read_now(cell, CHANGE_SECONDS)

    def rendered(fetched: Mapping[str, Any]) -> Rendered:
        with mirror.lock:
            done, total = mirror.loading
            content = dict(read(mirror)) if done >= total and mirror.at_ms else {}
            frame = frame_of(request, view, cell, mirror, error)
        return render(view.template if content else "loading.html", frame, {**content, **fetched, **values})

    answer = await pages.respond(request, mirror, rendered, fetch, status)
    if changed:
        answer.delete_cookie(MESSAGE, path="/")
    return answer


def frame_of(request: Request, view: View, cell: str = "", mirror: Any = None, error: str = "") -> Frame:
    """Return what a page has around its content; `mirror` is None where the page has none."""
    visitor: Visitor = request.state.visitor
    return Frame(
        visitor=visitor,
        title=view.title,
        cell=cell,
        section=view.section,
        command=f"{view.command} --cell {quote_word(cell)}" if cell and view.command else view.command,
        url=view.url(cell) if view.path else "",
        method=view.method,
        live=request.method == "GET",
        page="" if request.method == "GET" else view.page or form_page(request.url.path),
        note=view.note,
        csrf=getattr(request.state, "csrf", ""),
        index=str(mirror.index) if mirror else "",
        now_ms=mirror.at_ms if mirror else 0,
        unavailable=mirror.unavailable if mirror else "",
        loading=mirror.loading if mirror and mirror.loading[0] < mirror.loading[1] else None,
        again=mirror.again if mirror else None,
        message=("error", error) if error else _message(request),
    )


def back(to: str, text: str, kind: str = "done") -> Response:
    """Answer a change: the browser goes on to `to`, which shows the text, and no other page does."""
    answer = RedirectResponse(to, 303)
    message = quote(json.dumps([kind, text[:LONGEST_MESSAGE], urlsplit(to).path]), safe="")
    answer.set_cookie(MESSAGE, message, max_age=60, path="/", httponly=True, samesite="strict")
    return answer


async def refused(request: Request, cell: str, view: View, to: str, error: OmegaError) -> Response:
    """Answer a change that was refused with its form and what it had; without a session go on to `to`."""
    kept = request.state.exchange.kept_form(checked=True)
    if kept is None:
        return back(to, str(error), "error")
    view = replace(view, template="again.html", title="Not done", page=to)
    status = problems.status_of(error)
    return await show(request, cell, view, lambda _: {"kept": kept, "to": to}, status=status, error=str(error))


def _message(request: Request) -> tuple[str, str] | None:
    """Return the message of the cookie for this page. Anybody may have written it: it is text only."""
    try:
        kind, text, path = json.loads(unquote(request.cookies.get(MESSAGE, "")))
        if path != request.url.path:
            return None
        return ("error" if kind == "error" else "done", str(text)[:LONGEST_MESSAGE])
    except (ValueError, TypeError):
        return None
