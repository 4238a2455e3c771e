"""The lines above the tables: resource use and rates, with a short history."""

from typing import TYPE_CHECKING

from cli import words
from cli.event_words import clock
from cli.top.bars import bar, curve, cut
from cli.top.picture import Picture
from omega.queries.machines import utilisation

if TYPE_CHECKING:
    from rich.text import Text

LEAST_BAR, MOST_BAR, LEAST_CURVE = 12, 60, 10


def head(picture: Picture, width: int, said: str = "") -> "list[Text]":
    """Return the lines, each at most `width` characters; `said` is right-aligned in the first (paused, or an error)."""
    from rich.text import Text

    return [_title(picture, width, said), Text(cut(_machines(picture), width)), *_use(picture, width),
            _rates(picture, width)]  # fmt: skip


def _title(picture: Picture, width: int, said: str) -> "Text":
    from rich.text import Text

    right = said or clock(picture.at_ms)[:-4]
    room = width - len(right) - 1
    left = cut(f"{picture.cell} · version {picture.version:,} · {picture.store}", room)
    return Text.assemble((left.ljust(room), "bold"), " ", (right, "bold red" if said else ""))


def _machines(picture: Picture) -> str:
    states = picture.states
    up = f"{states['up']:,} up" + (f" ({states['full']:,} full)" if states["full"] else "")
    parts = [up, *(f"{states[word]:,} {word}" for word in ("over", "drained", "down", "offline") if states[word])]
    waiting = ", ".join(f"{depth:,} {kind}" for kind, depth in sorted(picture.depths.items()) if depth)
    return f"{words.count(len(picture.machines), 'machine')}: {', '.join(parts)} · waiting jobs: {waiting or 'none'}"


def _use(picture: Picture, width: int) -> "list[Text]":
    """A line for each resource: bar, share, amounts, history."""
    from rich.text import Text

    names = picture.dimensions.names
    use = utilisation(names, picture.machines)
    told = {
        name: f"{words.percent(each['allocated'], each['capacity']):>5}  "
        f"{words.amount(name, int(each['allocated']))} of {words.amount(name, int(each['capacity']))}"
        for name, each in use.items()
    }
    first = max(len(name) for name in (*names, "placed")) + 2
    middle = max(len(text) for text in told.values()) + 2
    wide = max(LEAST_BAR, min(MOST_BAR, (width - first - middle) // 2))
    rest = width - first - middle - wide - 1
    lines = []
    for name, text in told.items():
        past = curve(picture.past.get(name, ()), rest, 1.0) if rest >= LEAST_CURVE else ""
        share = use[name]["fraction"]
        style = "red" if share >= 0.95 else "yellow" if share >= 0.8 else "green"
        lines.append(Text.assemble(f"{name:<{first}}", (bar(share, wide), style), f" {text:<{middle}}", (past, "cyan")))
    return lines


def _rates(picture: Picture, width: int) -> "Text":
    from rich.text import Text

    rates = picture.rates
    text = (
        f"{rates.placed:,.0f} tasks/s · conflict fraction {words.fraction(rates.conflict_fraction)}"
        f" · {rates.evicted:,.0f} evicted or lost/s"
    )
    rest = width - len(text) - 11
    past = curve(picture.past.get("placed", ()), rest) if rest >= LEAST_CURVE else ""
    return Text.assemble(cut(f"placed   {text}", width), "  ", (past, "cyan"))
