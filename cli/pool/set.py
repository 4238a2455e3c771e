"""``omega pool set``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.amounts import pairs
from omega.cli.app import App
from omega.cli.over_limit import over_option, settle
from omega.cli.pool import settings

if TYPE_CHECKING:
    from omega.cellstate.pools import Pool, Pools
    from omega.cellstate.resources import Dimensions


def _amounts(name: str, what: str) -> Callable[[settings.Command], settings.Command]:
    return click.option(f"--{name}", metavar="NAME=AMOUNT", multiple=True, callback=pairs, help=f"{what}; repeatable.")


@click.command()
@click.argument("name")
@click.option("--parent", metavar="POOL", help="Parent pool; <Root> for the root of a tree.")
@click.option("--tree", metavar="TREE", help="Tree of a pool below the root (default: the first one).")
@click.option("--weight", type=float, help="Part among the siblings, above 0 (default 1).")
@_amounts("guarantee", "Guaranteed amount of a resource, or none")
@_amounts("limit", "Upper bound of a resource, of running tasks (tasks) or of running jobs (jobs), or none")
@click.option("--mode", type=click.Choice(("fair_share", "fifo")), help="How jobs and sub-pools share the pool.")
@click.option("--sort-keys", metavar="KEY,…", help="Order in a FIFO pool: weight, start_time, pending_job_count.")
@click.option("--integral", type=click.Choice(("none", "burst", "relaxed")), help="Type of integral guarantee.")
@_amounts("flow", "Amount per second that an integral guarantee accumulates, or none")
@_amounts("burst", "Amount that a burst guarantee may use at once, or none")
@click.option("--user", "users", metavar="USER", multiple=True, help="User who may submit jobs; repeatable.")
@click.option("--everybody", is_flag=True, help="Let all users submit jobs that the parent admits.")
@click.option(
    "--reclaim",
    type=click.Choice(("never", "guarantee", "fair-share")),
    help="Share up to which the pool may evict tasks of others.",
)
@_amounts("borrowing", "Amount that the pool may hold beyond its guarantee, or none")
@_amounts("lending", "Amount of its guarantee that others may hold, or none")
@_amounts("non-preemptible", "Usage up to which a job of the pool loses no tasks within it, or none")
@click.option(
    "--preemption", metavar="NAME=VALUE", multiple=True, callback=pairs,
    help="Preemption setting (docs/pools.md), or none for that of the parent; repeatable.",
)  # fmt: skip
@over_option
@settings.version_option
@click.pass_obj
def command(app: App, /, *, name: str, version: int | None, over: str, **given: Any) -> None:
    """Create the pool NAME, or change those of its settings that are given.

    A pool that moves takes its running jobs along. A limit below the present use ends nothing unless --over evict is
    given: the least important tasks of the pool are then evicted until the use is within the limit.
    """
    from omega.over_limit import excess_of_pool, jobs_of_pool
    from omega.pools.changes import change, with_pool
    from omega.queries.pool_shares import not_in_effect

    cell = app.open(to_change=True)

    def make(pools: "Pools") -> "Pools":
        from omega.cellstate.pools import Pool

        known = pools.by_name.get(name, Pool(name))
        return with_pool(pools, _changed(known, given, cell.dimensions))

    before, after = change(cell, make, app.now_ms(), app.by, version)
    pool = after.by_name[name]
    too_much, evicted = settle(
        app, cell, f"pool {name}", over, partial(excess_of_pool, cell, name), jobs_of_pool(cell, name)
    )
    unread = not_in_effect(cell, pool)
    if unread:
        render.warning(f"pool {name}: {unread}")
    if app.as_json:
        from omega.pools.file import as_document

        document = next(each for each in as_document(after)["pools"] if each["name"] == name)
        document |= {"number": pool.number, "over": too_much, "evicted": evicted, "not_in_effect": unread}
        render.document({"cell": cell.name, "version": after.version, "pool": document})
        return
    what = "created" if name not in before.by_name else "unchanged" if pool == before.by_name[name] else "changed"
    render.note(f"pool {name}: {what}; the pools have version {after.version}")


def _changed(pool: "Pool", given: Mapping[str, Any], dimensions: "Dimensions") -> "Pool":
    values: dict[str, Any] = {each: given[each] for each in ("parent", "tree", "weight", "mode", "reclaim")}
    values = {each: value for each, value in values.items() if value is not None}
    for option, field in (
        ("guarantee", "guarantee"), ("limit", "limits"), ("borrowing", "borrowing"), ("lending", "lending"),
    ):  # fmt: skip
        values[field] = settings.amounts(given[option], getattr(pool, field), dimensions, f"--{option}")
    integral: dict[str, Any] = {
        each: settings.amounts(given[each], getattr(pool.integral, each), dimensions, f"--{each}")
        for each in ("flow", "burst")
    }
    if given["integral"]:
        integral["kind"] = given["integral"]
    values["integral"] = replace(pool.integral, **integral)
    if given["sort_keys"]:
        values["sort_keys"] = tuple(_words(given["sort_keys"]))
    if given["users"] and given["everybody"]:
        raise click.UsageError("--everybody removes the list of users; leave out --user")
    if given["users"] or given["everybody"]:
        values["users"] = tuple(given["users"])
    values["preemption"] = settings.preemption(given["preemption"], pool.preemption)
    if protected := given["non_preemptible"]:
        known = pool.preemption.non_preemptible_usage or {}
        amounts = settings.amounts(protected, known, dimensions, "--non-preemptible")
        values["preemption"] = replace(values["preemption"], non_preemptible_usage=amounts or None)
    return replace(pool, **values)


def _words(text: str) -> Sequence[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
