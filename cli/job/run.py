"""``omega job run``."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import Duplicate
from omega.cli.job.any_cell import Several, check_policy, policy_option, reader
from omega.cli.job.options import hold_option
from omega.cli.job.run_options import run_options
from omega.cli.job.submission import submit
from omega.jobfile.options import JobOptions, stem
from omega.submission import new_id, prepared

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell


@click.command(context_settings={"allow_interspersed_args": False})
@policy_option
@run_options
@hold_option
@click.option(
    "--follow/--detach",
    "follow",
    default=None,
    help="Follow the job to its end (default, except with --hold), or return after its submission.",
)
@click.argument("words", nargs=-1, metavar="[-- CMD…]")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Submit one job of identical tasks that run CMD, follow it, and exit with the exit code of its task.

    With several tasks, the exit code is that of the first one that failed. 128 + N: signal N ended the task. 127: there
    is no such command. 126: CMD is not executable. 124: the time limit ended the task. 1: the job was stopped or
    abandoned, or a task was lost. With --detach the command exits with 0 after the submission.

    With --cell any the job is planned on all cells and submitted to the best; --cell A,B names the cells.
    """
    words = given["words"]
    if not words and given["name"] is None:
        raise click.UsageError("give a command after --, or a --name")
    submit_command(ctx, stem(words) if words else "", **given)


def submit_command(
    ctx: click.Context,
    short: str,
    *,
    name: str | None,
    hold: bool,
    follow: bool | None,
    cells_policy: str | None = None,
    **options: Any,
) -> None:
    """Submit one job of the options of `run_options`, under `short` when it has no name."""
    asked, names = JobOptions(**options), ctx.obj.several()
    if asked.incomplete:
        raise click.UsageError(asked.incomplete)
    check_policy(cells_policy, names)
    if names is not None:
        several, job_id, follow = Several(ctx, names, cells_policy), new_id(), not hold if follow is None else follow
        submit_to_best(several, lambda _: asked, name, short, job_id, follow=follow, hold=hold)
        return
    cell = ctx.obj.open(to_change=True)
    job = asked.job(cell, name or short)
    go_on = partial(submit, ctx, cell, follow=not hold if follow is None else follow, hold=hold, of_tasks=True)
    under_a_name(lambda called: go_on(prepared(cell, [replace(job, name=called)], ctx.obj.user)), name, short, job.id)


def submit_to_best(
    several: Several, asked: "Callable[[RedisCell], JobOptions]", name: str | None, short: str, job_id: str, *,
    follow: bool, hold: bool,
) -> None:  # fmt: skip
    """Submit a job of options, which may differ from cell to cell, to the best of several cells."""

    def submit_as(called: str) -> None:
        def jobs(cell: "RedisCell", next_id: Callable[[], str]) -> "list[JobSpec]":
            return [replace(asked(cell).job(cell, called), id=next_id())]

        several.submit(reader(several.app.user, jobs), follow, hold=hold, of_tasks=True)

    under_a_name(submit_as, name, short, job_id)


def under_a_name(go_on: Callable[[str], None], name: str | None, short: str, job_id: str) -> None:
    """Go on with a job under its name; one without a name under `short`, or with part of its id where that is taken."""
    if name is not None:
        go_on(name)
        return
    try:
        go_on(short)
    except Duplicate:
        go_on(f"{short}-{job_id[:4]}")
