"""Sessions of browsers: a signed cookie that names a token by its hash, and the token that forms carry against forgery.

Nothing is stored for a session: it lasts as long as its token, at most `LIFETIME_SECONDS`, and ends with the process,
whose key signs it.
"""

import hmac
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import NamedTuple

LIFETIME_SECONDS = 7 * 24 * 3600
MOST_ENDED = 10_000
"""Sessions that were ended by hand and are remembered until they would have expired."""
_COOKIE = re.compile(r"(sha256:[0-9a-f]{64})\.(\d{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})")


class Session(NamedTuple):
    """A session: the hash of its token, when it began in seconds since the process's clock, and its random name."""

    known: str
    began: int
    name: str


def cookie_name(port: int | str, *, secure: bool) -> str:
    """Return the name of the cookie of a server on a port: a browser sends cookies to all ports of a host."""
    return f"__Host-omega-{port}" if secure else f"omega-{port}"


@dataclass(slots=True)
class Sessions:
    """Makes and checks sessions, with a key of its own."""

    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _ended: dict[str, int] = field(default_factory=dict)

    def _sign(self, text: str) -> str:
        return hmac.digest(self._key, text.encode(), "sha256").hex()

    def begin(self, known: str, cookie: str) -> str:
        """Return the value of a cookie, of this name, for a new session of a token."""
        said = f"{known}.{_now()}.{secrets.token_hex(16)}"
        return f"{said}.{self._sign(f'{cookie} {said}')}"

    def read(self, value: str, cookie: str) -> Session | None:
        """Return the session of a cookie, None when it is no longer valid, or was made for another cookie."""
        parts = _COOKIE.fullmatch(value)
        if parts is None:
            return None
        known, began, name, signature = parts.groups()
        if not hmac.compare_digest(signature, self._sign(f"{cookie} {known}.{began}.{name}")):
            return None
        found = Session(known, int(began), name)
        return found if self.lives(found) else None

    def lives(self, session: Session) -> bool:
        """Return whether a session has neither expired nor been ended."""
        return session.name not in self._ended and 0 <= _now() - session.began <= LIFETIME_SECONDS

    def end(self, session: Session) -> None:
        """End a session before its time."""
        now = _now()
        self._ended = {name: until for name, until in self._ended.items() if until >= now}
        while len(self._ended) >= MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self._ended[session.name] = session.began + LIFETIME_SECONDS

    def csrf(self, whose: str) -> str:
        """Return what forms of a session, or of a user of a proxy, carry: other sites cannot read or guess it."""
        return self._sign(f"csrf {whose}")

    @staticmethod
    def same(given: str, wanted: str) -> bool:
        """Compare secrets in a time that does not depend on their contents; none is the same as an empty one."""
        return bool(wanted) and hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _now() -> int:
    """Return seconds of a clock that nobody sets."""
    return int(time.monotonic())


def cookie_of(header: str, name: str) -> str:
    """Return the value of a cookie in a header, "" when it is absent or there twice."""
    values = [value for each in header.split(";") if (value := _value(each, name)) is not None]
    return values[0] if len(values) == 1 else ""


def _value(part: str, name: str) -> str | None:
    own, equals, value = part.strip().partition("=")
    return value if equals and own == name else None


def set_cookie(name: str, value: str, *, secure: bool) -> str:
    """Return the header that sets a session's cookie; without a value it is removed."""
    age = LIFETIME_SECONDS if value else 0
    return f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{'; Secure' * secure}"
