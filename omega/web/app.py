"""The web application: its routers, and the gate before it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers, QueryParams
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown
from omega.web import problems
from omega.web.access.admissions import Access
from omega.web.access.gate import Gate
from omega.web.api.answers import matches
from omega.web.api.slashes import EncodedSlashes
from omega.web.console.errors import error_page
from omega.web.console.live import LivePages
from omega.web.document import described
from omega.web.service import Service
from omega.web.sse import OpenStreams

ROUTERS = (
    "omega.web.api.submissions",
    "omega.web.api.changes",
    "omega.web.api.jobs",
    "omega.web.api.logs",
    "omega.web.api.machines",
    "omega.web.api.pools",
    "omega.web.api.cells",
    "omega.web.api.streams",
    "omega.web.api.metrics",
    "omega.web.console.live",
    "omega.web.console.cells",
    "omega.web.console.jobs",
    "omega.web.console.machines",
    "omega.web.console.job",
    "omega.web.console.schedulers",
    "omega.web.console.pools",
    "omega.web.console.plan",
    "omega.web.console.events",
)
"""Modules with a `router`, in the order in which their routes are tried: those of `api`, then those of `console`."""


class Files(StaticFiles):
    """The files of the pages; ``If-None-Match: *`` is met by every file."""

    def is_not_modified(self, response_headers: Headers, request_headers: Headers) -> bool:
        """Return whether the browser has a file."""
        return matches(request_headers.getlist("if-none-match"), response_headers["etag"]) or super().is_not_modified(
            response_headers, request_headers
        )


class Application(FastAPI):
    """The application behind the gate, which also sees the answers to errors of the application."""

    access: Access

    def build_middleware_stack(self) -> ASGIApp:
        """Return what answers requests."""
        return Gate(super().build_middleware_stack(), self.access)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the API."""
        if self.openapi_schema is None:
            self.openapi_schema = described(super().openapi())
        return self.openapi_schema

    async def document(self) -> dict[str, Any]:
        """Return the OpenAPI document, made in a thread: it takes 150 ms, in which the loop serves others."""
        if self.openapi_schema is None:
            await to_thread.run_sync(self.openapi, limiter=_making)
        return self.openapi()


_making = CapacityLimiter(1)


CONDITIONS = ("if-match", "if-none-match", "if-unmodified-since", "idempotency-key")
"""Headers on which a change depends: a route that does not know them would make it without their condition."""


class KnownWords:
    """Refuses words of a query, and conditions of a change, that a route of the API does not have.

    A change with a misspelt ``dry_run`` would be made, and one with ``If-Match`` whatever happened before.
    """

    def __init__(self, app: ASGIApp, application: Application) -> None:
        self.app, self.application = app, application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            given = [] if scope["method"] == "GET" else [each for each in CONDITIONS if each in Headers(scope=scope)]
            if scope["query_string"] or given or scope["path"] == self.application.openapi_url:
                await self.application.document()
                if (error := self._error(scope, given)) is not None:
                    await problems.of_error(error)(scope, receive, send)
                    return
        await self.app(scope, receive, send)

    def _error(self, scope: Scope, given: Sequence[str]) -> BadInput | None:
        known = self._known(scope)
        if known is None:
            return None
        words, headers = known
        if unknown := sorted(QueryParams(scope["query_string"]).keys() - words):
            return BadInput(f"query {shown(unknown[0])}: unknown; allowed: {', '.join(sorted(words)) or 'none'}")
        if unmet := [each for each in given if each not in headers]:
            return BadInput(f"{unmet[0].title()}: {scope['method']} {scope['path']} does not take it; leave it out")
        return None

    def _known(self, scope: Scope) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the words and headers of a request's route, as the OpenAPI document has them; None without a route."""
        for route in (each for name in ROUTERS for each in import_module(name).router.routes):
            if isinstance(route, Route) and route.matches(scope)[0] is Match.FULL:
                return self._words.get((route.path_format, scope["method"].lower()))
        return None

    @cached_property
    def _words(self) -> Mapping[tuple[str, str], tuple[frozenset[str], frozenset[str]]]:
        def names(said: Mapping[str, Any], where: str) -> frozenset[str]:
            named = (each["name"] for each in said.get("parameters", ()) if each["in"] == where)
            return frozenset(name if where == "query" else name.lower() for name in named)

        return {
            (path, method): (names(said, "query"), names(said, "header"))
            for path, methods in self.application.openapi()["paths"].items()
            for method, said in methods.items()
        }


def create_app(service: Service, access: Access) -> Application:
    """Return the application that serves the cells of a store to those whom `access` admits."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(access.streams.sweep)
            yield
            group.cancel_scope.cancel()
        await service.close()

    app = Application(
        title="Omega", version="1", openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.access, app.state.service = access, service
    app.state.streams, app.state.pages = OpenStreams(), LivePages()
    app.mount("/static", Files(directory=Path(__file__).with_name("static")), name="static")
    for name in ROUTERS:
        router: APIRouter = import_module(name).router
        app.include_router(router)
    problems.install(app, app.document, error_page)
    app.add_middleware(KnownWords, application=app)
    app.add_middleware(EncodedSlashes)
    return app
