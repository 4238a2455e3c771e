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
@click.argument("jobs", nargs=-1, required=True, metavar="JOB…")
@click.option("--timeout", metavar="TIME", help="Maximum time to wait, such as 30s or 5m; the exit status is then 124.")
@click.pass_context
def command(ctx: click.Context, jobs: "Sequence[str]", timeout: str | None) -> None:
    """Wait until all JOBs and the processes of their tasks have ended; the exit status reflects their results.

    0: all tasks finished. 1: a task failed, or a job was stopped or abandoned. 124: --timeout has passed.
    """
    from omega.cellstate.durations import parse_duration
    from omega.live.waiting import TIMED_OUT, exit_status, patiently, waited_json, watch
    from omega.queries.job_state import job_counts
    from omega.queries.jobs import find_job

    app: App = ctx.obj
    seconds = None if timeout is None else parse_duration(timeout) / 1000
    cell = app.open()
    asked = {job.id: job.name for job in patiently(lambda: [find_job(cell, job) for job in jobs])}
    began = time.monotonic()
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task(f"waiting for {units.listing(list(asked.values()))}", total=None, more="tasks")

        def see(seen: "Sequence[Job]") -> None:
            now = [job_counts(job) for job in seen]
            ended = sum(each[word] for each in now for word in ("finished", "failed", "stopped"))
            bars.update(bar, total=sum(each["total"] for each in now), completed=ended)

        last = watch(cell, list(asked), see, seconds)
    code, waited = exit_status(last), time.monotonic() - began
    documents = [waited_json(cell, job, waited) for job in last]
    if app.as_json:
        several = {"cell": cell.name, "jobs": documents, "timed_out": code == TIMED_OUT, "waited_seconds": waited}
        render.document(documents[0] if len(jobs) == 1 else several)
    for each in documents if not app.as_json else ():
        ways = ", ".join(f"{number:,} {name}" for name, number in each["counts"].items() if number and name != "total")
        over = not each["counts"]["pending"] and not each["counts"]["placed"]
        still = f"{each['state']}, processes still run" if over else f"still {each['state']}"
        still = f"{still} after {units.seconds(waited)}" if each["timed_out"] else each["state"]
        render.line(f"job  {each['id']}  {each['name']}  {still} · {ways}")
    ctx.exit(code)
