"""``omega job release``."""

from collections.abc import Sequence

import click

from omega.cli.app import App
from omega.cli.job.change import change
from omega.cli.job.options import jobs_options, one_only


@click.command()
@jobs_options
@click.pass_obj
def command(app: App, jobs: Sequence[str], check: int | None, force: bool) -> None:
    """Release held jobs: schedulers place them again. Jobs that wait for other jobs stay pending."""
    one_only(jobs, check)
    change(app, jobs, "released", lambda cell, job: cell.release(job.id, app.now_ms(), app.by, check), force=force)
