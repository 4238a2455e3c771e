"""Pages of a list of jobs: sorted by any column, continued after a row."""

from heapq import nlargest, nsmallest
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
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
    if name == "name":
        return _by_name(table, rows, order, limit, cursor, sign)
    keys = sign * (table.column(NUMBERS[name]) if name in NUMBERS else _ranks(table, name))[rows]
    if cursor is not None:
        key, last = _read(cursor)
        later = (keys > int(key)) | ((keys == int(key)) & (order > last))
        rows, keys, order = rows[later], keys[later], order[later]
    more = len(rows) > limit
    if more:
        some = keys <= np.partition(keys, limit)[limit]
        rows, keys, order = rows[some], keys[some], order[some]
    at = np.lexsort((order, keys))[:limit]
    following = f"{int(order[at[-1]])} {int(keys[at[-1]])}" if more and len(at) else None
    return Page(rows[at].tolist(), total, following)


def _by_name(
    table: JobTable, rows: NDArray[np.intp], order: NDArray[np.int64], limit: int, cursor: str | None, sign: int
) -> Page:  # fmt: skip
    """As `page`, by name: only the names up to the last one of the page are sorted."""
    all_names, total = table.names, len(rows)
    names, places = [all_names[row] for row in rows.tolist()], range(total)
    if cursor is not None:
        key, last = _read(cursor)
        first = (name >= key for name in names) if sign > 0 else (name <= key for name in names)
        later = [at for at in compress(places, first) if names[at] != key or order[at] > last]
        names, rows, order = [names[at] for at in later], rows[later], order[later]
    more = len(names) > limit
    chosen = list(range(len(names)))
    if more:
        bound = (nsmallest if sign > 0 else nlargest)(limit + 1, names)[-1]
        within = (name <= bound for name in names) if sign > 0 else (name >= bound for name in names)
        chosen = list(compress(chosen, within))
    chosen.sort(key=lambda at: int(order[at]))
    chosen.sort(key=lambda at: names[at], reverse=sign < 0)
    chosen = chosen[:limit]
    following = f"{int(order[chosen[-1]])} {names[chosen[-1]]}" if more else None
    return Page([int(rows[at]) for at in chosen], total, following)


def _read(cursor: str) -> tuple[str, int]:
    """Return the key of the last row of the page before, and its signed number of submission. Raises BadInput."""
    order, _, key = cursor.partition(" ")
    if not (order.removeprefix("-").isdecimal() and len(order) <= MOST_DIGITS and key):
        raise BadInput(f"cursor {cursor!r}: is none; write one as a page has it (next)")
    return key, int(order)


def _ranks(table: JobTable, name: str) -> NDArray[np.int64]:
    """Return the positions of the texts of a column in their order."""
    codes = {"kind": table.kinds, "user": table.users, "pool": table.pools}
    texts = codes[name].texts if name in codes else table.states
    ranks = np.zeros(len(texts) + 1, dtype=np.int64)
    for rank, code in enumerate(sorted(range(len(texts)), key=texts.__getitem__)):
        ranks[code] = rank
    found: NDArray[np.int64] = ranks[table.column(name)]
    return found
