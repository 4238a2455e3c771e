"""The lines above the tables: resource use and rates, with a short history."""

from typing import TYPE_CHECKING

from omega.cli.top.bars import bar, curve, cut
from omega.queries import units
from omega.queries.event_text import clock
from omega.queries.overview import Overview

if TYPE_CHECKING:
    from rich.text import Text

LEAST_BAR, MOST_BAR, LEAST_CURVE = 12, 60, 10


def head(overview: Overview, width: int, said: str = "") -> "list[Text]":
    """Return the lines, each at most `width` characters; `said`, a state or an error, is right-aligned in the first."""
    from rich.text import Text

    return [
        _title(overview, width, said),
        *(
            [Text(cut(f"The store refuses writes: {overview.refuses_writes}", width), "bold red")]
            if overview.refuses_writes
            else []
        ),
        Text(cut(_machines(overview), width)),
        *_use(overview, width),
        _rates(overview, width),
    ]


def _title(overview: Overview, width: int, said: str) -> "Text":
    from rich.text import Text

    right = said or clock(overview.at_ms)[:-4]
    room = width - len(right) - 1
    told = "" if overview.exact else " · approximate: the cell changed while it was read"
    left = cut(f"{overview.cell} · version {overview.version:,} · {overview.store}{told}", room)
    return Text.assemble((left.ljust(room), "bold"), " ", (right, "bold red" if said else ""))


def _machines(overview: Overview) -> str:
    states = overview.ranked.states
    up = f"{states['up']:,} up" + (f" ({states['full']:,} full)" if states["full"] else "")
    parts = [up, *(f"{states[word]:,} {word}" for word in ("over", "drained", "down", "offline") if states[word])]
    waiting = ", ".join(f"{depth:,} {kind}" for kind, depth in sorted(overview.depths.items()) if depth)
    return f"{units.count(overview.ranked.count, 'machine')}: {', '.join(parts)} · queued jobs: {waiting or 'none'}"


def _use(overview: Overview, width: int) -> "list[Text]":
    """Return a line for each resource: bar, share, amounts, history."""
    from rich.text import Text

    names, use = overview.dimensions.names, overview.ranked.utilisation
    told = {
        name: f"{units.percent(each['allocated'], each['capacity']):>5}  "
        f"{units.amount(name, int(each['allocated']))} of {units.amount(name, int(each['capacity']))}"
        for name, each in use.items()
    }
    first = max(len(name) for name in (*names, "placed")) + 2
    middle = max(len(text) for text in told.values()) + 2
    wide = max(LEAST_BAR, min(MOST_BAR, (width - first - middle) // 2))
    rest = width - first - middle - wide - 1
    lines = []
    for name, text in told.items():
        past = curve(overview.past.get(name, ()), rest, 1.0) if rest >= LEAST_CURVE else ""
        share = use[name]["fraction"]
        style = "red" if share >= 0.95 else "yellow" if share >= 0.8 else "green"
        lines.append(Text.assemble(f"{name:<{first}}", (bar(share, wide), style), f" {text:<{middle}}", (past, "cyan")))
    return lines


def _rates(overview: Overview, width: int) -> "Text":
    from rich.text import Text

    rates = overview.rates
    text = (
        f"{rates.placed:,.0f} tasks/s · conflict fraction {units.fraction(rates.conflict_fraction)}"
        f" · {rates.evicted:,.0f} evicted or lost/s"
    )
    rest = width - len(text) - 11
    past = curve(overview.past.get("placed", ()), rest) if rest >= LEAST_CURVE else ""
    return Text.assemble(cut(f"placed   {text}", width), "  ", (past, "cyan"))
