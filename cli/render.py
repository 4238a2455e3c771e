"""The only place that prints: tables, lines and JSON on stdout; progress, warnings and errors on stderr.

Colour only on a terminal, and not when NO_COLOR is set. What goes into a pipe is never cut or wrapped. No control,
bidirectional or invisible character of a stored name or value is printed (`shown`); JSON has it as an escape.
"""

import codecs
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from cellstate.plain_text import cleaned, escaped
from cli import words
from cli.pace import ticking

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PIPE_WIDTH = 10_000
MOST_LETTERS, MOST_BEGIN = 1_000, 600
"""Letters of an error or a warning; of a longer one, how many of its begin."""
GAP = 2
"""Blanks between columns."""
STYLES = {
    "running": "green", "finished": "green", "up": "green", "ok": "green", "live": "green",
    "pending": "yellow", "drained": "yellow", "held": "yellow", "leaving": "yellow",
    "failed": "red", "abandoned": "red", "down": "red", "lapsed": "red",
    "stopped": "bright_black",
}  # fmt: skip
"""Words that get a colour when they are a cell of a table."""


_logs = codecs.getincrementaldecoder("utf-8")("replace")


def shown(text: str) -> str:
    """Return a text as it is printed: on one line, without characters that a terminal obeys."""
    return cleaned(text.replace("\n", " ").replace("\t", " "))


def _cell(value: object) -> str:
    """Return what stands in a cell of a table; a tuple has a line each."""
    return "\n".join(map(_cell, value)) if isinstance(value, tuple) else shown(str(value))


def colourful(stream: Any) -> bool:
    """Whether colours may go to a stream."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False) -> "Console":
    """A rich console on stdout or stderr that prints text as it is given."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=True)


def document(value: Any) -> None:
    """Print the one JSON document of a command."""
    click.echo(escaped(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)))


def json_line(value: Any) -> None:
    """Print one of many JSON documents, a line each, at once."""
    click.echo(escaped(json.dumps(value, ensure_ascii=False, allow_nan=False)))
    sys.stdout.flush()


def line(text: str = "") -> None:
    """Print a line."""
    click.echo(shown(text))


def page(text: str) -> None:
    """Print several lines of our own."""
    click.echo(cleaned(text, "\n\t"))


def output(piece: bytes) -> None:
    """Write a piece of a task's output: to a terminal its text and line ends alone, elsewhere the bytes as they are."""
    if sys.stdout.isatty():
        click.echo(cleaned(_logs.decode(piece), "\n\t"), nl=False)
    else:
        click.echo(piece, nl=False)


def note(text: str) -> None:
    """Print a remark beside the answer, on stderr."""
    click.echo(shown(text), err=True)


def warning(text: str) -> None:
    """Warn in one line, on stderr."""
    _marked("warning:", "yellow", text)


def error(text: str) -> None:
    """Print ``error: what, where, what to do`` on stderr, in one line whatever the text."""
    _marked("error:", "red", text)


def _marked(mark: str, colour: str, text: str) -> None:
    text = " ".join(shown(text).split())
    if len(text) > MOST_LETTERS:
        text = f"{text[:MOST_BEGIN]} … {text[MOST_BEGIN - MOST_LETTERS :]}"  # the remedy stands at the end
    start = click.style(mark, fg=colour, bold=True) if colourful(sys.stderr) else mark
    click.echo(f"{start} {text}", err=True, color=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str] = ()) -> None:
    """Print rows under headings; a heading that begins with ``>`` has its column aligned right.

    A cell that is a tuple has several lines. On a terminal that is too narrow, the columns named in `spare` are left
    out, the first ones first, until the rest fits.
    """
    from rich.table import Table
    from rich.text import Text

    cells = [[f"{cell:,}" if type(cell) is int else _cell(cell) for cell in row] for row in rows]
    names = [column.lstrip(">") for column in columns]
    kept = _fitting(names, cells, spare, console().width)
    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for i in kept:
        grid.add_column(names[i], justify="right" if columns[i].startswith(">") else "left", overflow="fold")
    for row in cells:
        grid.add_row(*(Text(row[i], style=STYLES.get(row[i], "")) for i in kept))
    _printed(grid)
    if len(kept) < len(names):
        left_out = ", ".join(name for i, name in enumerate(names) if i not in kept)
        note(f"… too narrow here for {left_out}")


def _fitting(names: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int) -> list[int]:
    """The columns that are shown on so many characters."""
    widths = [max(map(len, column)) + GAP for column in zip(names, *rows, strict=True)]
    kept = list(range(len(names)))
    for name in spare:
        if sum(widths[i] for i in kept) - GAP > width and name in names:
            kept.remove(names.index(name))
    return kept


def facts(pairs: Mapping[str, object]) -> None:
    """Print names and what is to be said of each, aligned; what is empty is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs.items():
        if value not in ("", None):
            text = _cell(value)
            grid.add_row(Text(name), Text(text, style=STYLES.get(text, "")))
    _printed(grid)


def _printed(grid: Any) -> None:
    screen = console()
    with screen.capture() as captured:
        screen.print(grid)
    for text in captured.get().splitlines():
        click.echo(text.rstrip(), color=colourful(sys.stdout))


@contextmanager
def progress(*, quiet: bool = False) -> "Iterator[Progress]":
    """Bars on stderr while something goes on; a line every ten seconds when stderr is no terminal, or `quiet`.

    A task's field ``left`` says how long it still takes; without one that follows from what is done of it.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = [
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=30), MofNCompleteColumn(),
        TextColumn("{task.fields[more]}", markup=False), TimeElapsedColumn(),
    ]  # fmt: skip
    screen = console(stderr=True)
    off = quiet or not screen.is_terminal
    bars = Progress(*columns, console=screen, transient=True, disable=off, redirect_stdout=False)
    with ticking(lambda seconds: _tick(bars, seconds)) if off else nullcontext(), bars:
        yield bars


def _tick(bars: "Progress", seconds: float) -> None:
    """Print how far the tasks are that are not done."""
    for task in bars.tasks:
        if task.visible and task.total and not task.finished:
            done, left = task.completed, task.fields.get("left", "")
            if not left and done:
                left = f"about {words.age(seconds * (task.total - done) / done)} left"
            said = (f"{task.description} {done:,.0f} of {task.total:,.0f} {task.fields['more']}".rstrip(), left)
            note(" · ".join(filter(None, (*said, f"{words.age(seconds)} so far"))))


def line_above(bars: "Progress", text: str) -> None:
    """Print a line while bars are shown; on one and the same terminal it must not break into them."""
    if bars.disable or not sys.stdout.isatty():
        line(text)
    else:
        bars.console.print(shown(text))


@contextmanager
def busy(text: str, *, quiet: bool = False) -> Iterator[None]:
    """A spinner on stderr while something takes its time; a line every ten seconds when stderr is no terminal."""
    from rich.text import Text

    screen = console(stderr=True)
    off = quiet or not screen.is_terminal
    with (
        ticking(lambda seconds: note(f"{text}: {words.age(seconds)} so far"))
        if off
        else screen.status(Text(shown(text)))
    ):
        yield
