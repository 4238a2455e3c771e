"""The web application: its routers and middlewares."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.middleware.base import RequestResponseEndpoint

from omega.web.access.visitors import Visitor
from omega.web.service import Service

ROUTERS: tuple[str, ...] = ()
"""Modules with a `router`, in the order in which their routes are tried: those of `api`, then those of `console`."""


def create_app(service: Service) -> FastAPI:
    """Return the application that serves the cells of a store."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(
        title="Omega", version="1", openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.service = service
    app.mount("/static", StaticFiles(directory=Path(__file__).with_name("static")), name="static")
    for name in ROUTERS:
        router: APIRouter = import_module(name).router
        app.include_router(router)

    @app.middleware("http")
    async def admit(request: Request, call_next: RequestResponseEndpoint) -> Response:
        request.state.visitor = Visitor("somebody", "operator")  # until omega.web.access takes its place
        return await call_next(request)

    return app
