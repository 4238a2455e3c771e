"""The application on a server in a thread of this process, for streams, which httpx's ASGI transport never ends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from omega.web.access.admissions import Access
from omega.web.app import create_app
from omega.web.service import Service
from tests.web.visiting import URL, headers, tokens


@contextmanager
def serve(service: Service, folder: Path, port: int = 0) -> Iterator[tuple[FastAPI, str]]:
    """Serve on a unix socket, or on a port of this computer; yields the application and the path of the socket."""
    app, path = create_app(service, Access(tokens())), str(folder / "web.sock")
    where: dict[str, Any] = {"port": port} if port else {"uds": path}
    server = uvicorn.Server(uvicorn.Config(app, **where, log_level="warning", timeout_graceful_shutdown=1))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield app, path
    finally:
        server.should_exit = True
        thread.join(20)


def client(path: str, **options: Any) -> httpx.Client:
    """Return a client of the server on a socket, as an operator."""
    transport = httpx.HTTPTransport(uds=path)
    return httpx.Client(transport=transport, base_url=URL, headers=headers(), timeout=20, **options)
