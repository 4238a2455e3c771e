"""``omega job run``."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import Duplicate
from omega.cli.job.options import hold_option
from omega.cli.job.run_options import run_options
from omega.cli.job.submission import submit
from omega.cli.options import named
from omega.queries.job_fields import KindFields
from omega.queries.jobs import find_job
from omega.submission import new_id, prepared

if TYPE_CHECKING:
    from omega.cellstate.model import After, JobSpec, TaskGroup
    from omega.cellstate.ports import JobStore
    from omega.cellstate.resources import Resources


@click.command(context_settings={"allow_interspersed_args": False})
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
    """
    words = given["words"]
    if not words and given["name"] is None:
        raise click.UsageError("give a command after --, or a --name")
    submit_command(ctx, stem(words) if words else "", **given)


def submit_command(
    ctx: click.Context, short: str, *, name: str | None, hold: bool, follow: bool | None, **options: Any
) -> None:
    """Submit one job of the options of `run_options`, under `short` when it has no name."""
    cell = ctx.obj.open(to_change=True)
    job = job_of(cell, name or short, **options)
    go_on = partial(submit, ctx, cell, follow=not hold if follow is None else follow, hold=hold, of_tasks=True)
    under_a_name(lambda called: go_on(prepared(cell, [replace(job, name=called)], ctx.obj.user)), name, short, job.id)


def job_of(
    cell: "JobStore",
    name: str,
    *,
    kind: str,
    count: int,
    cpu: str | None,
    memory: str | None,
    others: Mapping[str, str],
    duration: str | None,
    environment: Mapping[str, str],
    directory: str | None,
    runner: str | None,
    image: str | None,
    time_limit: str | None,
    restart: int,
    precedence: int,
    user: str | None,
    pool: str | None,
    weight: float | None,
    constraints: Sequence[str],
    own: Mapping[str, str],
    gang: bool,
    gang_min: int | None,
    strict_gang: bool,
    simulate: bool,
    waits: Sequence[str],
    array: str | None,
    words: Sequence[str],
) -> "JobSpec":
    """Return the job of the options of `run_options`, with a new id."""
    from omega.cellstate.model import Gang, JobSpec

    demands = _spec(words, time_limit=time_limit, restart=restart, constraints=constraints)
    demands |= _started(runner, image, words)
    need = cell.dimensions.parse_need(named(cpu, memory, others))
    group = _group(need, demands, count=count, duration=duration, array=array)
    said_of_it = {"environment": dict(environment), "user": user, "pool": pool, "weight": weight, "simulate": simulate}
    said_of_it |= {"policy": _policy(own, KindFields(cell), kind)}
    about = _directory(directory, run=bool(words)) | {key: each for key, each in said_of_it.items() if each}
    together = Gang.STRICT if strict_gang else Gang.YES if gang or gang_min else Gang.NO
    after, said = _after(cell, waits)
    return JobSpec(new_id(), name, kind, (group,), precedence, together, about | said, after, gang_min or 0)


def under_a_name(go_on: Callable[[str], None], name: str | None, short: str, job_id: str) -> None:
    """Go on with a job under its name; one without a name under `short`, or with part of its id where that is taken."""
    if name is not None:
        go_on(name)
        return
    try:
        go_on(short)
    except Duplicate:
        go_on(f"{short}-{job_id[:4]}")


def _policy(own: Mapping[str, str], fields: KindFields, kind: str) -> dict[str, Any]:
    """Return the values of --policy as in a job file: numbers and bools where the fields of the kind take them."""
    by_name = {each.name: each for each in fields.of(kind) or ()} if own else {}
    return {name: by_name[name].from_text(text) if name in by_name else text for name, text in own.items()}


def _spec(words: Sequence[str], *, time_limit: str | None, restart: int, constraints: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a task group that only schedulers and executors read."""
    from omega.cellstate.durations import parse_duration
    from omega.schedulers.constraints.demands import read_constraint

    fields: dict[str, Any] = {"command": list(words)} if words else {}
    if time_limit is not None:
        fields["time_limit"] = parse_duration(time_limit)
    if restart:
        fields["restart"] = {"attempts": restart}
    if constraints:
        fields["constraints"] = [read_constraint(text) for text in constraints]
    return fields


def _started(runner: str | None, image: str | None, words: Sequence[str]) -> dict[str, str]:
    """Return the fields of a task group that say how its command is started, as in a job file."""
    from omega.schedulers.constraints.demands import read_runner

    if runner is None and image is None:
        return {}
    if runner is None or not words:
        raise click.UsageError("--runner runs a command after --, and --image is for a --runner")
    return {"runner": read_runner(runner)} | ({"image": image} if image else {})


def _group(
    need: "Resources", fields: dict[str, Any], *, count: int, duration: str | None, array: str | None
) -> "TaskGroup":
    from omega.arrays import parse_array
    from omega.cellstate.durations import parse_duration
    from omega.cellstate.model import TaskGroup

    if array is not None:
        indices = parse_array(array)
        count, fields = indices.count, fields | {"array": indices.spec()}
    return TaskGroup(need, count, 0 if duration is None else parse_duration(duration), fields)


def _directory(asked: str | None, *, run: bool) -> dict[str, str]:
    """Return the requested directory of the job, else of a job that runs a command the current one."""
    if asked is not None:
        return {"directory": str(Path(asked).absolute())}
    with suppress(FileNotFoundError):  # the current directory was removed
        return {"submitted_in": str(Path.cwd())} if run else {}
    return {}


def _after(cell: "JobStore", waits: Sequence[str]) -> "tuple[tuple[After, ...], dict[str, Any]]":
    """Return the dependencies of --after by ids, and as in a job file. Raises Refused for an unknown job."""
    from omega.cellstate.model import After

    if not waits:
        return (), {}
    asked = [(name.removesuffix(":ok").removesuffix(":any"), name.endswith(":any")) for name in waits]
    after = tuple(After(find_job(cell, name).id, any_end) for name, any_end in asked)
    return after, {"after": [{"job": name, "outcome": "any" if any_end else "ok"} for name, any_end in asked]}


SCRIPTS = (".py", ".sh", ".rb", ".pl", ".js")


def stem(words: Sequence[str]) -> str:
    """Return a name after a command: of ``python3 crunch.py -v`` it is ``crunch``, of ``sleep 30`` it is ``sleep``."""
    scripts = [word for word in words if PurePath(word).suffix in SCRIPTS]
    name = PurePath((scripts or words)[0]).stem
    cleaned = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return cleaned.strip("-")[:100] or "job"
