"""Answers of the API: the documents of ``--json``, with their index, ETag and selected fields."""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from omega.cellstate.plain_text import escaped
from omega.queries.columns import chosen

MEDIA_TYPE = "application/json"
INDEX = "Omega-Index"
"""Header with the version and the tag of the reading that an answer is from: the `index` of the next poll."""

_PASSING = re.compile(rb'"(?:age|left)_seconds":[0-9.e+-]+')
"""Fields that change by time alone: answers that differ in nothing else have the same (weak) ETag."""


def encoded(document: Any) -> bytes:
    """Return a document as JSON on one line, without characters that a terminal must not get."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode() if text.isascii() else escaped(text).encode("utf-8", "replace")


def selected(document: Mapping[str, Any], rows: str | None, fields: str | None) -> Mapping[str, Any]:
    """Return a document with some fields of its rows, or of itself when it has none. Raises BadInput."""
    names = [name.strip() for name in (fields or "").split(",") if name.strip()]
    if not names:
        return document
    if rows is None:
        return chosen([document], names)[0]
    return {**document, rows: chosen(document[rows], names)}


def answer(
    request: Request,
    document: Mapping[str, Any],
    *,
    rows: str | None = None,
    fields: str | None = None,
    index: object = None,
    modified: int | None = None,
    status: int = 200,
) -> Response:
    """Return a document; 304 without it when the request has its ETag.

    `rows` names the field with the rows that `fields` selects from. `index`: that of the mirror. `modified`: the modify
    index of the thing that is shown, which its ETag begins with, so that ``If-Match`` takes it.
    """
    body = encoded(selected(document, rows, fields))
    begin = index if modified is None else modified
    digest = blake2b(_PASSING.sub(b"", body), digest_size=8).hexdigest()
    tag = digest if begin is None else f"{begin}.{digest}"
    headers = {"ETag": f'W/"{tag}"', "Cache-Control": "no-cache"}
    if index is not None:
        headers[INDEX] = str(index)
    if status == 200 and request.method == "GET" and matches(request.headers.getlist("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, status, headers, MEDIA_TYPE)


def matches(asked: Sequence[str], tag: str) -> bool:
    """Return whether headers If-None-Match name a tag; ``*`` names every one (RFC 9110, 13.1.2: weak comparison)."""
    named = {each.strip().removeprefix("W/") for each in ",".join(asked).split(",")}
    return "*" in named or tag.removeprefix("W/") in named
