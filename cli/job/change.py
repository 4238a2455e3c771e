"""``omega job hold``, ``release``, ``resize``, ``weight`` and ``stop``."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from omega.changes import RUNS_PER_CALL, change_json, check_owner, end, resize as resized, set_weight, stopped_json
from omega.cli import render
from omega.cli.app import App
from omega.cli.job.options import check_option, force_option, jobs_options, one_only
from omega.cli.job.preview import dry_run_option, preview_resize
from omega.queries import units
from omega.queries.job_state import state
from omega.queries.jobs import job_to_change

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.redis import RedisCell


def change(app: App, asked: Sequence[str], done: str, make: "Callable[[RedisCell, Job], Job]", *, force: bool) -> None:
    """Find jobs, `make` a change of each, and print its result; `done` is the word for it."""
    cell = app.open(to_change=True)
    changes = [(job, make(cell, job)) for job in _own_jobs(app, cell, asked, force=force)]
    if app.as_json:
        render.document({"cell": cell.name, "jobs": [change_json(job, after) for job, after in changes]})
        return
    for job, after in changes:
        already = " already" if job.modified == after.modified else ""
        render.line(f"job  {job.id}  {job.name}  {done}{already} · {state(after)} · modify index {after.modified}")


def _own_jobs(app: App, cell: "RedisCell", asked: Sequence[str], *, force: bool) -> "Collection[Job]":
    """Return the jobs of these names or ids, each once. Raises Refused for jobs of others, see check_owner."""
    jobs = {job.id: job for job in (job_to_change(cell, name) for name in asked)}.values()
    check_owner(app.user, cell, jobs, force=force)
    return jobs


@click.command()
@jobs_options
@click.pass_obj
def hold(app: App, jobs: Sequence[str], check: int | None, force: bool) -> None:
    """Hold jobs: no new placements until they are released; running tasks continue."""
    one_only(jobs, check)
    change(app, jobs, "held", lambda cell, job: cell.jobs.hold(job.id, app.now_ms(), app.by, check), force=force)


@click.command()
@jobs_options
@click.pass_obj
def release(app: App, jobs: Sequence[str], check: int | None, force: bool) -> None:
    """Release held jobs, also from the gate of their scheduler. Jobs that wait for other jobs stay pending."""
    one_only(jobs, check)
    change(app, jobs, "released", lambda cell, job: cell.jobs.release(job.id, app.now_ms(), app.by, check), force=force)


_MOST = 10_000_000
_MOST_DIGITS = 15


@click.command()
@click.argument("job")
@click.argument("words", nargs=-1, required=True, metavar="[GROUP] COUNT")
@check_option
@force_option
@dry_run_option
@click.pass_context
def resize(ctx: click.Context, job: str, words: Sequence[str], check: int | None, force: bool, dry_run: bool) -> None:
    """Change the number of tasks of a GROUP of JOB to COUNT.

    GROUP is a task group's name or position; a job with one group needs none.

    Added tasks are pending. Pending tasks are removed first; then the newest running tasks are stopped.

    The exit status of --dry-run is 3 when added tasks would be pending.
    """
    app: App = ctx.obj
    *named, number = words
    if len(named) > 1 or not number.isdecimal() or len(number) > _MOST_DIGITS or int(number) > _MOST:
        raise click.UsageError(f"give [GROUP] COUNT, with a COUNT from 0 to {_MOST:,}")
    count, group = int(number), named[0] if named else None
    if dry_run:
        ctx.exit(preview_resize(app.open(), job, group, count, as_json=app.as_json))

    change(
        app,
        [job],
        f"resized to {count:,}",
        lambda cell, job: resized(cell, job, group, count, app.now_ms(), app.by, check),
        force=force,
    )


@click.command()
@click.argument("job")
@click.argument("value", type=float, metavar="WEIGHT")
@check_option
@force_option
@click.pass_obj
def weight(app: App, job: str, value: float, check: int | None, force: bool) -> None:
    """Change the WEIGHT of JOB among the jobs of its pool (0.001 to 100,000; default 1).

    The next epoch of fair shares uses it. No task is started again.
    """
    change(
        app,
        [job],
        f"has weight {value:g}",
        lambda cell, job: set_weight(cell, job, value, app.now_ms(), app.by, check),
        force=force,
    )


@click.command()
@jobs_options
@click.option("--wait", is_flag=True, help="Return when the processes of all tasks have ended.")
@click.pass_obj
def stop(app: App, jobs: Sequence[str], check: int | None, force: bool, wait: bool) -> None:
    """Stop jobs: unplaced tasks end at once, running ones get SIGTERM, and SIGKILL after their grace time.

    Repeating the command changes nothing.
    """
    one_only(jobs, check)
    cell = app.open(to_change=True)
    answers: list[dict[str, Any]] = []
    named = _own_jobs(app, cell, jobs, force=force)
    # All jobs are stopped before any task ends: the room of one must not go to another that is to be stopped.
    stopped = {job.id: cell.jobs.stop(job.id, app.now_ms(), app.by, check=check) for job in named}
    for job in named:
        total = sum(group.placed for group in job.groups)
        with render.progress(quiet=app.as_json) as bars:
            bar = bars.add_task(f"stopping {job.name}", total=total, more="tasks", visible=total > RUNS_PER_CALL)
            ended = 0
            for count in end(cell, stopped[job.id], app.now_ms, app.by):
                ended += count
                bars.advance(bar, count)
        after = cell.jobs.get(job.id) or job
        answers.append(stopped_json(job, after, ended))
    if wait:
        from omega.live.waiting import watch

        watch(cell, list(stopped), lambda _: None)
        answers = [answer | {"stopping": False} for answer in answers]
    if app.as_json:
        render.document({"cell": cell.name, "jobs": answers})
        return
    for answer in answers:
        how = f"{answer['state']}" + (" already" if answer["state"] == answer["before"] else "")
        how += ", processes still run" if answer["stopping"] and not answer["ended"] else ""
        word = "stopping" if answer["stopping"] else "ended"
        what = f" · {units.count(answer['ended'], 'running task')} {word}" if answer["ended"] else ""
        what += f" · {units.count(answer['unplaced'], 'unplaced task')} stopped" if answer["unplaced"] else ""
        render.line(f"job  {answer['id']}  {answer['name']}  {how}{what}")
