"""Visitors for tests of the web application: access with one token per role, and clients that send it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from omega.web.access.admissions import Access
from omega.web.access.roles import ROLES, Role, Visitor
from omega.web.access.tokens import Tokens, digest
from omega.web.app import create_app
from omega.web.service import Service

HOST = "127.0.0.1:7070"
URL = f"http://{HOST}"


def token_of(role: Role) -> str:
    """Return the token that `tokens` gives to a role; its user is ada."""
    return f"token-of-the-{role}"


def tokens() -> Tokens:
    """Return a token for each role."""
    return Tokens(start={digest(token_of(role)): Visitor("ada", role) for role in ROLES})


def headers(role: Role = "operator") -> dict[str, str]:
    """Return the header of a request by a role."""
    return {"Authorization": f"Bearer {token_of(role)}"}


@asynccontextmanager
async def visit(
    service: Service, role: Role | None = "operator", access: Access | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the application itself, without a server: not for streams, which never return there."""
    app = create_app(service, access or Access(tokens()))
    sent = headers(role) if role else {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=URL, headers=sent) as it,
    ):
        yield it
