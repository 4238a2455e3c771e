"""``omega machine add``."""

from collections.abc import Mapping, Sequence

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.machine.simulate import note_offline
from omega.cli.options import AttributeValues, amount_options, attribute_option, attributes_of, named
from omega.live.simulated import DEFAULT_EXECUTOR
from omega.machine_changes import JOIN_CHUNK, add
from omega.queries import units


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@amount_options("of each machine")
@attribute_option("attributes")
@click.option("--count", type=click.IntRange(1, 1_000_000), metavar="N", help="Add N machines: NAME0, NAME1, …")
@click.option(
    "--executor", default=DEFAULT_EXECUTOR, show_default=True, metavar="NAME", help="Executor that simulates them."
)
@click.pass_obj
def command(
    app: App,
    names: Sequence[str],
    cpu: str | None,
    memory: str | None,
    others: Mapping[str, str],
    attributes: AttributeValues,
    count: int | None,
    executor: str,
) -> None:
    """Add simulated machines. An identical existing machine is left as it is.

    They are offline, and take no tasks, until their executor runs: omega up, or omega machine simulate. A computer
    that runs commands joins with omega agent.
    """
    from omega.cellstate.executors import check_executor
    from omega.cellstate.model import MachineSpec

    check_executor(executor)
    amounts = named(cpu, memory, others)
    if not amounts:
        raise click.UsageError("give the resources of each machine, such as --cpu 16 --memory 64Gi")
    if count is not None and len(names) > 1:
        raise click.UsageError("with --count there is one NAME, the beginning of all names")
    cell = app.open(to_change=True)
    capacity = cell.dimensions.parse_capacity(amounts)
    wanted = [f"{names[0]}{i}" for i in range(count)] if count is not None else list(dict.fromkeys(names))
    specs = [MachineSpec(name, capacity, attributes_of(attributes, i)) for i, name in enumerate(wanted)]
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("machines", total=len(specs), more="", visible=len(specs) > JOIN_CHUNK)
        document = add(
            cell, executor, specs, app.now_ms(), lambda done, total: bars.update(bar, total=total, completed=done)
        )
    if app.as_json:
        render.document(document)
        return
    same = document["unchanged"]
    there = f" · {same:,} unchanged" if same else ""
    added, each = units.count(len(document["added"]), "machine"), units.amounts(cell.dimensions, capacity)
    render.line(f"{added} added · {each} each{there}")
    if not document["executor_lives"]:
        note_offline(executor)
