"""Sets of task indices as text: ``0-9,12``, ``-`` when empty; ascending, never touching.

Read and written by the twin and the client as by ``lua/parts/ranges.lua``.
"""

from collections.abc import Iterable

EMPTY = "-"

Spans = list[tuple[int, int]]


def spans(text: str) -> Spans:
    """Return the (first, last) pairs of `text`."""
    if text == EMPTY:
        return []
    if text.isdigit():
        return [(int(text), int(text))]
    result = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        result.append((int(first), int(last or first)))
    return result


def spell(pairs: Iterable[tuple[int, int]]) -> str:
    """Return the text of ascending, disjoint pairs."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs) or EMPTY


def spell_all(numbers: Iterable[int]) -> str:
    """Return the text of ascending numbers."""
    joined: Spans = []
    for number in numbers:
        if joined and joined[-1][1] == number - 1:
            joined[-1] = (joined[-1][0], number)
        else:
            joined.append((number, number))
    return spell(joined)


def count(text: str) -> int:
    """Return the number of indices in `text`."""
    if text.isdecimal():
        return 1
    return sum(b - a + 1 for a, b in spans(text))


def indices(text: str) -> list[int]:
    """Return the indices in `text`, ascending."""
    return [i for a, b in spans(text) for i in range(a, b + 1)]


def take(text: str, number: int) -> tuple[str, str]:
    """Return the first `number` indices of `text`, and the rest."""
    taken: Spans = []
    rest: Spans = []
    for first, last in spans(text):
        cut = min(last, first + number - 1)
        if cut >= first:
            taken.append((first, cut))
            number -= cut - first + 1
        if cut < last:
            rest.append((max(cut + 1, first), last))
    return spell(taken), spell(rest)


def tail(text: str, number: int) -> tuple[str, str]:
    """Return the last `number` indices of `text`, and the rest."""
    rest, last = take(text, count(text) - number)
    return last, rest


def add(text: str, more: str) -> str:
    """Return the union of two disjoint sets."""
    joined: Spans = []
    for a, b in sorted(spans(text) + spans(more)):
        if joined and joined[-1][1] == a - 1:
            joined[-1] = (joined[-1][0], b)
        else:
            joined.append((a, b))
    return spell(joined)


def split(text: str, part: str) -> tuple[str, str]:
    """Return the part of `part` that is in `text`, and `text` without it."""
    inside: Spans = []
    rest: Spans = []
    cuts = spans(part)
    for first, last in spans(text):
        start = first
        for a, b in cuts:
            low, high = max(a, start), min(b, last)
            if low <= high:
                if start < low:
                    rest.append((start, low - 1))
                inside.append((low, high))
                start = high + 1
        if start <= last:
            rest.append((start, last))
    return spell(inside), spell(rest)
