"""How a browser gets its session: the token of an address or a form becomes a cookie, and is gone from the address."""

from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response

from omega.web.access.addresses import Site
from omega.web.access.admissions import Access
from omega.web.access.exchange import MOST_OF_STRANGERS, Exchange, looks
from omega.web.access.refusals import KeptForm, Refusal, form_page
from omega.web.access.sessions import cookie_name, cookie_of, set_cookie
from omega.web.console.render import environment

LOGIN, LOGOUT = "/login", "/logout"
ELSEWHERE = ("cross-site", "same-site")
UNSENT_BEFORE = "The form was not sent before."
UNSENT = "The session has ended, and nothing was changed. Sign in, and send the form again."
KEPT = "kept"
"""The field of the login page with the action of a form that was not accepted; its fields are named ``kept.NAME``."""
LOGIN_BYTES = 1 << 10
"""Bytes of the login page's own fields, and of the names of kept ones: so much less a kept form may have."""
UNKNOWN = "This token is not valid: it has expired, was revoked, or is of another server."


class Login:
    """The routes that are open without a session."""

    def __init__(self, access: Access) -> None:
        self.access = access

    async def answered(self, exchange: Exchange, headers: Headers, site: Site) -> bool:
        """Answer a request for a session; returns False for one that the application answers."""
        scope, method = exchange.scope, exchange.scope["method"]
        path, query = scope["path"], parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        rest = [(name, value) for name, value in query if name != "token"]
        if path == LOGOUT and method == "POST":
            await self._log_out(exchange, headers, site)
        elif method == "GET" and tokens and not path.startswith("/v1/"):
            if headers.get("sec-fetch-site", "") in ELSEWHERE:  # nobody logs others in by a link
                raise Refusal(403, "a link on a page led here; copy the address, and open it yourself")
            back = dict(rest).get("next", "/") if path == LOGIN else local(path, rest)
            await self._begin(exchange, site, tokens[0], back)
        elif path == LOGIN and method in ("GET", "HEAD"):
            await exchange.respond(page(dict(rest).get("next", "/"), UNKNOWN if ("failed", "1") in rest else ""))
        elif path == LOGIN and method == "POST":
            if headers.get("sec-fetch-site", "") in ELSEWHERE:
                raise Refusal(403, "the form was sent by a page of another site")
            fields = parse_qsl((await exchange.body()).decode("latin-1"), keep_blank_values=True)
            form = dict(reversed(fields))
            own_page = headers.get("sec-fetch-site") == "same-origin"
            kept = kept_of(fields) if own_page and KEPT in form else None
            await self._begin(exchange, site, form.get("token", "").strip(), form.get("next", "/"), kept)
        else:
            return False
        return True

    async def _begin(self, exchange: Exchange, site: Site, token: str, back: str, kept: KeptForm | None = None) -> None:
        """Begin the session of a token, and lead to a page, or show a form that was kept; without a valid token, lead
        to the login page.
        """
        known, back = self.access.known(token), safe(back)
        if known is None:
            failed = _to(f"{LOGIN}?{urlencode({'next': back, 'failed': 1})}")
            await exchange.respond(failed if kept is None else page(back, UNKNOWN, unsent=True, kept=kept))
            return
        name = cookie_name(site.port, secure=site.secure)
        value = self.access.sessions.begin(known, name)
        cookie, session = set_cookie(name, value, secure=site.secure), self.access.sessions.read(value, name)
        if kept is None or session is None:
            await exchange.respond(_to(back, cookie))
            return
        answer = Refusal(200, UNSENT_BEFORE).page(
            kept.action, sent=True, kept=kept._replace(csrf=self.access.sessions.csrf(session.name))
        )
        answer.headers.append("Set-Cookie", cookie)
        await exchange.respond(answer)

    async def _log_out(self, exchange: Exchange, headers: Headers, site: Site) -> None:
        session = self.access.session(headers, site)
        if session is not None:
            if headers.get("sec-fetch-site", "") in ELSEWHERE:
                raise Refusal(403, "the form was sent by a page of another site")
            csrf = field_of(await exchange.body(), "csrf")
            if not self.access.sessions.same(csrf, self.access.sessions.csrf(session.name)):
                raise Refusal(403, "the form belongs to another login; load its page again, and send it from there")
            self.access.sessions.end(session)
        name = cookie_name(site.port, secure=site.secure)
        await exchange.respond(_to(LOGIN, set_cookie(name, "", secure=site.secure)))

    async def refuse(self, exchange: Exchange, headers: Headers, site: Site) -> None:
        """Answer a request without a valid visitor: with the login page where a person looks at the answer.

        A link on another site brings no cookie (SameSite=Strict): the page has a link to the same address for it.
        """
        scope = exchange.scope
        if looks(headers, scope["path"]):
            query, sent = (
                parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True),
                scope["method"] == "POST",
            )
            back = local(form_page(scope["path"]), []) if sent else local(scope["path"], query)
            kept = await self._kept(exchange, headers) if sent else None
            await exchange.respond(page(back, UNSENT if sent else "", status=401, unsent=sent, kept=kept))
            return
        if "authorization" in headers:
            wrong = 'Bearer error="invalid_token"'
            raise Refusal(401, "the token is not valid; see omega token --help", www_authenticate=wrong)
        if cookie_of("; ".join(headers.getlist("cookie")), cookie_name(site.port, secure=site.secure)):
            raise Refusal(
                401, "the session has ended, or its token was revoked; log in again", www_authenticate="Bearer"
            )
        raise Refusal(401, "no token; send Authorization: Bearer TOKEN", www_authenticate="Bearer")

    @staticmethod
    async def _kept(exchange: Exchange, headers: Headers) -> KeptForm | None:
        """Return the form that a page of this server sent; None for a larger one than strangers may send."""
        length = int(headers.get("content-length", MOST_OF_STRANGERS))
        if headers.get("sec-fetch-site") != "same-origin" or length > MOST_OF_STRANGERS - LOGIN_BYTES:
            return None
        await exchange.body()
        return exchange.kept_form()


def kept_of(fields: list[tuple[str, str]]) -> KeptForm | None:
    """Return the form that the fields of the login page have."""
    action = next((value for name, value in fields if name == KEPT), "/")
    found = [(name.removeprefix(f"{KEPT}."), value) for name, value in fields if name.startswith(f"{KEPT}.")]
    return KeptForm(safe(action), tuple(found)) if found else None


def page(back: str, error: str, *, status: int = 200, unsent: bool = False, kept: KeptForm | None = None) -> Response:
    """Return the login page, which leads to another page of this server afterwards; `unsent`: back to a form.

    `kept`: that form, for browsers without JavaScript.
    """
    html = environment().get_template("login.html").render(back=safe(back), error=error, unsent=unsent, kept=kept)
    return HTMLResponse(html, status, {"Cache-Control": "no-store"})


def local(path: str, query: list[tuple[str, str]]) -> str:
    """Return an address of this server without its token: never one that a browser reads as another server's."""
    words = urlencode([(name, value) for name, value in query if name != "token"])
    return f"/{quote(path.lstrip('/'), safe='/~')}{'?' * bool(words)}{words}"


def safe(back: str) -> str:
    """Return an address of this server from one of a form or query, ``/`` when it may be another's."""
    path, _, query = back.partition("?")
    if not path.startswith("/") or path.startswith(("//", "/\\")) or not back.isprintable():
        return "/"
    words = urlencode([(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "token"])
    return f"/{quote(path.lstrip('/'), safe='/%~')}{'?' * bool(words)}{words}"


def _to(address: str, cookie: str = "") -> Response:
    response = Response(status_code=303, headers={"Location": address})
    if cookie:
        response.headers.append("Set-Cookie", cookie)
    return response


def field_of(body: bytes, name: str) -> str:
    """Return a field of a form, "" when it is absent or there twice; its value needs no decoding."""
    start = f"{name}=".encode()
    values = [each.removeprefix(start) for each in body.split(b"&") if each.startswith(start)]
    return values[0].decode("latin-1") if len(values) == 1 else ""
