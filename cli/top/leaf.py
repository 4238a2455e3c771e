"""Pages over the live screen: the details of one object, and the keys."""

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
    """A text that any closing key removes."""

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
        """Yield a scrolling container with the text."""
        with VerticalScroll() as box:
            box.border_title = escape(shown(self.heading))
            box.border_subtitle = "Esc closes"
            yield Static(Text(cleaned(self.text, "\n")))


class Leaf(Help):
    """Details of a job, a machine or a scheduler; updated at every refresh."""

    def __init__(self, identity: str, title: str, lines: list[str]) -> None:
        """Show the lines of the object that `identity` names."""
        super().__init__("\n".join(map(shown, lines)), title)
        self.identity = identity

    def write(self, title: str, lines: list[str]) -> None:
        """Replace the lines, unless the page was closed."""
        if not self.is_attached:
            return
        self.query_one(VerticalScroll).border_title = escape(shown(title))
        self.query_one(Static).update(Text("\n".join(map(shown, lines))))
