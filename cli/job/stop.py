"""``omega job stop``."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from cli import render, words
from cli.app import App
from cli.job.change import check_owner
from cli.job.options import check_option, force_option, one_only
from omega.queries.finding import find_job
from omega.queries.job_state import state

if TYPE_CHECKING:
    from cellstate.model import Job
    from cellstate.redis import RedisCell

BATCH = 1_000
"""Runs ended per call: 10 to 20 ms of the server's time."""


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB…")
@check_option
@force_option
@click.pass_obj
def command(app: App, jobs: Sequence[str], check: int | None, force: bool) -> None:
    """Stop jobs: what is unplaced ends at once, what runs is ended after that. Repeating it does no harm."""
    one_only(jobs, check)
    cell = app.open(to_change=True)
    answers: list[dict[str, Any]] = []
    named = {found.id: found for found in (find_job(cell, asked) for asked in jobs)}
    check_owner(app, cell, named.values(), force=force)
    # All of them first: what one of them leaves is not for another to take.
    stopped = {job_id: cell.stop(job_id, app.now_ms(), app.by, check=check) for job_id in named}
    for job in named.values():
        total = sum(group.placed for group in job.groups)
        with render.progress(quiet=app.as_json) as bars:
            bar = bars.add_task(f"stopping {job.name}", total=total, more="tasks", visible=total > BATCH)
            ended = 0
            for count in end(app, cell, stopped[job.id]):
                ended += count
                bars.advance(bar, count)
        after = cell.job(job.id) or job
        answers.append({"id": job.id, "name": job.name, "before": state(job), "state": state(after),
                        "unplaced": job.unplaced, "ended": ended, "modify_index": after.modified})  # fmt: skip
    if app.as_json:
        render.document({"cell": cell.name, "jobs": answers})
        return
    for answer in answers:
        how = f"{answer['state']}" + (" already" if answer["state"] == answer["before"] else "")
        what = f" · {words.count(answer['ended'], 'running task')} ended" if answer["ended"] else ""
        what += f" · {words.count(answer['unplaced'], 'task')} not to be placed any more" if answer["unplaced"] else ""
        render.line(f"job  {answer['id']}  {answer['name']}  {how}{what}")


def end(app: App, cell: "RedisCell", stopped: "Job") -> Iterator[int]:
    """End what runs of a stopped job, batch by batch (semantics 4); yields how many tasks each batch ended."""
    from cellstate.transaction import Ending, How

    job: Job | None = stopped
    while job is not None:
        runs = [run for group in job.groups for run in group.runs if not run[2]]
        took_effect = 0
        for start in range(0, len(runs), BATCH):
            batch = [Ending(machine, placement, How.STOPPED) for placement, machine, _ in runs[start : start + BATCH]]
            count = sum(cell.end(batch, app.now_ms(), app.by))
            took_effect += count
            yield count
        if not took_effect:  # nothing runs, or others ended it meanwhile
            return
        job = cell.job(stopped.id)
