"""Several cells in ``omega top``: their mirrors, and head, tables and details with the name of the cell."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import OmegaError, Refused, StoreError
from omega.cli.top.bars import bar, cut
from omega.cli.top.details import details
from omega.cli.top.head import head
from omega.cli.top.panes import NAMES, NOTES, Pane, TopColumn, panes
from omega.queries import units
from omega.queries.event_text import clock
from omega.queries.mirror import TopMirror
from omega.queries.overview import Overview, trouble

if TYPE_CHECKING:
    from rich.text import Text

MOST_LINES = 8
"""Cells in the head, and as many that are left out."""
BAR = 6


@dataclass(frozen=True, slots=True)
class CellsOverview:
    """Several cells at `at_ms`; `skipped` has why others cannot be read."""

    store: str
    at_ms: int
    cells: Sequence[Overview]
    skipped: Mapping[str, str]

    @property
    def pools(self) -> bool:
        """Whether some cell has pools."""
        return any(each.pools for each in self.cells)


class CellsMirror:
    """Reads several cells periodically. One object serves one thread."""

    def __init__(self, mirrors: Sequence[TopMirror], store: str, skipped: Mapping[str, str]) -> None:
        """`skipped`: why cells could not be opened."""
        self.mirrors = {each.cell.name: each for each in mirrors}
        self._store, self._skipped = store, dict(skipped)

    def look(self, now_ms: int) -> CellsOverview:
        """Return all cells; one that cannot be read now is tried again next time. Raises StoreError when none can."""
        found, skipped = list[Overview](), dict(self._skipped)
        for name, mirror in self.mirrors.items():
            try:
                found.append(mirror.look(now_ms))
            except OmegaError as error:
                skipped[name] = str(error)
        if not found:
            raise StoreError("; ".join(f"{name}: {why}" for name, why in skipped.items()))
        return CellsOverview(self._store, now_ms, found, skipped)


AnyMirror = TopMirror | CellsMirror
AnyOverview = Overview | CellsOverview


@dataclass(frozen=True, slots=True)
class OfCell:
    """A line of a table, with its cell and the columns of the table of this cell."""

    cell: str
    thing: Any
    columns: Mapping[str, TopColumn]
    identity: str


def head_of(overview: AnyOverview, width: int, said: str = "") -> "list[Text]":
    """Return the lines above the tables, each at most `width` characters."""
    if isinstance(overview, Overview):
        return head(overview, width, said)
    from rich.text import Text

    right = said or clock(overview.at_ms)[:-4]
    room = width - len(right) - 1
    left = cut(f"{units.count(len(overview.cells), 'cell')} · {overview.store}", room)
    lines = [Text.assemble((left.ljust(room), "bold"), " ", (right, "bold red" if said else ""))]
    for name, why in list(overview.skipped.items())[:MOST_LINES]:
        lines.append(Text(cut(f"{name} is left out: {why}", width), "red"))
    wide = max(len(each.cell) for each in overview.cells)
    lines += [Text(cut(_line(each, wide), width)) for each in overview.cells[:MOST_LINES]]
    if len(overview.cells) > MOST_LINES:
        lines.append(Text(f"… {units.count(len(overview.cells) - MOST_LINES, 'more cell')}", "dim"))
    return lines


def _line(overview: Overview, wide: int) -> str:
    """Return a cell in a line: machines, use of each resource, queued jobs, rate, and why writes are refused."""
    use = overview.ranked.utilisation
    shares = "  ".join(f"{name} {bar(use[name]['fraction'], BAR)} {100 * use[name]['fraction']:3.0f} %" for name in use)
    ranked, queued = overview.ranked, sum(overview.depths.values())
    told = f"{ranked.states['up']:,} of {units.count(ranked.count, 'machine')} up"
    line = f"{overview.cell:<{wide}}  {shares}  {told} · {queued:,} queued · {overview.rates.placed:,.0f} tasks/s"
    return line + (f" · refuses writes: {overview.refuses_writes}" if overview.refuses_writes else "")


def panes_of(overview: AnyOverview) -> list[Pane]:
    """Return all tables; those of several cells have a column with the cell."""
    if isinstance(overview, Overview):
        return panes(overview)
    by_cell = [(each.cell, panes(each)) for each in overview.cells]
    return [
        _merged(name, [(cell, own[number]) for cell, own in by_cell], overview.cells)
        for number, name in enumerate(NAMES)
    ]


def _merged(name: str, parts: Sequence[tuple[str, Pane]], overviews: Sequence[Overview]) -> Pane:
    titles: dict[str, TopColumn] = {}
    things = list[list[OfCell]]()
    for cell, pane in parts:
        columns = {column.title: column for column in pane.columns}
        titles |= {title: column for title, column in columns.items() if title not in titles}
        things.append([OfCell(cell, each, columns, pane.identity(each)) for each in pane.things])
    own = TopColumn("cell", lambda each: each.cell, lambda each: each.cell)
    columns_of = [own, *(_column(column) for column in titles.values())]
    return Pane(name, columns_of, list(_in_order(name, things)), _identity, NOTES[name](overviews))


def _identity(each: OfCell) -> str:
    return f"{each.cell} {each.identity}"


def _in_order(name: str, things: Sequence[Sequence[OfCell]]) -> Iterator[OfCell]:
    """Yield the lines of all cells: events by time, machines by trouble, jobs in turn, others cell by cell."""
    if name in ("schedulers", "pools"):
        yield from chain(*things)
        return
    in_turn = [each for row in zip_longest(*things) for each in row if each is not None]
    if name == "events":
        in_turn.sort(key=lambda each: -each.thing.first.at_ms)
    elif name == "machines":
        in_turn.sort(key=lambda each: trouble(each.thing))
    yield from in_turn


def _column(column: TopColumn) -> TopColumn:
    """Return a column for lines of several cells; it is empty where the cell has none of its title."""
    title = column.title

    def show(each: OfCell) -> str:
        return each.columns[title].show(each.thing) if title in each.columns else ""

    def order(each: OfCell) -> Any:
        known: Callable[[Any], Any] | None = each.columns[title].order if title in each.columns else None
        return (1, 0) if known is None else (0, known(each.thing))

    return TopColumn(title, show, order if column.order else None, column.right, column.weight, column.least)


def details_of(mirror: AnyMirror, overview: AnyOverview, identity: str) -> tuple[str, list[str]]:
    """Return a heading and lines about the object of a line. Raises Refused when it no longer exists."""
    if isinstance(mirror, TopMirror) and isinstance(overview, Overview):
        return details(mirror, overview, identity)
    cell, _, own = identity.partition(" ")
    if isinstance(mirror, CellsMirror) and isinstance(overview, CellsOverview):
        for each in overview.cells:
            if each.cell == cell:
                heading, lines = details(mirror.mirrors[cell], each, own)
                return f"{cell}: {heading}", lines
    raise Refused(f"cell {cell}: cannot be read now")
