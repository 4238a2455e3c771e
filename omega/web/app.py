"""The web application: its routers, and the gate before it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import QueryParams
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown
from omega.web import problems
from omega.web.access.admissions import Access
from omega.web.access.gate import Gate
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


class KnownWords:
    """Refuses words of a query that a route of the API does not have: a change with a misspelt ``dry_run`` is none."""

    def __init__(self, app: ASGIApp, application: Application) -> None:
        self.app, self.application = app, application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and scope["query_string"] and scope["path"].startswith("/v1/"):
            known = self._known(scope)
            unknown = [] if known is None else sorted(QueryParams(scope["query_string"]).keys() - known)
            if known is not None and unknown:
                words = ", ".join(sorted(known)) or "none"
                error = BadInput(f"query {shown(unknown[0])}: unknown; allowed: {words}")
                await problems.of_error(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _known(self, scope: Scope) -> frozenset[str] | None:
        """Return the words of the route of a request, as the OpenAPI document has them; None without such a route."""
        for route in (each for name in ROUTERS for each in import_module(name).router.routes):
            if isinstance(route, Route) and route.matches(scope)[0] is Match.FULL:
                return self._words.get((route.path_format, scope["method"].lower()))
        return None

    @cached_property
    def _words(self) -> Mapping[tuple[str, str], frozenset[str]]:
        return {
            (path, method): frozenset(each["name"] for each in said.get("parameters", ()) if each["in"] == "query")
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
    app.mount("/static", StaticFiles(directory=Path(__file__).with_name("static")), name="static")
    for name in ROUTERS:
        router: APIRouter = import_module(name).router
        app.include_router(router)
    problems.install(app, error_page)
    app.add_middleware(KnownWords, application=app)
    app.add_middleware(EncodedSlashes)
    return app
