"""``omega top --once``: one frame as text, or as one document."""

from typing import Any

from omega.cellstate.model import Machine
from omega.cli import render
from omega.cli.top.cells import AnyOverview, CellsOverview, OfCell, head_of, panes_of
from omega.cli.top.panes import EMPTY
from omega.queries.overview import TROUBLE, Overview, SchedulerRates, condition, fullness, listed_json, trouble

MACHINE_STATES = ("up", "drained", "down", "offline", "unfit", "over", "full")
MOST_LINES = 15
"""Lines of each table of a frame; a document has everything that was read."""


def show(overview: AnyOverview) -> None:
    """Print a frame; of the machines those that are full, over, drained or down."""
    screen = render.console()
    for text in head_of(overview, min(screen.width, 100)):
        render.line(text.plain.rstrip())
    well = "none is full, over, drained, down, offline or unfit"
    for pane in panes_of(overview):
        if pane.name == "pools" and not pane.things:
            continue
        things = [each for each in pane.things if _shown(each)]
        render.line()
        render.line(f"{pane.name} {pane.note}".rstrip())
        if not things:
            render.line(f"  {well if pane.things else EMPTY[pane.name]}")
            continue
        rows = [[column.show(each) for column in pane.columns] for each in things[:MOST_LINES]]
        render.table([f">{column.title}" if column.right else column.title for column in pane.columns], rows)
        if len(things) > MOST_LINES:
            render.line(f"… {len(things) - MOST_LINES:,} more")


def _shown(each: Any) -> bool:
    """Return whether a frame has a line: of the machines those that are full, over, drained or down."""
    thing = each.thing if isinstance(each, OfCell) else each
    return not isinstance(thing, Machine) or _troubled(thing)


def document(overview: AnyOverview) -> dict[str, Any]:
    """Return a frame as plain values; amounts in the smallest units, times in milliseconds since 1970 or in seconds."""
    if isinstance(overview, CellsOverview):
        cells = [document(each) for each in overview.cells]
        return {"store": overview.store, "at_ms": overview.at_ms, "skipped": dict(overview.skipped), "cells": cells}
    states = {"total": overview.ranked.count} | {word: overview.ranked.states[word] for word in MACHINE_STATES}
    return {
        "cell": overview.cell,
        "store": overview.store,
        "at_ms": overview.at_ms,
        "version": overview.version,
        "exact": overview.exact,
        "refuses_writes": overview.refuses_writes or None,
        "machines": states,
        "utilisation": overview.ranked.utilisation,
        "rates": {
            "tasks_placed_per_second": overview.rates.placed,
            "evicted_per_second": overview.rates.evicted,
            "conflict_fraction": overview.rates.conflict_fraction,
        },
        "pending": dict(overview.depths),
        "schedulers": [_member(each) for each in overview.members],
        "queue": [listed_json(each, overview.at_ms) for each in overview.queue],
        "running": {
            "total": overview.jobs.get("running", 0),
            "jobs": [listed_json(each, overview.at_ms) for each in overview.running],
        },
        "troubled": [_machine(each, overview) for each in overview.machines if _troubled(each)],
        "pools": [
            {
                "name": each.share.name,
                "parent": each.share.parent,
                "tree": each.share.tree,
                "status": each.status,
                **{
                    field: dict(zip(overview.dimensions.names, getattr(each.share, field), strict=True))
                    for field in ("fair_share", "usage", "demand")
                },
            }
            for each in overview.pools
        ],
        "events": [event.as_json() for each in overview.changes for event in each.events],
    }


def _troubled(machine: Machine) -> bool:
    return trouble(machine) < TROUBLE["up"]


def _member(each: SchedulerRates) -> dict[str, Any]:
    lately = {"busyness": each.busyness, "conflict_fraction": each.conflict_fraction}
    return {**each.figures, "lately": lately}


def _machine(machine: Machine, overview: Overview) -> dict[str, Any]:
    return {
        "name": machine.name,
        "index": machine.index,
        "state": machine.state.name.lower(),
        "over": machine.over,
        "condition": condition(machine),
        "unfit": overview.ranked.unfit.get(machine.name),
        "fullness": fullness(machine),
        "capacity": overview.dimensions.numbers(machine.capacity),
        "allocated": overview.dimensions.numbers(machine.allocated),
    }
