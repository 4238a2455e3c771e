"""Who sends a request: a token, the session of a browser, or a user whom a trusted proxy names."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from starlette.datastructures import Headers

from omega.web.access.addresses import Addresses, Proxy, Site
from omega.web.access.open_streams import OpenByToken
from omega.web.access.sessions import Session, Sessions, cookie_name, cookie_of
from omega.web.access.tokens import MOST_TOKEN, USER, Tokens, digest
from omega.web.access.visitors import Admission, Visitor


@dataclass(slots=True)
class Access:
    """Who may do what: the valid tokens, the settings of ``omega serve``, and the open streams."""

    tokens: Tokens
    addresses: Addresses = field(default_factory=Addresses)
    proxy: Proxy | None = None
    read_only: bool = False
    sessions: Sessions = field(default_factory=Sessions)
    streams: OpenByToken = field(default_factory=OpenByToken)

    def admit(self, headers: Headers, client: tuple[str, int] | None, site: Site) -> Admission | None:
        """Return how a request is admitted, None when nothing in it is valid.

        A token in the request counts before the proxy's user, that before a cookie. A wrong one is not replaced by the
        next kind.
        """
        if "authorization" in headers:
            return self._by_token(headers.getlist("authorization"))
        if self.proxy is not None and self.proxy.header in headers and self.proxy.is_peer(client):
            return self._by_proxy(headers.getlist(self.proxy.header))
        found = self.session(headers, site)
        return None if found is None else self._by_session(found)

    def session(self, headers: Headers, site: Site) -> Session | None:
        """Return the session of a request's cookie."""
        name = cookie_name(site.port, secure=site.secure)
        return self.sessions.read(cookie_of("; ".join(headers.getlist("cookie")), name), name)

    def known(self, token: str) -> str | None:
        """Return the hash of a token that is valid, else None."""
        known = digest(token) if 0 < len(token) <= MOST_TOKEN else ""
        return known if known and self.tokens.visitor(known) is not None else None

    def _by_token(self, said: list[str]) -> Admission | None:
        scheme, _, token = said[0].partition(" ")
        if len(said) != 1 or scheme.lower() != "bearer" or len(token) > MOST_TOKEN:
            return None
        return self._admitted(digest(token.strip()), "", lambda: True)

    def _by_session(self, session: Session) -> Admission | None:
        csrf = self.sessions.csrf(session.name)
        return self._admitted(session.known, csrf, lambda: self.sessions.lives(session))

    def _by_proxy(self, said: list[str]) -> Admission | None:
        try:
            user = said[0].encode("latin-1").decode()  # headers are bytes; proxies send UTF-8
        except UnicodeDecodeError:
            return None
        if len(said) != 1 or not USER.fullmatch(user):
            return None
        return self._admitted(f"user:{user}", self.sessions.csrf(f"user:{user}"), lambda: True)

    def _admitted(self, known: str, csrf: str, lives: Callable[[], bool]) -> Admission | None:
        def current() -> Visitor | None:
            visitor = self.tokens.visitor(known) if lives() else None
            if visitor is None and known.startswith("user:") and self.proxy is not None:
                visitor = Visitor(known.removeprefix("user:"), "reader")
            return replace(visitor, role="reader") if visitor is not None and self.read_only else visitor

        visitor = current()
        return None if visitor is None else Admission(visitor, known, csrf, current)
