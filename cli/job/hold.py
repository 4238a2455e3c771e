"""``omega job hold``."""

from collections.abc import Sequence

import click

from omega.cli.app import App
from omega.cli.job.change import change
from omega.cli.job.options import jobs_options, one_only


@click.command()
@jobs_options
@click.pass_obj
def command(app: App, jobs: Sequence[str], check: int | None, force: bool) -> None:
    """Hold jobs: no new placements until they are released; running tasks continue."""
    one_only(jobs, check)
    change(app, jobs, "held", lambda cell, job: cell.hold(job.id, app.now_ms(), app.by, check), force=force)
