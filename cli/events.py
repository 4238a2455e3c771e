"""``omega events``: print the log of a cell, and follow new events."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.live.waiting import patiently
from omega.queries.event_list import Filter, Missing, Tail, job_id, list_events, listed_json, page_json
from omega.queries.events import KINDS, Event, current_kind

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

POLL_SECONDS = 0.2


class EventKind(click.Choice[str]):
    """A kind of event; former names are accepted."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the kind of events that a word names. Fails as a usage error for another word."""
        return super().convert(current_kind(value), param, ctx)


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Continue to print new events until Ctrl-C.")
@click.option("--since", type=click.IntRange(0), metavar="VERSION", help="Print events after this version.")
@click.option(
    "--limit", type=click.IntRange(0), default=50, show_default=True, metavar="N", help="Maximum number of events."
)
@click.option("--job", "asked", metavar="ID", help="Print only events of this job (id, prefix of an id, or name).")
@click.option(
    "--kind",
    "kinds",
    type=EventKind(KINDS),
    multiple=True,
    metavar="KIND",
    help=f"Print only events of this kind; repeatable. Kinds: {', '.join(KINDS)}.",
)
@columns_option
@click.pass_obj
def command(
    app: App, follow: bool, since: int | None, limit: int, asked: str | None, kinds: Sequence[str], columns: Columns
) -> None:
    """List events, oldest first: placements, conflicts and their cause, evictions, machines, schedulers.

    Prints the first --limit events after --since, or the last --limit events without --since. With --json and
    --follow every event is a line of its own. In JSON, events of a commit have the version that it was decided on
    (`since`) and the time when that decision began, on the server's clock (`began_ms`).
    """
    if follow and columns:
        raise click.UsageError("--output and --follow exclude each other; give one of them")
    cell = app.open()
    wanted = Filter(frozenset(kinds), None if asked is None else job_id(cell, asked))
    page = list_events(cell, since, limit, wanted)
    if (app.as_json and not follow) or columns:
        answered(app, page_json(cell, page), "events", columns)
        return
    printer = _Printer(cell, app.as_json)
    printer.print([*([page.gap] if page.gap else ()), *page.events])
    tail = Tail(cell, page.at, wanted)
    while follow:
        time.sleep(POLL_SECONDS)
        printer.print(patiently(lambda: tail.read(cell))[0])


class _Printer:
    """Prints events as lines of text, or as JSON lines."""

    def __init__(self, cell: "Cell", as_json: bool) -> None:
        from omega.queries.names import Names

        self.cell, self.as_json = cell, as_json
        self.names = Names(cell)

    def print(self, listed: Sequence[Event | Missing]) -> None:
        """Print events, and the gaps between them."""
        if self.as_json:
            for document in patiently(lambda: listed_json(self.cell, listed)):
                render.json_line(document)
            return
        from omega.queries.event_text import lines

        for each in listed:
            if isinstance(each, Missing) and each.why == "gap":
                render.note(f"versions {each.first:,} to {each.last:,} are no longer in the log; it keeps the newest")
            elif isinstance(each, Missing):
                render.note(f"the store lost versions {each.first:,} to {each.last:,}; events continue after them")
        shown = [each for each in listed if isinstance(each, Event)]
        patiently(lambda: self.names.read_tasks(shown))
        for text in patiently(lambda: list(lines(shown, self.names, App.now_ms()))):
            render.line(text)
