"""Ranges of a set of indices."""

from collections.abc import Iterable

from omega.cellstate import ranges


def gather(numbers: Iterable[int]) -> str:
    """Return the text of a set of indices given in any order."""
    pairs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if pairs and pairs[-1][1] == number - 1:
            pairs[-1] = (pairs[-1][0], number)
        else:
            pairs.append((number, number))
    return ranges.spell(pairs)
