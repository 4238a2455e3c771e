"""The program ``omega``: its commands, and what becomes of their errors.

Exit codes: 0 done · 1 refused, or a check failed · 2 wrong usage · 130 interrupted · 141 nobody reads on.
`job wait` exits with the job's fate, or 124 when the time is over.
"""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from cellstate.errors import OmegaError
from cli import render
from cli.lazy import SETTINGS, Entry, Lazy, shared_options

HARNESS = Path(__file__).resolve().parents[1] / "benchmarks"
"""The harness of `omega bench`; a wheel does not carry it."""
COMMANDS: dict[str, Entry] = {
    "up": ("cli.up", "Everything on this computer, until Ctrl-C."),
    "down": ("cli.down", "End what omega up started, also when it was killed."),
    "demo": ("cli.demo", "The main job end to end in under a minute."),
    "store": ("cli.store", "The store that keeps the cells: state, start, stop, backup, restore."),
    "cell": ("cli.cell", "Make, see, check and delete cells; limits by kind of job."),
    "machine": ("cli.machine", "See and change machines."),
    "job": ("cli.job", "Submit, follow, see and stop jobs."),
    "pool": ("cli.pool", "Compute fair shares of pool trees."),
    "scheduler": ("cli.scheduler", "Run schedulers and see how they do."),
    "mapreduce": ("cli.mapreduce", "What the tasks of MapReduce jobs run."),
    "agent": ("cli.agent", "Offer this computer to a cell and run tasks on it."),
    "events": ("cli.events", "What happened: placements, conflicts, evictions, machines."),
    "sim": ("cli.sim", "Simulate cells and compare scheduling architectures."),
    "top": ("cli.top.command", "The cell as it is now, in the terminal."),
    "completion": ("cli.completion", "Let a shell complete commands, options and names: bash, zsh, fish."),
    "experiment": ("cli.experiment", "Check claims of the Omega paper by simulation."),
    **({"bench": ("cli.bench", "Measure the store and the schedulers.")} if HARNESS.exists() else {}),
    "version": ("cli.version", "Print the version."),
}

USAGE, INTERRUPTED, PIPE_CLOSED = 2, 130, 141


class Omega(Lazy):
    """The program itself: it turns every error into one line and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> NoReturn:
        """Run and exit; never returns."""
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
        except UnicodeEncodeError as error:  # a word of the command line, a file or the environment, before it is sent
            render.error(f"{str(error.object)[:80]!r}: has bytes that are no text; write it in UTF-8")
        sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that went away ends it quietly."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(PIPE_CLOSED)
        return result


def _usage(error: click.ClickException) -> str:
    """Wrong usage in one line, with the command whose help tells more."""
    message = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{context.command_path}: {message}; see {context.command_path} --help" if context else message


def _forget_stdout() -> None:
    """Let what is still buffered go nowhere, so that the interpreter does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from cli.version import number

        render.line(f"omega {number()}")
        ctx.exit()


omega = Omega(
    name="omega",
    table=COMMANDS,
    context_settings=SETTINGS,
    params=[
        *shared_options(environment=True),
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
        ),
    ],
    help="Omega, an optimistic shared-state scheduler: many schedulers place tasks on one cell at the same time.",
)


def main() -> NoReturn:
    """Be the program ``omega``."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows ? instead of failing
    if any("OMEGA_STORE" in name for name in os.environ) or any(word.startswith("--store") for word in sys.argv):
        from omega.live.agent.process_control import hide_memory

        hide_memory()  # it may hold a password, which other processes of this user are not to read
    omega.main(prog_name="omega")


if __name__ == "__main__":
    main()
