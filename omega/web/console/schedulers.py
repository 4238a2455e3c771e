"""The page of schedulers: how they spend their time, and who lost claims to whom."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from omega.web.access.visitors import Reader
from omega.web.console.page import View, show

router = APIRouter(include_in_schema=False)
VIEW = View(
    template="scheduler_list.html", section="schedulers", title="Schedulers", command="omega scheduler list --json",
    path="/v1/schedulers",
)  # fmt: skip
SHADES = 5
"""Shades of the cells of the matrix."""
MOST_SCHEDULERS = 24
"""Rows and columns of the matrix: those with most conflicts."""
MOST_MACHINES, MOST_TRANSACTIONS = 20, 40
UNKNOWN = "unknown"


class Cell(NamedTuple):
    """How many claims one scheduler lost to another, by the detection that rejected them; a shade up to `SHADES`."""

    fine: int = 0
    coarse: int = 0
    shade: int = 0

    @property
    def total(self) -> int:
        """Number of claims."""
        return self.fine + self.coarse


class Matrix(NamedTuple):
    """Losers by row, winners by column; sums at the edges."""

    losers: Sequence[str]
    winners: Sequence[str]
    cells: Mapping[tuple[str, str], Cell]
    lost: Mapping[str, int]
    won: Mapping[str, int]
    others: int
    """Conflicts between schedulers that are not among the rows and columns."""

    def at(self, loser: str, winner: str) -> Cell:
        """Return a cell."""
        return self.cells.get((loser, winner), Cell())


def conflict_matrix(rows: Iterable[Mapping[str, Any]]) -> Matrix:
    """Return the matrix of rows of who lost to whom; rows and columns have one order.

    The schedulers with most conflicts are first, unknown winners last.
    """
    listed = list(rows)
    lost, won = dict[str, int](), dict[str, int]()
    for row in listed:
        total = row["fine"] + row["coarse"]
        lost[row["loser"]] = lost.get(row["loser"], 0) + total
        won[row["winner"]] = won.get(row["winner"], 0) + total
    total_of = {name: lost.get(name, 0) + won.get(name, 0) for name in {*lost, *won}}
    order = sorted(total_of, key=lambda name: (name == UNKNOWN, -total_of[name], name))
    losers = [name for name in order if name in lost][:MOST_SCHEDULERS]
    winners = [name for name in order if name in won][:MOST_SCHEDULERS]
    top = max((row["fine"] + row["coarse"] for row in listed), default=1)
    cells, others = {}, 0
    for row in listed:
        total = row["fine"] + row["coarse"]
        if row["loser"] in losers and row["winner"] in winners:
            shade = -(-SHADES * total // max(1, top))
            cells[row["loser"], row["winner"]] = Cell(row["fine"], row["coarse"], shade)
        else:
            others += total
    return Matrix(losers, winners, cells, lost, won, others)


def details(rows: Iterable[Mapping[str, Any]], loser: str, winner: str) -> dict[str, Any]:
    """Return the machines and transactions behind the number of a cell; "" for every loser or winner."""
    machines, transactions = dict[str, int](), list[Mapping[str, Any]]()
    fine = coarse = 0
    for row in rows:
        if loser in ("", row["loser"]) and winner in ("", row["winner"]):
            fine, coarse = fine + row["fine"], coarse + row["coarse"]
            for each in row["machines"]:
                machines[each["machine"]] = machines.get(each["machine"], 0) + each["count"]
            transactions += [{**each, "loser": row["loser"]} for each in row["transactions"]]
    named = sorted(machines.items(), key=lambda each: (-each[1], each[0]))[:MOST_MACHINES]
    newest = sorted(transactions, key=lambda each: -each["version"])[:MOST_TRANSACTIONS]
    return {
        "loser": loser, "winner": winner, "fine": fine, "coarse": coarse, "machines": named,
        "transactions": newest, "more": max(0, fine + coarse - len(newest)), "top": named[0][1] if named else 1,
    }  # fmt: skip


class TimeSplit(NamedTuple):
    """Parts of a scheduler's time; `thinking` is None where its heartbeats do not have it."""

    thinking: float | None
    committing: float
    waiting: float

    @property
    def parts(self) -> list[tuple[str, float]]:
        """The parts of its bar: class and size; time that is not divided has a class of its own."""
        if self.thinking is None:
            return [("c5", 1 - self.waiting)]
        return [("c0", self.thinking), ("c1", self.committing)]

    @property
    def text(self) -> str:
        """The parts in words."""
        if self.thinking is None:
            return f"busy {1 - self.waiting:.0%}, waiting {self.waiting:.0%}"
        return f"thinking {self.thinking:.0%}, committing {self.committing:.0%}, waiting {self.waiting:.0%}"


def time_split(series: Mapping[str, Sequence[float | None]] | None) -> TimeSplit | None:
    """Return the last parts of the time series of a scheduler; None without one."""
    waiting = [each for each in series["waiting"] if each is not None] if series else []
    if series is None or not waiting:
        return None
    return TimeSplit(series["thinking"][-1], series["committing"][-1] or 0.0, waiting[-1])


@router.get("/cells/{cell}/schedulers")
async def schedulers_page(
    request: Request, cell: str, _: Reader, everybody: int = 0, loser: str = "", winner: str = ""
) -> Response:
    """Show the schedulers of a cell."""

    def read(mirror: Any) -> Mapping[str, Any]:
        history, conflicts = mirror.history(), mirror.conflicts()
        rows = mirror.schedulers(everybody=bool(everybody))["schedulers"]
        return {
            "rows": [_row(row, history["schedulers"]) for row in rows],
            "everybody": everybody,
            "since_ms": mirror.since_ms,
            "matrix": conflict_matrix(conflicts["rows"]),
            "gaps": [(why, span) for gap in conflicts["gaps"] for why, span in gap.items()],
            "chosen": _named(details(conflicts["rows"], loser, winner), mirror) if loser or winner else None,
        }

    return await show(request, cell, VIEW, read)


def _named(found: dict[str, Any], mirror: Any) -> dict[str, Any]:
    """Add the names of the jobs of transactions."""
    for each in found["transactions"]:
        row = mirror.job_row(each["job"])
        each["job_name"] = row["name"] if row else each["job"]
    return found


def _row(row: Mapping[str, Any], history: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    series = history.get(row["member"])
    busyness = [None if each is None else 1 - each for each in series["waiting"]] if series else []
    split = time_split(series)
    if split is None and row["busyness"] is not None:  # one heartbeat: since the start of the scheduler
        split = TimeSplit(None, 0.0, 1 - row["busyness"])
    return {**row, "split": split, "recent": busyness}
