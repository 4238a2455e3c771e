"""``omega job tasks``."""

import time

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.queries import units
from omega.queries.job_history import unread_text
from omega.queries.jobs import find_job
from omega.queries.task_results import STATES, JobTasks, job_tasks


@click.command()
@click.argument("job")
@click.option("--state", type=click.Choice(STATES), help="List only tasks in this state.")
@click.option(
    "--limit", type=click.IntRange(1), default=1_000, show_default=True, metavar="N", help="Maximum number of rows."
)
@columns_option
@click.pass_obj
def command(app: App, job: str, state: str | None, limit: int, columns: Columns) -> None:
    """List the tasks of JOB by index: state, exit status, machine, times, restarts. Equal neighbours share a row.

    The results are kept with the job, also after the log was trimmed.
    """
    cell = app.open()
    found = job_tasks(cell, find_job(cell, job)).of(state)
    if app.as_json or columns:
        answered(app, found.document(cell, limit, app.now_ms()), "tasks", columns)
        return
    show(found, found.machine_names(cell, limit), limit, app.now_ms())
    if found.unread is not None:
        render.note(unread_text(found.job, found.unread))


def show(found: JobTasks, names: dict[int, str], limit: int, now_ms: int) -> None:
    """Print a table of at most `limit` rows."""
    rows, again = [], any(row.restarts for row in found.rows[:limit])
    for row in found.rows[:limit]:
        (start, end), elapsed = row.times, row.elapsed_ms(now_ms)
        rows.append(
            {
                "task": found.names.name(row.group, row.tasks),
                "state": row.state,
                "exit": "" if row.exit_status is None else str(row.exit_status),
                "machine": "" if row.machine is None else names.get(row.machine, str(row.machine)),
                "started": "" if start is None else clock(start),
                "ended": "" if end is None else clock(end),
                ">elapsed": "" if elapsed is None else units.seconds(elapsed / 1000),
                **({">restarts": row.restarts} if again else {}),
                "reason": row.reason,
            }
        )
    render.records(rows, ("started", "ended"))
    if not rows:
        render.note("no such tasks")
    if len(found.rows) > limit:
        render.note(f"… {units.count(len(found.rows) - limit, 'more row')} (--limit)")


def clock(at_ms: int) -> str:
    """Return a local time with its date."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
