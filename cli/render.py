"""The only place that prints: tables, lines and JSON on stdout; progress, warnings and errors on stderr.

Colour is used only on a terminal, and not when NO_COLOR is set. Output to a pipe is never cut or wrapped. Control,
bidirectional and invisible characters of stored names and values are not printed (`shown`); JSON escapes them.

Modules that `omega --help` does not need are imported by the functions that use them.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from omega.cli.terminal_text import TerminalText

PIPE_WIDTH = 10_000
MOST_LETTERS, MOST_BEGIN = 1_000, 600
"""Maximum characters of an error or warning; characters kept of the beginning of a longer one."""
GAP = 2
"""Spaces between columns."""
STYLES = {
    "running": "green",
    "finished": "green",
    "up": "green",
    "ok": "green",
    "live": "green",
    "pending": "yellow",
    "drained": "yellow",
    "held": "yellow",
    "leaving": "yellow",
    "stopping": "yellow",
    "failed": "red",
    "abandoned": "red",
    "down": "red",
    "offline": "red",
    "unfit": "red",
    "lapsed": "red",
    "stopped": "bright_black",
}
"""Table values printed in colour."""


def shown(text: str) -> str:
    """Return a text safe for printing: on one line, without terminal control characters."""
    from omega.cellstate.plain_text import cleaned

    return cleaned(text.replace("\n", " ").replace("\t", " "))


def _cell(value: object) -> str:
    """Return a table value as text; a tuple has one line per element."""
    return "\n".join(map(_cell, value)) if isinstance(value, tuple) else shown(str(value))


def colourful(stream: Any) -> bool:
    """Return whether a stream may receive colours."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False) -> "Console":
    """Return a rich console on stdout or stderr that prints text unchanged."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=True)


def document(value: Any) -> None:
    """Print the JSON document of a command."""
    import json

    from omega.cellstate.plain_text import escaped

    click.echo(escaped(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)))


def json_line(value: Any) -> None:
    """Print one JSON document on a line of its own and flush."""
    import json

    from omega.cellstate.plain_text import escaped

    click.echo(escaped(json.dumps(value, ensure_ascii=False, allow_nan=False)))
    sys.stdout.flush()


def line(text: str = "") -> None:
    """Print a line."""
    click.echo(shown(text))


def page(text: str) -> None:
    """Print several lines written by Omega itself."""
    from omega.cellstate.plain_text import cleaned

    click.echo(cleaned(text, "\n\t"))


def output(piece: bytes, text: "TerminalText") -> None:
    """Write a piece of a task's output: as `text` to a terminal, the bytes unchanged elsewhere."""
    if sys.stdout.isatty():
        click.echo(text.add(piece), nl=False)
    else:
        click.echo(piece, nl=False)


def note(text: str) -> None:
    """Print a remark on stderr."""
    click.echo(shown(text), err=True)


def warning(text: str) -> None:
    """Print a warning in one line on stderr."""
    _marked("warning:", "yellow", text)


def error(text: str) -> None:
    """Print ``error: what, where, what to do`` on stderr, always in one line."""
    _marked("error:", "red", text)


def _marked(mark: str, colour: str, text: str) -> None:
    text = " ".join(shown(text).split())
    if len(text) > MOST_LETTERS:
        text = f"{text[:MOST_BEGIN]} … {text[MOST_BEGIN - MOST_LETTERS :]}"  # the end holds the remedy
    start = click.style(mark, fg=colour, bold=True) if colourful(sys.stderr) else mark
    click.echo(f"{start} {text}", err=True, color=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str] = ()) -> None:
    """Print rows under headings; a heading that begins with ``>`` aligns its column right.

    A tuple is printed on several lines. On a terminal that is too narrow, the columns in `spare` are left out,
    in order, until the rest fits.
    """
    cells = [[f"{cell:,}" if type(cell) is int else _cell(cell) for cell in row] for row in rows]
    names = [column.lstrip(">") for column in columns]
    kept = _fitting(names, cells, spare, _width())
    styled = [[(names[i], "bold") for i in kept], *([(row[i], STYLES.get(row[i], "")) for i in kept] for row in cells)]
    _grid(styled, [columns[i].startswith(">") for i in kept])
    if len(kept) < len(names):
        left_out = ", ".join(name for i, name in enumerate(names) if i not in kept)
        note(f"… too narrow here for {left_out}")


def records(rows: Sequence[Mapping[str, object]], spare: Sequence[str] = ()) -> None:
    """Print rows that map the same headings to values, as `table` does; nothing when there are none."""
    if rows:
        table(list(rows[0]), [list(row.values()) for row in rows], spare)


def _fitting(names: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int) -> list[int]:
    """Return the columns that fit the given number of characters."""
    widths = [max(map(len, column)) + GAP for column in zip(names, *rows, strict=True)]
    kept = list(range(len(names)))
    for name in spare:
        if sum(widths[i] for i in kept) - GAP > width and name in names:
            kept.remove(names.index(name))
    return kept


def facts(pairs: Mapping[str, object]) -> None:
    """Print names and values, aligned; empty values are left out."""
    known = [(name, _cell(value)) for name, value in pairs.items() if value not in ("", None)]
    _grid([[(name, "bold"), (text, STYLES.get(text, ""))] for name, text in known], [False, False])


def _width() -> int:
    """Return the width of the terminal on stdout; of a pipe, more than any line needs."""
    if not sys.stdout.isatty():
        return PIPE_WIDTH
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _letters(text: str) -> int:
    """Return the number of columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _grid(rows: Sequence[Sequence[tuple[str, str]]], right: Sequence[bool]) -> None:
    """Print rows of (text, style) in columns, aligned as `right` states; a row is as high as its highest text."""
    lines = [[text.split("\n") for text, _ in row] for row in rows]
    widths = [max((_letters(text) for row in lines for text in row[i]), default=0) for i in range(len(right))]
    too_wide = sum(widths) + GAP * (len(widths) - 1) - _width()
    if too_wide > 0:
        for _ in range(too_wide):
            widths[widths.index(max(widths))] -= 1
        lines = [[_folded(texts, width) for texts, width in zip(row, widths, strict=True)] for row in lines]
    colour = colourful(sys.stdout)
    for row, styles in zip(lines, rows, strict=True):
        for at in range(max(map(len, row), default=0)):
            line = ""
            for i, texts in enumerate(row):
                text = texts[at] if at < len(texts) else ""
                space = " " * (widths[i] - _letters(text))
                shown_text = _styled(text, styles[i][1]) if colour else text
                line += f"{space}{shown_text}" if right[i] else f"{shown_text}{space}"
                line += " " * GAP
            click.echo(line.rstrip(), color=colour)


def _styled(text: str, style: str) -> str:
    if not (text and style):
        return text
    return click.style(text, bold=True) if style == "bold" else click.style(text, fg=style)


def _folded(texts: Sequence[str], width: int) -> list[str]:
    """Return lines of at most `width` columns of a terminal, at least one."""
    from rich.text import Text

    folded = (Text(text).wrap(console(), max(width, 1), overflow="fold") for text in texts)
    return [line.plain.rstrip() for text_lines in folded for line in text_lines]


@contextmanager
def progress(*, quiet: bool = False) -> "Iterator[Progress]":
    """Show progress bars on stderr; a line every ten seconds when stderr is not a terminal or `quiet` is set.

    A task's field ``left`` gives the remaining time; without it, the time is estimated from the completed share.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from omega.cli.pace import ticking

    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[more]}", markup=False),
        TimeElapsedColumn(),
    ]
    screen = console(stderr=True)
    off = quiet or not screen.is_terminal
    bars = Progress(*columns, console=screen, transient=True, disable=off, redirect_stdout=False)
    with ticking(lambda seconds: _tick(bars, seconds)) if off else nullcontext(), bars:
        yield bars


def _tick(bars: "Progress", seconds: float) -> None:
    from omega.queries import units

    for task in bars.tasks:
        if task.visible and task.total and not task.finished:
            done, left = task.completed, task.fields.get("left", "")
            if not left and done:
                left = f"about {units.age(seconds * (task.total - done) / done)} left"
            said = (f"{task.description} {done:,.0f} of {task.total:,.0f} {task.fields['more']}".rstrip(), left)
            note(" · ".join(filter(None, (*said, f"{units.age(seconds)} so far"))))


def line_above(bars: "Progress", text: str) -> None:
    """Print a line above the bars when both are on the same terminal."""
    if bars.disable or not sys.stdout.isatty():
        line(text)
    else:
        bars.console.print(shown(text))


@contextmanager
def busy(text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show a spinner on stderr during a long operation; a line every ten seconds when stderr is not a terminal.

    The block gets a function that shows which part of the operation is at work.
    """
    from rich.text import Text

    from omega.cli.pace import ticking
    from omega.queries import units

    screen = console(stderr=True)
    off = quiet or not screen.is_terminal
    now = [text]
    if off:
        with ticking(lambda seconds: note(f"{now[0]}: {units.age(seconds)} so far")):
            yield lambda part: now.__setitem__(0, f"{text}: {part}")
    else:
        with screen.status(Text(shown(text))) as status:
            yield lambda part: status.update(Text(shown(f"{text}: {part}")))
