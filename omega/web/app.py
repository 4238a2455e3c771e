"""The web application: its routers, and the gate before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp

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
    app.add_middleware(EncodedSlashes)
    return app
