"""The live screen: a head, five tables, and detail pages. A thread does all reading."""

import threading
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.geometry import Size
from textual.widgets import DataTable, Footer, Input, Static

from omega.cellstate.errors import OmegaError, StoreError
from omega.cli.render import shown
from omega.cli.top.cells import AnyMirror, AnyOverview, details_of, head_of, panes_of
from omega.cli.top.pages import Details, Help
from omega.cli.top.panes import NAMES
from omega.cli.top.table import PaneTable

WIDE, HIGH = 150, 36
"""Minimum size in characters at which all tables are shown."""

ROOMY = 100
"""Width from which the counts of all tables fit beside their names."""

KEYS = [
    "1 2 3 4 5    jobs, schedulers, machines, events, pools",
    "Tab          next table; Shift-Tab: previous table",
    "↑ ↓ PgUp …   choose a line; Enter: its details",
    "/            filter by text; Esc: clear the filter",
    "s            sort by the next column; r: reverse the order",
    "Space        pause or resume",
    "q            quit",
    "",
    "jobs         the first 200 pending jobs of each kind, then the 200 newest running ones",
    "machines     full: at least 95 % of a resource is in use",
    "             over: more allocated than its capacity; takes no tasks",
    "schedulers   busy: share of the time spent deciding and committing, between the last two heartbeats",
    "             conflicts: transactions with a conflict ÷ those without, in the same time",
    "             blocked: pending jobs of which no task fits; requeued when resources are freed",
    "pools        shares of each pool's dominant resource in the published epoch; shown from the first epoch on",
    "events       the newest 200 versions, and the newest 200 conflicts, evictions, losses, failures, member changes",
]


class Top(App[str]):
    """The application; it returns the error that ended it, if any."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "#jobs"
    CSS = """
    Screen { background: $background; }
    #head { height: auto; padding: 0 1; }
    #tabs { height: 1; padding: 0 1; }
    #filter { height: 1; border: none; padding: 0 1; display: none; }
    #tables { height: 1fr; }
    .wide #tabs { display: none; }
    .narrow PaneTable { display: none; }
    .narrow PaneTable.chosen { display: block; }
    .wide #tables { layout: grid; grid-size: 2 2; grid-gutter: 0 1; }
    .wide #pools { column-span: 2; display: none; }
    .wide.pooled #tables { grid-size: 2 3; }
    .wide.pooled #pools { display: block; }
    .wide PaneTable { border-top: solid $surface-lighten-2; border-title-color: $text; }
    .wide PaneTable.chosen { border-top: solid $accent; border-title-color: $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"choose({number - 1})", name, show=False) for number, name in enumerate(NAMES, 1)),
        Binding("tab", "turn(1)", "next", priority=True),
        Binding("shift+tab", "turn(-1)", "before", show=False, priority=True),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse"),
        Binding("space", "pause", "pause"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("escape", "clear", "all", show=False),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    ]

    def __init__(self, mirror: AnyMirror, now_ms: Callable[[], int], every: float = 1.0) -> None:
        """Show what `mirror` reads every `every` seconds; `now_ms` returns the time in milliseconds since 1970."""
        super().__init__()
        self.mirror, self.now_ms, self.every = mirror, now_ms, every
        self.overview: AnyOverview | None = None
        self.said = ""
        self.paused = False
        self.chosen = 0
        self._reading = threading.Lock()

    def compose(self) -> ComposeResult:
        """Yield head, tabs, tables and filter."""
        yield Static(id="head")
        yield Static(id="tabs")
        with Container(id="tables"):
            yield from (PaneTable(name, id=name) for name in NAMES)
        yield Input(placeholder="filter by text …", id="filter", compact=True, disabled=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Read at once, then periodically."""
        self._arrange(self.size)
        self.look()
        self.set_interval(self.every, self.look)

    def on_resize(self, event: events.Resize) -> None:
        """Show all tables when the size allows."""
        self._arrange(event.size)
        self.show()

    # Reading

    @work(thread=True)
    def look(self) -> None:
        """Read the cell, unless a read is in progress or the screen is paused."""
        if self.paused or not self._reading.acquire(blocking=False):
            return
        try:
            overview = self.mirror.look(self.now_ms())
        except StoreError as error:
            self.call_from_thread(self._fail, str(error))
        except OmegaError as error:
            self.call_from_thread(self.exit, str(error))
        else:
            self.call_from_thread(self._take, overview)
        finally:
            self._reading.release()

    def _take(self, overview: AnyOverview) -> None:
        self.overview, self.said = overview, ""
        self.show()

    def _fail(self, said: str) -> None:
        self.said = said
        self.show()

    @work(thread=True)
    def open(self, identity: str) -> None:
        """Read the details of a job, machine or scheduler and show them in a page."""
        page = Details(identity, *self._details(identity))
        self.call_from_thread(self.push_screen, page)

    @work(thread=True)
    def renew(self, page: Details) -> None:
        """Update an open page."""
        told = self._details(page.identity)
        if page.is_attached:
            self.call_from_thread(page.write, *told)

    def _details(self, identity: str) -> tuple[str, list[str]]:
        if self.overview is None:
            return identity, []
        with self._reading:
            try:
                return details_of(self.mirror, self.overview, identity)
            except OmegaError as error:
                return identity, [str(error)]

    # Drawing

    @property
    def tables(self) -> list[PaneTable]:
        """Return the five tables in order."""
        return [self.query_one(f"#{name}", PaneTable) for name in NAMES]

    def _arrange(self, size: Size) -> None:
        wide = size.width >= WIDE and size.height >= HIGH
        self.set_class(wide, "wide")
        self.set_class(not wide, "narrow")
        for number, table in enumerate(self.tables):
            table.set_class(number == self.chosen, "chosen")

    def show(self) -> None:
        """Draw the last overview, unless the screen is closing."""
        if not self.query("#filter"):
            return
        overview = self.overview
        if overview is None:
            self.query_one("#head", Static).update(Text(shown(self.said) or "reading …"))
            return
        self.set_class(bool(overview.pools), "pooled")
        width = self.size.width - 2
        said = "paused" if self.paused else "no answer, trying again" if self.said else ""
        self.query_one("#head", Static).update(Text("\n").join(head_of(overview, width, said)))
        tabs = []
        roomy = self.size.width >= ROOMY
        wide = self.has_class("wide")
        for number, (pane, table) in enumerate(zip(panes_of(overview), self.tables, strict=True)):
            halved = wide and pane.name != "pools"  # pools have the whole width
            table.show(pane, number + 1, self.size.width // 2 if halved else self.size.width)
            short = number != self.chosen and not roomy
            title = f"{number + 1} {pane.name}" if short else shown(table.title)
            tabs.append((f" {title} ", "reverse" if number == self.chosen else "dim"))
        self.query_one("#tabs", Static).update(Text.assemble(*tabs))
        if isinstance(self.screen, Details):
            self.renew(self.screen)

    # Keys

    def action_choose(self, number: int) -> None:
        """Choose a table."""
        self.chosen = number
        self._arrange(self.size)
        self.tables[number].focus()
        self.show()

    def action_turn(self, step: int) -> None:
        """Choose the next or the previous table."""
        self.action_choose((self.chosen + step) % len(NAMES))

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.tables[self.chosen].sort_by_next()
        self.show()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.tables[self.chosen].turn_round()
        self.show()

    def action_pause(self) -> None:
        """Pause or resume."""
        self.paused = not self.paused
        self.show()

    def action_help(self) -> None:
        """Show the keys and the meaning of the tables."""
        self.push_screen(Help(KEYS))

    def action_filter(self) -> None:
        """Open the filter input."""
        asked = self.query_one("#filter", Input)
        asked.value = self.tables[self.chosen].wanted
        asked.display, asked.disabled = True, False
        asked.focus()

    def action_clear(self) -> None:
        """Clear the filter."""
        asked = self.query_one("#filter", Input)
        asked.value = ""
        self._leave_filter()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self.tables[self.chosen].wanted = event.value.strip().lower()
        self.show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and return to the table."""
        self._leave_filter()

    def _leave_filter(self) -> None:
        asked = self.query_one("#filter", Input)
        self.tables[self.chosen].wanted = asked.value.strip().lower()
        asked.display, asked.disabled = False, True
        self.tables[self.chosen].focus()
        self.show()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the details of a line."""
        if event.row_key.value:
            self.open(event.row_key.value)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Choose a table that was clicked."""
        if isinstance(event.widget, PaneTable) and event.widget.id in NAMES:
            number = NAMES.index(event.widget.id)
            if number != self.chosen:
                self.action_choose(number)
