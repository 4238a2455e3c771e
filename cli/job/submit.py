"""``omega job submit``, and what `job run` shares with it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render, units
from omega.cli.app import App
from omega.cli.job.options import check_option, follow_option, hold_option, job_file, read_bytes, read_file
from omega.cli.job.run_options import RUN_OPTIONS, run_options
from omega.cli.job.script import STDIN, given, is_script, submit_script
from omega.queries.job_fields import KindFields
from omega.queries.job_warnings import unserved, warnings
from omega.submission import CHUNK, check_names, check_new, jobs_of, prepared, submit as place, submitted_json

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.ports import JobStore


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE… | SCRIPT [ARG…]")
@hold_option
@check_option
@follow_option
@run_options
@click.pass_context
def command(
    ctx: click.Context, /, files: Sequence[str], hold: bool, check: int | None, follow: bool | None, **_: Any
) -> None:
    """Submit the jobs in YAML or JSON files (- for stdin), all of them or none, or one script as a job.

    Submitting a file again fails because its names are taken; if its jobs have ids, it changes nothing. With
    --check-index a file of one job updates that job, as omega job update does; 0 means that the job must be new.

    A script begins with #!. Its lines #OMEGA OPTION…, before its first command, take the options of omega job run. An
    option that is typed replaces the same option of the script. Words after the script are its arguments, after -- also
    those that begin with a dash.
    """
    app: App = ctx.obj
    data = read_bytes(files[0])
    if is_script(data):
        if check is not None:
            raise click.UsageError("--check-index goes with a job file")
        submit_script(ctx, STDIN if files[0] == "-" else files[0], data, files[1:])
        return
    if asked := [each.opts[0] for each in ctx.command.params if each.name in given(ctx) and each.name in RUN_OPTIONS]:
        raise click.UsageError(f"{asked[0]} goes with a script, which begins with #!; {files[0]} is a job file")
    if check:
        from omega.cli.job.update import command as update

        if len(files) != 1:
            raise click.UsageError("--check-index goes with one file")
        ctx.invoke(update, file=files[0], check=check, follow=follow)
        return
    read = [job_file(files[0], data), *(read_file(name) for name in files[1:])]
    cell = app.open(to_change=True)
    fields = KindFields(cell)
    specs = jobs_of(cell, read, fields)
    if check == 0:
        check_new(cell, specs)
    submit(ctx, cell, prepared(cell, specs, app.user, fields), follow, hold=hold)


def submit(
    ctx: click.Context,
    cell: "JobStore",
    specs: "Sequence[JobSpec]",
    follow: bool | None,
    *,
    hold: bool = False,
    of_tasks: bool = False,
) -> None:
    """Submit prepared jobs, print the answers, and follow them if asked. Duplicate when a name or id is taken.

    Without an option, jobs are followed on a terminal. `of_tasks`: exit with the code of the first failed task instead
    of the result of the jobs.
    """
    app: App = ctx.obj
    if len(specs) > 1:  # for a single job the store's answer is enough
        check_names(cell, specs)
    answers = []
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("submitting", total=len(specs), more="jobs", visible=len(specs) > CHUNK)
        for answer in place(cell, specs, app.now_ms(), app.by, hold=hold):
            answers.append(answer)
            bars.advance(bar)
    fresh = [spec for spec, answer in zip(specs, answers, strict=True) if answer.status == "new"]
    doubtful = warnings(cell, fresh) + unserved(cell, fresh)
    for text in doubtful:
        render.warning(text)
    following = follow if follow is not None else sys.stdout.isatty() and not app.as_json
    submitted = submitted_json(specs, answers)
    if not app.as_json:
        _say(submitted, "following (Ctrl-C detaches)" if following else f"see omega job status {specs[0].id}")
    elif not following:
        render.document({"cell": cell.name, "jobs": submitted, "warnings": doubtful})
    if following:
        from omega.cli.job.follow import follow_all

        ctx.exit(follow_all(app, cell, [spec.id for spec in specs], doubtful, of_tasks=of_tasks))


def _say(jobs: Sequence[dict[str, Any]], next_step: str) -> None:
    if len(jobs) == 1:
        job = jobs[0]
        render.line(f"job  {job['id']}  {job['name']}  {job['status']} · {next_step}")
        return
    fresh = [job for job in jobs if job["status"] == "submitted"]
    same = len(jobs) - len(fresh)
    also = f" · {same:,} unchanged" if same else ""
    tasks = sum(job["tasks"] for job in fresh)
    render.line(f"{units.count(len(fresh), 'job')} submitted, {units.count(tasks, 'task')}{also} · {next_step}")
