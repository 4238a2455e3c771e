"""Command groups that import a command's module only on use, so that `omega --help` stays fast.

Each listed module defines a click command or group named ``command``, or as after a colon.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click

from omega.cli.app import App

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Entry = tuple[str, str]
"""Module of a command, and its summary in one line."""

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class CommonOption(click.Option):
    """An option that every command accepts; only the help of the program itself explains it."""

    def __init__(self, *names: str, **options: Any) -> None:
        super().__init__(names, expose_value=False, **options)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its explanation, None in the help of a command."""
        return None if ctx.parent else super().get_help_record(ctx)


class Lazy(click.Group):
    """A group that imports its commands on first use. `table`: name → Entry."""

    def __init__(self, *arguments: Any, table: Mapping[str, Entry] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.table = dict(table or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the table's order."""
        return [*self.table, *(name for name in super().list_commands(ctx) if name not in self.table)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None if the name is unknown."""
        if cmd_name not in self.table:
            command = super().get_command(ctx, cmd_name)
        else:
            module, _, variable = self.table[cmd_name][0].partition(":")
            command = cast("click.Command", getattr(import_module(module), variable or "command"))
            command.name = cmd_name  # not that of its function
        if command is None:
            return None
        if ctx.resilient_parsing:  # shell completion
            from omega.cli.completion import completing

            completing(command)
        return _everywhere(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command or an alias; for an unknown word, suggest a command by spelling, group or meaning."""
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from omega.cli.aliases import alias

        known = self.list_commands(ctx)
        top = ctx.parent is None
        if args[0] == "help" and "help" not in known:
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        if stands_for := alias(args[0], known, top=top):
            args = [*stands_for, *args[1:]]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = self._hint(ctx, args[0], known)
            if hint is None:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')} (did you mean {hint}?)", ctx) from None

    def _hint(self, ctx: click.Context, word: str, known: Sequence[str]) -> str | None:
        """Return the suggested command: the same name elsewhere, the same meaning, or a similar spelling."""
        from difflib import get_close_matches

        from omega.cli.aliases import MEANINGS, USUAL

        if found := self._meant(ctx, word, known):
            return found
        names = {name: name for name in (*MEANINGS, *known)}
        if ctx.parent is None:  # "joblist", "stat"
            for group in USUAL:
                inner = self.get_command(ctx, group)
                if isinstance(inner, click.Group):
                    names |= {name: f"{group} {name}" for name in inner.list_commands(ctx) if name not in names}
                    names |= {f"{group}{name}": f"{group} {name}" for name in inner.list_commands(ctx)}
        for near in get_close_matches(word, names, 3, 0.65):
            if near not in MEANINGS or near in known:
                return names[near]
            if found := self._meant(ctx, near, known):
                return found
        return None

    def _meant(self, ctx: click.Context, word: str, known: Sequence[str]) -> str | None:
        """Return the command of this group, or else of the program, that has a word's name or its meaning."""
        from omega.cli.aliases import meanings

        program, names = ctx.find_root(), (word, *meanings(word))
        if ctx is not program:
            for name in (name.removeprefix(f"{ctx.info_name} ") for name in names):
                if name in known:
                    return name
            names = (*names[1:], word)  # a command of the same name in another group is of other things
        if not isinstance(program.command, Lazy):
            return None
        before = "" if ctx is program else f"{program.info_name} "
        return next((f"{before}{found}" for name in names if (found := program.command.find(program, name))), None)

    def find(self, ctx: click.Context, name: str) -> str | None:
        """Return a command of the program, else with its group the first of this name in a group, None for neither."""
        from omega.cli.aliases import USUAL

        first, _, rest = name.partition(" ")
        if first in self.table:
            inner = self.get_command(ctx, first) if rest else None
            return name if not rest or (isinstance(inner, click.Group) and rest in inner.list_commands(ctx)) else None
        for group in dict.fromkeys((*USUAL, *self.table)):
            command = self.get_command(ctx, group)
            if isinstance(command, click.Group) and name in command.list_commands(ctx):
                return f"{group} {name}"
        return None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete commands from the table, without importing them, and options."""
        from click.shell_completion import CompletionItem

        summaries = self._summaries(ctx).items()
        items = [CompletionItem(name, help=summary) for name, summary in summaries if name.startswith(incomplete)]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write commands and summaries without importing the commands."""
        if rows := list(self._summaries(ctx).items()):
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def _summaries(self, ctx: click.Context) -> dict[str, str]:
        own = {name: self.commands[name].get_short_help_str(limit=100) for name in self.commands}
        return {name: self.table[name][1] if name in self.table else own[name] for name in self.list_commands(ctx)}


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    app = ctx.ensure_object(App)
    if value not in (None, False):
        setattr(app, str(parameter.name), value)


def _remember_store(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Keep the option that names the store; it is read when the store is first needed."""
    if not value:
        return
    app, name = ctx.ensure_object(App), str(parameter.name)
    if app.store_option.keys() - {name} and not ctx.resilient_parsing:
        raise click.UsageError("--store and --store-file are mutually exclusive; give one of them", ctx)
    app.store_option = {name: value}
    if name == "store" and not ctx.resilient_parsing and ":" in value.partition("://")[2].rpartition("@")[0]:
        from omega.cli import render

        render.warning("--store: its password is visible in the process list; use --store-file")


def cells_completed(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete names of cells."""
    from omega.cli.completion import complete_cells

    return complete_cells(ctx, parameter, incomplete)


def _explain(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def common_options() -> list[CommonOption]:
    """Return the options that every command accepts, before or after its name; their values are kept in the App."""
    return [
        CommonOption(
            "--store",
            metavar="URL",
            callback=_remember_store,
            help="Store URL: redis://, rediss:// or unix:// (default: OMEGA_STORE, else the embedded store).",
        ),
        CommonOption(
            "--store-file",
            metavar="FILE",
            callback=_remember_store,
            help="File with the store's URL, readable by its owner only (default: OMEGA_STORE_FILE).",
        ),
        CommonOption(
            "--cell",
            "cell_name",
            metavar="NAME",
            callback=_remember,
            shell_complete=cells_completed,
            help="Name of the cell (default: OMEGA_CELL, else the cell named default, else the only one).",
        ),
        CommonOption(
            "--json",
            "as_json",
            is_flag=True,
            callback=_remember,
            help="Print one JSON document instead of text.",
        ),
        CommonOption(
            *SETTINGS["help_option_names"],
            is_flag=True,
            is_eager=True,
            callback=_explain,
            help="Print this help, or that of the command.",
        ),
    ]


def _everywhere(command: click.Command) -> click.Command:
    """Add the missing common options to a command, or to every command of a group."""
    options = common_options()
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _everywhere(each)
        options = options[-1:]  # a group takes --help only
    known = {name for parameter in command.params for name in parameter.opts}
    missing = [option for option in options if not known & set(option.opts)]
    if len(missing) > 1:
        names = ", ".join(max(option.opts, key=len) for option in missing[:-1])
        command.epilog = f"Common options: {names}; see omega --help."
    command.params += missing
    command.context_settings = {**SETTINGS, **command.context_settings}
    return command
