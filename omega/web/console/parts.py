"""What a browser that has an older version of a part needs to show the present one.

A part is the content of ``<div data-part="queue" data-topics="jobs" data-hash="…">`` (`omega.web.console.render`).
In it, a ``<tr>``, ``<li>`` or ``<svg>`` with ``data-key`` is a row: rows that did not change are not sent again. A row
does not contain an element of its own kind, and keys of a part are unique. An ``<svg data-key data-levels>`` is a heat
map with a character per square: only the changed squares are sent, and the browser draws them. Templates escape what
comes from users, so these marks are always their own.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from omega.web.console.render import Part, fingerprint

MOST_BYTES = 60 << 10
"""Maximum size of the parts in one answer, unless the first alone is larger. Compressed it is less than 20 KiB."""
MOST_KNOWN = 4 << 20
"""Maximum number of characters that are kept of older versions."""
_NEAR = 4
"""Unchanged squares between two changed ones that are sent again, because a new run would be longer."""
_ROW = re.compile(r"""<(tr|li|svg)\b[^>]*?\sdata-key="([^"]*)"[^>]*>.*?</\1>""", re.DOTALL)
_LEVELS = re.compile(r"""\sdata-levels="([^"]*)\"""")


class _Row(NamedTuple):
    """A row: its hash, and of a heat map the hash of its tag without the levels, and the levels."""

    hash: str
    tag: str = ""
    levels: str = ""

    @classmethod
    def of(cls, html: str) -> "_Row":
        tag = html[: html.index(">") + 1] if html.startswith("<svg") else ""
        levels = _LEVELS.search(tag)
        return cls(fingerprint(html), *((fingerprint(_LEVELS.sub("", tag)), levels[1]) if levels else ()))


class _Sent(NamedTuple):
    """A version of a part: the hash of what is around its rows, and the rows by key, in order."""

    around: str
    rows: Mapping[str, _Row]

    @classmethod
    def of(cls, part: Part) -> "_Sent":
        rows = {key: _Row.of(html) for key, html in _rows(part.html).items()}
        return cls(fingerprint(_ROW.sub("<>", part.html)) if rows else "", rows)

    @property
    def size(self) -> int:
        return 200 + sum(len(key) + len(row.levels) + 200 for key, row in self.rows.items())


def _rows(html: str) -> dict[str, str]:
    """Return the rows of a part by key; none when keys are not unique: such a part is sent whole."""
    found = [(match[2], match[0]) for match in _ROW.finditer(html)]
    rows = dict(found)
    return rows if len(rows) == len(found) else {}


def _mark(same: set[str], match: "re.Match[str]") -> str:
    kept = " data-same" if match[2] in same else ""
    return f'<{match[1]} data-key="{match[2]}"{kept}></{match[1]}>'


def runs(before: str, now: str) -> dict[str, str]:
    """Return the runs of characters that changed between texts of one length, by the position of their first."""
    found: list[tuple[int, int]] = []
    for at in (i for i, (old, new) in enumerate(zip(before, now, strict=True)) if old != new):
        if found and at - found[-1][1] <= _NEAR:
            found[-1] = found[-1][0], at + 1
        else:
            found.append((at, at + 1))
    return {str(start): now[start:end] for start, end in found}


@dataclass(slots=True)
class SentParts:
    """The rows of parts that browsers have, by the hash of the part; the oldest are dropped."""

    _sent: "OrderedDict[str, _Sent]" = field(default_factory=OrderedDict)
    _size: int = 0

    def keep(self, part: Part) -> _Sent:
        """Keep the rows of a part that is sent; returns them."""
        if part.hash in self._sent:
            self._sent.move_to_end(part.hash)
            return self._sent[part.hash]
        sent = _Sent.of(part)
        if sent.rows:
            self._sent[part.hash] = sent
            self._size += sent.size
            while self._size > MOST_KNOWN and len(self._sent) > 1:
                self._size -= self._sent.popitem(last=False)[1].size
        return sent

    def update(self, part: Part, had: str) -> dict[str, Any]:
        """Return what a browser that has the version `had` (a hash) needs.

        ``rows`` has the rows that are new or changed, ``levels`` the changed squares of heat maps. Unless rows only
        changed where they are, ``html`` is the part with a mark in place of each row; a row marked ``data-same`` stays
        as it is.
        """
        known, new = self._sent.get(had), self.keep(part)
        if not known or not new.rows:
            return {"hash": part.hash, "html": part.html}
        same = {key for key, row in new.rows.items() if key in known.rows and known.rows[key].hash == row.hash}
        levels = {
            key: runs(known.rows[key].levels, row.levels)
            for key, row in new.rows.items()
            if key not in same and row.levels and key in known.rows and _comparable(known.rows[key], row)
        }
        stay = same | levels.keys()
        rows = {key: html for key, html in _rows(part.html).items() if key not in stay}
        update: dict[str, Any] = {"hash": part.hash}
        if known.around != new.around or list(known.rows) != list(new.rows):
            update["html"] = _ROW.sub(partial(_mark, stay), part.html)
        return update | ({"rows": rows} if rows else {}) | ({"levels": levels} if levels else {})


def _comparable(before: _Row, now: _Row) -> bool:
    return before.tag == now.tag and len(before.levels) == len(now.levels)


def answer(
    parts: Mapping[str, Part], asked: Sequence[tuple[str, str]], sent: SentParts, size: Callable[[Any], int]
) -> tuple[dict[str, Any], list[str]]:
    """Return the updates of the parts that differ from those asked for (name, hash), and the names left for later.

    `size` returns the size of an update in bytes; all of them have at most `MOST_BYTES`, but at least one is returned.
    """
    updates: dict[str, Any] = {}
    left, total = [], 0
    for name, had in asked:
        part = parts.get(name)
        if part is None or part.hash == had:
            continue
        update = sent.update(part, had)
        total += size(update)
        if updates and total > MOST_BYTES:
            left.append(name)
        else:
            updates[name] = update
    return updates, left
