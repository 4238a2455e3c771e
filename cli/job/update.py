"""``omega job update``."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cellstate.errors import BadInput, Overtaken, Refused
from cli import render, words
from cli.app import App
from cli.job.change import check_owner
from cli.job.options import check_option, follow_options, force_option
from cli.job.reading import jobs_of, read_file

if TYPE_CHECKING:
    from cellstate.model import Job, JobSpec
    from cellstate.redis import RedisCell
    from omega.updating import Change

ATTEMPTS = 5
"""How often somebody may be faster before it is given up."""
PAUSE_SECONDS = 0.25


@click.command()
@click.argument("file", metavar="FILE")
@check_option
@force_option
@follow_options
@click.pass_context
def command(ctx: click.Context, file: str, check: int | None, follow: bool | None, force: bool) -> None:
    """Make a running job what FILE (- for stdin) says, task by task: the schedulers of its kind see to it.

    At most `update: {max_down: N}` tasks of a group are down at once. A new task counts when it has stayed up for
    `health: {healthy_after: 10s}`. When new tasks fail, or nothing moves for `progress_deadline: 10m` longer, the
    update stops where it is. Exits with 1 when it did.
    """
    app: App = ctx.obj
    read = read_file(file)
    cell = app.open(to_change=True)
    specs = jobs_of(cell, [read])
    if len(specs) != 1:
        raise BadInput(f"{file}: {len(specs)} jobs; update one at a time")
    job, change = update(app, cell, specs[0], check, force=force)
    following = follow if follow is not None else sys.stdout.isatty() and not app.as_json
    state = _follow(cell, job.id, quiet=app.as_json) if following else cell.updates().get(job.id, "")
    if app.as_json:
        found = {"id": job.id, "name": job.name, "replaces": change.replaced, "modify_index": job.modified}
        render.document({"cell": cell.name, "jobs": [found | progress(cell.job(job.id) or job, state)]})
    elif not following:
        what = f"{words.count(change.replaced, 'task')} to be replaced" if change.replaced else "nothing to be replaced"
        render.line(f"job  {job.id}  {job.name}  {what} · modify index {job.modified} · see omega job status {job.id}")
    if following and state.startswith("stalled"):
        ctx.exit(1)


def update(
    app: App, cell: "RedisCell", spec: "JobSpec", check: int | None, *, force: bool
) -> "tuple[Job, Change]":  # fmt: skip
    """Begin the update of the live job that has the id or name of `spec`. Refused, Overtaken, BadInput."""
    from omega.updating import change

    for attempt in range(ATTEMPTS):
        job = cell.job(spec.id) or cell.job(cell.job_id(spec.name) or "")
        if job is None:
            raise Refused(f"job {spec.name}: no live job of that name in cell {cell.name}; omega job submit makes one")
        check_owner(app, cell, [job], force=force)
        wanted = change(job, spec, again=cell.updates().get(job.id, "").startswith("stalled"))
        try:
            known = job.modified if check is None else check
            return cell.update(job.id, wanted.groups, wanted.extra, app.now_ms(), app.by, known), wanted
        except Overtaken:
            if check is not None or attempt == ATTEMPTS - 1:
                raise
    raise RuntimeError("out of attempts")


def progress(job: "Job", state: str) -> dict[str, Any]:
    """How far the update of a job is: what is still to be replaced, of how many."""
    from schedulers.rolling import going, targets

    aims = targets(job)
    left = sum(going(job.groups[number]) for target in aims for number in target.older)
    word, _, reason = state.partition(" ")
    return {"update": word or "done", "reason": reason or None, "to_replace": left,
            "tasks": sum(target.count for target in aims)}  # fmt: skip


def told(now: Mapping[str, Any]) -> str:
    """How far it is, in words."""
    done = f"{now['tasks'] - min(now['to_replace'], now['tasks']):,} of {words.count(now['tasks'], 'task')} replaced"
    return {"rolling": f"rolling: {done}", "stalled": f"stalled: {now['reason']}"}.get(now["update"], "")


def _follow(cell: "RedisCell", job_id: str, *, quiet: bool) -> str:
    """Tell how far it is until it is no longer rolling; returns how it is then."""
    began, last = time.monotonic(), ""
    while True:
        state, job = cell.updates().get(job_id, ""), cell.job(job_id)
        said = told(progress(job, state)) or "updated" if job is not None else "the job is gone"
        if said != last and not quiet:
            render.line(f"  {words.seconds(time.monotonic() - began):<7} {said}")
            last = said
        if state != "rolling":
            return state
        time.sleep(PAUSE_SECONDS)
