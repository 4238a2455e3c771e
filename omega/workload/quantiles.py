"""Distributions measured somewhere and shipped as small tables: quantiles, pairs, shares.

The tables and how they were measured: tables/README.md. Shares of cpu and memory are relative
to the largest machine of the measured cell.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quantiles:
    """An empirical distribution: `values` ascend with `probabilities`, which go from 0 to 1.

    Between two rows the distribution is uniform (inverse transform, linear interpolation).
    Raises BadInput when the rows are no such table.
    """

    probabilities: Floats
    values: Floats

    def __post_init__(self) -> None:
        p, v = self.probabilities, self.values
        if len(p) < 2 or p[0] != 0 or p[-1] != 1 or (np.diff(p) <= 0).any() or not (np.diff(v) >= 0).all():
            raise BadInput("quantile table: want probabilities from 0 to 1 and values, both ascending")

    @property
    def mean(self) -> float:
        """The mean of what `sample` draws."""
        return float((np.diff(self.probabilities) * (self.values[1:] + self.values[:-1]) / 2).sum())

    def quantile(self, probability: float) -> float:
        """Return the value that this share of the draws does not exceed."""
        return float(self.at(np.array(probability)))

    def sample(self, rng: np.random.Generator, count: int, *, even: bool = False) -> Floats:
        """Draw `count` values.

        `even` draws one from each of `count` equally likely strata, in random order: the sample
        then has the table's mean and tail for any seed, which independent draws from a
        heavy tail have not. The draws are no longer independent of one another.
        """
        uniform = rng.random(count)
        if even and count:
            uniform = (np.argsort(rng.random(count), kind="stable") + uniform) / count
        return self.at(uniform)

    def at(self, uniform: Floats) -> Floats:
        """Return the values at these probabilities."""
        return np.interp(uniform, self.probabilities, self.values)


@dataclass(frozen=True, eq=False)
class Pairs:
    """A joint distribution of cpu and memory: pairs with weights that add up to 1."""

    cpu: Floats
    memory: Floats
    weights: Floats

    def __post_init__(self) -> None:
        if not len(self.weights) or (self.weights < 0).any() or not self.weights.sum() > 0:
            raise BadInput("table of pairs: want at least one pair, and weights that are not negative")
        object.__setattr__(self, "weights", self.weights / self.weights.sum())

    @property
    def mean(self) -> tuple[float, float]:
        """Mean cpu and mean memory."""
        return float(self.cpu @ self.weights), float(self.memory @ self.weights)

    @property
    def median(self) -> tuple[float, float]:
        """Median cpu and median memory, each for itself."""
        return self._median(self.cpu), self._median(self.memory)

    def _median(self, values: Floats) -> float:
        order = np.argsort(values, kind="stable")
        return float(values[order][np.searchsorted(np.cumsum(self.weights[order]), 0.5)])

    def within(self, machines: list[tuple[float, float]]) -> "Pairs":
        """Return the pairs that fit at least one of these (cpu, memory). Raises BadInput when none does."""
        fits = np.zeros(len(self.weights), dtype=bool)
        for cpu, memory in machines:
            fits |= (self.cpu <= cpu) & (self.memory <= memory)
        if not fits.any():
            raise BadInput("no request of the table fits any machine; take larger machines")
        return Pairs(self.cpu[fits], self.memory[fits], self.weights[fits])

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw `count` pairs: an array of `count` rows, columns cpu and memory."""
        return self.at(rng.random(count))

    def at(self, uniform: Floats) -> Floats:
        """Return the pairs at these cumulated weights, as `sample`."""
        bounds = np.cumsum(self.weights)
        chosen = np.minimum(np.searchsorted(bounds, uniform, side="right"), len(bounds) - 1)
        return np.column_stack((self.cpu[chosen], self.memory[chosen]))


@dataclass(frozen=True, slots=True)
class MachineClass:
    """Machines alike: platform, cpu and memory as shares of the largest machine, share of all machines."""

    platform: str
    cpu: float
    memory: float
    share: float


def table_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of the shipped table `name` (without ``.csv``) by column."""
    text = (files("omega.workload") / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _columns(name: str, *columns: str) -> list[Floats]:
    rows = table_rows(name)
    return [np.array([float(row[column]) for row in rows]) for column in columns]


@cache
def quantiles(name: str) -> Quantiles:
    """Return the shipped quantile table `name`, for example ``batch_task_seconds``."""
    return Quantiles(*_columns(name, "probability", "value"))


@cache
def pairs(name: str) -> Pairs:
    """Return the shipped table of pairs `name`, for example ``batch_requests``."""
    return Pairs(*_columns(name, "cpu", "memory", "weight"))


@cache
def precedences(name: str) -> tuple[NDArray[np.int64], Floats]:
    """Return the shipped table `name` of precedences and the share of jobs that have each."""
    values, shares = _columns(name, "precedence", "share")
    return values.astype(np.int64), shares


@cache
def shares(name: str) -> tuple[float, float]:
    """Return the shares of cpu and of memory of the shipped table `name`."""
    cpu, memory = _columns(name, "share")[0].tolist()
    return cpu, memory


@cache
def machine_classes() -> tuple[MachineClass, ...]:
    """Return the capacity classes of the measured cell, the commonest first."""
    return tuple(
        MachineClass(row["platform"], float(row["cpu"]), float(row["memory"]), float(row["share"]))
        for row in table_rows("machines")
    )
