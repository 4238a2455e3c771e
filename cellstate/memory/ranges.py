"""Sets of task indices in the twin: flat tuples (first, last, first, last, …), ascending, never touching. Mirrors
``lua/parts/ranges.lua``, which works on text, function by function.
"""

Spans = tuple[int, ...]

NONE: Spans = ()


def spans(text: str) -> Spans:
    """Read ``0-9,12``; ``-`` is empty."""
    if text == "-":
        return NONE
    flat: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        flat += (int(first), int(last or first))
    return tuple(flat)


def spell(flat: Spans) -> str:
    """Write what `spans` reads."""
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs) or "-"


def span_count(flat: Spans) -> int:
    """Return the number of indices."""
    if len(flat) == 2:
        return flat[1] - flat[0] + 1
    return sum(flat[1::2]) - sum(flat[::2]) + len(flat) // 2


def span_take(flat: Spans, k: int) -> tuple[Spans, Spans]:
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


def span_add(flat: Spans, more: Spans) -> Spans:
    """Return the union of two disjoint sets."""
    if not flat:
        return more
    joined: list[int] = []
    for a, b in sorted([*zip(flat[::2], flat[1::2], strict=True), *zip(more[::2], more[1::2], strict=True)]):
        if joined and joined[-1] == a - 1:
            joined[-1] = b
        else:
            joined += (a, b)
    return tuple(joined)


def span_split(flat: Spans, part: Spans) -> tuple[Spans, Spans]:
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


def span_tail(flat: Spans, k: int) -> tuple[Spans, Spans]:
    """Return the last `k` (victims go newest index first), and the rest."""
    rest, tail = span_take(flat, span_count(flat) - k)
    return tail, rest
