"""Leaves that lie over the live screen: one about what was opened, one with the keys."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widgets import Static

from cellstate.plain_text import cleaned
from cli.render import shown


class Help(ModalScreen[None]):
    """A text, until a key closes it."""

    CSS = """
    Help, Leaf { align: center middle; }
    VerticalScroll { width: 90%; max-width: 120; height: auto; max-height: 90%; border: round $accent; padding: 0 1;
                     background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark", "dismiss", "close", priority=True)]

    def __init__(self, text: str, title: str = "keys") -> None:
        """Show `text` under `title`."""
        super().__init__()
        self.text, self.heading = text, title

    def compose(self) -> ComposeResult:
        """A box that scrolls."""
        with VerticalScroll() as box:
            box.border_title = escape(shown(self.heading))
            box.border_subtitle = "Esc closes"
            yield Static(Text(cleaned(self.text, "\n")))


class Leaf(Help):
    """What is told of a job, a machine or a scheduler; written anew at every look."""

    def __init__(self, identity: str, title: str, lines: list[str]) -> None:
        """Show the lines about what `identity` names."""
        super().__init__("\n".join(map(shown, lines)), title)
        self.identity = identity

    def write(self, title: str, lines: list[str]) -> None:
        """Show these lines instead, unless it was closed meanwhile."""
        if not self.is_attached:
            return
        self.query_one(VerticalScroll).border_title = escape(shown(title))
        self.query_one(Static).update(Text("\n".join(map(shown, lines))))
