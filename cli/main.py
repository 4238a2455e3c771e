"""The program ``omega``: its commands; it turns errors into one line and an exit code.

Exit codes: 0 done · 1 refused, or a check failed · 2 wrong usage · 3 done in part (`job plan`: a task would be pending;
`cell list`: a cell cannot be read) · 130 interrupted · 141 output pipe closed.
The exit status of `job wait` reflects the job's result; it is 124 after a timeout.
"""

import os
import sys
import time
from typing import Any, NoReturn

import click

from omega.cellstate.errors import OmegaError, Refused, ScriptsMissing
from omega.cli import render
from omega.cli.lazy import SETTINGS, Entry, Lazy, common_options

CHECKOUT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
HARNESS = os.path.exists(os.path.join(CHECKOUT, "benchmarks/command"))  # noqa: PTH110, PTH118
"""Whether the commands of `omega bench` are here: only in a checkout (not pathlib: it is slow to import)."""
COMMANDS: dict[str, Entry] = {
    "up": ("omega.cli.up:up", "Start a cell, schedulers and machines on this computer."),
    "down": ("omega.cli.up:down", "Stop the processes that omega up started."),
    "demo": ("omega.cli.demo", "Run a realistic workload end to end in under a minute."),
    "store": ("omega.cli.store", "Manage the store: status, start, stop, backup, restore."),
    "cell": ("omega.cli.cell", "Create, list, verify and delete cells; set limits."),
    "machine": ("omega.cli.machine", "List and change machines."),
    "job": ("omega.cli.job", "Submit, list, explain and stop jobs."),
    "pool": ("omega.cli.pool", "Configure pools, show and compute their fair shares."),
    "scheduler": ("omega.cli.scheduler", "Run schedulers and show their figures."),
    "mapreduce": ("omega.cli.mapreduce", "Run workers of MapReduce jobs."),
    "agent": ("omega.cli.agent", "Offer this computer to a cell and run tasks on it."),
    "serve": ("omega.cli.serve", "Serve the HTTP API and the web console."),
    "token": ("omega.cli.access_token", "Make an access token for omega serve."),
    "events": ("omega.cli.events", "Show events: placements, conflicts, evictions, machines."),
    "usage": ("omega.cli.usage", "Show what users, pools or kinds used over hours."),
    "trace": ("omega.cli.trace", "Describe published traces of clusters."),
    "sim": ("omega.cli.sim", "Simulate cells and compare scheduling architectures."),
    "top": ("omega.cli.top.command", "Show the cell live in the terminal."),
    "completion": ("omega.cli.completion", "Print shell completion for bash, zsh or fish."),
    "experiment": ("omega.cli.experiment", "Check the claims of the Omega paper by simulation."),
    **({"bench": ("benchmarks.command", "Measure the store and the schedulers.")} if HARNESS else {}),
    "version": ("omega.cli.version", "Print the version."),
}

USAGE, INTERRUPTED, PIPE_CLOSED = 2, 130, 141
TYPE_TEXTS = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid integer": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid float": "is not a number",
}
"""Names of types in click's messages, longest first, in plain words."""


class Omega(Lazy):
    """The top-level group: turns every error into one line and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> NoReturn:
        """Run the command line and exit; never returns."""
        options["standalone_mode"] = False
        try:
            code = super().main(*arguments, **options)
            sys.exit(code if isinstance(code, int) else 0)
        except OmegaError as error:
            render.error(str(error))
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(USAGE)
        except click.ClickException as error:
            render.error(_usage(error))
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            render.error(
                f"{what}{(error.strerror or str(error)).lower()}; check the file or folder, its name and rights"
            )
        except UnicodeEncodeError as error:  # an argument, file or variable that is not UTF-8
            render.error(f"{str(error.object)[:80]!r}: is not valid UTF-8; write it in UTF-8")
        except Exception as error:
            from omega.cellstate.server import store_error

            known = store_error(error, "")
            if known is None:
                raise
            render.error(str(known))
        sys.exit(1)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None if the name is unknown."""
        if cmd_name == "bench" and HARNESS:
            sys.path.insert(0, CHECKOUT)  # another package called benchmarks may be on the path
        elif cmd_name == "bench" and not ctx.resilient_parsing:
            raise Refused("omega bench: the harness is not installed; run it from a checkout")
        return super().get_command(ctx, cmd_name)

    def _invoke_with_scripts(self, ctx: click.Context) -> Any:
        """Run the command; one of a reader, which changes nothing, is repeated while the store lacks its scripts."""
        words, until = (list(ctx._protected_args), list(ctx.args)), time.monotonic() + WAIT_SECONDS  # noqa: SLF001
        waits = False
        while True:
            try:
                return super().invoke(ctx)
            except ScriptsMissing as error:
                if time.monotonic() > until:
                    raise
                if not waits:
                    render.note(f"waiting: {error}")
                waits = True
                time.sleep(PAUSE_SECONDS)
                ctx._protected_args, ctx.args = list(words[0]), list(words[1])  # noqa: SLF001 - invoke consumed them

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; exit quietly when the reader of stdout closed the pipe."""
        try:
            result = self._invoke_with_scripts(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(PIPE_CLOSED)
        return result


WAIT_SECONDS, PAUSE_SECONDS = 60.0, 0.5
"""How long a reader's command waits until another user has loaded the scripts, and how often it looks."""


def _usage(error: click.ClickException) -> str:
    """Return a usage error in one line, with the command that prints the help."""
    message = error.format_message().rstrip(".")
    for type_of_click, text in TYPE_TEXTS.items():
        message = message.replace(type_of_click, text)
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{context.command_path}: {message}; see {context.command_path} --help" if context else message


def _forget_stdout() -> None:
    """Discard buffered output, so that the interpreter does not raise at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from omega.cli.version import number

        render.line(f"omega {number()}")
        ctx.exit()


omega = Omega(
    name="omega",
    table=COMMANDS,
    context_settings=SETTINGS,
    params=[
        *common_options(),
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
        ),
    ],
    help="Omega, an optimistic shared-state scheduler: many schedulers place tasks on one cell at the same time.\n\n"
    "Every command accepts the options below, except --version; they may follow omega or the command.",
)


def main() -> NoReturn:
    """Run the program ``omega``."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows ? instead of failing
    if any("OMEGA_STORE" in name for name in os.environ) or any(word.startswith("--store") for word in sys.argv):
        from omega.live.agent.process_control import hide_memory

        hide_memory()  # a password in it must stay hidden from the user's other processes
    omega.main(prog_name="omega")


if __name__ == "__main__":
    main()
