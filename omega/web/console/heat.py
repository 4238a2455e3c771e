"""The heat map: a square per machine, in blocks by an attribute, with a character for the level of each square.

A block is one small SVG with a path per level. A path is a line through the middle of the squares of each row; dashes
cut it into squares. So 10,000 squares are about 100 KiB, and a change of levels is a few characters (live.py).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import numpy as np
from markupsafe import Markup, escape

from omega.cellstate import ranges
from omega.cellstate.plain_text import escaped
from omega.queries.mirror.machine_columns import STATES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omega.queries.mirror.machine_columns import MachineColumns

MOST_SQUARES, MOST_CHARACTERS = 10_000, 250_000
"""Squares of one page, and letters of its blocks; the rest of the page has at most 50 KiB."""
BLOCK, LARGEST_BLOCK = 100, 1_600
"""Machines of a block where no attribute divides them, and of the largest part of a group."""
STEPS = (0.0, 0.25, 0.5, 0.75, 0.95)
"""Shares in use above which the levels 1, 2, … begin; level 0 is nothing in use."""
LEVELS: Mapping[str, str] = {
    "0": "nothing in use",
    "1": "up to 25 %",
    "2": "up to 50 %",
    "3": "up to 75 %",
    "4": "up to 95 %",
    "5": "above 95 %",
    "v": "over capacity",
    "d": "drained",
    "o": "offline",
    "x": "down",
}
_STATE_LEVELS = {"drained": b"d", "offline": b"o", "unfit": b"o", "down": b"x"}
_RUN = re.compile(r"(.)\1*")
_KEY = re.compile(r"[^\w./-]")


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Blocks of a page; `following` is the number of the first block of the next page, None on the last one."""

    blocks: Markup
    squares: int
    total: int
    following: int | None
    counts: Mapping[str, int]
    """How many of all machines have each level."""


def levels(columns: "MachineColumns", resource: str) -> "NDArray[Any]":
    """Return the level of each machine: by its state, else by the share of a resource in use ("": the fullest)."""
    shares = columns.fraction
    share = shares[resource] if resource in shares else np.max(list(shares.values()), axis=0)
    steps = np.digitize(share, STEPS, right=True)
    found = np.array([b"0", b"1", b"2", b"3", b"4", b"5"], "S1")[steps]
    found[columns.over] = b"v"
    for state, level in _STATE_LEVELS.items():
        found[columns.state == STATES.index(state)] = level
    return found


def selected(columns: "MachineColumns", level: str, resource: str) -> "NDArray[np.int64]":
    """Return the indices of the machines that have a level."""
    found: NDArray[np.int64] = columns.index[levels(columns, resource) == level.encode()]
    return found


def heat_map(columns: "MachineColumns", resource: str, group: str, first: int = 0) -> HeatMap:
    """Return the map of the blocks from number `first` on; `group` is one of the columns' attributes, or ""."""
    of_all = levels(columns, resource)
    numbers = np.bincount(of_all.view(np.uint8), minlength=128)
    counts = {level: int(numbers[ord(level)]) for level in LEVELS}
    if group:
        codes = columns.attributes[group]
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        texts = [columns.values[group][code] for code in present.tolist()]
        places = sorted(range(len(texts)), key=lambda i: (present[i] == 0, _natural(texts[i])))
        edges = [*starts.tolist(), len(order)]
        spans = [
            (texts[i] if present[i] else None, order[at : min(at + LARGEST_BLOCK, edges[i + 1])])
            for i in places
            for at in range(edges[i], edges[i + 1], LARGEST_BLOCK)
        ]
    else:
        positions = np.arange(len(of_all))
        spans = [(None, positions[at : at + BLOCK]) for at in range(0, len(of_all), BLOCK)]
    blocks: list[str] = []
    squares, characters, at = 0, 0, max(0, first)
    for value, members in spans[at:]:
        block = _block(columns.index[members].tolist(), of_all[members].tobytes().decode(), group, value)
        squares += len(members)
        characters += len(block)
        if blocks and (squares > MOST_SQUARES or characters > MOST_CHARACTERS):
            squares -= len(members)
            break
        blocks.append(block)
        at += 1
    return HeatMap(Markup("").join(map(Markup, blocks)), squares, len(of_all), at if at < len(spans) else None, counts)


def width(machines: int) -> int:
    """Return the number of columns of a block: 10, 20, 40 or 80, which are classes of the style sheet."""
    return next((columns for columns in (10, 20, 40) if machines <= columns * columns), 80)


@lru_cache(4_096)
def drawing(text: str, columns: int) -> str:
    """Return the paths of the squares of some levels, row by row."""
    paths: dict[str, list[str]] = {}
    for row in range(0, len(text), columns):
        y = row // columns
        for run in _RUN.finditer(text[row : row + columns]):
            paths.setdefault(run[1], []).append(f"M{run.start()} {y}h{run.end() - run.start()}")
    return "".join(f'<path class="l{level}" d="{"".join(path)}"/>' for level, path in sorted(paths.items()))


def _block(indices: Sequence[int], text: str, group: str, value: str | None) -> str:
    """Return the HTML of a block of machines: its name, which leads to the list of them, and the squares.

    `value` is that of the attribute `group` which they share, None where there is none.
    """
    if value is None:
        name = "without" if group else f"{indices[0]:,} – {indices[-1]:,}"
        key, query = f"b{indices[0]}", f"after={indices[0] - 1}" if indices[0] else ""
    else:
        name, query = value, f"value={_quoted(value)}"
        key = _KEY.sub(lambda match: f"~{ord(match[0]):x}", f"b{indices[0]}-{value}")
    wide = width(len(text))
    kind = "" if wide == 10 else f' class="w{wide}"'
    consecutive = indices[-1] - indices[0] == len(indices) - 1
    machines = f"{indices[0]}-{indices[-1]}" if consecutive else ranges.spell_all(indices)
    data = f'data-key="{key}" data-levels="{text}" data-machines="{machines}"'
    label = f"<bdi>{escape(escaped(name))}</bdi> <small>{len(indices):,}</small>"
    box = f"-.07 -.5 {wide} {-(-len(text) // wide)}"
    return (
        f'<div><a href="?group={_quoted(group)}&amp;{query}#list">{label}</a>'
        f'<svg{kind} {data} viewBox="{box}">{drawing(text, wide)}</svg></div>'
    )


def _quoted(text: str) -> str:
    return quote_plus(text, errors="replace")


@lru_cache(8_192)
def _natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts r2 before r10."""
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"(\d{1,18})", text)]
