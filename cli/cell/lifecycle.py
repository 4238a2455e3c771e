"""``omega cell create``, ``upgrade`` and ``delete``."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.durability import Durability
from omega.cellstate.errors import Refused
from omega.cellstate.resources import Dimensions
from omega.cli import render
from omega.cli.app import App
from omega.cli.lazy import cells_completed
from omega.cli.machine.simulate import note_offline
from omega.cli.options import amount_options, named
from omega.live.simulated import DEFAULT_EXECUTOR
from omega.machine_changes import JOIN_CHUNK, executor_lives
from omega.queries import units
from omega.queries.cells import contents, durability_json, durability_text

if TYPE_CHECKING:
    from omega.cellstate.model import MachineSpec
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.machines import RedisMachines
    from omega.many_cells.new_cell import Spread


@click.command()
@click.argument("name", required=False)
@click.option("--resources", metavar="NAMES", help="Names of the resources (default: cpu,memory).")
@click.option(
    "--like", metavar="CELL", shell_complete=cells_completed,
    help="Copy the settings of CELL: resources, retention, durability, limits of kinds, pools.",
)  # fmt: skip
@click.option(
    "--machines", default=0, type=click.IntRange(0, 10**6), metavar="N", help="Number of machines to add: m0, m1, …"
)
@amount_options("of each machine")
@click.option(
    "--durability",
    metavar="replicas=N[,timeout=T] | fsync | none",
    help="What a change needs before it is acknowledged: N replicas that have it within T (default 1s), or a server "
    "that syncs each write (default: none; the server's settings decide what a fault loses).",
)
@click.pass_obj
def create(
    app: App,
    /,
    *,
    name: str | None,
    resources: str | None,
    like: str | None,
    machines: int,
    durability: str | None,
    **amounts_of_each: Any,
) -> None:
    """Create the cell NAME, optionally with machines. An existing cell with the same resources is left unchanged.

    With --like, machines and jobs of CELL are not copied, and NAME may be left out: CELL-2, CELL-3 and so on is then
    chosen. On a Redis Cluster the name decides on the shard; a chosen name lies on a shard with the fewest cells.
    """
    from omega.cellstate.model import MachineSpec

    amounts = named(**amounts_of_each)
    wanted = None if durability is None else Durability.parse(durability)
    if name is None and like is None:
        raise click.UsageError("missing NAME: omega cell create NAME, or --like CELL")
    if like is not None and (resources is not None or wanted is not None):
        raise click.UsageError("--like copies resources and durability; leave out --resources and --durability")
    if machines and not amounts:
        raise click.UsageError("--machines needs the amounts of each machine, such as --cpu 16 --memory 64Gi")
    if amounts and not machines:
        raise click.UsageError("amounts need a number of machines; add --machines N")
    names = ("cpu,memory" if resources is None else resources).split(",")
    dimensions = Dimensions(tuple(word.strip() for word in names)) if like is None else app.open(like).dimensions
    capacity = dimensions.parse_capacity(amounts)
    if like is None:
        cell, fresh = _created(app, str(name), dimensions, wanted)
    else:
        cell, fresh = _created_like(app, name, like)
    _add(app, cell.machines, [MachineSpec(f"m{i}", capacity) for i in range(machines)])
    lies = _spread(app, cell.name)
    if app.as_json:
        document = {"cell": cell.name, "created": fresh, "resources": list(cell.dimensions.names), "machines": machines}
        more = ({"like": like} if like is not None else {}) | durability_json(cell)
        render.document(document | more | ({} if lies is None else {"shard": asdict(lies)}))
        return
    _say(cell, fresh, like, machines, capacity, lies)
    if machines and not executor_lives(cell.executors, DEFAULT_EXECUTOR):
        note_offline(DEFAULT_EXECUTOR)


def _created(app: App, name: str, dimensions: Dimensions, wanted: Durability | None) -> "tuple[RedisCell, bool]":
    """Return the cell, and whether it is new."""
    from omega.cellstate.server import connect
    from omega.cellstate.store import create_cell

    there = name in app.cells()
    return app.closing(create_cell(connect(app.url), name, dimensions, durability=wanted, url=app.url)), not there


def _created_like(app: App, name: str | None, like: str) -> "tuple[RedisCell, bool]":
    """Return the cell, and whether it is new."""
    from omega.cellstate.store import create_like
    from omega.many_cells.new_cell import create_next

    if name is None:
        return app.closing(create_next(app.url, like, app.now_ms(), app.by)), True
    cell, fresh = create_like(app.url, name, app.now_ms(), app.by, like=like)
    return app.closing(cell), fresh


def _add(app: App, machines: "RedisMachines", specs: "Sequence[MachineSpec]") -> None:
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("machines", total=len(specs) or None, more="", visible=len(specs) > JOIN_CHUNK)
        for start in range(0, len(specs), JOIN_CHUNK):
            joined = machines.join(DEFAULT_EXECUTOR, specs[start : start + JOIN_CHUNK], app.now_ms())
            bars.advance(bar, len(joined))


def _spread(app: App, name: str) -> "Spread | None":
    """Return where a cell lies on a Cluster; None elsewhere."""
    if app.store is None or "+cluster:" not in app.store:
        return None
    from omega.many_cells.new_cell import look, spread

    return spread(look(app.url)[1], name)


def _say(
    cell: "RedisCell", fresh: bool, like: str | None, machines: int, capacity: Sequence[int], lies: "Spread | None"
) -> None:
    said = [f"cell {cell.name} {'created' if fresh else 'already exists'}", ", ".join(cell.dimensions.names)]
    if cell.durability != Durability():
        said.append(durability_text(cell))
    if like is not None:
        pools, limits = len(cell.pools.get().pools), len(cell.pools.limited_kinds())
        said.append(f"like {like}: {units.count(pools, 'pool')}, limits of {units.count(limits, 'kind')}")
    if machines:
        total = [machines * each for each in capacity]
        said.append(units.count(machines, "machine"))
        said += [f"{units.amount(n, v)} {n}" for n, v in zip(cell.dimensions.names, total, strict=True) if v]
    if lies is not None:
        said.append(f"on shard {lies.primary}")
    render.line(" · ".join(said))
    if lies is not None and lies.better is not None:
        render.warning(
            f"cell {cell.name}: its shard has {units.count(lies.others, 'other cell')}, another one {lies.fewest}; the "
            f"name decides, for example {lies.better} lies there"
        )


@click.command()
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def delete(app: App, name: str | None, yes: bool) -> None:
    """Delete the cell NAME (or the one given by --cell) and everything in it."""
    cell = app.open(name or app.which(surely=True), any_schema=True)
    held = contents(cell)
    live, machines, jobs = held.schedulers, held.machines, held.live_jobs
    if live:
        raise Refused(
            f"cell {cell.name}: {units.count(len(live), 'scheduler')} running ({units.listing(live)}); stop them first "
            "(the lease of a killed one expires after a few seconds)"
        )
    what = f"cell {cell.name} with {units.count(machines, 'machine')} and {units.count(jobs, 'live job')}"
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{what}: confirmation needed; add --yes")
        if not click.confirm(f"delete {what}?", err=True):
            render.note("not deleted")
            click.get_current_context().exit(1)
    with render.busy(f"deleting {cell.name}", quiet=app.as_json):
        cell.delete()
    if app.as_json:
        render.document({"cell": cell.name, "deleted": True, "machines": machines, "jobs": jobs})
    else:
        render.line(f"{what} deleted")


@click.command()
@click.argument("name", required=False)
@click.pass_obj
def upgrade(app: App, name: str | None) -> None:
    """Give the cell NAME (or the one given by --cell) the rules of this version of Omega.

    Stop its schedulers, agents and simulated executors first: while one lives, nothing is changed.
    """
    from omega.cellstate.keys import RULES

    cell = app.open(name, any_schema=True)
    before = cell.upgrade()
    if app.as_json:
        render.document({"cell": cell.name, "rules": RULES, "before": before})
    else:
        render.line(f"cell {cell.name} · rules number {RULES}" + (f", before {before}" if before != RULES else ""))
