"""Scripts on the command line: typed options replace those of the script's directives (omega/jobfile/script.py)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from sys import stdout
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from omega.cli import render
from omega.cli.job.any_cell import Several, unique
from omega.jobfile.options import JobOptions
from omega.jobfile.script import Script, defaults
from omega.submission import new_id

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell


def given(ctx: click.Context) -> list[str]:
    """Return the names of the parameters that were typed."""
    return [key for key in ctx.params if ctx.get_parameter_source(key) is ParameterSource.COMMANDLINE]


def refuse_options(ctx: click.Context, file: str) -> None:
    """Raise UsageError when options of a script were typed with a job file."""
    from omega.cli.job.run_options import RUN_OPTIONS

    if asked := [each.opts[0] for each in ctx.command.params if each.name in given(ctx) and each.name in RUN_OPTIONS]:
        raise click.UsageError(f"{asked[0]} goes with a script, which begins with #!; {file} is a job file")


def read_options(
    ctx: click.Context, script: Script, cell: "RedisCell", warn: Callable[[str], None] = render.warning
) -> dict[str, Any]:
    """Return the options of `omega job run` that a script stands for, in the resources of a cell.

    Options that were typed replace those of its directives, of ``NAME=VALUE`` options those of the same name.
    """
    words, usual = script.command(), defaults()
    values = script.options(cell.dimensions, warn)
    typed = {key: ctx.params[key] for key in given(ctx) if key in usual}
    by_name = {key: {**values[key], **typed[key]} for key in typed if isinstance(values.get(key), dict)}
    return {**usual, **values, **typed, **by_name, "words": words}


def submit_script(ctx: click.Context, script: Script, cells_policy: str | None) -> None:
    """Submit a script as a job of `omega job run`, with several cells to the best of them."""
    from omega.cli.job.run import submit_command, submit_to_best

    names = ctx.obj.several()
    if names is None:
        chosen = read_options(ctx, script, ctx.obj.open())
        chosen["follow"] = _follows(ctx, chosen)
        submit_command(ctx, script.short, **chosen)
        return
    several, warn = Several(ctx, names, cells_policy), unique(render.warning)
    first = next(iter(several.found.cells.values()))
    chosen = read_options(ctx, script, first, warn)

    def asked(cell: "RedisCell") -> JobOptions:
        options = read_options(ctx, script, cell, warn)
        return JobOptions(**{key: value for key, value in options.items() if key not in ("name", "hold", "follow")})

    submit_to_best(
        several, asked, chosen["name"], script.short, new_id(), follow=_follows(ctx, chosen), hold=chosen["hold"]
    )


def _follows(ctx: click.Context, chosen: Mapping[str, Any]) -> bool:
    follow: bool | None = chosen["follow"]
    return follow if follow is not None else stdout.isatty() and not (ctx.obj.as_json or chosen["hold"])


def plan_script(ctx: click.Context, cell: "RedisCell", script: Script) -> "list[JobSpec]":
    """Return the job that `submit_script` would submit. Raises Duplicate when its name is taken, and typed."""
    from omega.cli.job.run import under_a_name
    from omega.submission import check_names, prepared

    chosen, short = read_options(ctx, script, cell), script.short
    typed = chosen.pop("name")
    for key in ("follow", "hold"):
        del chosen[key]
    job, found = JobOptions(**chosen).job(cell, typed or short), list["JobSpec"]()

    def check(called: str) -> None:
        found[:] = prepared(cell, [replace(job, name=called)], ctx.obj.user)
        check_names(cell, found)

    under_a_name(check, typed, short, job.id)
    return found
