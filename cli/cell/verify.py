"""``omega cell verify``."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import Refused
from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.repair import Plan

MOST_NAMED = 5
"""Violations that a refusal names."""


@click.command()
@click.argument("name", required=False)
@click.option("--since", type=click.IntRange(min=0), default=0, help="Do not check the log up to this version.")
@click.option("--repair", is_flag=True, help="Write indexes anew where they do not follow from records.")
@click.option("--yes", is_flag=True, help="With --repair: do not ask for confirmation.")
@click.pass_context
def command(ctx: click.Context, name: str | None, since: int, repair: bool, yes: bool) -> None:
    """Check every invariant of the cell NAME (or the one given by --cell), also while it is in use.

    The records are checked in full, the log from its oldest version or after --since. A cell with a million running
    tasks takes a few minutes, most of them for the log.

    --repair writes nothing while records contradict one another that follow from no others, and nothing when somebody
    changes the cell meanwhile. It says what it would write, asks, and verifies the cell afterwards.

    Exits 1 on a violation, and when the store is configured to evict or lose data.
    """
    from omega.queries.event_text import clock
    from omega.verifying import verified

    app: App = ctx.obj
    cell = app.open(name)
    repaired = _repair(app, cell, yes=yes) if repair else {}
    with render.busy(f"verifying {cell.name}", quiet=app.as_json) as told:
        report, warnings = verified(app.url, cell, since, told)
    if app.as_json:
        render.document(report.as_json() | {"warnings": warnings} | ({"repaired": repaired} if repair else {}))
    else:
        checked = report.checked
        said = [units.count(checked[word + "s"], word) for word in ("machine", "task", "job", "fact")]
        if report.evictions.get("sets"):
            sets, copies = units.count(report.evictions["sets"], "eviction set"), report.evictions["checked"]
            said.append(f"{sets} ({copies:,} of which the log has all amounts)")
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


def _repair(app: App, cell: "RedisCell", *, yes: bool) -> Mapping[str, Mapping[str, int]]:
    """Write indexes anew, if they differ and the user agrees; return the number of changes by key."""
    from omega.cellstate.repair import repair
    from omega.verifying import check_store

    def agrees(plan: "Plan") -> bool:
        for key, counts in plan.changes.items():
            render.note(f"{key}: {', '.join(f'{count:,} {how}' for how, count in counts.items() if count)}")
        what = f"{units.count(len(plan.differences), 'field')} of the indexes of cell {cell.name}"
        if not yes and not sys.stdin.isatty():
            raise click.UsageError(f"write {what}: confirmation needed; add --yes")
        if not yes and not click.confirm(f"write {what}?", err=True):
            render.note("not repaired")
            click.get_current_context().exit(1)
        return True

    check_store(app.url)
    plan = repair(cell, app.now_ms(), app.by, agrees)
    if plan.unexplained:
        said = "; ".join(f"{each.where} {each.what}" for each in plan.unexplained[:MOST_NAMED])
        raise Refused(
            f"cell {cell.name}: nothing was written, because indexes cannot follow from records that contradict one"
            f" another; restore a backup ({units.count(len(plan.unexplained), 'violation')}: {said})"
        )
    if not plan.differences:
        render.note(f"cell {cell.name}: its indexes follow from its records, nothing to repair")
    return plan.changes
