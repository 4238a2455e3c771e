"""Scripts as jobs, as Slurm's sbatch takes them: the script travels with the job, its directives are options.

The directives are the lines ``#OMEGA OPTION…`` between the first line, ``#!INTERPRETER``, and the first command. They
take the options of `omega job run`.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from omega.cellstate.errors import BadInput
from omega.cli import render

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.ports import JobStore
    from omega.cellstate.resources import Dimensions

MARK = "#OMEGA"
STDIN = "stdin"
SHELLS = ("sh", "ash", "bash", "dash", "ksh", "mksh", "zsh")
FLAGS = {"python": "-c", "perl": "-e", "ruby": "-e", "node": "-e"} | dict.fromkeys(SHELLS, "-c")
"""Option of an interpreter with which an argument is the script, by the interpreter's name without its version."""


class Directive(NamedTuple):
    """The words of a directive, and its line, counted from 1."""

    line: int
    words: list[str]


def is_script(data: bytes) -> bool:
    """Return whether a file is a script rather than a job file: it begins with ``#!``."""
    return data.startswith(b"#!")


def read_script(name: str, data: bytes) -> str:
    """Return the text of a script. Raises BadInput when it is not UTF-8 text."""
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: not UTF-8 text at byte {error.start}; save it as such") from None


def command_of(name: str, text: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a script with arguments. Raises BadInput for an interpreter that is not known."""
    words = text.partition("\n")[0].removeprefix("#!").split()
    if words and PurePath(words[0]).name == "env":
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
    program = PurePath(words[0]).name.rstrip("0123456789.") if words else ""
    if program not in FLAGS:
        known = ", ".join(FLAGS)
        raise BadInput(f"{name}:1: no interpreter that takes a script as an argument; known are {known}")
    called = [PurePath(name).name] if program in SHELLS else []  # $0; others have no name for it
    return [*words, FLAGS[program], text, *called, *arguments]


def directives(name: str, text: str) -> Iterator[Directive]:
    """Yield the directives of a script. Raises BadInput for one that is no list of words.

    Warns about those that follow a command.
    """
    command = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#") and not command:
            command = number
        elif line.split(maxsplit=1)[:1] == [MARK] and line.startswith(MARK):
            if command:
                render.warning(f"{name}:{number}: has no effect after the first command, in line {command}")
                continue
            try:
                yield Directive(number, shlex.split(line.removeprefix(MARK), comments=True))
            except ValueError as error:
                raise BadInput(f"{name}:{number}: {str(error).lower()}; close the quotation on this line") from None


def options_of(name: str, text: str, options: Sequence[click.Parameter], dimensions: "Dimensions") -> dict[str, Any]:
    """Return the values of a script's directives, by parameter; of a repeated option the last, or all of a list.

    Raises BadInput with the line for an option that is unknown or has no valid value.
    """
    parser = click.Command("directive", params=list(options), add_help_option=False)
    values: dict[str, Any] = {}
    for line, words in directives(name, text):
        try:
            ctx = parser.make_context("directive", words)
        except click.UsageError as error:
            raise BadInput(f"{name}:{line}: {error.format_message().rstrip('.')}; see omega job run --help") from None
        for key in given(ctx):
            value, option = ctx.params[key], next(each for each in options if each.name == key)
            try:
                _check(key, value, dimensions)
            except BadInput as error:
                raise BadInput(f"{name}:{line}: {max(option.opts, key=len)}: {error}") from None
            before = values.get(key)
            if isinstance(before, tuple):
                value = (*before, *value)
            elif isinstance(before, dict):
                value = {**before, **value}
            values[key] = value
    return values


def given(ctx: click.Context) -> list[str]:
    """Return the names of the parameters that were typed."""
    return [key for key in ctx.params if ctx.get_parameter_source(key) is ParameterSource.COMMANDLINE]


def refuse_options(ctx: click.Context, file: str) -> None:
    """Raise UsageError when options of a script were typed with a job file."""
    from omega.cli.job.run_options import RUN_OPTIONS

    if asked := [each.opts[0] for each in ctx.command.params if each.name in given(ctx) and each.name in RUN_OPTIONS]:
        raise click.UsageError(f"{asked[0]} goes with a script, which begins with #!; {file} is a job file")


def _check(key: str, value: Any, dimensions: "Dimensions") -> None:
    """Raise BadInput for a value that the option itself does not check."""
    from omega.arrays import parse_array
    from omega.cellstate.durations import parse_duration
    from omega.schedulers.constraints.demands import read_constraint, read_runner

    readers: Mapping[str, Callable[[Any], Any]] = {
        "duration": parse_duration,
        "time_limit": parse_duration,
        "array": parse_array,
        "runner": read_runner,
        "constraints": lambda texts: [read_constraint(text) for text in texts],
        "cpu": lambda amount: dimensions.parse_need({"cpu": amount}),
        "memory": lambda amount: dimensions.parse_need({"memory": amount}),
        "others": dimensions.parse_need,
    }
    if key in readers:
        readers[key](value)


def read_options(ctx: click.Context, name: str, data: bytes, arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return a script's short name and the options of `omega job run` that it stands for.

    Options that were typed replace those of its directives, of ``NAME=VALUE`` options those of the same name.
    """
    from omega.cli.job.run import command as run, stem
    from omega.cli.lazy import CommonOption

    text = read_script(name, data)
    options = [each for each in run.params if isinstance(each, click.Option) and not isinstance(each, CommonOption)]
    words = command_of(name, text, arguments)
    values = options_of(name, text, options, ctx.obj.open().dimensions)
    names = {str(each.name) for each in options}
    usual = click.Command("directive", params=list(options), add_help_option=False).make_context("directive", [])
    typed = {key: ctx.params[key] for key in given(ctx) if key in names}
    by_name = {key: {**values[key], **typed[key]} for key in typed if isinstance(values.get(key), dict)}
    chosen = {**usual.params, **values, **typed, **by_name, "words": words}
    return stem([PurePath(name).name] if name != STDIN else words[:1]), chosen


def submit_script(ctx: click.Context, name: str, data: bytes, arguments: Sequence[str]) -> None:
    """Submit a script as a job of `omega job run`."""
    from omega.cli.job.run import submit_command

    short, chosen = read_options(ctx, name, data, arguments)
    if chosen["follow"] is None:
        from sys import stdout

        chosen["follow"] = stdout.isatty() and not (ctx.obj.as_json or chosen["hold"])
    submit_command(ctx, short, **chosen)


def plan_script(
    ctx: click.Context, cell: "JobStore", name: str, data: bytes, arguments: Sequence[str]
) -> "list[JobSpec]":
    """Return the job that `submit_script` would submit. Raises Duplicate when its name is taken, and typed."""
    from omega.cli.job.run import job_of, under_a_name
    from omega.submission import check_names, prepared

    short, chosen = read_options(ctx, name, data, arguments)
    typed = chosen.pop("name")
    for key in ("follow", "hold"):
        del chosen[key]
    job, found = job_of(cell, typed or short, **chosen), list["JobSpec"]()

    def check(called: str) -> None:
        found[:] = prepared(cell, [replace(job, name=called)], ctx.obj.user)
        check_names(cell, found)

    under_a_name(check, typed, short, job.id)
    return found
