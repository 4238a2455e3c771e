"""Pages of a list of jobs: sorted by any column, continued after a row."""

from heapq import nsmallest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.queries.mirror.job_table import ABSENT, JobFilter, JobTable

NUMBERS = {"submitted": "order", "changed": "changed", "precedence": "precedence", "tasks": "tasks", "placed": "placed",
           "waiting": "waiting", "modified": "modified"}  # a table # fmt: skip
"""Sorts by a number, and its column."""
MOST_DIGITS = 18
SORTS = (*NUMBERS, "name", "state", "kind", "user", "pool")
"""What jobs are sorted by, descending after ``-``; equal ones by submission, in the same direction."""


class Page(NamedTuple):
    """Rows of a page in its order, the number of rows of the whole list, and the cursor of the next page."""

    rows: list[int]
    total: int
    following: str | None


def newest(table: JobTable, rows: NDArray[np.intp], limit: int | None, before: int | None) -> tuple[list[int], int]:
    """Return the newest rows (before a submission) in order of submission, and how many older ones are left."""
    order = table.column("order")[rows]
    if before is not None:
        rows, order = rows[order < before], order[order < before]
    if limit is not None and limit < len(rows):
        chosen = np.argpartition(-order, limit)[:limit]
        left = len(rows) - limit
        rows, order = rows[chosen], order[chosen]
    else:
        left = 0
    found: list[int] = rows[np.argsort(order)].tolist()
    return found, left


def submission(cursor: str) -> int:
    """Return the number of a submission. Raises BadInput."""
    if not cursor.isdecimal() or len(cursor) > MOST_DIGITS:
        raise BadInput(f"cursor {cursor!r}: is none; write the number of a submission, as a page has it (next)")
    return int(cursor)


def ends(
    table: JobTable, wanted: JobFilter, shown: list[int], numbers: tuple[int, int], limit: int | None,
    before: int | None,
) -> tuple[int | None, int | None]:  # fmt: skip
    """Return `total` and `next` as the store's pages have them (cellstate/pages.py).

    `numbers`: how many jobs pass the filter, and how many of these are older than those shown.
    """
    passing, left = numbers
    oldest = int(table.column("order")[shown[0]]) if shown else 0
    if limit is None:
        return passing, None
    if wanted == JobFilter():
        return passing, oldest if left else None
    there = table.column("order")[table.column("state") != ABSENT]
    if len(shown) == limit and bool((there < oldest).any()):
        return None, oldest
    return passing if before is None else None, None


def page(table: JobTable, rows: NDArray[np.intp], sort: str, limit: int, cursor: str | None) -> Page:
    """Return the first rows in an order (`SORTS`), or those after a cursor. Raises BadInput."""
    name, sign = sort.removeprefix("-"), -1 if sort.startswith("-") else 1
    if name not in SORTS:
        raise BadInput(f"sort {sort!r}: choose from {', '.join(SORTS)}, descending with a - before it")
    total = len(rows)
    order = sign * table.column("order")[rows]
    keys = _texts(table, name, rows) if name not in NUMBERS else sign * table.column(NUMBERS[name])[rows]
    if isinstance(keys, list):
        return _by_text(list(zip(keys, order.tolist(), rows.tolist(), strict=True)), limit, cursor, total, sign)
    if cursor is not None:
        key, last = _read(cursor, int)
        later = (keys > key) | ((keys == key) & (order > last))
        rows, keys, order = rows[later], keys[later], order[later]
    more = len(rows) > limit
    if more:
        bound = np.partition(keys, limit)[limit]
        some = keys <= bound
        rows, keys, order = rows[some], keys[some], order[some]
    at = np.lexsort((order, keys))[:limit]
    following = f"{int(keys[at[-1]])} {int(order[at[-1]])}" if more and len(at) else None
    return Page(rows[at].tolist(), total, following)


def _by_text(
    listed: list[tuple[str, int, int]], limit: int, cursor: str | None, total: int, sign: int
) -> Page:  # fmt: skip
    """As `page`, by a text; `listed` has text, order and row."""
    if cursor is not None:
        last = _read(cursor, str)
        listed = [each for each in listed if (each[:2] > last if sign > 0 else _before(each[:2], last))]
    if sign > 0:
        shown = nsmallest(limit, listed)
    else:
        shown = sorted(sorted(listed, key=lambda each: each[1]), key=lambda each: each[0], reverse=True)[:limit]
    following = f"{shown[-1][1]} {shown[-1][0]}" if len(listed) > limit and shown else None
    return Page([row for _, _, row in shown], total, following)


def _before(each: tuple[str, int], last: tuple[Any, int]) -> bool:
    return each[0] < last[0] or (each[0] == last[0] and each[1] > last[1])


def _read(cursor: str, kind: type) -> tuple[Any, int]:
    first, _, rest = cursor.partition(" ")
    try:
        return (kind(first), int(rest)) if kind is int else (rest, int(first))
    except ValueError:
        raise BadInput(f"cursor {cursor!r}: is none; write one as a page has it (next)") from None


def _texts(table: JobTable, name: str, rows: NDArray[np.intp]) -> list[str]:
    if name == "name":
        names = table.names
        return [names[row] for row in rows.tolist()]
    texts = {"state": table.states, "kind": table.kinds.texts, "user": table.users.texts, "pool": table.pools.texts}[
        name
    ]
    return [texts[code] for code in table.column(name)[rows].tolist()]
