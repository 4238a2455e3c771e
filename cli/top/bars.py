"""Bars of shares and curves of histories, in terminal characters."""

from collections.abc import Sequence

from omega.cli.render import shown

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> str:
    """Return a bar of `width` characters for a share from 0 to 1; greater shares fill it."""
    eighths = round(8 * width * min(max(share, 0.0), 1.0))
    if share > 0:
        eighths = max(eighths, 1)  # a positive share is never drawn as zero
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width, "░")


def curve(values: Sequence[float], width: int, most: float | None = None) -> str:
    """Return the last `width` values as a curve; `most` is the top of the scale (default: the largest value)."""
    shown = list(values)[-width:] if width > 0 else []
    top = most if most is not None else max(shown, default=0.0)
    if top <= 0:
        return _HEIGHTS[0] * len(shown)
    steps = (round(min(max(value / top, 0.0), 1.0) * (len(_HEIGHTS) - 1)) for value in shown)
    return "".join(_HEIGHTS[step] for step in steps)


def cut(text: str, width: int) -> str:
    """Return the printable text (`render.shown`), cut with ``…`` to the width."""
    text = shown(text)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
