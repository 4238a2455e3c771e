"""``omega pool set`` and ``remove``."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.over_limit import over_option, settle
from omega.cli.pool import settings

if TYPE_CHECKING:
    from omega.cellstate.pools import Pools


@click.command()
@click.argument("name")
@settings.options
@click.option("--everybody", is_flag=True, help="Let all users submit jobs that the parent admits.")
@over_option
@settings.evict_option
@settings.version_option
@click.pass_obj
def command(
    app: App, /, *, name: str, version: int | None, over: str, everybody: bool, evict: bool, **given: Any
) -> None:
    """Create the pool NAME, or change those of its settings that are given.

    A pool that moves takes its running jobs along. A limit below the present use ends nothing unless --over evict is
    given: the least important tasks of the pool are then evicted until the use is within the limit.
    """
    from omega.limits import excess_of_pool, jobs_of_pool
    from omega.pools.changes import change, new_pool, with_pool
    from omega.pools.effects import weight_line
    from omega.queries.pool_shares import not_in_effect

    cell = app.open(to_change=True)
    if given["users"] and everybody:
        raise click.UsageError("--everybody removes the list of users; leave out --user")
    given |= settings.preemption(given["preemption"]) | {"users": given["users"] or (() if everybody else None)}

    def make(pools: "Pools") -> "Pools":
        known = pools.by_name.get(name) or new_pool(cell, pools, name)
        return with_pool(pools, settings.changed(known, given, cell.dimensions))

    before, after = change(cell, make, app.now_ms(), app.by, version, evict=evict)
    pool = after.by_name[name]
    too_much, evicted = settle(
        app, cell, f"pool {name}", over, partial(excess_of_pool, cell, name), jobs_of_pool(cell, name)
    )
    unread, divides = not_in_effect(cell, after, name), weight_line(after, name)
    if unread:
        render.warning(f"pool {name}: {unread}")
    if app.as_json:
        from omega.pools.form import settings_of

        document = settings_of(after, name)
        document |= {"number": pool.number, "over": too_much, "evicted": evicted, "not_in_effect": unread}
        document |= {"weight_divides": divides}
        render.document({"cell": cell.name, "version": after.version, "pool": document})
        return
    what = "created" if name not in before.by_name else "unchanged" if pool == before.by_name[name] else "changed"
    render.note(f"pool {name}: {what}; the pools have version {after.version}")
    if given["weight"] or given["guarantee"]:
        render.note(f"  weight {divides}")


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@settings.version_option
@click.pass_obj
def remove(app: App, *, names: tuple[str, ...], version: int | None) -> None:
    """Remove pools without live jobs and without pools below them, so no task has to leave its machine."""
    from omega.pools.changes import change, without

    cell = app.open(to_change=True)
    # The store refuses to remove a pool with jobs, so no task can be in another tree afterwards.
    _, after = change(cell, lambda pools: without(pools, names), app.now_ms(), app.by, version, evict=True)
    if app.as_json:
        render.document({"cell": cell.name, "version": after.version, "removed": list(names)})
        return
    render.note(f"removed {', '.join(names)}; the pools have version {after.version}")
