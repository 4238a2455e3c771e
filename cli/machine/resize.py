"""``omega machine resize``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import Refused
from omega.cli import render, units
from omega.cli.amounts import amount_options, named, vector
from omega.cli.app import App
from omega.queries.machines import find_machines

if TYPE_CHECKING:
    from omega.cellstate.model import Machine
    from omega.cellstate.ports import OperatorStore


@click.command()
@click.argument("name")
@amount_options("of the machine")
@click.option("--evict", is_flag=True, help="Evict tasks that no longer fit: lowest precedence first, newest first.")
@click.pass_obj
def command(app: App, name: str, cpu: str | None, memory: str | None, others: Mapping[str, str], evict: bool) -> None:
    """Change the capacity of the machine NAME. Resources that are not given stay unchanged.

    The command fails when more is allocated on the machine, unless --evict is given.
    """
    amounts = named(cpu, memory, others)
    if not amounts:
        raise click.UsageError("missing amounts; give the new capacity, such as --cpu 16 --memory 64Gi")
    cell = app.open(to_change=True)
    machine = find_machines(cell, [name])[0]
    capacity = vector(cell.dimensions, amounts, machine.capacity)
    victims = _victims(cell, machine) if evict else []
    try:
        evicted = cell.set_machine_capacity(machine.index, capacity, app.now_ms(), app.by, victims)
    except Refused:
        raise Refused(
            f"machine {machine.name}: has more allocated than {units.amounts(cell.dimensions, capacity)}; "
            "add --evict, or drain it first"
        ) from None
    if app.as_json:
        render.document(
            {
                "cell": cell.name,
                "name": machine.name,
                "index": machine.index,
                "capacity": cell.dimensions.numbers(capacity),
                "evicted": evicted,
            }
        )
        return
    more = f" · {units.count(evicted, 'task')} evicted and requeued" if evicted else ""
    render.line(f"machine {machine.name} has {units.amounts(cell.dimensions, capacity)}{more}")


def _victims(cell: "OperatorStore", machine: "Machine") -> list[tuple[int, int]]:
    """Return all placements of a machine as (placement, tasks), in eviction order; the store evicts only as needed."""
    from omega.cellstate.ranges import count

    runs = [run for run in cell.runs([machine.index]) if not run.leaving]
    jobs = {run.job: cell.job(run.job) for run in runs}
    precedence = {job_id: job.precedence if job else 0 for job_id, job in jobs.items()}
    runs.sort(key=lambda run: (precedence[run.job], -run.placement))
    return [(run.placement, count(run.tasks)) for run in runs]
