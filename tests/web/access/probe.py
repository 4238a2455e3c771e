"""A small application behind the gate, and requests as a browser or program sends them."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import httpx
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omega.web.access.admissions import Access
from omega.web.access.exchange import MOST_BODY
from omega.web.access.gate import Gate
from omega.web.access.visitors import Operator, Reader, Submitter, admission
from tests.web.visiting import HOST, URL, tokens


def probe(access: Access) -> ASGIApp:
    """Return an application behind the gate: what it answers tells what it received."""
    app = FastAPI()

    @app.get("/v1/who")
    @app.get("/cells/a/who")
    async def who(visitor: Reader, request: Request) -> dict[str, str]:
        return {"user": visitor.user, "role": visitor.role, "csrf": admission(request).csrf}

    @app.post("/v1/jobs")
    async def submit(visitor: Submitter, request: Request) -> dict[str, Any]:
        request.state.exchange.allow(MOST_BODY)
        return {"user": visitor.user, "size": len(await request.body())}

    @app.post("/cells/a/jobs")
    async def form(visitor: Submitter, request: Request) -> dict[str, Any]:
        return {"user": visitor.user, "size": len(await request.body())}

    @app.post("/v1/machines")
    async def change(visitor: Operator) -> dict[str, str]:
        return {"user": visitor.user}

    @app.get("/v1/events")
    async def events(_: Reader) -> StreamingResponse:
        return StreamingResponse(_endless(b":\n\n"), media_type="text/event-stream")

    @app.get("/v1/flood")
    async def flood(_: Reader) -> StreamingResponse:
        return StreamingResponse(_endless(b"x" * (1 << 20)), media_type="text/plain")

    @app.get("/static/x.css")
    async def style() -> str:
        return "open"

    @app.get("/v1/lax")
    async def lax(_: Reader) -> Response:
        sent = {"Content-Security-Policy": "default-src *", "X-Frame-Options": "ALLOW", "Cache-Control": "private"}
        return Response(b"", headers=sent)

    @app.get("/v1/slow")
    async def slow(_: Reader, seconds: float = 0.5) -> str:
        await anyio.sleep(seconds)
        return "late"

    @app.get("/v1/wrong")
    async def wrong(_: Reader) -> str:
        raise RuntimeError

    return Gate(app, access)


async def _endless(piece: bytes) -> AsyncIterator[bytes]:
    while True:
        yield piece
        await anyio.sleep(0.02)


def client(
    access: Access | None = None,
    *,
    peer: tuple[str, int] | None = ("127.0.0.1", 4),
    sent: Mapping[str, str] | None = None,
) -> httpx.AsyncClient:
    """Return a client of the probe, from a peer (None: a unix socket), with headers that all requests have."""
    app = probe(access or Access(tokens()))
    server = ("127.0.0.1", 7070) if peer else ("/run/s", None)

    async def from_peer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "client": peer, "server": server}, receive, send)

    transport = httpx.ASGITransport(from_peer, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=URL, headers=sent)


def scope_of(method: str, path: str, headers: Mapping[str, str] | None = None) -> Scope:
    """Return the scope of a request as a server makes it."""
    path, _, query = path.partition("?")
    named = [(b"host", HOST.encode())]
    named += [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    return {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": query.encode(), "root_path": "", "scheme": "http", "client": ("127.0.0.1", 4),
        "server": ("127.0.0.1", 7070), "headers": named,
    }  # fmt: skip


async def exchange(
    app: ASGIApp, method: str, path: str, headers: Mapping[str, str] | None = None, messages: tuple[Message, ...] = ()
) -> list[Message]:
    """Return what the gate sends for a request that httpx would not send; `messages` are what the client sends."""
    sent, rest = list[Message](), [*messages] or [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return rest.pop(0) if rest else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope_of(method, path, headers), receive, send)
    return sent
