"""Pages of a list of jobs: sorted by any column, continued after a row."""

from bisect import bisect_left, bisect_right
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown
from omega.queries.mirror.codes import ABSENT
from omega.queries.mirror.job_table import JobFilter, JobTable

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
    return _number(cursor, cursor)


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
        raise BadInput(f"sort {shown(sort)}: choose from {', '.join(SORTS)}, descending with a - before it")
    total = len(rows)
    order = sign * table.column("order")[rows]
    if name == "name":
        return _by_name(table, rows, limit, cursor, sign)
    keys = sign * (table.column(NUMBERS[name]) if name in NUMBERS else _ranks(table, name))[rows]
    if cursor is not None:
        text, last = _read(cursor)
        key = _number(text, cursor)
        later = (keys > key) | ((keys == key) & (order > last))
        rows, keys, order = rows[later], keys[later], order[later]
    more = len(rows) > limit
    if more:
        some = keys <= np.partition(keys, limit)[limit]
        rows, keys, order = rows[some], keys[some], order[some]
    at = np.lexsort((order, keys))[:limit]
    following = f"{int(order[at[-1]])} {int(keys[at[-1]])}" if more and len(at) else None
    return Page(rows[at].tolist(), total, following)


def _by_name(table: JobTable, rows: NDArray[np.intp], limit: int, cursor: str | None, sign: int) -> Page:
    """As `page`, by name, in the order that the table keeps."""
    ordered, wanted = table.by_name(), np.zeros(len(table.names), dtype=np.bool_)
    wanted[rows] = True
    at = 0 if sign > 0 else len(ordered)
    if cursor is not None:
        key, last = _read(cursor)
        at = (bisect_right if sign > 0 else bisect_left)(ordered, (key, last), key=table.place)
    following = range(at, len(ordered)) if sign > 0 else range(at - 1, -1, -1)
    found = list(islice((row for row in map(ordered.__getitem__, following) if wanted[row]), limit + 1))
    shown = found[:limit]
    name, order = table.place(shown[-1]) if shown else ("", 0)
    return Page(shown, len(rows), f"{order} {name}" if len(found) > limit else None)


def _read(cursor: str) -> tuple[str, int]:
    """Return the key of the last row of the page before, and its signed number of submission. Raises BadInput."""
    order, _, key = cursor.partition(" ")
    return key, _number(order, cursor)


def _number(text: str, cursor: str) -> int:
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= MOST_DIGITS):
        raise BadInput(f"cursor {shown(cursor)}: is none; write one as a page has it (next)")
    return int(text)


def _ranks(table: JobTable, name: str) -> NDArray[np.int64]:
    """Return the positions of the texts of a column in their order."""
    codes = {"kind": table.kinds, "user": table.users, "pool": table.pools}
    texts = codes[name].texts if name in codes else table.states
    ranks = np.zeros(len(texts) + 1, dtype=np.int64)
    for rank, code in enumerate(sorted(range(len(texts)), key=texts.__getitem__)):
        ranks[code] = rank
    found: NDArray[np.int64] = ranks[table.column(name)]
    return found
