"""``omega job submit``."""

from collections.abc import Sequence
from typing import Any

import click

from omega.cli.app import App
from omega.cli.job.any_cell import Several, check_policy, files_reader, policy_option
from omega.cli.job.options import check_option, follow_option, hold_option, job_file, read_bytes, read_file
from omega.cli.job.run_options import run_options
from omega.cli.job.script import refuse_options, submit_script
from omega.cli.job.submission import submit
from omega.jobfile.script import STDIN, Script, is_script
from omega.queries.job_fields import KindFields
from omega.submission import check_new, jobs_of, prepared


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE… | SCRIPT [ARG…]")
@hold_option
@check_option
@follow_option
@policy_option
@run_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: Sequence[str],
    hold: bool,
    check: int | None,
    follow: bool | None,
    cells_policy: str | None,
    **_: Any,
) -> None:
    """Submit the jobs in YAML or JSON files (- for stdin), all of them or none, or one script as a job.

    Submitting a file again fails because its names are taken; if its jobs have ids, it changes nothing. With
    --check-index a file of one job updates that job, as omega job update does; 0 means that the job must be new.

    A script begins with #!. Its lines #OMEGA OPTION…, before its first command, take the options of omega job run. An
    option that is typed replaces the same option of the script. Words after the script are its arguments, after -- also
    those that begin with a dash.

    With --cell any each job is planned on all cells and submitted to the best; --cell A,B names the cells. Jobs that
    wait for one another go to the same cell. A job with an id that a cell has already is found there.
    """
    app: App = ctx.obj
    names = app.several()
    check_policy(cells_policy, names)
    data = read_bytes(files[0])
    if is_script(data):
        if check is not None:
            raise click.UsageError("--check-index goes with a job file")
        submit_script(ctx, Script.read(STDIN if files[0] == "-" else files[0], data, files[1:]), cells_policy)
        return
    refuse_options(ctx, files[0])
    if check:
        from omega.cli.job.update import update_by_file

        if names is not None:
            raise click.UsageError("--check-index N updates a job: name its cell with --cell")
        if len(files) != 1:
            raise click.UsageError("--check-index goes with one file")
        update_by_file(ctx, job_file(files[0], data), check, follow=follow)
        return
    read = [job_file(files[0], data), *(read_file(name) for name in files[1:])]
    if names is not None:
        Several(ctx, names, cells_policy).submit(files_reader(app.user, read, new=check == 0), follow, hold=hold)
        return
    cell = app.open(to_change=True)
    fields = KindFields(cell)
    specs = jobs_of(cell, read, fields)
    if check == 0:
        check_new(cell.jobs, specs)
    submit(ctx, cell, prepared(cell, specs, app.user, fields), follow, hold=hold)
