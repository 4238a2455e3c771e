"""Shared code of the commands that change jobs: finding the jobs and printing the results."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from omega.cli import render
from omega.cli.app import App

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
