"""``omega machine drain``, ``up``, ``down`` and ``remove``: change the state of the named machines."""

from collections.abc import Sequence

import click

from omega.cellstate.model import MachineState
from omega.cli import render, units
from omega.cli.app import App
from omega.queries.machines import find_machines, tasks_on

_names = click.argument("names", nargs=-1, required=True, metavar="NAME…")


def change(app: App, names: Sequence[str], to: MachineState, done: str, deadline_ms: int | None = None) -> None:
    """Set the state of the machines and print a line for each; `done` is the verb in that line.

    `deadline_ms`: after this time the machines' tasks are evicted; None clears an earlier deadline.
    """
    cell = app.open(to_change=True)
    machines = find_machines(cell, names)
    answers = []
    for machine in machines:
        put_back = cell.set_machine_state(machine.index, to, app.now_ms(), app.by)
        cell.set_deadline(machine.index, deadline_ms)
        answers.append((machine, put_back))
    left = tasks_on(cell.runs([machine.index for machine in machines]))
    if app.as_json:
        deadline = {} if deadline_ms is None else {"deadline_ms": deadline_ms}
        found = [
            {
                "name": machine.name,
                "index": machine.index,
                "before": machine.state.name.lower(),
                "state": to.name.lower(),
                "put_back": put_back,
                "tasks": left.get(machine.index, 0),
                **deadline,
            }
            for machine, put_back in answers
        ]
        render.document({"cell": cell.name, "machines": found})
        return
    for machine, put_back in answers:
        was = " already" if machine.state is to else ""
        more = f" · {units.count(put_back, 'task')} requeued" if put_back else ""
        tasks = left.get(machine.index, 0)
        more += f" · {units.count(tasks, 'task')} still running" if tasks and to is MachineState.DRAINED else ""
        if deadline_ms is not None:
            more += f" · evicted after {units.seconds(deadline_ms / 1000)}" if deadline_ms else " · evicted now"
        render.line(f"machine {machine.name} {done}{was}{more}")


@click.command()
@_names
@click.option("--deadline", metavar="TIME", help="Time after which tasks that still run are evicted, such as 5m or 0.")
@click.pass_obj
def drain(app: App, names: Sequence[str], deadline: str | None) -> None:
    """Drain machines: running tasks finish, no new tasks are placed.

    With --deadline, tasks still running at the deadline are evicted by any scheduler or agent of the cell, and
    placed elsewhere.
    """
    from omega.jobfile.reader import parse_duration

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

    While the executor of a machine lives, it ends the tasks first: a task starts elsewhere only afterwards.
    """
    change(app, names, MachineState.GONE, "removed")
