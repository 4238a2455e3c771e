"""Shared code of drain, up, down and remove: change the state of the named machines."""

from collections.abc import Sequence

from omega.cellstate.model import MachineState
from omega.cli import render, words
from omega.cli.app import App
from omega.queries.machines import find_machines, tasks_on


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
        more = f" · {words.count(put_back, 'task')} requeued" if put_back else ""
        tasks = left.get(machine.index, 0)
        more += f" · {words.count(tasks, 'task')} still running" if tasks and to is MachineState.DRAINED else ""
        if deadline_ms is not None:
            more += f" · evicted after {words.seconds(deadline_ms / 1000)}" if deadline_ms else " · evicted now"
        render.line(f"machine {machine.name} {done}{was}{more}")
