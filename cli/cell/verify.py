"""``omega cell verify``."""

import click

from omega.cli import render
from omega.cli.app import App
from omega.queries import units


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
    from omega.queries.event_text import clock
    from omega.verifying import verified

    app: App = ctx.obj
    cell = app.open(name)
    with render.busy(f"verifying {cell.name}", quiet=app.as_json) as told:
        report, warnings = verified(app.url, cell, since, told)
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
