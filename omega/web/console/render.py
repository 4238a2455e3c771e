"""HTML of the console: the Jinja environment, its filters, and what every page has around its content.

Every value of a template is escaped; control, bidirectional and invisible characters are shown as text, as in
JSON. The macros for pages are described at the top of ``templates/macros.html``.
"""

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from omega.cellstate.plain_text import cleaned, escaped
from omega.queries import units
from omega.queries.event_text import clock
from omega.web.access.visitors import Visitor
from omega.web.console import charts

NOW_MS: ContextVar[int] = ContextVar("now_ms", default=0)
"""The time of the reading that is rendered: macros have no variables of the page that imports them."""
_ROUNDED = re.compile(r"(<time[^>]*>)[^<]*")
TEMPLATES = Path(__file__).parent.parent / "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What every page has around its content.

    `command` and `url` are the command with ``--json`` and the path under ``/v1`` that give the same data. `now_ms` is
    the time of the reading (ms since 1970), 0 before the first one.
    """

    visitor: Visitor
    title: str
    cell: str = ""
    """Empty on the list of cells."""
    section: str = ""
    """The page that the navigation marks: ``jobs``."""
    command: str = ""
    url: str = ""
    method: str = "GET"
    note: str = ""
    """How what the command prints differs from the page."""
    csrf: str = ""
    index: str = ""
    now_ms: int = 0
    unavailable: str = ""
    """Why the last reading failed; empty when it did not."""
    live: bool = True
    """Whether browsers update the page by its own address: that of the answer to a form is another page's."""
    page: str = ""
    """The address of the page with the forms of the answer to a form; empty: its own."""
    loading: tuple[int, int] | None = None
    """How many records the first reading has read, of how many; None afterwards."""
    again: tuple[int, int] | None = None
    """The same while the whole cell is read again, and the page shows what was read before."""
    message: tuple[str, str] | None = None
    """``done``, ``note`` or ``error``, and the text of the message above the page."""


@dataclass(frozen=True, slots=True)
class Part:
    """The HTML within a part, and a hash of it in which ages do not count: browsers update these by themselves."""

    hash: str
    html: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page: the whole document, and its parts by name."""

    html: str
    parts: Mapping[str, Part]


@dataclass(slots=True)
class Parts:
    """Collects the parts of a page while it is rendered."""

    found: dict[str, Part] = field(default_factory=dict)

    def __call__(self, name: str, topics: str = "", *, title: str = "", kind: str = "", caller: Any) -> Markup:
        """Return a section whose content browsers replace when one of its topics changes (``jobs cell``)."""
        html = str(caller()).strip()
        known = self.found[name] = Part(fingerprint(html), html)
        head = f'<h2 id="{name}-title">{escape(title)}</h2>' if title else ""
        label = f' aria-labelledby="{name}-title"' if title else ""
        return Markup(  # noqa: S704 - its pieces are escaped
            f'<section class="part {kind}" id="{name}"{label}>{head}<div data-part="{name}" data-topics="{topics}"'
            f' data-hash="{known.hash}">{html}</div></section>'
        )


def fingerprint(html: str) -> str:
    """Return a short hash of HTML; the texts of ``<time>`` elements do not count."""
    return blake2b(_ROUNDED.sub(r"\1", html).encode("utf-8", "replace"), digest_size=6).hexdigest()


def render(template: str, frame: Frame, values: Mapping[str, Any]) -> Rendered:
    """Render a page. Its template gets `values`, `frame`, `parts`, `link` (of this cell) and `now_ms`."""
    parts = Parts()
    NOW_MS.set(frame.now_ms)
    html = (
        environment()
        .get_template(template)
        .render(values, frame=frame, parts=parts, link=link_of(frame.cell), now_ms=frame.now_ms)
    )
    return Rendered(html, parts.found)


def link_of(cell: str) -> Callable[..., str]:
    """Return a function that makes addresses in a cell's pages: ``link("jobs", state="failed")``.

    Values that are None or empty are left out.
    """

    def link(*path: str | int, **query: str | int | None) -> str:
        return _address(cell, path, tuple(query.items()))

    return link


@lru_cache(maxsize=8_192)
def _address(cell: str, path: tuple[object, ...], query: tuple[tuple[str, object], ...]) -> str:
    words = "/".join(quote(str(each), safe="", errors="replace") for each in path)
    given = {name: value for name, value in query if value not in (None, "")}
    return f"/cells/{quote(cell, safe='')}/{words}" + (f"?{urlencode(given, errors='replace')}" if given else "")


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, auto_reload=False,
        trim_blocks=True, lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    made.filters |= {
        "n": lambda value: "–" if value is None else f"{value:,}",
        "amount": lambda value, resource: units.amount(resource, int(value)),
        "percent": lambda part, whole=1.0: units.percent(part, whole),
        "fraction": lambda value: "–" if value is None else units.fraction(value),
        "seconds": lambda value: "–" if value is None else units.seconds(value),
        "duration": units.age,
        "count": units.count,
        "listing": units.listing,
        "in_use": units.in_use,
        "when": _when,
        "offset": _offset,
        "zone": _zone,
        "ago": _ago,
        "name": _name,
        "lines": _lines,
    }
    made.globals |= {"chart": charts, "version": _version()}
    return made


def _shown(value: Any) -> Any:
    """Return an output of a template with unsafe characters as text; "" for None."""
    if isinstance(value, str):
        return value if isinstance(value, Markup) else escaped(value)
    return "" if value is None else value


def _name(value: object) -> Markup:
    """Return a name that somebody chose, isolated from the direction of the text around it."""
    return Markup(f"<bdi>{escape(escaped(str(value)))}</bdi>")  # noqa: S704 - it is escaped


def _lines(text: str) -> Markup:
    """Return text of several lines: without terminal escapes and other characters that must not be shown."""
    return escape(cleaned(text, "\n\t"))


def _when(at_ms: int | None) -> Markup:
    """Return a point in time as the local time of the server."""
    return _time("", at_ms, lambda ms: clock(ms, NOW_MS.get())[:-4])


def _offset(at_ms: int) -> int:
    """Return how many seconds the local time of the server is ahead of UTC."""
    zone = datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone().utcoffset()
    return 0 if zone is None else int(zone.total_seconds())


def _zone(at_ms: int) -> str:
    """Return the zone of the local times of the server: ``CEST (UTC+02:00)``."""
    at = datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone()
    offset = f"{at:%z}"
    return "UTC" if at.tzname() == "UTC" else f"{at.tzname()} (UTC{offset[:3]}:{offset[3:5]})"


def _ago(at_ms: int | None) -> Markup:
    """Return how long ago a point in time was; the browser keeps it up to date."""
    return _time(' class="age"', at_ms, lambda ms: units.age((NOW_MS.get() - ms) / 1000))


def _time(marks: str, at_ms: int | None, text: Callable[[int], str]) -> Markup:
    if at_ms is None:
        return Markup("–")
    at = datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Markup(f'<time{marks} datetime="{at}">{text(at_ms)}</time>')  # noqa: S704 - numbers only


def _version() -> str:
    """Return a word for the version of the static files, which browsers keep for long."""
    static = TEMPLATES.with_name("static")
    made = blake2b(digest_size=4)
    for name in ("console.css", "console.js"):
        made.update((static / name).read_bytes() if (static / name).exists() else b"")
    return made.hexdigest()
