"""Submission of prepared jobs, which `omega job submit` and `job run` share."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.client.lost_jobs import Submissions
from omega.queries import units
from omega.queries.job_warnings import unserved, warnings
from omega.submission import CHUNK, check_names, submitted_json

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell


def submit(
    ctx: click.Context,
    cell: "RedisCell",
    specs: "Sequence[JobSpec]",
    follow: bool | None,
    *,
    hold: bool = False,
    of_tasks: bool = False,
) -> None:
    """Submit prepared jobs, print the answers, and follow them if asked. Duplicate when a name or id is taken.

    Without an option, jobs are followed on a terminal. `of_tasks`: exit with the code of the first failed task instead
    of the result of the jobs.
    """
    app: App = ctx.obj
    if len(specs) > 1:  # for a single job the store's answer is enough
        check_names(cell, specs)
    answers, kept, partings = [], Submissions(), cell.sightings.partings
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("submitting", total=len(specs), more="jobs", visible=len(specs) > CHUNK)
        for answer in kept.submit(cell, specs, app.now_ms, app.by, hold=hold):
            answers.append(answer)
            bars.advance(bar)
    fresh = [spec for spec, answer in zip(specs, answers, strict=True) if answer.status == "new"]
    doubtful = warnings(cell, fresh) + unserved(cell, fresh)
    if cell.sightings.partings != partings:  # the store lost versions meanwhile, maybe those of these jobs
        kept.again(cell, app.now_ms, app.by)
    for text in doubtful:
        render.warning(text)
    following = follow if follow is not None else sys.stdout.isatty() and not app.as_json
    submitted = submitted_json(specs, answers)
    if not app.as_json:
        _say(submitted, "following (Ctrl-C detaches)" if following else f"see omega job status {specs[0].id}")
    elif not following:
        render.document({"cell": cell.name, "jobs": submitted, "warnings": doubtful})
    if following:
        from omega.cli.job.follow import follow_all

        ctx.exit(follow_all(app, cell, [spec.id for spec in specs], doubtful, kept, of_tasks=of_tasks))


def _say(jobs: Sequence[dict[str, Any]], next_step: str) -> None:
    if len(jobs) == 1:
        job = jobs[0]
        render.line(f"job  {job['id']}  {job['name']}  {job['status']} · {next_step}")
        return
    fresh = [job for job in jobs if job["status"] == "submitted"]
    same = len(jobs) - len(fresh)
    also = f" · {same:,} unchanged" if same else ""
    tasks = sum(job["tasks"] for job in fresh)
    render.line(f"{units.count(len(fresh), 'job')} submitted, {units.count(tasks, 'task')}{also} · {next_step}")
