"""``omega job update``."""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import BadInput
from omega.changes import update
from omega.cli import render
from omega.cli.app import App
from omega.cli.job.options import check_option, follow_option, force_option, read_file
from omega.cli.job.preview import dry_run_option, preview_update
from omega.queries import units
from omega.queries.job_fields import KindFields
from omega.queries.job_status import progress, update_progress
from omega.queries.job_texts import update_text
from omega.submission import jobs_of, prepared

if TYPE_CHECKING:
    from omega.cellstate.model import Job, JobSpec
    from omega.cellstate.redis import RedisCell
    from omega.jobfile.reader import JobFile
    from omega.updating import GroupChange, JobUpdate

PAUSE_SECONDS = 0.25


@click.command()
@click.argument("file", metavar="FILE")
@check_option
@force_option
@follow_option
@dry_run_option
@click.pass_context
def command(ctx: click.Context, file: str, check: int | None, follow: bool | None, force: bool, dry_run: bool) -> None:
    """Replace the tasks of a running job step by step by those in FILE (- for stdin).

    The schedulers of its kind replace at most `update: {max_down: N}` tasks of a group at once. A new task counts when
    it has been up for `health: {healthy_after: 10s}`. The update stops when new tasks fail, when the job ends before
    they count, or without progress for `progress_deadline: 10m` beyond that; the exit status is then 1. A service that
    ended restarts with the tasks in FILE.

    --dry-run prints what would be replaced, kept and added; its exit status is 3 when added tasks would be pending.
    """
    if dry_run:
        app: App = ctx.obj
        cell = app.open()
        ctx.exit(preview_update(cell, _asked(cell, read_file(file)), as_json=app.as_json))
    update_by_file(ctx, read_file(file), check, follow=follow, force=force)


def update_by_file(
    ctx: click.Context, read: "JobFile", check: int | None, *, follow: bool | None, force: bool = False
) -> None:
    """Update the one job of a file that was read. Raises BadInput when it has several."""
    app: App = ctx.obj
    cell = app.open(to_change=True)
    job, change = update(cell, _asked(cell, read), check, app.user, app.now_ms, app.by, force=force)
    report(ctx, cell, job, change, follow=follow)


def _asked(cell: "RedisCell", read: "JobFile") -> "JobSpec":
    fields = KindFields(cell)
    specs = jobs_of(cell, [read], fields)
    if len(specs) != 1:
        raise BadInput(f"{read.name}: {len(specs)} jobs; update one at a time")
    return prepared(cell, specs, None, fields)[0]


def report(ctx: click.Context, cell: "RedisCell", job: "Job", change: "JobUpdate", *, follow: bool | None) -> None:
    """Follow an update if asked, print it, and exit with 1 when it failed."""
    app: App = ctx.obj
    for each in change.changes if not app.as_json else ():
        if each.replaced:
            render.line(_replaced(each))
    following = follow if follow is not None else sys.stdout.isatty() and not app.as_json
    now = _follow(cell, job.id, quiet=app.as_json) if following else update_progress(cell, job.id)
    gone = now is None
    now = now or progress(job, "")  # retired meanwhile
    if app.as_json:
        change_json = {"id": job.id, "name": job.name, "replaces": change.replaced, "modify_index": job.modified}
        change_json |= {"restarts": change.restarts, "group_changes": [each.as_json() for each in change.changes]}
        render.document({"cell": cell.name, "jobs": [change_json | now]})
    elif not following:
        what = f"{units.count(change.replaced, 'task')} to be replaced" if change.replaced else "nothing to be replaced"
        what = "ended, restarts" if change.restarts else what
        render.line(f"job  {job.id}  {job.name}  {what} · modify index {job.modified} · see omega job status {job.id}")
    if following and (gone or now.get("update") == "stalled"):
        ctx.exit(1)


def _replaced(change: "GroupChange") -> str:
    """Say why the tasks of a group are replaced, and what that costs."""
    why = ", ".join(change.fields) or "the update before stalled"
    lost = f"; the work of {units.count(change.running, 'running task')} is lost" if change.running else ""
    return f"{change.name}: {units.count(change.replaced, 'task')} to be replaced ({why}){lost}"


def _follow(cell: "RedisCell", job_id: str, *, quiet: bool) -> dict[str, Any] | None:
    """Print the progress until the job is no longer rolling; returns the last one."""
    began, last = time.monotonic(), ""
    while True:
        now = update_progress(cell, job_id)
        said = update_text(now) or "updated" if now is not None else "the job is no longer kept; its result is unknown"
        if said != last and not quiet:
            render.line(f"  {units.seconds(time.monotonic() - began):<7} {said}")
            last = said
        if now is None or now["update"] != "rolling":
            return now
        time.sleep(PAUSE_SECONDS)
