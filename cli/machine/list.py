"""``omega machine list``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cellstate.resources import Dimensions
from cli import render, words
from cli.app import App
from cli.columns import Columns, answered, columns_option
from cli.machine.find import state_word
from cli.recently import text as recently_text
from omega.queries.recent import KINDS, NAMES, Recently, recently

if TYPE_CHECKING:
    from cellstate.model import Machine, Run


@click.command()
@click.option("--state", type=click.Choice(["up", "drained", "down", "over"]), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many.")
@click.option("--verbose", "-v", is_flag=True, help="With what went wrong on each lately.")
@columns_option
@click.pass_obj
def command(app: App, state: str | None, limit: int | None, verbose: bool, columns: Columns) -> None:
    """The machines by index: state, what is in use of what each has, how many tasks it runs."""
    cell = app.open()
    machines = [machine for machine in cell.machines() if _is(machine, state)]
    shown = machines[:limit]
    tasks = tasks_on(cell.runs([machine.index for machine in shown]))
    past = recently(cell, app.now_ms()) if verbose else Recently()
    if app.as_json or columns:
        found = [
            as_json(cell.dimensions, machine, tasks.get(machine.index, 0))
            | ({"recent": past.as_json(machine.index)} if verbose else {})
            for machine in shown
        ]
        answered(app, {"cell": cell.name, "total": len(machines), "machines": found}, "machines", columns)
        return
    if not machines:
        render.note("no machines" + (f" that are {state}" if state else "; add some with omega machine add"))
        return
    attributed = any(machine.attributes for machine in shown)
    wrong = [kind for kind in KINDS if verbose and any(past.of(each.index)[kind] for each in shown)]
    names, rows = cell.dimensions.names, []
    for machine in shown:
        use = [words.in_use(*each) for each in zip(names, machine.allocated, machine.capacity, strict=True)]
        more = [" ".join(f"{key}={value}" for key, value in machine.attributes.items())] if attributed else []
        counted = [past.of(machine.index)[kind] for kind in wrong]
        numbers = (tasks.get(machine.index, 0), *counted)
        rows.append((machine.name, machine.index, state_word(machine), *use, *numbers, *more))
    wrongs = (f">{NAMES.get(kind, kind)}" for kind in wrong)
    headings = ("machine", ">index", "state", *(f">{name}" for name in names), ">tasks", *wrongs)
    render.table((*headings, "attributes") if attributed else headings, rows)
    if len(shown) < len(machines):
        render.note(f"… {words.count(len(machines) - len(shown), 'more machine')}")
    if verbose:
        render.note(recently_text(past) or f"nothing went wrong in the last {words.age(past.seconds)}")


def _is(machine: "Machine", state: str | None) -> bool:
    return state is None or (machine.over if state == "over" else machine.state.name.lower() == state)


def tasks_on(runs: "Sequence[Run]") -> Mapping[int, int]:
    """How many tasks run on each machine, by index; those that are leaving do not count."""
    from cellstate.ranges import count

    found: dict[int, int] = {}
    for run in runs:
        if not run.leaving:
            found[run.machine] = found.get(run.machine, 0) + count(run.tasks)
    return found


def as_json(dimensions: Dimensions, machine: "Machine", tasks: int) -> dict[str, Any]:
    """A machine as plain values; amounts in the smallest units."""
    return {
        "name": machine.name, "index": machine.index, "state": machine.state.name.lower(), "over": machine.over,
        "capacity": dimensions.numbers(machine.capacity), "allocated": dimensions.numbers(machine.allocated),
        "tasks": tasks, "number": machine.number, "executor": machine.executor, "attributes": dict(machine.attributes),
    }  # fmt: skip
