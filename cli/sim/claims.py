"""Claims of a paper with their verdicts, printed."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from omega.cli import render

WIDTH = 98
"""Characters of a line."""


def print_claims(claims: Sequence[dict[str, Any]]) -> None:
    """Print the verdict on each claim, what was measured, and the reason."""
    for each in claims:
        render.line("")
        render.line(f"{each['name']}: {each['verdict']}")
        _field("claim", f"{each['claim']} ({each['source']})")
        _field("expected", each["expectation"])
        for number, measured in enumerate(each["measured"] or ["–"]):
            _field("" if number else "measured", measured)
        for name in ("reason", "fitted"):
            if each[name]:
                _field(name, each[name])
    render.line("")


def _field(name: str, text: str) -> None:
    for number, line in enumerate(wrap(text, WIDTH - 12)):
        render.line(f"  {'' if number else name:<9} {line}")
