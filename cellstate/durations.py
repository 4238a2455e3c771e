"""Durations as people write them: ``30s``, ``1h30m``, ``250ms``."""

import re

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown

MOST_MS = 10 * 365 * 86_400_000
"""The longest duration, ten years."""
MOST_LETTERS = 64
"""Maximum length of a duration's text."""

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+", re.ASCII)
_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def parse_duration(text: str | float) -> int:
    """Return a duration in milliseconds: ``30s``, ``1h30m``, ``250ms``, or a number of seconds. Raises BadInput."""
    given = str(text).strip()
    if len(given) > MOST_LETTERS:
        raise BadInput(f"{shown(text)} is not a duration; write for example 30s, 5m, 1h30m or 250ms")
    if _DURATION.fullmatch(given):
        parts = re.findall(r"([\d.]+)(ms|[smhd])", given)
        whole = sum(round(float(number) * _UNITS[unit]) for number, unit in parts)
    elif _SECONDS.fullmatch(given):
        whole = round(float(given) * 1000)
    else:
        raise BadInput(f"{text!r} is not a duration; write for example 30s, 5m, 1h30m or 250ms")
    if whole > MOST_MS:
        raise BadInput(f"{text!r} is too long; the most is ten years")
    return whole
