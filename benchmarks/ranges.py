"""Measured figures with their margins (ranges.toml), and whether a new measurement lies within them."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """One figure: its place in a document, the recorded value, the allowed margin.

    `document` is the name of one of `benchmarks.everything`; `rows` a path to a list of rows in it, of which `where`
    picks one; `figure` is the field. `margin` is a share of `measured`. `target` is what must be reached, 0 when
    nothing was promised.
    """

    name: str
    command: str
    document: str
    rows: str
    figure: str
    measured: float
    spread: tuple[float, float]
    margin: float
    unit: str
    more_is_better: bool = True
    where: Mapping[str, Any] = field(default_factory=dict)
    target: float = 0.0

    @property
    def limit(self) -> float:
        """The worst value that still counts as the same."""
        return self.measured * (1 - self.margin if self.more_is_better else 1 + self.margin)

    def find(self, document: Mapping[str, Any]) -> float | None:
        """The figure in a document; None when it is not there."""
        rows: Any = document
        for name in self.rows.split("."):
            rows = rows.get(name, []) if isinstance(rows, Mapping) else []
        for row in [rows] if isinstance(rows, Mapping) else rows:
            if all(row.get(name) == value for name, value in self.where.items()) and self.figure in row:
                return float(row[self.figure])
        return None

    def check(self, value: float) -> dict[str, object]:
        """Return the figure, the recorded value, and whether it is within the margin."""
        within = value >= self.limit if self.more_is_better else value <= self.limit
        return {
            "name": self.name,
            "value": value,
            "measured": self.measured,
            "limit": round(self.limit, 4),
            "target": self.target,
            "unit": self.unit,
            "within": within,
        }


@cache
def load() -> tuple[Mapping[str, Any], tuple[Range, ...]]:
    """Where and when the figures were measured, and the figures."""
    found = tomllib.loads((files("benchmarks") / "ranges.toml").read_text(encoding="utf-8"))
    ranges = [Range(**{**each, "spread": tuple(each["spread"])}) for each in found["range"]]
    return found["measured"], tuple(ranges)


def compare(documents: Mapping[str, Mapping[str, Any]]) -> Sequence[dict[str, object]]:
    """Check every known figure in the documents."""
    checked = []
    for each in load()[1]:
        value = each.find(documents.get(each.document, {}))
        if value is not None:
            checked.append(each.check(value))
    return checked
