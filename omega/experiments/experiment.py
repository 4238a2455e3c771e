"""An experiment: what is claimed and where, what is simulated, what is measured, and whether the claim holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from omega.experiments.configuration import Configuration
from omega.experiments.results import Record
from omega.workload import presets


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "not measurable"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was measured, in words with units, what it says of the claim, and the reason sought when it fails."""

    verdict: Verdict
    measured: str
    reason: str = ""

    @classmethod
    def when(cls, holds: bool, measured: str, otherwise: str = "") -> "Finding":  # noqa: FBT001 - reads as a sentence
        """HOLDS or FAILS; `otherwise` is the reason when it fails."""
        return cls(Verdict.HOLDS, measured) if holds else cls(Verdict.FAILS, measured, otherwise)


@dataclass(frozen=True, slots=True)
class Form:
    """How large an experiment is done.

    `days` are simulated; `even` means days of C, and of the calibrated cells as long as it takes as many jobs to
    arrive. `points` values are taken along an axis, `cells` are the presets where there is a choice, and
    `machines` is None for whole cells.
    """

    days: float
    points: int
    cells: tuple[str, ...]
    machines: int | None = None
    seed: int = 0
    even: bool = False

    def length(self, cell: str) -> float:
        """The days simulated of a cell."""
        return float(f"{self.days / presets.preset(cell).pace:.2g}") if self.even else self.days

    @property
    def lengths(self) -> dict[str, float]:
        """The days simulated of every cell."""
        return {cell: self.length(cell) for cell in self.cells}

    def start(self, workload: str, **others: Any) -> Configuration:
        """A configuration of this form."""
        start = Configuration(workload=workload, days=self.length(workload), machines=self.machines, seed=self.seed)
        return start.but(others)

    def but(self, days: float | None = None, cells: Sequence[str] = (), machines: int | None = None) -> "Form":
        """The same with other days, cells or sizes of them, where they are given; days are then those of each cell."""
        same = replace(self, cells=tuple(cells) or self.cells, machines=machines or self.machines)
        return same if days is None else replace(same, days=days, even=False)


Sweeping = Callable[[Form], list[Configuration]]
Judge = Callable[[Sequence[Record]], Finding]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A claim as a value. `figure` is the paper's; `small` is the form that runs as a test."""

    name: str
    claim: str
    source: str
    figure: int
    metric: str
    expectation: str
    sweep: Sweeping
    judge: Judge
    small: Form

    def as_json(self) -> dict[str, Any]:
        """What it is, in words."""
        return {
            "name": self.name, "figure": self.figure, "claim": self.claim, "source": self.source,
            "metric": self.metric, "expectation": self.expectation,
        }  # fmt: skip


def nothing(_: Form) -> list[Configuration]:
    """No simulation: what is claimed is read off the workload, or cannot be measured."""
    return []


def where(records: Sequence[Record], **values: Any) -> list[Record]:
    """The records whose configuration has these values."""
    return [
        record for record in records if all(record["configuration"][name] == value for name, value in values.items())
    ]


def along(records: Sequence[Record], name: str) -> list[Record]:
    """In the order of a parameter."""
    return sorted(records, key=lambda record: float(record["configuration"][name]))


def at(record: Record, name: str) -> Any:
    """The value of a parameter."""
    configuration: Mapping[str, Any] = record["configuration"]
    return configuration[name]


def logarithmic(low: float, high: float, points: int) -> list[float]:
    """So many values from `low` to `high`, evenly spaced in their logarithms, four digits each."""
    return [float(f"{low * (high / low) ** (i / (points - 1)):.4g}") for i in range(points)]
