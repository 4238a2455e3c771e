"""``omega completion``: shell completion of commands, options and stored names and ids.

Completion never starts a store, never waits long and never fails: unavailable names are left out.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial

import click
from click.shell_completion import CompletionItem, get_completion_class

from omega.cli import render
from omega.cli.app import App

Candidates = Iterable[tuple[str, str]]
"""Words and their descriptions."""
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
SHELLS = ("bash", "zsh", "fish")
MOST = 500

HELP = """Print the shell script that completes commands, options and the names of jobs, machines and schedulers.

\b
bash   eval "$(omega completion bash)"   # in ~/.bashrc
zsh    eval "$(omega completion zsh)"    # in ~/.zshrc, after compinit
fish   omega completion fish > ~/.config/fish/completions/omega.fish
"""


@click.command(help=HELP)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_obj
def command(app: App, shell: str) -> None:
    """Print the completion script."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion for shell {shell}")
    text = made(click.Group("omega"), {}, "omega", "_OMEGA_COMPLETE").source()
    if app.as_json:
        render.document({"shell": shell, "source": text})
    else:
        render.page(text)


_UNQUOTED = re.compile(r"[\w.@:/+-]+", re.ASCII)
"""Text that a shell reads literally; otherwise any writer of the store could offer ``$(command)``."""


def _from_store(ask: Callable[[App], Candidates]) -> Completer:
    """Return a completer that queries the store and yields nothing on failure."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        app = ctx.find_object(App) or App()
        try:
            candidates = sorted(set(ask(app))) if app.store is not None or _embedded_runs() else []
        except Exception:  # noqa: BLE001 - a completing shell must not print a traceback
            candidates = []
        return [
            CompletionItem(word, help=more)
            for word, more in candidates
            if word.startswith(incomplete) and _UNQUOTED.fullmatch(word)
        ][:MOST]

    return complete


def _embedded_runs() -> bool:
    from omega.embedded import server as embedded

    return embedded.running()


def _jobs(app: App) -> Candidates:
    from omega.queries.jobs import names_and_ids

    return names_and_ids(app.open())


def _machines(app: App) -> Candidates:
    from omega.queries.machines import names_and_states

    return names_and_states(app.open())


def _schedulers(app: App) -> Candidates:
    from omega.queries.schedulers import names_and_states

    return names_and_states(app.open())


def _kinds(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from omega.schedulers.registry import SCHEDULERS, offers

    return [
        CompletionItem(each.name, help=f"from {each.package}")
        for each in offers(SCHEDULERS).values()
        if each.name.startswith(incomplete)
    ]


def _files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


complete_jobs = _from_store(_jobs)
complete_machines = _from_store(_machines)
complete_schedulers = _from_store(_schedulers)
complete_cells = _from_store(lambda app: ((name, "cell") for name in app.cells()))

COMPLETERS: dict[tuple[str, str], Completer] = {
    ("job", "job"): complete_jobs,
    ("job", "jobs"): complete_jobs,
    ("machine", "name"): complete_machines,
    ("machine", "names"): complete_machines,
    ("scheduler", "name"): complete_schedulers,
    ("scheduler", "kind"): _kinds,
    ("cell", "name"): complete_cells,
    ("events", "asked"): complete_jobs,
    ("job", "files"): _files,
    ("store", "file"): _files,
}
"""Completers by the command's noun and the parameter's name."""
NEW = ("add", "create")
"""Commands with names that do not exist yet."""


def completer(ctx: click.Context, parameter: click.Parameter) -> Completer | None:
    """Return the completer of a parameter of the current command, None when there is none."""
    path = ctx.command_path.split()[1:]
    if not path or path[-1] in NEW:
        return None
    return COMPLETERS.get((path[0], str(parameter.name)))


def completing(command: click.Command) -> None:
    """Attach `COMPLETERS` to the parameters of a command before it completes."""
    for parameter in command.params:
        parameter.shell_complete = partial(_complete, parameter, parameter.shell_complete)  # type: ignore[method-assign]


def _complete(
    parameter: click.Parameter,
    own: Callable[[click.Context, str], list[CompletionItem]],
    ctx: click.Context,
    incomplete: str,
) -> list[CompletionItem]:
    of_store = completer(ctx, parameter)
    return own(ctx, incomplete) if of_store is None else of_store(ctx, parameter, incomplete)
