"""The warning of commands that a store refuses writes."""

from typing import TYPE_CHECKING

from omega.cellstate.refused_writes import said
from omega.cli import render
from omega.queries.cells import writes_json

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell


def warn_of_refused_writes(cell: "RedisCell", *, as_json: bool) -> dict[str, str | None]:
    """Print the warning in text; return the field of the JSON document, None where the store takes writes."""
    document = writes_json(cell)
    if (reason := document["refuses_writes"]) and not as_json:
        render.warning(said(reason))
    return document
