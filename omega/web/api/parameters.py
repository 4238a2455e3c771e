"""Parameters that several routes take, as dependencies."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query
from pydantic import AfterValidator

from omega.cellstate.errors import BadInput
from omega.client.arguments import known
from omega.web.api.slashes import decoded
from omega.web.service import Served

MOST_INDEX = 1 << 53
MOST_TAGS = 16
"""Entries of If-Match: each may cost a call."""


async def _cell_name(
    served: Served,
    cell: Annotated[str | None, Query(description="Cell; default: that of omega serve, else the only one")] = None,
) -> str:
    return await served.cell_name(cell)


CellName = Annotated[str, Depends(_cell_name)]
"""The name of the cell of a request."""
DryRun = Annotated[bool, Query(description="Refuse and answer as the change would, and change nothing")]
Fields = Annotated[str | None, Query(description="Fields of each row, comma-separated; nested ones as a.b")]


async def _job(job: Annotated[str, Path(description="Id, name, or beginning of an id")]) -> str:
    return decoded(job)


async def _name(name: Annotated[str, Path(description="Name")]) -> str:
    return decoded(name)


JobName = Annotated[str, Depends(_job)]
Name = Annotated[str, Depends(_name)]


async def _check(
    if_match: Annotated[
        list[str] | None,
        Header(description="Modify index that the job must have, in quotes, or an ETag of it; or a list of them"),
    ] = None,
) -> Sequence[int]:
    """Return the modify indices of ``If-Match``, none without one. Raises BadInput."""
    tags = [each.strip() for each in ",".join(if_match or ["*"]).split(",")]
    if "*" in tags:
        return ()
    if len(tags) > MOST_TAGS:
        raise BadInput(f"If-Match: has {len(tags)} tags; give at most {MOST_TAGS}")
    return tuple(map(_index, tags))


def _index(tag: str) -> int:
    text = tag.removeprefix("W/").strip('"').partition(".")[0]
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_INDEX)) and int(text) < MOST_INDEX):
        raise BadInput(f'If-Match {tag[:40]!r}: is no modify index; write for example "42"')
    return int(text)


Check = Annotated[Sequence[int], Depends(_check)]
"""The modify indices one of which a change requires, none: any."""


def must_be_new(if_none_match: str | None) -> bool:
    """Return whether ``If-None-Match`` asks that the jobs do not exist yet. Raises BadInput."""
    if if_none_match not in (None, "*"):
        raise BadInput(f"If-None-Match {str(if_none_match)[:40]!r}: a submission takes * only")
    return if_none_match == "*"


def flag(name: str, text: str | None) -> bool:
    """Return a parameter that is true or false, false without it. Raises BadInput."""
    if text not in (None, "true", "false", "1", "0"):
        raise BadInput(f"{name} {str(text)[:40]!r}: is neither true nor false")
    return text in ("true", "1")


def one_of(what: str, words: Collection[str]) -> AfterValidator:
    """Return a validator of a word, with the error of the command line."""

    def check(word: str | None) -> str | None:
        known(what, word, words)
        return word

    return AfterValidator(check)


def words_query(words: Collection[str], description: str) -> Any:
    """Return a parameter that takes one of some words, for the OpenAPI document."""
    return Query(description=description, json_schema_extra={"enum": list(words)})
