"""``omega cell status`` and ``list``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.cli.refused_writes import warn_of_refused_writes
from omega.queries import units
from omega.queries.cells import describe, durability_text, list_cells

if TYPE_CHECKING:
    from omega.cellstate.cuts import Cuts
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.replies import KindUse
    from omega.queries.recent import Recently


@click.command()
@click.argument("name", required=False)
@click.pass_obj
def command(app: App, name: str | None) -> None:
    """Summarize the cell NAME (or the one given by --cell): machines, use, jobs, schedulers, limits, conflicts."""
    from omega.queries.recent import recently

    cell = app.open(name)
    kinds = cell.pools.kinds()
    past = recently(cell, app.now_ms())
    summary = describe(cell, kinds, past) | warn_of_refused_writes(cell, as_json=app.as_json)
    if app.as_json:
        render.document({"cell": cell.name, "store": app.shown_url} | summary)
    else:
        _show(cell, app.shown_url, summary, kinds, past)


def _by_word(numbers: Mapping[str, int], *always: str) -> str:
    """Return counts such as ``3 pending, 12 running``; zero counts are left out unless they are always shown."""
    return ", ".join(f"{number:,} {word}" for word, number in numbers.items() if number or word in always)


def _show(
    cell: "RedisCell", store: str, summary: Mapping[str, Any], kinds: "Mapping[str, KindUse]", past: "Recently"
) -> None:
    machines, jobs, tasks = dict(summary["machines"]), dict(summary["jobs"]), dict(summary["tasks"])
    total, stored = jobs.pop("total"), jobs.pop("stored")
    kept = "" if stored == total else f" · {stored:,} kept"
    use = [
        f"{name} {units.percent(each['allocated'], each['capacity'])} "
        f"({units.amount(name, each['allocated'])} of {units.amount(name, each['capacity'])})"
        for name, each in summary["utilisation"].items()
    ]
    live, lapsed, counts = summary["schedulers"]["live"], summary["schedulers"]["lapsed"], summary["transactions"]
    render.facts(
        {
            "cell": f"{cell.name} · version {summary['version']:,} · {store}"
            + ("" if summary["exact"] else " · approximate: the cell changed while it was read"),
            "durability": "" if summary["durability"]["mode"] == "none" else durability_text(cell),
            "machines": f"{machines.pop('total'):,} · {_by_word(machines, 'up')}",
            "in use": " · ".join(use),
            "jobs": f"{total:,} · {_by_word(jobs, 'pending', 'running')}" + kept,
            "tasks": f"{tasks.pop('total'):,} · {_by_word(tasks, 'pending', 'placed')}",
            "pending": ", ".join(f"{number:,} of kind {kind}" for kind, number in summary["pending"].items())
            or ("nothing" if not jobs["pending"] else "no job queued: they are delayed, held or wait for other jobs"),
            "wanted": _wanted(summary["demand"], summary["utilisation"]),
            "troubles": units.recently(past),
            "cuts": _cuts(cell.cuts(), summary["cuts"]["number"]),
            "schedulers": (
                f"{len(live)} live: {units.listing(live, 8)}" if live else "none live; see omega scheduler run"
            )
            + (f" · lapsed: {units.listing(lapsed)}" if lapsed else ""),
            "transactions": f"{counts['total']:,} · {counts['conflicts']:,} with a conflict · "
            f"conflict fraction {units.fraction(counts['conflict_fraction'])} · "
            f"of {units.count(counts['of_schedulers'], 'scheduler')} on record",
        }
    )
    limited = {kind: use for kind, use in kinds.items() if _limited(use)}
    if limited:
        render.line()
        from omega.cli.cell.limits import show as show_limits

        show_limits(cell.dimensions, limited)


def _cuts(cuts: "Cuts", number: int) -> str:
    """Return what the store lost last, and how often it lost versions; empty when it never did."""
    if cuts.last is None:
        return ""
    from omega.queries.event_text import clock

    return f"{number:,} · last at {clock(cuts.last.at_ms, App.now_ms())}: {cuts.last.text}"


def _wanted(wanted: Mapping[str, int], use: Mapping[str, Mapping[str, float]]) -> str:
    """Return the needs of the pending tasks that may be placed now, and their share of the capacity; the others."""
    amounts = [
        f"{name} {units.amount(name, wanted[name])} ({units.percent(wanted[name], each['capacity'])} of all)"
        for name, each in use.items()
        if wanted[name]
    ]
    now = ": ".join([units.count(wanted["tasks"], "task"), *filter(None, [", ".join(amounts)])])
    later = f"{units.count(wanted['delayed'], 'task')} later, delayed after a loss"
    return " · ".join([now] * (wanted["tasks"] > 0) + [later] * (wanted["delayed"] > 0))


def _limited(use: "KindUse") -> bool:
    from omega.cellstate.model import MOST_PRECEDENCE

    limits = use.limits
    amounts = any(amount is not None for amount in limits.resources)
    return amounts or limits.jobs is not None or limits.precedence != (0, MOST_PRECEDENCE)


UNREADABLE = 3
"""Exit status when a cell cannot be read."""


@click.command()
@columns_option
@click.pass_obj
def list_(app: App, columns: Columns) -> None:
    """List the cells of the store: resources, machines, live jobs and schedulers.

    The line of a cell that cannot be read shows the error; the exit status is then 3.
    """
    listed = list_cells(app.cells(), app.open)
    code = UNREADABLE if any(each["note"] for each in listed) else 0
    if answered(app, {"store": app.shown_url, "cells": listed}, "cells", columns):
        click.get_current_context().exit(code)
    if not listed:
        render.note("no cells; create one with omega cell create NAME")
        return
    copied = ("machines", "jobs", "schedulers")
    rows = [
        (each["name"], ", ".join(each["resources"]), *(each[word] for word in copied), each["note"] or "")
        for each in listed
    ]
    render.table(("cell", "resources", ">machines", ">live jobs", ">schedulers", ""), rows)
    click.get_current_context().exit(code)
