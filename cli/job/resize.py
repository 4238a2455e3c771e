"""``omega job resize``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from omega.changes import resize
from omega.cli.app import App
from omega.cli.job.change import change
from omega.cli.job.options import check_option, force_option

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import JobStore

_MOST = 10_000_000
_MOST_DIGITS = 15


@click.command()
@click.argument("job")
@click.argument("words", nargs=-1, required=True, metavar="[GROUP] COUNT")
@check_option
@force_option
@click.pass_obj
def command(app: App, job: str, words: Sequence[str], check: int | None, force: bool) -> None:
    """Change the number of tasks of a GROUP of JOB to COUNT.

    GROUP is a task group's name or position; a job with one group needs none.

    Added tasks are pending. Pending tasks are removed first; then the newest running tasks are stopped.
    """
    *named, number = words
    if len(named) > 1 or not number.isdecimal() or len(number) > _MOST_DIGITS or int(number) > _MOST:
        raise click.UsageError(f"give [GROUP] COUNT, with a COUNT from 0 to {_MOST:,}")
    count, group = int(number), named[0] if named else None

    def make(cell: "JobStore", found: "Job") -> "Job":
        return resize(cell, found, group, count, app.now_ms(), app.by, check)

    change(app, [job], f"resized to {count:,}", make, force=force)
