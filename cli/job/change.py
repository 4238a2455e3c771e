"""``omega job hold`` and ``release``; commands that change jobs find the jobs and print the results in the same way."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.job.options import jobs_options, one_only

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import JobStore


def change(app: App, asked: Sequence[str], done: str, make: "Callable[[JobStore, Job], Job]", *, force: bool) -> None:
    """Find jobs, `make` a change of each, and print its result; `done` is the word for it. Refused: see check_owner."""
    from omega.changes import change_json, check_owner
    from omega.queries.finding import find_job
    from omega.queries.job_state import state

    cell = app.open(to_change=True)
    answers = []
    found_jobs = {found.id: found for found in (find_job(cell, name) for name in asked)}
    check_owner(app.user, cell, found_jobs.values(), force=force)
    for job in found_jobs.values():
        after = make(cell, job)
        answers.append((job, after))
    if app.as_json:
        found = [change_json(job, after) for job, after in answers]
        render.document({"cell": cell.name, "jobs": found})
        return
    for job, after in answers:
        already = " already" if job.modified == after.modified else ""
        render.line(f"job  {job.id}  {job.name}  {done}{already} · {state(after)} · modify index {after.modified}")


@click.command()
@jobs_options
@click.pass_obj
def hold(app: App, jobs: Sequence[str], check: int | None, force: bool) -> None:
    """Hold jobs: no new placements until they are released; running tasks continue."""
    one_only(jobs, check)
    change(app, jobs, "held", lambda cell, job: cell.hold(job.id, app.now_ms(), app.by, check), force=force)


@click.command()
@jobs_options
@click.pass_obj
def release(app: App, jobs: Sequence[str], check: int | None, force: bool) -> None:
    """Release held jobs: schedulers place them again. Jobs that wait for other jobs stay pending."""
    one_only(jobs, check)
    change(app, jobs, "released", lambda cell, job: cell.release(job.id, app.now_ms(), app.by, check), force=force)
