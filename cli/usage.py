"""``omega usage``."""

import csv
import io
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.queries import units
from omega.queries.use import BY, use


@click.command()
@click.option("--by", type=click.Choice(BY), default="user", show_default=True, help="Rows of the table.")
@click.option("--from", "begin", metavar="TIME", help="Begin: 2026-01-31, 2026-01-31T12:00, or 7d ago (default: 24h).")
@click.option("--to", "end", metavar="TIME", help="End, as --from (default: now).")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.pass_obj
def command(app: App, by: str, begin: str | None, end: str | None, as_csv: bool) -> None:
    """Show what users, pools or kinds used: core-hours, MiB-hours of memory, tasks, waits, evictions.

    Hourly sums are kept for 90 days and count as whole hours. Housekeeping adds each entry of the log once, within
    a lease; the output says up to which time it has. Spans of which entries were trimmed before are listed as gaps.
    """
    now = app.now_ms()
    from_ms, to_ms = (None if text is None else time_of(text, now) for text in (begin, end))
    document = use(app.open(), by, from_ms, to_ms, now)
    if app.as_json:
        render.document(document)
    elif as_csv:
        for row in _csv(document, by):
            render.line(row)
    else:
        _show(document, by)


def time_of(text: str, now_ms: int) -> int:
    """Return a local time, or a time ago such as ``7d``, in ms since 1970. Raises BadInput."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return now_ms - parse_duration(text)
    except BadInput:
        raise BadInput(f"{text!r} is no time; write 2026-01-31, 2026-01-31T12:00, or 7d for a time ago") from None


def _csv(document: Mapping[str, Any], by: str) -> list[str]:
    text = io.StringIO()
    rows = document["use"]
    writer = csv.DictWriter(text, list(rows[0]) if rows else [by], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().splitlines()


def _show(document: Mapping[str, Any], by: str) -> None:
    rows = [
        {by: each[by] or "-"}
        | {f">{_heading(name)}": f"{each[name]:,.2f}" for name in each if name.endswith("_hours")}
        | {f">{name}": each[name] for name in ("started", "finished", "failed", "evicted", "lost")}
        | {">mean wait": "" if each["mean_wait_seconds"] is None else units.seconds(each["mean_wait_seconds"])}
        for each in document["use"]
    ]
    render.records(rows)
    if document["counted_to_ms"] is None:
        render.note("nothing was counted yet; a scheduler or agent counts within its lease")
    else:
        render.note(f"counted up to {_clock(document['counted_to_ms'])}; housekeeping adds what came later")
    for gap in document["gaps"]:
        render.note(f"gap: what tasks held is unknown from {_clock(gap['from_ms'])} to {_clock(gap['to_ms'])}")


def _heading(name: str) -> str:
    """Return the heading of a column: the unit of what was held, for an hour."""
    return {"cpu_hours": "core-hours", "memory_hours": "MiB-hours"}.get(name, name.replace("_", "-"))


def _clock(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
