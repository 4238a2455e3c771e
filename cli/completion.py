"""``omega completion``, and what there is to complete: names and ids as the store has them.

Completing never starts a store, never waits long and never complains: what cannot be had is left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from cli import render
from cli.app import App

if TYPE_CHECKING:
    from cellstate.redis import RedisCell

Found = Iterable[tuple[str, str]]
"""What may be written, and a word on it."""
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
SHELLS = ("bash", "zsh", "fish")
MOST = 500

HELP = """Print what makes a shell complete commands, options, and the names of jobs, machines and schedulers.

\b
bash   eval "$(omega completion bash)"   # in ~/.bashrc
zsh    eval "$(omega completion zsh)"    # in ~/.zshrc, after compinit
fish   omega completion fish > ~/.config/fish/completions/omega.fish
"""


@click.command(help=HELP)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_obj
def command(app: App, shell: str) -> None:
    """Print what makes a shell complete."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    text = made(click.Group("omega"), {}, "omega", "_OMEGA_COMPLETE").source()
    if app.as_json:
        render.document({"shell": shell, "source": text})
    else:
        render.page(text)


def _app(ctx: click.Context) -> App:
    return ctx.find_object(App) or App()


def _reachable(app: App) -> bool:
    """Whether the store can be asked: one that is named, or the user's own if it runs."""
    if app.store is None:
        from omega import embedded

        return embedded.status().running
    return True


def _from_cell(ask: "Callable[[RedisCell], Found]") -> Completer:
    """Complete with what a cell answers."""

    def ask_app(app: App) -> Found:
        return ask(app.open())

    return _from_store(ask_app)


_PLAIN = re.compile(r"[\w.@:/+-]+", re.ASCII)
"""What a shell takes as it is: whoever may write to the store could offer ``$(command)`` otherwise."""


def _from_store(ask: Callable[[App], Found]) -> Completer:
    """Complete with what the store answers, or not at all."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        app = _app(ctx)
        try:
            found = sorted(set(ask(app))) if _reachable(app) else []
        except Exception:  # noqa: BLE001 - a shell that waits for words must not be shown a traceback
            found = []
        return [
            CompletionItem(word, help=more)
            for word, more in found
            if word.startswith(incomplete) and _PLAIN.fullmatch(word)
        ][:MOST]

    return complete


def _jobs(cell: "RedisCell") -> Iterator[tuple[str, str]]:
    names = cell.job_names()
    yield from ((name, "live job") for name in names)
    called = {job_id: name for name, job_id in names.items()}
    yield from ((job_id, called.get(job_id, "ended job")) for job_id in cell.job_ids())


def _machines(cell: "RedisCell") -> Iterator[tuple[str, str]]:
    from omega.queries.machines import state_word

    return ((machine.name, state_word(machine)) for machine in cell.machines())


def _schedulers(cell: "RedisCell") -> Iterator[tuple[str, str]]:
    return ((name, "live" if alive else "lapsed") for name, (_, alive, _) in cell.members().items())


def _kinds(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from schedulers.registry import SCHEDULERS, offers

    return [CompletionItem(each.name, help=f"from {each.package}") for each in offers(SCHEDULERS).values()
            if each.name.startswith(incomplete)]  # fmt: skip


def _files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


complete_jobs = _from_cell(_jobs)
complete_machines = _from_cell(_machines)
complete_schedulers = _from_cell(_schedulers)
complete_cells = _from_store(lambda app: ((name, "cell") for name in app.cells()))

COMPLETERS: dict[tuple[str, str], Completer] = {
    ("job", "job"): complete_jobs, ("job", "jobs"): complete_jobs,
    ("machine", "name"): complete_machines, ("machine", "names"): complete_machines,
    ("scheduler", "name"): complete_schedulers, ("scheduler", "kind"): _kinds,
    ("cell", "name"): complete_cells, ("events", "asked"): complete_jobs,
    ("job", "files"): _files, ("store", "file"): _files,
}  # fmt: skip
"""By the noun a command belongs to and the name of its parameter."""
NEW = ("add", "create")
"""Verbs whose names are not there yet."""


def completer(ctx: click.Context, parameter: click.Parameter) -> Completer | None:
    """What completes a parameter of the command at hand, if the store knows."""
    path = ctx.command_path.split()[1:]
    if not path or path[-1] in NEW:
        return None
    return COMPLETERS.get((path[0], str(parameter.name)))


def completing(command: click.Command) -> None:
    """Let the parameters of a command, which is about to complete, ask the store for what `COMPLETERS` says."""
    for parameter in command.params:
        parameter.shell_complete = partial(_complete, parameter, parameter.shell_complete)  # type: ignore[method-assign]


def _complete(
    parameter: click.Parameter, own: Callable[[click.Context, str], list[CompletionItem]], ctx: click.Context,
    incomplete: str,
) -> list[CompletionItem]:  # fmt: skip
    found = completer(ctx, parameter)
    return own(ctx, incomplete) if found is None else found(ctx, parameter, incomplete)
