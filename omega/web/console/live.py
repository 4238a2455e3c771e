"""Keeps pages live: the stream that tells browsers which topics changed, and updates of the parts of a page.

A page is the same URL twice. Without a header it is the whole document. ``console.js`` asks with the header
``Omega-Parts: queue=HASH,events=HASH`` for the parts that changed, at the pace of the header ``Omega-Pace`` (seconds),
which depends on what updates cost the server. Rendered parts are kept by URL and reading, so that equal pages of many
browsers are rendered once.

What the script reads of a page: ``data-cell`` of the body; ``data-part``, ``data-topics`` and ``data-hash`` of parts;
rows and heat maps (`omega.web.console.parts`); ``<time class="age">``; ``<pre id="log" data-log="URL">``, outside of
parts, which receives the output of a task, and ``<p data-log-status="log">``, which receives the source of it. A heat
map is ``<svg data-key data-levels="0a3…" data-runs="x,y,n …" data-step="9" data-side="8">`` with a
``<path data-level="0">`` for each level: a run is n squares from left to right, ``step`` apart; squares are
numbered in the order of runs.
"""

import gzip
import json
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from omega.queries.mirror.index import Index
from omega.web.access.visitors import Reader
from omega.web.console.parts import SentParts, answer
from omega.web.console.render import Part, Rendered
from omega.web.service import Served
from omega.web.sse import ALIVE, EventStream, event

TOPICS = frozenset(("cell", "jobs", "machines", "schedulers", "pools", "events"))
STORE = "store"
"""The topic of whether the store answers; the part of this name is on every page."""
SHARE = 0.2
"""Processor time for the updates of all pages, as a fraction of one core, that the pace aims at."""
FASTEST, SLOWEST = 1.0, 30.0
"""Seconds between the updates of a page."""
OF_A_REQUEST = 0.0015
"""Processor time of a request around the update itself, in seconds: its head, its checks, its answer."""
WINDOW_SECONDS = 10.0
"""Time over which the cost of updates is averaged."""
MOST_RENDERED = 200
"""Rendered pages whose parts are kept."""
MOST_RENDERED_CHARACTERS = 16 << 20
MOST_ASKED = 50
"""Parts in one request."""
STANDING_SECONDS = 3.0
"""Time between checks whether the store answers, which wakes nobody."""
PARTS, PACE = "Omega-Parts", "Omega-Pace"

Fetch: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
"""Reads what a page shows beside the mirror from the store."""
Render: TypeAlias = Callable[[Mapping[str, Any]], Rendered]

router = APIRouter(include_in_schema=False)


@dataclass(slots=True)
class Pace:
    """The time between updates of a page at which all updates take about `SHARE` of a core."""

    seconds: float = FASTEST
    _spent: deque[tuple[float, float]] = field(default_factory=deque)
    """Of each update: when, and its processor time multiplied by the pace that its browser had."""
    _sum: float = 0.0

    def spent(self, now: float, cost: float) -> None:
        """Count an update that took `cost` seconds of processor time, and set the pace.

        n browsers at a pace of p make n/p updates a second. The sum of cost times pace over a window of w seconds is
        therefore w times what n updates cost, whatever the pace was; at a pace of n updates' cost / `SHARE` they take
        that share.
        """
        self._spent.append((now, cost * self.seconds))
        self._sum += cost * self.seconds
        window = max(WINDOW_SECONDS, 2 * self.seconds)
        while now - self._spent[0][0] > window:
            self._sum -= self._spent.popleft()[1]
        self.seconds = min(SLOWEST, max(FASTEST, self._sum / window / SHARE))


@dataclass(slots=True)
class _Kept:
    """The parts of one page at one reading; the lock lets one request render them."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    reading: Hashable = None
    at_ms: int = 0
    parts: Mapping[str, Part] = field(default_factory=dict)
    answers: dict[str, bytes] = field(default_factory=dict)
    """The updates that were made of them, by the versions that browsers had."""

    @property
    def size(self) -> int:
        return sum(len(part.html) for part in self.parts.values())


@dataclass(slots=True)
class LivePages:
    """What the pages of a process share."""

    pace: Pace = field(default_factory=Pace)
    sent: SentParts = field(default_factory=SentParts)
    rendered: int = 0
    """How many times a page was rendered for an update."""
    _kept: "OrderedDict[str, _Kept]" = field(default_factory=OrderedDict)

    async def respond(
        self, request: Request, mirror: Any, render: Render, fetch: Fetch | None = None, status: int = 200
    ) -> Response:
        """Return a page that `render` makes from the mirror, or the parts of it that a browser asks for.

        `render` gets what `fetch` returns, for which the store is read.
        """
        asked = request.headers.get(PARTS)
        headers = {PACE: f"{self.pace.seconds:.1f}", "Cache-Control": "no-store", "Vary": PARTS}
        if asked is None:
            page = render(await fetch() if fetch else {})
            for part in page.parts.values():
                self.sent.keep(part)
            return HTMLResponse(page.html, status, headers)
        names = [(name, had) for name, _, had in (pair.partition("=") for pair in asked.split(",")[:MOST_ASKED])]
        url = f"{request.url.path}?{request.url.query}"
        kept = self._kept.setdefault(url, _Kept())
        self._kept.move_to_end(url)
        async with kept.lock:
            cost = await self._renew(kept, mirror, render, fetch)
        began = time.thread_time()
        body = kept.answers.get(asked)
        if body is None:
            body = kept.answers[asked] = self._update(kept, names)
        self.pace.spent(time.monotonic(), OF_A_REQUEST + cost + time.thread_time() - began)
        headers |= {PACE: f"{self.pace.seconds:.1f}", "Content-Encoding": "gzip"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            del headers["Content-Encoding"]
            body = gzip.decompress(body)
        return Response(body, headers=headers, media_type="application/json")

    def _update(self, kept: "_Kept", asked: Sequence[tuple[str, str]]) -> bytes:
        """Return the answer to a browser that has these versions of parts (name, hash), compressed."""
        updates, left = answer(kept.parts, asked, self.sent, lambda update: len(_encoded(update)))
        gone = [name for name, _ in asked if name not in kept.parts]
        body = _encoded({"at_ms": kept.at_ms, "parts": updates, "more": left, "gone": gone})
        return gzip.compress(body, compresslevel=1, mtime=0)

    async def _renew(self, kept: "_Kept", mirror: Any, render: Render, fetch: Fetch | None) -> float:
        """Render a page again if its reading is an older one; returns the processor time that it took."""
        reading = mirror.index, mirror.unavailable, mirror.loading
        if kept.reading == reading:
            return 0.0
        fetched = await fetch() if fetch else {}
        began = time.thread_time()
        reading, kept.at_ms = (mirror.index, mirror.unavailable, mirror.loading), mirror.at_ms
        kept.parts, kept.reading, kept.answers = render(fetched).parts, reading, {}
        self.rendered += 1
        self._drop()
        return time.thread_time() - began

    def _drop(self) -> None:
        total = sum(kept.size for kept in self._kept.values())
        while len(self._kept) > MOST_RENDERED or (total > MOST_RENDERED_CHARACTERS and len(self._kept) > 1):
            total -= self._kept.popitem(last=False)[1].size


def _encoded(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


# The stream


async def _readings(served: Served, cell: str, at: Index, stood: tuple[bool, bool, bool]) -> AsyncGenerator[bytes]:
    """Yield a message for each reading that changed something: its index, its time, and the topics that changed."""
    while True:
        await served.mirrors.changed(cell, at, STANDING_SECONDS, topics=TOPICS)
        mirror = await served.mirrors.cell(cell)
        topics = _changed(mirror, at) if mirror.index != at else TOPICS - TOPICS
        at = mirror.index
        if stood != (stood := _standing(mirror)):
            topics |= {STORE}
        yield _message(str(at), mirror.at_ms, topics) if topics else ALIVE


def _changed(mirror: Any, after: Index) -> frozenset[str]:
    """Return the topics that changed after an index; all of them when the mirror does not know it."""
    if not mirror.has(after):
        return TOPICS
    return frozenset(topic for topic in TOPICS if mirror.topic_index(topic).passes(after))


def _standing(mirror: Any) -> tuple[bool, bool, bool]:
    """Return whether the store is away, whether the first reading is done, and whether all is read again."""
    return bool(mirror.unavailable), mirror.loading[0] == mirror.loading[1], mirror.again is not None


@lru_cache(maxsize=64)
def _message(index: str, at_ms: int, topics: frozenset[str]) -> bytes:
    """Return the message of a reading: it is the same for all streams of a cell."""
    return event({"index": index, "at_ms": at_ms, "topics": sorted(topics)})


@router.get("/cells/{cell}/live")
async def live(request: Request, served: Served, cell: str, _: Reader) -> EventStream:
    """Stream which topics of a cell changed, for the pages of one browser."""
    mirror = await served.mirrors.cell(cell)  # Refused when there is none, before the stream begins
    return EventStream(_readings(served, cell, mirror.index, _standing(mirror)), request)
