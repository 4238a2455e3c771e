"""``omega job history`` and ``omega job revert``: the versions of a job."""

import json
import time
from typing import Any

import click

from omega.cellstate.resources import format_amount
from omega.cli import render
from omega.cli.app import App
from omega.cli.job.options import check_option, follow_option, force_option


@click.command()
@click.argument("job")
@click.option(
    "--diff", "pair", nargs=2, type=click.IntRange(1), metavar="A B", help="Print the differences of two versions only."
)
@click.pass_obj
def history(app: App, job: str, pair: tuple[int, int] | None) -> None:
    """Show the versions of JOB, newest first: its present one and up to 6 before its last updates.

    Each version has the fields in which it differs from the one before. omega job revert goes back to one.
    """
    from omega.queries.jobs import find_job
    from omega.queries.versions import compared, history
    from omega.versions import find

    cell = app.open()
    found = find_job(cell, job)
    if pair:
        changes = compared(cell, find(found, pair[0]), find(found, pair[1]))
        if app.as_json:
            render.document({"cell": cell.name, "job": found.id, "from": pair[0], "to": pair[1], "changes": changes})
        else:
            _show(changes, "the versions are alike")
        return
    rows = history(cell, found)
    if app.as_json:
        render.document({"cell": cell.name, "job": found.id, "name": found.name, "versions": rows})
        return
    for row in rows:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["at_ms"] / 1000))
        now = " (present)" if row is rows[0] else ""
        render.line(f"version {row['version']}{now} · {at} · {row['by'] or 'unknown'} · {row['tasks']:,} tasks")
        _show(row["changes"], "" if row is rows[-1] else "no differences")


def _show(changes: list[dict[str, Any]], nothing: str) -> None:
    for each in changes:
        before, after = (_text(each["field"], each[side]) for side in ("before", "after"))
        render.line(f"  {each['field']}: {before} → {after}")
    if not changes and nothing:
        render.line(f"  {nothing}")


def _text(field: str, value: object) -> str:
    """Return the value of a field; amounts as job files have them."""
    _, is_need, resource = field.rpartition(".resources.")
    if is_need and isinstance(value, int):
        return format_amount(resource, value)
    return "–" if value is None else json.dumps(value)


@click.command()
@click.argument("job")
@click.option("--to", "number", type=click.IntRange(1), metavar="N", help="Version (default: the one before).")
@check_option
@force_option
@follow_option
@click.pass_context
def revert(
    ctx: click.Context, job: str, number: int | None, check: int | None, force: bool, follow: bool | None
) -> None:
    """Update JOB to one of its earlier versions, step by step; the result is a new version.

    A service that ended restarts. The exit status is that of omega job update.
    """
    from omega.changes import update
    from omega.cli.job.update import report
    from omega.queries.jobs import job_to_change
    from omega.versions import find

    app: App = ctx.obj
    cell = app.open(to_change=True)
    found = job_to_change(cell, job)
    spec = find(found, number).spec(found)
    changed, change = update(cell, spec, check, app.user, app.now_ms, app.by, force=force)
    report(ctx, cell, changed, change, follow=follow)
