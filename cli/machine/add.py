"""``omega machine add``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import Duplicate
from omega.cli import render
from omega.cli.app import App
from omega.cli.cell.lifecycle import JOIN_CHUNK
from omega.cli.machine.simulate import lives, note_offline
from omega.cli.options import AttributeValues, amount_options, attribute_option, attributes_of, named
from omega.live.simulated import DEFAULT_EXECUTOR
from omega.queries import units

if TYPE_CHECKING:
    from omega.cellstate.model import MachineSpec
    from omega.cellstate.ports import OperatorStore


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
    from omega.cellstate.incarnations import check_executor
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
    fresh = _fresh(cell, specs)
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("machines", total=len(fresh), more="", visible=len(fresh) > JOIN_CHUNK)
        for start in range(0, len(fresh), JOIN_CHUNK):
            bars.advance(bar, len(cell.join(executor, fresh[start : start + JOIN_CHUNK], app.now_ms())))
    same = len(specs) - len(fresh)
    if same:
        cell.await_replicas()  # an earlier command may have added them without its confirmation
    serves = lives(cell, executor)
    if app.as_json:
        added = [spec.name for spec in fresh]
        render.document({"cell": cell.name, "added": added, "unchanged": same, "executor_lives": serves})
        return
    there = f" · {same:,} unchanged" if same else ""
    render.line(f"{units.count(len(fresh), 'machine')} added · {units.amounts(cell.dimensions, capacity)} each{there}")
    if not serves:
        note_offline(executor)


def _fresh(cell: "OperatorStore", specs: "Sequence[MachineSpec]") -> "list[MachineSpec]":
    """Return those that are not there. Duplicate when one is there with other amounts or attributes."""
    indices = cell.machine_indices([spec.name for spec in specs])
    known = {machine.name: machine for machine in cell.machines_at(sorted(indices.values()))}
    for spec in specs:
        there = known.get(spec.name)
        if there is not None and (there.capacity, dict(there.attributes)) != (spec.capacity, dict(spec.attributes)):
            has = units.amounts(cell.dimensions, there.capacity)
            if there.capacity == spec.capacity:
                has = ", ".join(f"{key}={value}" for key, value in there.attributes.items()) or "no attributes"
            raise Duplicate(
                f"machine {spec.name}: in cell {cell.name} already, with {has}; "
                "change it with omega machine resize, remove it first, or choose another name"
            )
    return [spec for spec in specs if spec.name not in known]
