"""``omega job list``."""

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.cli.mapreduce import progress
from omega.cli.options import all_cells_option
from omega.many_cells.lists import job_pages, list_all, read_position
from omega.queries import units
from omega.queries.event_text import clock
from omega.queries.job_state import STATES
from omega.queries.jobs import keep, list_jobs
from omega.schedulers.constraints.reasons import Reason

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.pages import JobPage
    from omega.many_cells.opened import OpenCells

MOST_ROWS = 50
SPARE = ("ended", "started", "user", "kind", "prec", "stopped", "failed", "restarts", "elapsed", "placed")
"""Columns left out on a narrow terminal, in this order."""
ORDER = ("cell", "id", "name", "user", "kind", ">prec", "state", "reason", "waits", "progress", ">tasks", ">placed",
         ">finished", ">failed", ">stopped", ">restarts", "started", "ended", ">elapsed", ">age")  # a table # fmt: skip
"""Columns of several cells, which need not have the same."""

HELP = (
    "List the jobs in order of submission, with their state and its reason.\n\n"
    f"States: {', '.join(f'{word} ({meaning})' for word, meaning in STATES.items())}.\n\n"
    f"Reasons: {', '.join(Reason)}. omega job why JOB explains a reason. A question mark marks a user that the store "
    "did not verify."
)


def _read_before(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | str | None:
    """Return a number of a submission, or the position of a page of several cells."""
    if text is None or ":" in text:
        return text
    return int(click.IntRange(1)(text, parameter, ctx))


@click.command(help=HELP)
@click.option("--kind", metavar="KIND", help="List only jobs of this kind.")
@click.option("--state", "wanted", type=click.Choice(tuple(STATES)), help="List only jobs in this state.")
@click.option("--user", metavar="NAME", help="List only jobs that this user submitted.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help=f"List the N newest (default: {MOST_ROWS}; with --json all)."
)
@click.option(
    "--before",
    metavar="N",
    callback=_read_before,
    help="List only jobs older than the N-th submission (next page); of several cells CELL:N,….",
)
@all_cells_option
@columns_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    kind: str | None,
    wanted: str | None,
    user: str | None,
    limit: int | None,
    before: int | str | None,
    all_cells: bool,
    columns: Columns,
) -> None:
    """List the jobs in order of submission, as the help explains."""
    app: App = ctx.obj
    most, now_ms = limit if limit or app.as_json else MOST_ROWS, app.now_ms()
    no_jobs = "no jobs" + (
        " of this kind, state and user" if kind or wanted or user else "; submit one with omega job run"
    )
    names = app.several(all_cells=all_cells)
    if names is not None:
        if isinstance(before, int):
            raise click.UsageError("--before of several cells is CELL:N,…, as the last page prints it")
        found, where = app.open_cells(names), read_position(before)
        ctx.exit(_list_all(app, found, *job_pages(found, most, where, keep(kind, wanted), user), columns, no_jobs))
    if isinstance(before, str):
        raise click.UsageError("--before CELL:N goes with --all-cells")
    cell = app.open()
    page = cell.jobs.page(most, before, keep(kind, wanted), user)
    if app.as_json or columns:
        answered(app, list_jobs(cell, page, now_ms), "jobs", columns)
        return
    if not page.jobs:
        render.note(no_jobs)
        return
    if page.before is not None:
        older = "older jobs" if page.left is None else units.count(page.left, "older job")
        render.note(f"… {older} (--before {page.before}, --limit)")
    render.records(_rows(cell, page, now_ms), SPARE)


def _list_all(
    app: App, found: "OpenCells", parts: "Mapping[str, JobPage]", following: str | None, columns: Columns, no_jobs: str
) -> int:
    """Print jobs of several cells; return the exit code."""
    now_ms = app.now_ms()
    if app.as_json or columns:
        answered(app, list_all(found, parts, following, now_ms), "jobs", columns)
        return app.warn_of_skipped(found)
    if following is not None:
        render.note(f"… older jobs (--before {following}, --limit)")
    rows = list[tuple[int, dict[str, object]]]()
    for name, page in parts.items():
        lines = _rows(found.cells[name], page, now_ms)
        rows += [(job.submitted_ms, {"cell": name, **line}) for job, line in zip(page.jobs, lines, strict=True)]
    headings = sorted({heading for _, line in rows for heading in line}, key=ORDER.index)
    if rows:
        rows.sort(key=itemgetter(0))
        render.records(
            [{heading: line.get(heading, 0 if heading[0] == ">" else "") for heading in headings} for _, line in rows],
            SPARE,
        )
    else:
        render.note(no_jobs)
    return app.warn_of_skipped(found)


def _rows(cell: "Cell", page: "JobPage", now_ms: int) -> list[dict[str, object]]:
    """Return the rows of a page, made from its document."""
    jobs = list_jobs(cell, page, now_ms)["jobs"]
    some = [name for name in ("finished", "failed", "stopped") if any(job["counts"][name] for job in jobs)]
    with_precedence, with_user = any(job["precedence"] for job in jobs), any(job["user"] for job in jobs)
    delays, again = any(job["delay"] for job in jobs), any(job["restarts"] for job in jobs)
    began, over = (any(job[name] is not None for job in jobs) for name in ("started_ms", "ended_ms"))
    briefs = {job.id: brief for job in page.jobs if (brief := progress.brief(cell, job))}
    return [
        {
            "id": job["id"],
            "name": job["name"],
            **({"user": shown_user(job)} if with_user else {}),
            "kind": job["kind"],
            **({">prec": job["precedence"]} if with_precedence else {}),
            "state": job["state"],
            "reason": job["reason"] or "",
            **({"waits": _delay(job["delay"])} if delays else {}),
            **({"progress": briefs.get(job["id"], "")} if briefs else {}),
            ">tasks": job["counts"]["total"],
            **{f">{name}": job["counts"][name] for name in ("placed", *some)},
            **({">restarts": job["restarts"]} if again else {}),
            **({"started": _clock(job["started_ms"], now_ms)} if began else {}),
            **({"ended": _clock(job["ended_ms"], now_ms)} if over else {}),
            **({">elapsed": _elapsed(job["elapsed_ms"])} if began else {}),
            ">age": units.age(job["age_seconds"]),
        }
        for job in jobs
    ]


def _clock(at_ms: int | None, now_ms: int) -> str:
    return "" if at_ms is None else clock(at_ms, now_ms)[:-4]


def _elapsed(elapsed_ms: int | None) -> str:
    return "" if elapsed_ms is None else units.seconds(elapsed_ms / 1000)


def _delay(delay: "Mapping[str, Any] | None") -> str:
    """Return the level at which a job is delayed and the time left: ``rack 4s``."""
    return "" if delay is None else " ".join(filter(None, (delay["level"], units.age(delay["left_seconds"]))))


def shown_user(job: "Mapping[str, Any]") -> str:
    """Return the user of a job, followed by a question mark when neither a login nor ``omega serve`` vouches for it."""
    return f"{job['user'] or ''}{'?' * (job['user_source'] == 'stated')}"
