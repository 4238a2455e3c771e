"""Errors of the console as pages: what went wrong in one line, and where to go on."""

from contextlib import suppress
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from omega.cellstate.errors import OmegaError
from omega.web import problems
from omega.web.console.live import PARTS
from omega.web.console.page import View, frame_of
from omega.web.console.render import render


async def error_page(request: Request, error: Any) -> Response:
    """Answer an error with a page; a script that asks for parts gets the problem document."""
    status, text = _described(request, error)
    if PARTS in request.headers or getattr(request.state, "visitor", None) is None:
        return problems.of_status(status, text)
    cell, mirror = request.path_params.get("cell", ""), None
    if status == 503 and cell:
        with suppress(OmegaError):  # there is none if the store never answered
            mirror = await request.app.state.service.mirrors.cell(cell)
    view = View(template="error.html", section="", title=_TITLES.get(status, "Error"), command="", path="")
    kept = request.state.exchange.kept_form(checked=True) if request.method == "POST" else None
    page = render("error.html", frame_of(request, view, cell, mirror), {"text": text, "status": status, "kept": kept})
    return HTMLResponse(page.html, status, {"Cache-Control": "no-store"})


_TITLES = {403: "Not allowed", 404: "Not found", 422: "Bad input", 503: "The store does not answer"}


def _described(request: Request, error: Any) -> tuple[int, str]:
    """Return the status of an error, and its text."""
    if isinstance(error, OmegaError):
        return problems.status_of(error), " ".join(str(error).split())
    if isinstance(error, RequestValidationError):
        return 422, "; also ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    if isinstance(error, HTTPException):
        return error.status_code, f"{request.url.path}: {error.detail}"
    return 500, "An error of omega serve; its log has the reason."
