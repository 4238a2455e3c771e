"""``omega job stop``."""

from collections.abc import Sequence
from typing import Any

import click

from omega.cli import render, units
from omega.cli.app import App
from omega.cli.job.options import jobs_options, one_only


@click.command()
@jobs_options
@click.pass_obj
def command(app: App, jobs: Sequence[str], check: int | None, force: bool) -> None:
    """Stop jobs: unplaced tasks end at once, running ones after that. Repeating the command changes nothing."""
    from omega.changes import RUNS_PER_CALL, check_owner, end, stopped_json
    from omega.queries.finding import find_job

    one_only(jobs, check)
    cell = app.open(to_change=True)
    answers: list[dict[str, Any]] = []
    named = {found.id: found for found in (find_job(cell, asked) for asked in jobs)}
    check_owner(app.user, cell, named.values(), force=force)
    # All jobs are stopped before any task ends: the room of one must not go to another that is to be stopped.
    stopped = {job_id: cell.stop(job_id, app.now_ms(), app.by, check=check) for job_id in named}
    for job in named.values():
        total = sum(group.placed for group in job.groups)
        with render.progress(quiet=app.as_json) as bars:
            bar = bars.add_task(f"stopping {job.name}", total=total, more="tasks", visible=total > RUNS_PER_CALL)
            ended = 0
            for count in end(cell, stopped[job.id], app.now_ms, app.by):
                ended += count
                bars.advance(bar, count)
        after = cell.job(job.id) or job
        answers.append(stopped_json(job, after, ended))
    if app.as_json:
        render.document({"cell": cell.name, "jobs": answers})
        return
    for answer in answers:
        how = f"{answer['state']}" + (" already" if answer["state"] == answer["before"] else "")
        what = f" · {units.count(answer['ended'], 'running task')} ended" if answer["ended"] else ""
        what += f" · {units.count(answer['unplaced'], 'unplaced task')} stopped" if answer["unplaced"] else ""
        render.line(f"job  {answer['id']}  {answer['name']}  {how}{what}")
