"""Pages over the live screen: the details of one object, and the help."""

from typing import ClassVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widgets import Static

from omega.cli.render import shown

NAME_WIDTH = 13
"""Width of the first column of a page in characters; continued lines are indented by it."""


class Help(ModalScreen[None]):
    """A page of lines with a name in the first column. Escape, q, Enter and ? close it."""

    CSS = """
    Help, Details { align: center middle; }
    VerticalScroll { width: 90%; max-width: 120; height: auto; max-height: 90%; border: round $accent; padding: 0 1;
                     background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark", "dismiss", "close", priority=True)]

    def __init__(self, lines: list[str], title: str = "keys") -> None:
        super().__init__()
        self.lines, self.heading = lines, title

    def compose(self) -> ComposeResult:
        """Yield a scrolling container with the text."""
        with VerticalScroll() as box:
            box.border_title = escape(shown(self.heading))
            box.border_subtitle = "Esc closes"
            yield Static(_page(self.lines))


class Details(Help):
    """Details of a job, a machine or a scheduler; updated at every refresh."""

    def __init__(self, identity: str, title: str, lines: list[str]) -> None:
        super().__init__(lines, title)
        self.identity = identity

    def write(self, title: str, lines: list[str]) -> None:
        """Replace the lines, unless the page was closed."""
        if not self.is_attached:
            return
        self.query_one(VerticalScroll).border_title = escape(shown(title))
        self.lines = lines
        self.query_one(Static).update(_page(lines))


def _page(lines: list[str]) -> RenderableType:
    """Return the lines as a grid: long texts wrap within the second column."""
    grid = Table.grid()
    grid.add_column(width=NAME_WIDTH)
    grid.add_column()
    for line in map(shown, lines):
        grid.add_row(Text(line[:NAME_WIDTH]), Text(line[NAME_WIDTH:]))
    return grid
