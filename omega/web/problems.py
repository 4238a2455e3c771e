"""Errors as problem documents (RFC 9457), in the words of the command line."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from omega.cellstate import errors
from omega.cellstate.errors import OmegaError
from omega.cellstate.plain_text import escaped

MEDIA_TYPE = "application/problem+json"
STATUS: Mapping[type[OmegaError], int] = {
    errors.BadInput: 422,
    errors.NotFound: 404,
    errors.NotOwner: 403,
    errors.Overtaken: 412,
    errors.JobLost: 410,
    errors.CellGone: 410,
    errors.Refused: 409,
    errors.Forbidden: 403,
    errors.StoreFull: 507,
    errors.StoreError: 503,
}
"""Status of an error: that of the first of its classes that is here."""
RETRY_SECONDS = 1
"""Pause that a client should make while the store is away (``Retry-After``)."""

IN_HTTP: Mapping[str, str] = {
    "--cell": "?cell=NAME",
    "--force": "?force=true",
    "--check-index": "the header If-Match",
    "--evict": "?evict=true",
}
"""Options that errors name in their advice, and what a request has for them."""
_OPTION = re.compile(r"(?<![\w-])--[a-z-]+")


class Gone(OmegaError):
    """The versions that a request names are no longer in the log, or the store lost them."""


class Unsupported(OmegaError):
    """The body of the request has a media type that the route does not read."""


class TooLarge(OmegaError):
    """The body of the request is larger than the route reads."""


OWN: Mapping[type[OmegaError], int] = {Gone: 410, Unsupported: 415, TooLarge: 413}


def status_of(error: OmegaError) -> int:
    """Return the status of an answer with this error."""
    known = {**OWN, **STATUS}
    return next((known[kind] for kind in type(error).__mro__ if kind in known), 409)


def problem(status: int, title: str, detail: str, **more: Any) -> Response:
    """Return a problem document; `more` are its further members."""
    name = re.sub(r"\W+", "-", title.lower())
    document = {"type": f"urn:omega:problem:{name}", "title": title, "status": status, "detail": detail, **more}
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    content = escaped(json.dumps(document, ensure_ascii=False)).encode("utf-8", "replace")
    return Response(content, status, {"Cache-Control": "no-store", **headers}, MEDIA_TYPE)


def of_error(error: OmegaError) -> Response:
    """Return the problem document of an error of Omega: its class in words, and its line.

    An option that the line names is followed by its form over HTTP, at the end.
    """
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).capitalize()
    return problem(status_of(error), title, in_http(" ".join(str(error).split())))


def in_http(line: str) -> str:
    """Return a line of the command line with the parameters of HTTP for the options that it names."""
    forms = dict.fromkeys(IN_HTTP[option] for option in _OPTION.findall(line) if option in IN_HTTP)
    return f"{line} (over HTTP: {', '.join(forms)})" if forms else line


def of_status(status: int, detail: str = "") -> Response:
    """Return the problem document of a status of HTTP."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    return problem(status, title, detail or title)


def _of_parameters(error: RequestValidationError) -> Response:
    """Return the problem document of parameters that are invalid: the place, the problem, one after the other."""
    parts = []
    for each in error.errors():
        place, *path = each["loc"]
        if each["type"] == "json_invalid":  # its place is a position in the text
            parts.append(f"{place}: {each['ctx']['error']}")
            continue
        parts.append(f"{place} {'.'.join(map(str, path))}: {each['msg'].lower()}".replace(" :", ":"))
    return problem(422, "Bad input", "; also ".join(dict.fromkeys(parts)))


def _methods(document: Mapping[str, Any], path: str) -> str:
    """Return the methods of a path of the API: of all its routes, of which a router knows those of the first alone."""
    paths, found = document["paths"], set[str]()
    for template, operations in paths.items():
        if path not in paths and re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path):
            found |= operations.keys()
    found |= paths.get(path, {}).keys()
    return ", ".join(sorted(map(str.upper, found | ({"head"} if "get" in found else set()))))


Handler = Callable[[Request, Any], Awaitable[Response]]


def install(app: FastAPI, document: Callable[[], Awaitable[Mapping[str, Any]]], pages: Handler | None = None) -> None:
    """Answer all errors of an application with problem documents; `pages` answers those of the console.

    `document` returns the OpenAPI document.
    """

    async def answered(request: Request, error: Any, response: Response) -> Response:
        if pages is not None and not request.url.path.startswith(("/v1", "/metrics")):
            return await pages(request, error)
        return response

    async def of_omega(request: Request, error: Any) -> Response:
        return await answered(request, error, of_error(error))

    async def of_http(request: Request, error: Any) -> Response:
        detail = "" if error.detail == HTTPStatus(error.status_code).phrase else str(error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND and not detail:
            detail = f"{request.url.path}: no such page; see /v1/openapi.json"
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            detail = f"{request.url.path}: does not take {request.method}; see /v1/openapi.json"
        response = of_status(error.status_code, detail)
        response.headers.update(error.headers or {})
        if "Allow" in response.headers and (methods := _methods(await document(), request.url.path)):
            response.headers["Allow"] = methods
        return await answered(request, error, response)

    async def of_parameters(request: Request, error: Any) -> Response:
        return await answered(request, error, _of_parameters(error))

    async def of_disconnect(_: Request, __: Any) -> Response:
        return problem(400, "Body cut off", "the body ended before its length; send it again")

    async def of_bug(request: Request, error: Any) -> Response:
        return await answered(request, error, of_status(500, "an error of omega serve; its log has the reason"))

    app.add_exception_handler(OmegaError, of_omega)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_parameters)
    app.add_exception_handler(ClientDisconnect, of_disconnect)
    app.add_exception_handler(Exception, of_bug)
