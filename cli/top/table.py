"""A table of the live screen; it keeps selection, filter and order while its contents change."""

from typing import Any

from rich.text import Text
from textual.markup import escape
from textual.widgets import DataTable

from omega.cli.render import STYLES, shown
from omega.cli.top.bars import cut
from omega.cli.top.panes import EMPTY, Pane, TopColumn, chosen, fit

MOST_ROWS = 300
SCROLLBAR = 2
MORE_STYLES = {"full": "yellow", "up, over": "red", "drained, over": "red", "left": "bright_black"}


class PaneTable(DataTable[Text]):
    """One pane as a table."""

    def __init__(self, name: str, *, id: str) -> None:
        super().__init__(name=name, id=id, cursor_type="row", zebra_stripes=False, cell_padding=1)
        self.sorted_by: int | None = None
        self.reverse = False
        self.wanted = ""
        self.title = name
        self.pane: Pane | None = None

    def sort_by_next(self) -> None:
        """Sort by the next sortable column; after the last one, restore the default order."""
        if self.pane is None:
            return
        able = [place for place, column in enumerate(self.pane.columns) if column.order is not None]
        later = [place for place in able if self.sorted_by is None or place > self.sorted_by]
        self.sorted_by, self.reverse = (later[0] if later else None), False
        self.clear()  # select the first line of the new order

    def turn_round(self) -> None:
        """Reverse the order."""
        self.reverse = not self.reverse
        self.clear()

    def show(self, pane: Pane, number: int, width: int) -> None:
        """Draw a pane, number `number`, in `width` characters; keeps the selected line while it exists."""
        self.pane = pane
        mark, top = self._marked(), self.scroll_y
        things = chosen(pane, self.sorted_by, reverse=self.reverse, wanted=self.wanted, most=MOST_ROWS)
        self.title = " ".join(filter(None, (str(number), pane.name, pane.note, self.wanted and f"/{self.wanted}")))
        self.border_title = escape(shown(self.title))
        self.clear(columns=True)
        self.show_header = bool(things)
        if not things:
            self.add_column("")
            self.add_row(Text("no line matches" if self.wanted and pane.things else EMPTY[pane.name], "dim"))
            return
        columns = fit(pane, things, width - SCROLLBAR)
        for column, wide in columns:
            self.add_column(self._heading(pane, column, wide), width=wide)
        for each in things:
            self.add_row(*(_cell(column, each, wide) for column, wide in columns), key=pane.identity(each))
        self._return_to(mark, top)

    def _heading(self, pane: Pane, column: TopColumn, wide: int) -> Text:
        sorts = self.sorted_by is not None and pane.columns[self.sorted_by] is column
        title = column.title + (("▲" if self.reverse else "▼") if sorts else "")
        return Text(cut(title, wide), style="bold", justify="right" if column.right else "left")

    def _marked(self) -> str | None:
        if not self.is_valid_row_index(self.cursor_row):
            return None
        return self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value

    def _return_to(self, mark: str | None, top: float) -> None:
        if mark in {key.value for key in self.rows}:
            self.move_cursor(row=self.get_row_index(str(mark)), animate=False, scroll=False)
        self.scroll_to(y=top, animate=False)


def _cell(column: TopColumn, each: Any, wide: int) -> Text:
    text = column.show(each)
    style = STYLES.get(text) or MORE_STYLES.get(text, "")
    return Text(cut(text, wide), style=style, justify="right" if column.right else "left")
