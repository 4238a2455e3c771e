"""``omega job status``."""

import click

from omega.cli import render
from omega.cli.app import App

MOST_ROWS = 20
MOST_TOLD = 10
"""Lines of a job's history."""


@click.command()
@click.argument("job")
@click.option("--verbose", "-v", is_flag=True, help=f"Print all runs and events, not only {MOST_ROWS} and {MOST_TOLD}.")
@click.pass_obj
def command(app: App, job: str, verbose: bool) -> None:
    """Show JOB: its tasks by state, their machines, its history."""
    from omega.queries.finding import find_job
    from omega.queries.job_history import MOST_EVENTS
    from omega.queries.job_status import JobStatus

    cell = app.open()
    status = JobStatus(cell, find_job(cell, job))
    if app.as_json:
        render.document(status.as_json(app.now_ms()))
        return
    from omega.cli.job.status_text import show, show_past, show_runs

    show(status, app.now_ms())
    show_runs(status, most=len(status.runs) if verbose else MOST_ROWS)
    show_past(cell, status.past, most=MOST_EVENTS if verbose else MOST_TOLD)
