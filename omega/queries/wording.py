"""Counts, lists and amounts as text, for error messages and for the command line."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omega.cellstate.resources import Dimensions


def count(number: int, word: str, plural: str = "") -> str:
    """``1 task``, ``1,240 tasks``."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def amounts(dimensions: "Dimensions", vector: Sequence[int]) -> str:
    """Return a vector as text: ``cpu 500m, memory 256Mi``; zeros are left out."""
    return ", ".join(f"{name} {text}" for name, text in needs(dimensions, vector).items()) or "nothing"


def needs(dimensions: "Dimensions", vector: Sequence[int]) -> Mapping[str, str]:
    """Return the amounts of a vector that are not 0, by name."""
    from omega.cellstate.resources import format_amount  # here: `omega --help` writes no amounts

    pairs = zip(dimensions.names, vector, strict=True)
    return {name: format_amount(name, value) for name, value in pairs if value}


def listing(names: Sequence[str], most: int = 3) -> str:
    """``m1, m2``, and from `most` + 1 on how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
