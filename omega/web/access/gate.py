"""The gate before the application: every request passes these checks, whatever its path, or is answered here.

In this order: the address under which the server was reached (DNS rebinding), the site whose page sent the request,
the visitor, the token of forms (forgery by other sites), sizes, times and numbers. What is open without a token is in
`_is_open`.
"""

from collections.abc import Mapping
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from omega.web.access.addresses import Site
from omega.web.access.admissions import Access
from omega.web.access.exchange import MOST_BODY, MOST_OF_STRANGERS, Exchange, too_large, too_many
from omega.web.access.login import LOGIN, LOGOUT, Login, field_of
from omega.web.access.refusals import Refusal
from omega.web.connections import CONNECTION

ANSWER_SECONDS = 120.0
"""Time in which an answer must begin, except those of long polls and streams."""
MOST_QUERY = 8 << 10
"""Bytes of a query: they are parsed before a token is known."""
SAFE = ("GET", "HEAD", "OPTIONS")
FORM = "application/x-www-form-urlencoded"
CSRF_HEADER, CSRF_FIELD = "omega-csrf", "csrf"
ELSEWHERE = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site for pages of others; another port of the same host is same-site."""
CORS = {
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, "
    "Last-Event-ID",
    "access-control-max-age": "600",
}
EXPOSED = "ETag, Link, Location, Retry-After, Omega-Index, WWW-Authenticate"


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access, self.login = app, access, Login(access)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on or answer it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":  # nothing here speaks WebSocket
            return
        exchange = Exchange(scope=scope, server_receive=receive, server_send=send, streams=self.access.streams)
        with exchange.cancel:
            try:
                await self._answer(exchange, scope)
            except Refusal as refusal:
                await exchange.refuse(refusal)
            except ClientDisconnect:  # nobody is there, or the body was refused
                exchange.over = True
            finally:
                self.access.streams.end(exchange)
        if exchange.cancel.cancelled_caught:
            await exchange.refuse(Refusal(503, f"no answer within {ANSWER_SECONDS:g} s; try again", retry_after="5"))

    async def _answer(self, exchange: Exchange, scope: Scope) -> None:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        site = self._site(headers, scope)
        foreign = self._foreign(exchange, headers, site, method)
        if foreign and method == "OPTIONS" and "access-control-request-method" in headers:
            await exchange.respond(Response(status_code=204, headers=CORS))
            return
        if len(scope["query_string"]) > MOST_QUERY:
            raise Refusal(414, f"the query is longer than {MOST_QUERY >> 10} KiB; ask for less at a time")
        length = int(headers.get("content-length", "0"))  # the server has checked that it is a number
        about_sessions = path in (LOGIN, LOGOUT) or (method == "GET" and b"token=" in scope["query_string"])
        if about_sessions and length > MOST_OF_STRANGERS:
            raise too_large(MOST_OF_STRANGERS)
        if about_sessions and await self.login.answered(exchange, headers, site):
            return
        client = tuple(scope["client"]) if scope.get("client") else None
        found = self.access.admit(headers, client, site)
        if found is not None and found.ambient and foreign:
            found = None  # scripts of other sites send a token of their own, or nothing
        if found is not None and not scope.get(CONNECTION, _nobody)():
            raise Refusal(
                503, "too many connections with valid tokens; close some", retry_after="5", connection="close"
            )
        if found is not None and length > MOST_BODY:
            raise too_large(MOST_BODY)
        if _is_open(scope):
            exchange.caching = b"public, max-age=31536000, immutable" if b"v=" in scope["query_string"] else b"no-cache"
        elif found is None:
            await self.login.refuse(exchange, headers, site)
            return
        if found is not None:
            exchange.admit(found)
            state = scope.setdefault("state", {})
            state |= {"admission": found, "visitor": found.visitor, "csrf": found.csrf, "exchange": exchange}
            if found.ambient and method not in SAFE:
                await self._check_forgery(exchange, headers, site, found.csrf)
        if _waits(scope):
            if not self.access.streams.begin(exchange):
                raise too_many()
        else:
            exchange.cancel.deadline = anyio.current_time() + ANSWER_SECONDS
        seen = {**scope, "method": "GET"} if method == "HEAD" else scope  # the exchange sends no body
        await self.app(seen, exchange.receive, exchange.send)

    def _site(self, headers: Headers, scope: Scope) -> Site:
        """Return the site of the request. Raises Refusal when its Host is not one of this server."""
        hosts = headers.getlist("host")
        local = str((scope.get("server") or ("",))[0])
        site = self.access.addresses.site(hosts[0], local) if len(hosts) == 1 else None
        if site is None:
            raise Refusal(421, "the Host header names another server; name the address with --public-url")
        return site

    def _foreign(self, exchange: Exchange, headers: Headers, site: Site, method: str) -> bool:
        """Return whether a page of another, listed site sent the request. Raises Refusal for one that is not listed.

        Browsers send ``null`` for a form of our own pages, because of their Referrer-Policy; `_check_forgery` decides.
        """
        origins = headers.getlist("origin")
        if not origins:
            return False
        exchange.added.append((b"vary", b"Origin"))
        if len(origins) == 1 and (self.access.addresses.is_own(origins[0], site) or origins[0] == "null"):
            return False
        if len(origins) > 1 or origins[0] not in self.access.addresses.listed:
            raise Refusal(403, "the request comes from a page of another site; list it with --allow-origin")
        exchange.added += [
            (b"access-control-allow-origin", origins[0].encode("latin-1")),
            (b"access-control-expose-headers", EXPOSED.encode()),
        ]
        return True

    async def _check_forgery(self, exchange: Exchange, headers: Headers, site: Site, wanted: str) -> None:
        """Raise Refusal for a change that a page of another site may have sent with the browser's own credentials.

        Forms carry the session's token in a field, scripts send it as a header. Under /v1 the exact Origin suffices: a
        browser does not let a page choose it.
        """
        if headers.get("sec-fetch-site", "") in ELSEWHERE:
            raise Refusal(403, "the request comes from a page of another site")
        given = headers.get(CSRF_HEADER)
        if given is None and exchange.scope["path"].startswith("/v1/"):
            if self.access.addresses.is_own(headers.get("origin", ""), site):
                return
            raise Refusal(403, f"a change with a cookie needs the header Origin of this server, or {CSRF_HEADER}")
        if given is None and headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
            given = field_of(await exchange.body(), CSRF_FIELD)
        if not self.access.sessions.same(given or "", wanted):
            raise Refusal(403, "the form belongs to another login; load its page again, and send it from there")


def _nobody() -> bool:
    """Return that a request without a connection of its own, as in tests, may go on."""
    return True


def _is_open(scope: Scope) -> bool:
    """Return whether a request needs no token: the files that the login page needs, which hold no data.

    The path is that of the request line, so that no other spelling of a path passes here and leads elsewhere.
    """
    path: bytes = scope.get("raw_path") or b""
    plain = path.startswith(b"/static/") and b"%" not in path and b".." not in path.split(b"/")
    return plain and scope["path"].encode() == path and scope["method"] in ("GET", "HEAD")


def _waits(scope: Mapping[str, Any]) -> bool:
    """Return whether a request may wait long by its nature: a long poll or a stream."""
    return any(each.startswith((b"wait=", b"follow=", b"index=")) for each in scope["query_string"].split(b"&"))
