"""Sets of task indices as text, as in ``lua/parts/ranges.lua``: ``0-9,12``, ``-`` when empty; never touching."""

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


# The same sets as flat tuples, for those who change them often

Flat = tuple[int, ...]
"""A set of task indices: (first, last, first, last, …), ascending, never touching."""

NONE: Flat = ()


def span_read(text: str) -> Flat:
    """Read ``0-9,12``; ``-`` is empty."""
    if text == "-":
        return NONE
    flat: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        flat += (int(first), int(last or first))
    return tuple(flat)


def span_text(flat: Flat) -> str:
    """Write what `span_read` reads."""
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs) or "-"


def span_count(flat: Flat) -> int:
    """Return the number of indices."""
    if len(flat) == 2:
        return flat[1] - flat[0] + 1
    return sum(flat[1::2]) - sum(flat[::2]) + len(flat) // 2


def span_take(flat: Flat, k: int) -> tuple[Flat, Flat]:
    """Return the first `k` and the rest; `k` is at most the count."""
    taken: list[int] = []
    for i in range(0, len(flat), 2):
        a, b = flat[i], flat[i + 1]
        size = b - a + 1
        if k < size:
            if k > 0:
                taken += (a, a + k - 1)
            return tuple(taken), (a + k, b, *flat[i + 2 :])
        taken += (a, b)
        k -= size
    return tuple(taken), NONE


def span_add(flat: Flat, more: Flat) -> Flat:
    """Return the union of two disjoint sets."""
    return _union(flat, more) if flat else more


def _union(flat: Flat, more: Flat) -> Flat:
    joined: list[int] = []
    for a, b in sorted([*zip(flat[::2], flat[1::2], strict=True), *zip(more[::2], more[1::2], strict=True)]):
        if joined and joined[-1] == a - 1:
            joined[-1] = b
        else:
            joined += (a, b)
    return tuple(joined)


def span_split(flat: Flat, part: Flat) -> tuple[Flat, Flat]:
    """Return the part of `part` in `flat`, and `flat` without it."""
    if flat == part:
        return flat, NONE
    inside: list[int] = []
    rest: list[int] = []
    for i in range(0, len(flat), 2):
        start, end = flat[i], flat[i + 1]
        for k in range(0, len(part), 2):
            a, b = max(part[k], start), min(part[k + 1], end)
            if a <= b:
                if start < a:
                    rest += (start, a - 1)
                inside += (a, b)
                start = b + 1
        if start <= end:
            rest += (start, end)
    return tuple(inside), tuple(rest)


def span_tail(flat: Flat, k: int) -> tuple[Flat, Flat]:
    """Return the last `k` (victims go newest index first), and the rest."""
    rest, tail = span_take(flat, span_count(flat) - k)
    return tail, rest


# Changes of the text


def take(text: str, number: int) -> tuple[str, str]:
    """Return the first `number` indices of `text`, and the rest."""
    flat = span_read(text)
    taken, rest = span_take(flat, min(number, span_count(flat)))
    return span_text(taken), span_text(rest)


def tail(text: str, number: int) -> tuple[str, str]:
    """Return the last `number` indices of `text`, and the rest."""
    last, rest = span_tail(span_read(text), number)
    return span_text(last), span_text(rest)


def add(text: str, more: str) -> str:
    """Return the union of two disjoint sets."""
    return span_text(_union(span_read(text), span_read(more)))


def split(text: str, part: str) -> tuple[str, str]:
    """Return the part of `part` that is in `text`, and `text` without it."""
    inside, rest = span_split(span_read(text), span_read(part))
    return span_text(inside), span_text(rest)
