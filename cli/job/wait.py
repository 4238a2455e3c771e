"""``omega job wait``."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from omega.cellstate.model import Job


@click.command()
@click.argument("job")
@click.option("--timeout", metavar="TIME", help="Maximum time to wait, such as 30s or 5m; the exit status is then 124.")
@click.pass_context
def command(ctx: click.Context, job: str, timeout: str | None) -> None:
    """Wait until JOB has ended; the exit status reflects its result.

    0: all tasks finished. 1: a task failed, or the job was stopped or abandoned. 124: --timeout has passed.
    """
    from omega.cellstate.durations import parse_duration
    from omega.live.waiting import TIMED_OUT, exit_status, patiently, waited_json, watch
    from omega.queries.job_state import job_counts
    from omega.queries.jobs import find_job

    app: App = ctx.obj
    seconds = None if timeout is None else parse_duration(timeout) / 1000
    cell = app.open()
    asked = patiently(lambda: find_job(cell, job))
    began = time.monotonic()
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task(f"waiting for {asked.name}", total=None, more="tasks")

        def see(jobs: "Sequence[Job]") -> None:
            now = job_counts(jobs[0])
            bars.update(bar, total=now["total"], completed=now["finished"] + now["failed"] + now["stopped"])

        jobs = watch(cell, [asked.id], see, seconds)
    code, waited = exit_status(jobs), time.monotonic() - began
    last = waited_json(cell, jobs[0], waited)
    if app.as_json:
        render.document(last)
    else:
        numbers, word = last["counts"].items(), last["state"]
        ways = ", ".join(f"{number:,} {name}" for name, number in numbers if number and name != "total")
        still = f"still {word} after {units.seconds(waited)}" if code == TIMED_OUT else word
        render.line(f"job  {last['id']}  {last['name']}  {still} · {ways}")
    ctx.exit(code)
