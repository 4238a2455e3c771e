"""``omega events``: what happened on a cell, and what happens now."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from cli import render
from cli.app import App
from cli.columns import Columns, answered, columns_option
from omega.queries.events import KINDS, Event, events, extent

if TYPE_CHECKING:
    from cellstate.redis import RedisCell

POLL_SECONDS = 0.2
WINDOW = 2_000
"""Versions looked at once when looking back."""


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option("--since", type=click.IntRange(0), metavar="VERSION", help="Begin after this version.")
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, metavar="N", help="At most so many.")
@click.option("--job", "asked", metavar="ID", help="Only those of a job (id, beginning of it, or name).")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, metavar="KIND",
              help=f"Only such, one or several of {', '.join(KINDS)}.")  # fmt: skip
@columns_option
@click.pass_obj
def command(
    app: App, follow: bool, since: int | None, limit: int, asked: str | None, kinds: Sequence[str], columns: Columns
) -> None:
    """What happened, oldest first: placements, conflicts and their cause, evictions, machines, schedulers.

    With --since the first --limit events after that version, without it the last ones. With --json and
    --follow every event is a line of its own.
    """
    cell = app.open()
    job = _job_id(cell, asked) if asked is not None else None
    kept = extent(cell)
    gap = {"from": since + 1, "to": kept.first - 1} if since is not None and since + 1 < kept.first else None

    def wanted(event: Event) -> bool:
        return (job is None or event.job == job) and (not kinds or event.kind in kinds)

    if since is None:
        past = _last(cell, kept.first - 1, kept.newest, limit, wanted)
    else:
        past = _first(cell, max(since, kept.first - 1), kept.newest, limit, wanted)
    at = past[-1].version if since is not None and past and len(past) >= limit else kept.newest
    if follow and columns:
        raise click.UsageError("--output is for a list that ends; leave --follow away")
    document = {"cell": cell.name, "first_version": kept.first, "version": at, "gap": gap}
    if (app.as_json and not follow) or columns:
        answered(app, document | {"events": [event.as_json() for event in past]}, "events", columns)
        return
    teller = _Teller(cell, app.as_json)
    if gap:
        teller.gap(gap)
    teller.tell(past)
    while follow:
        time.sleep(POLL_SECONDS)
        at = _go_on(cell, at, wanted, teller)


class _Teller:
    """Prints events as lines of text, or as JSON lines."""

    def __init__(self, cell: "RedisCell", as_json: bool) -> None:
        from omega.queries.names import Names

        self.as_json = as_json
        self.names = Names(cell)

    def tell(self, found: Sequence[Event]) -> None:
        """Print events."""
        if self.as_json:
            for event in found:
                render.json_line(event.as_json())
            return
        from cli.event_words import lines

        for text in lines(found, self.names, App.now_ms()):
            render.line(text)

    def gap(self, gap: dict[str, int]) -> None:
        """Report that versions are no longer in the log."""
        if self.as_json:
            render.json_line({"gap": gap})
        else:
            render.note(f"versions {gap['from']:,} to {gap['to']:,} are not in the log any more; it keeps the newest")


def _go_on(cell: "RedisCell", at: int, wanted: Any, teller: _Teller) -> int:
    """Print the events after version `at`; returns the last printed version."""
    newest = cell.counters()["version"]
    if newest < at:
        render.note(f"the store went back from version {at:,} to {newest:,}; what came between is lost")
        return newest
    if newest - at > WINDOW:
        kept = extent(cell)
        if at + 1 < kept.first:
            teller.gap({"from": at + 1, "to": kept.first - 1})
            at = kept.first - 1
    newest = min(newest, at + WINDOW)
    teller.tell([event for event in events(cell, at, newest) if wanted(event)])
    return newest


def _first(cell: "RedisCell", after: int, newest: int, limit: int, wanted: Any) -> list[Event]:
    """The first events after a version, those of the last version all of them."""
    found: list[Event] = []
    for event in events(cell, after, newest):
        if len(found) >= limit and (not found or event.version != found[-1].version):
            break
        if wanted(event):
            found.append(event)
    return found


def _last(cell: "RedisCell", oldest: int, newest: int, limit: int, wanted: Any) -> list[Event]:
    """The last `limit` events, found by going back window by window."""
    found: list[Event] = []
    for after, to in _windows(oldest, newest):
        if len(found) >= limit:
            break
        found = [event for event in events(cell, after, to) if wanted(event)] + found
    start = max(0, len(found) - limit)
    while 0 < start < len(found) and found[start - 1].version == found[start].version:
        start -= 1  # events of one version are printed together
    return found[start:]


def _windows(oldest: int, newest: int) -> Iterator[tuple[int, int]]:
    width = 50
    while newest > oldest:
        yield max(oldest, newest - width), newest
        newest -= width
        width = min(WINDOW, 2 * width)


def _job_id(cell: "RedisCell", asked: str) -> str:
    """The id of the job that is meant; taken as it is when the cell keeps no such job any more."""
    from cellstate.errors import Refused
    from omega.queries.finding import find_job

    try:
        return find_job(cell, asked).id
    except Refused:
        return asked
