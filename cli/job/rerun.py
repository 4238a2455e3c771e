"""``omega job rerun``."""

import click

from omega.changes import check_owner
from omega.cli.app import App
from omega.cli.job.options import follow_option, force_option, hold_option
from omega.cli.job.submission import submit
from omega.queries.jobs import job_to_change
from omega.rerunning import rerun
from omega.submission import prepared


@click.command()
@click.argument("job")
@click.option("--failed", is_flag=True, help="Run only the tasks that failed.")
@click.option("--tasks", metavar="A-B,…", help="Run only the tasks with these indices, such as 3,20 or 1-9:2.")
@click.option("--group", metavar="NAME", help="Task group of --tasks (default: the only one).")
@click.option("--name", metavar="NAME", help="Name of the new job (default: that of JOB, with -rerun while it lives).")
@hold_option
@follow_option
@force_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    job: str,
    failed: bool,
    tasks: str | None,
    group: str | None,
    name: str | None,
    hold: bool,
    follow: bool | None,
    force: bool,
) -> None:
    """Submit the tasks of JOB again as a new job, which names its origin (annotation rerun_of).

    The tasks keep their indices. The new job belongs to you and waits for no other job.
    """
    if failed and tasks is not None:
        raise click.UsageError("--failed and --tasks exclude each other; give one of them")
    if group is not None and tasks is None:
        raise click.UsageError("--group goes with --tasks")
    app: App = ctx.obj
    cell = app.open(to_change=True)
    origin = job_to_change(cell, job)
    check_owner(app.user, cell, [origin], force=force)
    spec = rerun(cell, origin, name, failed=failed, tasks=tasks, group=group)
    submit(ctx, cell, prepared(cell, [spec], app.user), follow, hold=hold)
