"""``omega top --once``: one frame as text, or as one document."""

from typing import Any

from cellstate.model import Machine
from cli import render
from cli.top.head import head
from cli.top.panes import EMPTY, panes
from cli.top.picture import TROUBLE, Member, Picture, condition, fullness, trouble, waiting_json
from omega.queries.machines import utilisation

MACHINE_STATES = ("up", "drained", "down", "offline", "over", "full")
MOST_LINES = 15
"""Lines of each table of a frame; a document has everything that was read."""


def show(picture: Picture) -> None:
    """Print a frame; of the machines those that are full, over, drained or down."""
    screen = render.console()
    for text in head(picture, min(screen.width, 100)):
        render.line(text.plain.rstrip())
    for pane in panes(picture):
        things = [each for each in pane.things if not isinstance(each, Machine) or _troubled(each)]
        render.line()
        render.line(f"{pane.name} {pane.note}".rstrip())
        if not things:
            render.line(f"  {'none is full, over, drained or down' if pane.things else EMPTY[pane.name]}")
            continue
        rows = [[column.show(each) for column in pane.columns] for each in things[:MOST_LINES]]
        render.table([f">{column.title}" if column.right else column.title for column in pane.columns], rows)
        if len(things) > MOST_LINES:
            render.line(f"… {len(things) - MOST_LINES:,} more")


def document(picture: Picture) -> dict[str, Any]:
    """A frame as plain values; amounts in the smallest units, times in milliseconds since 1970 or in seconds."""
    states = {"total": len(picture.machines)} | {word: picture.states[word] for word in MACHINE_STATES}
    return {
        "cell": picture.cell, "store": picture.store, "at_ms": picture.at_ms, "version": picture.version,
        "machines": states,
        "utilisation": utilisation(picture.dimensions.names, picture.machines),
        "rates": {"tasks_placed_per_second": picture.rates.placed, "evicted_per_second": picture.rates.evicted,
                  "conflict_fraction": picture.rates.conflict_fraction},
        "pending": dict(picture.depths),
        "schedulers": [_member(each) for each in picture.members],
        "queue": [waiting_json(each, picture.at_ms) for each in picture.queue],
        "troubled": [_machine(each, picture) for each in picture.machines if _troubled(each)],
        "events": [event.as_json() for each in picture.happened for event in each.events],
    }  # fmt: skip


def _troubled(machine: Machine) -> bool:
    return trouble(machine) < TROUBLE["up"]


def _member(each: Member) -> dict[str, Any]:
    lately = {"busyness": each.busyness, "conflict_fraction": each.conflict_fraction}
    return {**each.figures, "lately": lately}


def _machine(machine: Machine, picture: Picture) -> dict[str, Any]:
    return {
        "name": machine.name, "index": machine.index, "state": machine.state.name.lower(), "over": machine.over,
        "condition": condition(machine), "fullness": fullness(machine),
        "capacity": picture.dimensions.numbers(machine.capacity),
        "allocated": picture.dimensions.numbers(machine.allocated),
    }  # fmt: skip
