"""An experiment: a published claim, the simulations that test it, and the verdict on it over several seeds."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from omega.experiments.configuration import Configuration
from omega.experiments.finding import Finding, Measurements, concluded
from omega.experiments.results import Record
from omega.workload import presets

SEEDS = 5
"""Seeds of every verdict on the page: 0 to 4."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of an experiment.

    `days` are simulated; with `even` they are days of C, and the calibrated cells are simulated for as long as it takes
    as many jobs to arrive. `points` is the number of values along an axis, `cells` are the presets where there is a
    choice, `machines` is None for whole cells, and `seeds` is the number of seeds from `seed` on.
    """

    days: float
    points: int
    cells: tuple[str, ...]
    _: KW_ONLY
    machines: int | None = None
    seed: int = 0
    even: bool = False
    seeds: int = 1

    def length(self, cell: str) -> float:
        """Return the simulated days of a cell."""
        return float(f"{self.days / presets.preset(cell).pace:.2g}") if self.even else self.days

    @property
    def lengths(self) -> dict[str, float]:
        """The simulated days of every cell."""
        return {cell: self.length(cell) for cell in self.cells}

    @property
    def each_seed(self) -> list["Extent"]:
        """The same form with one seed each."""
        return [replace(self, seed=self.seed + i, seeds=1) for i in range(self.seeds)]

    def start(self, workload: str, **others: Any) -> Configuration:
        """Return a configuration of this form."""
        start = Configuration(workload=workload, days=self.length(workload), machines=self.machines, seed=self.seed)
        return start.but(others)

    def but(
        self,
        days: float | None = None,
        cells: Sequence[str] = (),
        machines: int | None = None,
        seeds: int | None = None,
        scale: float = 1.0,
    ) -> "Extent":
        """Replace the values that are given; `days` are then those of each cell, and `scale` multiplies them."""
        same = replace(
            self, cells=tuple(cells) or self.cells, machines=machines or self.machines, seeds=seeds or self.seeds
        )
        same = same if days is None else replace(same, days=days, even=False)
        return replace(same, days=same.days * scale)


Sweeping = Callable[[Extent], list[Configuration]]
Criterion = Callable[[Measurements, Sequence[Record], int], None]
"""Measures the records of one seed; takes them and that seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A claim as a value.

    `figure` is the paper's, `small` is the form that runs as a test, `form` the one of the page: only runs with at
    least its days and machines give a verdict. `otherwise` is the reason when the claim does not hold or cannot be
    measured. `fitted` names the inputs that were fitted to the claim itself; such a claim is counted apart and is no
    evidence. With `longer` the first seed is also simulated for so many times the days, to see whether the verdict
    stays.
    """

    name: str
    claim: str
    source: str
    figure: int
    metric: str
    expectation: str
    sweep: Sweeping
    criterion: Criterion
    small: Extent
    form: Extent
    otherwise: str = ""
    fitted: str = ""
    longer: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the description of the experiment."""
        fields = ("name", "figure", "claim", "source", "metric", "expectation", "fitted")
        return {name: getattr(self, name) for name in fields}

    def sized(
        self,
        days: float | None = None,
        cells: Sequence[str] = (),
        machines: int | None = None,
        seeds: int | None = None,
        scale: float = 1.0,
    ) -> Extent:
        """Return the form with other values, as Extent.but; an experiment that simulates nothing keeps its days."""
        if self.sweep is nothing:
            return self.form.but(seeds=seeds if self.form.seeds > 1 else None)
        return self.form.but(days, cells if len(self.form.cells) > 1 else (), machines, seeds, scale)

    def covers(self, form: Extent) -> bool:
        """Return whether a form has at least the days and machines of the page's, so that it can give a verdict."""
        fewest = self.form.machines
        whole = form.machines is None or (fewest is not None and form.machines >= fewest)
        return whole and all(form.length(cell) >= self.form.length(cell) for cell in form.cells)

    def simulations(self, form: Extent) -> list[Configuration]:
        """Return the configurations of all seeds of a form."""
        return [each for one in form.each_seed for each in self.sweep(one)]

    def lengthened(self, form: Extent) -> Extent | None:
        """Return the longer form of the first seed; None when the verdict cannot depend on the length."""
        return replace(form, days=form.days * self.longer, seeds=1) if self.longer and form.seeds > 1 else None

    def evaluate(self, records: Sequence[Record], form: Extent | None = None) -> Finding:
        """Return the verdict on the records of all seeds of a form (default: the seeds of the records)."""
        if self.sweep is nothing:
            seeds = [one.seed for one in (form or self.small).each_seed]
        else:
            seeds = sorted({record["seed"] for record in records})
        findings = []
        for seed in seeds:
            measured = Measurements()
            self.criterion(measured, [record for record in records if record["seed"] == seed], seed)
            findings.append(measured.finding(self.otherwise))
        return concluded(findings)


def each_cell(criterion: Callable[[Measurements, Sequence[Record], str], None]) -> Criterion:
    """Return the criterion that measures the records of each cell in turn."""

    def measure(measured: Measurements, records: Sequence[Record], _: int) -> None:
        for cell in cells_in(records):
            criterion(measured, where(records, workload=cell), cell)

    return measure


def nothing(_: Extent) -> list[Configuration]:
    """No simulation: the claim is about the workload, or cannot be measured."""
    return []


def where(records: Sequence[Record], **values: Any) -> list[Record]:
    """Return the records with these values in their configuration."""
    return [record for record in records if all(at(record, name) == value for name, value in values.items())]


def along(records: Sequence[Record], name: str) -> list[Record]:
    """Return the records in the order of a parameter."""
    return sorted(records, key=lambda record: float(at(record, name)))


def at(record: Record, name: str) -> Any:
    """Return the value of a parameter."""
    return record["configuration"][name]


def cells_in(records: Sequence[Record]) -> list[str]:
    """Return the presets that were simulated, in the order of the records."""
    return list(dict.fromkeys(at(record, "workload") for record in records))


def logarithmic(low: float, high: float, points: int) -> list[float]:
    """Return `points` values from `low` to `high`, evenly spaced in their logarithms, four digits each."""
    return [float(f"{low * (high / low) ** (i / (points - 1)):.4g}") for i in range(points)]
