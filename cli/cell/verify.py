"""``omega cell verify``."""

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import Unreadable
from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from omega.cellstate.audit import Report
    from omega.cellstate.ports import Queries


def with_epoch(cell: "Queries", report: "Report") -> "Report":
    """Add pools whose published fair share is not the one that the epoch's input gives."""
    from dataclasses import replace

    from omega.cellstate.audit import Violation
    from omega.queries.pool_shares import wrong_epoch

    try:
        wrong = [Violation(6, what, f"pool {name}") for name, what in wrong_epoch(cell)]
    except Unreadable:
        return report  # which says so
    return replace(report, violations=(*report.violations, *wrong)) if wrong else report


@click.command()
@click.argument("name", required=False)
@click.option("--since", type=click.IntRange(min=0), default=0, help="Do not check the log up to this version.")
@click.pass_context
def command(ctx: click.Context, name: str | None, since: int) -> None:
    """Check every invariant of the cell NAME (or the one given by --cell), also while it is in use.

    The records are checked in full, the log from its oldest version or after --since. A cell with a million running
    tasks takes a few minutes, most of them for the log.

    Exits 1 on a violation, and when the store is configured to evict or lose data.
    """
    from omega.cellstate.audit import verify
    from omega.cellstate.server import check_suitable, server_info
    from omega.queries.event_text import clock
    from omega.queries.pool_shares import machine_warnings_of

    app: App = ctx.obj
    cell = app.open(name)
    check_suitable(server_info(app.url))
    with render.busy(f"verifying {cell.name}", quiet=app.as_json) as told:
        report, warnings = with_epoch(cell, verify(cell, told, since)), list[str]()
        with suppress(Unreadable):  # the report says so
            warnings = machine_warnings_of(cell)
    if app.as_json:
        render.document(report.as_json() | {"warnings": warnings})
    else:
        checked = report.checked
        said = [units.count(checked[word + "s"], word) for word in ("machine", "task", "job", "fact")]
        if report.evictions.get("sets"):
            sets, copies = units.count(report.evictions["sets"], "eviction set"), report.evictions["checked"]
            said.append(f"{sets} ({copies:,} checked on the snapshot that they were decided on)")
        if report.constraints.get("claims"):
            claims, known = units.count(report.constraints["claims"], "claim"), report.constraints["checked"]
            said.append(f"{claims} with constraints ({known:,} checked on the attributes of their machines)")
        if not report.settled:
            render.line("not settled: the cell changes too fast for an exact read; only its log was checked, try again")
        elif report.ok:
            render.line(f"ok · {' · '.join(said)} · version {report.version:,}")
        else:
            render.line(f"{units.count(len(report.violations), 'violation')} · {' · '.join(said)}")
        if report.violations:
            columns = tuple(report.violations[0]._asdict())
            render.table(columns, [tuple(violation) for violation in report.violations])
        for cut in report.cuts:
            render.line(f"history cut at {clock(cut.at_ms)}: {cut.text}; reported at version {cut.version:,}")
        for warning in warnings:
            render.note(f"warning: {warning}")
    ctx.exit(0 if report.ok else 1)
