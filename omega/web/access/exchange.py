"""One request and its answer, with limits of size and time, and the headers that every answer has."""

import time
from dataclasses import dataclass, field
from math import inf

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from omega.web.access.open_streams import OpenByToken
from omega.web.access.refusals import KeptForm, Refusal
from omega.web.access.visitors import Admission
from omega.web.sse import last_event

MOST_BODY, MOST_FORM, MOST_OF_STRANGERS = 8 << 20, 256 << 10, 4 << 10
"""Bytes of a body: of a job file or document, which `omega.web.reading` parses; of any other; and without a token."""
MOST_MARKS = 4_000
"""Commas, brackets and the like in a body that is no job file or document: it is parsed on the loop."""
MARKS = (b",", b"[", b"{", b"&")
BODY_SECONDS, STRANGERS_SECONDS = 60.0, 10.0
"""Time in which a body must have arrived, and one without a token."""
LAST_SECONDS = 2.0
STREAM = b"text/event-stream"
GONE: Message = {"type": "http.disconnect"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
"""Headers of every answer; a route cannot replace them."""


@dataclass(slots=True, eq=False, kw_only=True)
class Exchange:
    """Stands between the server and the application for one request."""

    scope: Scope
    server_receive: Receive
    server_send: Send
    streams: OpenByToken
    added: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Further headers of the answer."""
    caching: bytes = b"no-store"
    """Whether browsers may keep the answer, when its route does not say."""
    admission: Admission | None = None
    cancel: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    started: bool = False
    over: bool = False
    """Whether nothing more is sent: the answer is complete, or was replaced by a refusal."""
    is_stream: bool = False
    most: int = MOST_OF_STRANGERS
    """Bytes of the body."""
    _size: int = 0
    _marks: int = 0
    _complete: bool = False
    _began: float = field(default_factory=time.monotonic)
    _replayed: list[Message] = field(default_factory=list)
    _form: bytes = b""
    """The body, if it was read as a form's before the application got it."""

    def admit(self, found: Admission) -> None:
        """Let a visitor send the body of any form."""
        self.admission, self.most = found, MOST_FORM

    def allow(self, most: int) -> None:
        """Let the body be larger: its route does not parse it on the loop."""
        self.most = most

    def begin(self) -> bool:
        """Count the request as a stream of its token; returns False when that has too many."""
        return self.streams.begin(self)

    async def receive(self) -> Message:
        """Return the next message of the server; a body that is too large or too slow ends the request."""
        if self._replayed:
            return self._replayed.pop(0)
        if self._complete:
            return await self.server_receive()
        if self.over:
            return GONE
        message, seconds = GONE, STRANGERS_SECONDS if self.admission is None else BODY_SECONDS
        with anyio.move_on_after(max(0.0, self._began + seconds - time.monotonic())) as limit:
            message = await self.server_receive()
        if limit.cancelled_caught:
            await self.refuse(Refusal(408, f"the body did not arrive within {seconds:g} s"))
            return GONE
        piece: bytes = message.get("body", b"")
        self._size += len(piece)
        if self._size <= self.most < MOST_BODY:
            self._marks += sum(map(piece.count, MARKS))
        if self._size > self.most or self._marks > MOST_MARKS:
            await self.refuse(too_large(self.most))
            return GONE
        self._complete = not message.get("more_body", False)
        return message

    async def body(self) -> bytes:
        """Return the body, which the application receives once more."""
        messages = list[Message]()
        while not messages or messages[-1].get("more_body"):
            messages.append(await self.receive())
        self._replayed = messages
        self._form = b"".join(each.get("body", b"") for each in messages)
        return self._form

    def kept_form(self, *, checked: bool = False) -> KeptForm | None:
        """Return the form that a page of this server sent, to be shown again; None for what another site may have sent.

        `checked`: its token of forms was right. Otherwise browsers say which page sent a form (Sec-Fetch-Site), but not
        on plain HTTP beyond this computer.
        """
        csrf = self.admission.csrf if self.admission is not None else ""
        own = checked or Headers(scope=self.scope).get("sec-fetch-site") == "same-origin"
        if not self._form or not own:
            return None
        return KeptForm.of(self.scope["path"], self._form, csrf)

    async def send(self, message: Message) -> None:
        """Pass a message of the application to the server, with the headers of every answer."""
        if self.over:
            return
        if message["type"] == "http.response.start":
            own = [(name.lower(), value) for name, value in message["headers"]]
            self.is_stream = any(name == b"content-type" and value.startswith(STREAM) for name, value in own)
            if self.is_stream and not self.streams.begin(self):
                await self.refuse(too_many())
                self.cancel.cancel()
                return
            kept = [each for each in own if each[0] not in HEADERS]
            if not any(name == b"cache-control" for name, _ in own):
                kept.append((b"cache-control", self.caching))
            message = {**message, "headers": [*kept, *HEADERS.items(), *self.added]}
            self.started, self.cancel.deadline = True, inf
        elif self.scope["method"] == "HEAD":
            self.over = True
            await self.server_send({"type": "http.response.body", "body": b"", "more_body": False})
            if message.get("more_body", False):
                self.cancel.cancel()  # a stream, or output that would be read to its end for nobody
            return
        elif not message.get("more_body", False):
            self.over = True
        await self.server_send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a problem document if nothing was sent yet; what the application sends is ignored afterwards."""
        if not self.started:
            headers, path = Headers(scope=self.scope), self.scope["path"]
            sent = self.scope["method"] == "POST"
            kept = self.kept_form() if sent and self.admission is not None else None
            page = refusal.page(path, sent=sent, kept=kept) if looks(headers, path) else refusal.response()
            await self.respond(page)
        self.over = True

    async def respond(self, response: Response) -> None:
        """Answer in place of the application."""
        await response(self.scope, self.receive, self.send)

    async def revoke(self, why: str) -> None:
        """End a stream or long poll of a visitor who may no longer read it: with a last event or a problem document."""
        with anyio.move_on_after(LAST_SECONDS):
            if self.is_stream:
                last = last_event("revoked", why, again=False)
                await self.send({"type": "http.response.body", "body": last, "more_body": False})
            await self.refuse(Refusal(401, why, www_authenticate="Bearer"))
        self.over = True
        self.cancel.cancel()


def looks(headers: Headers, path: str) -> bool:
    """Return whether a person looks at the answer to a request: a browser opens a page, or sends a form."""
    return "text/html" in headers.get("accept", "") and not path.startswith(("/v1/", "/metrics"))


def too_large(most: int) -> Refusal:
    """Return the refusal of a body that has more than so many bytes, or too many values for its route."""
    if most == MOST_BODY:
        return Refusal(413, f"the body is larger than {MOST_BODY >> 20} MiB; send it in parts")
    if most == MOST_OF_STRANGERS:
        return Refusal(413, f"the body is larger than {most >> 10} KiB, and has no valid token before it")
    values = f"or has more than {MOST_MARKS:,} values"
    return Refusal(413, f"the body is larger than {most >> 10} KiB, {values}; send it in parts")


def too_many() -> Refusal:
    """Return the refusal of a stream or long poll of a token that has too many."""
    return Refusal(429, "too many streams and long polls of this token are open; close some", retry_after="5")
