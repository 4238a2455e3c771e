"""``omega job submit``, and what `job run` shares with it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cellstate.errors import Duplicate, Overtaken, Refused
from cli import render, words
from cli.app import App
from cli.job.options import check_option, follow_options, hold_option
from cli.job.reading import jobs_of, read_file, stamped
from cli.job.warnings import warnings

if TYPE_CHECKING:
    from cellstate.cell import Submitted
    from cellstate.model import JobSpec
    from cellstate.redis import RedisCell

CHUNK = 500
"""Jobs per call: a few milliseconds of the server's time."""
WORDS = {"new": "submitted", "same": "unchanged"}


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@hold_option
@check_option
@follow_options
@click.pass_context
def command(ctx: click.Context, files: Sequence[str], hold: bool, check: int | None, follow: bool | None) -> None:
    """Submit the jobs in YAML or JSON files, - for stdin: all of them, or none when something is wrong.

    The same file again is refused because its names are taken, unless its jobs have ids: then it changes nothing.
    With --check-index a file of one job updates that job, as omega job update does; 0 means it must be new.
    """
    app: App = ctx.obj
    if check:
        from cli.job.update import command as update

        if len(files) != 1:
            raise click.UsageError("--check-index goes with one file")
        ctx.invoke(update, file=files[0], check=check, follow=follow)
        return
    read = [read_file(name) for name in files]
    cell = app.open(to_change=True)
    specs = jobs_of(cell, read)
    if check == 0:
        _check_new(cell, specs)
    submit(ctx, cell, specs, follow, hold=hold)


def _check_new(cell: "RedisCell", specs: "Sequence[JobSpec]") -> None:
    """--check-index 0: none of the jobs may be there. Overtaken."""
    for spec in specs:
        there = cell.job(spec.id) or cell.job(cell.job_id(spec.name) or "")
        if there is not None:
            raise Overtaken(f"job {spec.name}: is there already ({there.id}), its modify index is {there.modified}")


def submit(
    ctx: click.Context, cell: "RedisCell", specs: "Sequence[JobSpec]", follow: bool | None, *, hold: bool = False,
    of_tasks: bool = False,
) -> None:  # fmt: skip
    """Submit jobs, print the answers, and follow them if asked. Duplicate when a name or id is taken.

    Without a word on following, jobs are followed on a terminal. `of_tasks`: exit with the code of the first task
    that failed instead of the jobs' fate.
    """
    app: App = ctx.obj
    account = cell.account()
    specs = [stamped(app, spec, account) for spec in specs]
    if len(specs) > 1:
        check_names(cell, specs)  # of a single job the store's own answer says all
    answers = []
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("submitting", total=len(specs), more="jobs", visible=len(specs) > CHUNK)
        for start in range(0, len(specs), CHUNK):
            chunk = specs[start : start + CHUNK]
            answers += cell.submit(chunk, app.now_ms(), app.by, held=hold)
            bars.advance(bar, len(chunk))
    for spec, answer in zip(specs, answers, strict=True):
        if answer.status not in WORDS:  # somebody took it since it was checked
            raise _refusal(spec, answer)
    doubtful = warnings(cell, [spec for spec, answer in zip(specs, answers, strict=True) if answer.status == "new"])
    for text in doubtful:
        render.warning(text)
    following = follow if follow is not None else sys.stdout.isatty() and not app.as_json
    found = [
        {"id": spec.id, "name": spec.name, "status": WORDS[answer.status], "tasks": spec.total,
         "modify_index": answer.modified}
        for spec, answer in zip(specs, answers, strict=True)
    ]  # fmt: skip
    if not app.as_json:
        _say(found, "following (Ctrl-C detaches)" if following else f"see omega job status {specs[0].id}")
    elif not following:
        render.document({"cell": cell.name, "jobs": found, "warnings": doubtful})
    if following:
        from cli.job.follow import follow_all

        ctx.exit(follow_all(app, cell, [spec.id for spec in specs], doubtful, of_tasks=of_tasks))


def _say(found: Sequence[dict[str, Any]], next_step: str) -> None:
    if len(found) == 1:
        job = found[0]
        render.line(f"job  {job['id']}  {job['name']}  {job['status']} · {next_step}")
        return
    fresh = [job for job in found if job["status"] == "submitted"]
    same = len(found) - len(fresh)
    also = f" · {same:,} unchanged" if same else ""
    tasks = sum(job["tasks"] for job in fresh)
    render.line(f"{words.count(len(fresh), 'job')} submitted, {words.count(tasks, 'task')}{also} · {next_step}")


def check_names(cell: "RedisCell", specs: "Sequence[JobSpec]") -> None:
    """Refuse names that live jobs have before anything is submitted, so that a file goes in whole or not at all."""
    holders = cell.job_names()
    for spec in specs:
        if holders.get(spec.name, spec.id) != spec.id:
            raise taken(spec, holders[spec.name], by_id=False)


def _refusal(spec: "JobSpec", answer: "Submitted") -> Refused:
    """Why a job was not taken."""
    if answer.status == "after":
        return Refused(f"job {spec.name}: waits for {answer.holder}, which is not there (any more); see omega job list")
    if answer.status == "never":
        advice = "submit that anew, or wait for it with the outcome any"
        return Refused(f"job {spec.name}: waits for {answer.holder} to finish, which did not and never will; {advice}")
    return taken(spec, answer.holder if answer.status == "name" else spec.id, by_id=answer.status == "id")


def taken(spec: "JobSpec", holder: str, *, by_id: bool) -> Duplicate:
    """What is said of a job whose name, or id, another one has."""
    if by_id:
        return Duplicate(
            f"job {spec.name}: the id {holder} is that of another job, or of this one with other contents; "
            "choose another id"
        )
    return Duplicate(
        f"job {spec.name}: the name is taken by the live job {holder}; wait for it, stop it, or choose another name"
    )
