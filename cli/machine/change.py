"""``omega machine drain``, ``up``, ``down``, ``remove``, ``set`` and ``resize``: change machines that are named."""

from collections.abc import Mapping, Sequence

import click

from omega.cellstate.model import MachineState
from omega.cli import render
from omega.cli.app import App
from omega.cli.options import NAME, amount_options, named
from omega.machine_changes import resize as resized, set_attributes, set_state
from omega.queries import units

_names = click.argument("names", nargs=-1, required=True, metavar="NAME…")


def change(app: App, names: Sequence[str], to: MachineState, done: str, deadline_ms: int | None = None) -> None:
    """Set the state of the machines and print a line for each; `done` is the verb in that line.

    `deadline_ms`: after this time the machines' tasks are evicted; None clears an earlier deadline.
    """
    cell = app.open(to_change=True)
    document, warnings = set_state(cell, names, to, app.now_ms(), app.by, deadline_ms)
    for text in warnings:
        render.warning(text)
    if app.as_json:
        render.document(document)
        return
    for each in document["machines"]:
        was = " already" if each["before"] == each["state"] else ""
        more = f" · {units.count(each['put_back'], 'task')} requeued" if each["put_back"] else ""
        tasks = each["tasks"]
        more += f" · {units.count(tasks, 'task')} still running" if tasks and to is MachineState.DRAINED else ""
        if deadline_ms is not None:
            after = f"after {units.seconds(deadline_ms / 1000)}" if deadline_ms else "next"
            more += f" · evicted {after}, by housekeeping"
        more += " · its agent ends" if "agent_ends" in each else ""
        render.line(f"machine {each['name']} {done}{was}{more}")


@click.command()
@_names
@click.option("--deadline", metavar="TIME", help="Time after which tasks that still run are evicted, such as 5m or 0.")
@click.pass_obj
def drain(app: App, names: Sequence[str], deadline: str | None) -> None:
    """Drain machines: running tasks finish, no new tasks are placed. Tasks of services end only at a --deadline.

    With --deadline, tasks still running at the deadline are evicted by any scheduler or agent of the cell, and
    placed elsewhere. That is some seconds after the deadline, also with 0; omega machine up before then keeps them.
    """
    from omega.cellstate.durations import parse_duration

    change(app, names, MachineState.DRAINED, "drained", None if deadline is None else parse_duration(deadline))


@click.command()
@_names
@click.pass_obj
def up(app: App, names: Sequence[str]) -> None:
    """Mark machines as up: they take tasks again."""
    change(app, names, MachineState.UP, "up")


@click.command()
@_names
@click.pass_obj
def down(app: App, names: Sequence[str]) -> None:
    """Mark machines as failed. Their tasks are pending again at once.

    While the executor of a machine lives, it ends the tasks first: a task starts elsewhere only afterwards.
    """
    change(app, names, MachineState.DOWN, "down")


@click.command()
@_names
@click.pass_obj
def remove(app: App, names: Sequence[str]) -> None:
    """Remove machines from the cell. Their tasks are pending again at once.

    While the executor of a machine lives, it ends the tasks first: a task starts elsewhere only afterwards. The
    agent of a removed machine ends; a new one adds the machine again, without what operators set of the old one.
    """
    change(app, names, MachineState.GONE, "removed")


@click.command()
@click.argument("name")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE…")
@click.option(
    "--evict", is_flag=True, help="Evict tasks of other pool trees than the one that the machine is in afterwards."
)
@click.pass_obj
def set_(app: App, name: str, changes: Sequence[str], *, evict: bool) -> None:
    """Change attributes of the machine NAME: KEY=VALUE sets one, KEY= removes one. Running tasks stay.

    The change stays when the machine's agent restarts, also against an --attribute of the agent.

    If the change moves the machine to another pool tree, the tasks of other trees must leave: then it is refused
    without --evict.

    Blocked jobs with constraints that the change may satisfy are retried.
    """
    asked = _read(changes)
    document = set_attributes(app.open(to_change=True), name, asked, app.now_ms(), app.by, evict=evict)
    if app.as_json:
        render.document(document)
        return
    has = document["attributes"]
    said = ", ".join(f"{key}={value}" for key, value in has.items()) or "no attributes"
    render.line(f"machine {document['name']} has {said}")


def _read(changes: Sequence[str]) -> Mapping[str, str | None]:
    """Return ``{KEY: VALUE}``, None for attributes to remove. Raises UsageError for a malformed change."""
    values: dict[str, str | None] = {}
    for text in changes:
        key, equals, value = text.partition("=")
        if not (equals and NAME.fullmatch(key)) or key in values:
            raise click.UsageError(
                f"{text!r} is not KEY=VALUE, or KEY is given twice; write for example rack=r7, or rack="
            )
        values[key] = value or None
    return values


@click.command()
@click.argument("name")
@amount_options("of the machine")
@click.option("--evict", is_flag=True, help="Evict tasks that no longer fit: lowest precedence first, newest first.")
@click.pass_obj
def resize(app: App, name: str, cpu: str | None, memory: str | None, others: Mapping[str, str], evict: bool) -> None:
    """Change the capacity of the machine NAME. Resources that are not given stay unchanged.

    The amounts stay when the machine's agent restarts; the agent's own counts apply to the other resources only.

    The command fails when more is allocated on the machine, unless --evict is given.
    """
    amounts = named(cpu, memory, others)
    if not amounts:
        raise click.UsageError("missing amounts; give the new capacity, such as --cpu 16 --memory 64Gi")
    cell = app.open(to_change=True)
    document = resized(cell, name, amounts, app.now_ms(), app.by, evict=evict)
    if app.as_json:
        render.document(document)
        return
    evicted = document["evicted"]
    more = f" · {units.count(evicted, 'task')} evicted and requeued" if evicted else ""
    has = units.amounts(cell.dimensions, tuple(document["capacity"].values()))
    render.line(f"machine {document['name']} has {has}{more}")
