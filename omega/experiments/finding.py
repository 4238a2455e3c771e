"""Findings: what one seed shows of a claim, and the verdict over all seeds with the spread between them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from statistics import median
from string import Formatter

ENOUGH = 3
"""Seeds from which on the spread between them limits a tolerance."""


class Conclusion(StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "not measurable"
    UNDECIDED = "undecided"
    """An interval includes a bound of the expectation."""
    INSUFFICIENT = "insufficient"
    """Too few jobs."""
    NONE = "no verdict"
    """Figures of a run that is smaller than the claim's."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Quantities that a claim calls equal: one of them, and how far the others are from it (a share of it).

    They count as equal within `most`, or within the spread of `value` between seeds if that is less: a seed draws
    other days of the same cell, so this is the spread of days.
    """

    value: float
    apart: float
    most: float


@dataclass(frozen=True, slots=True)
class SeedFinding:
    """The finding of one seed. `template` is a format string without names, `values` are its numbers."""

    verdict: Conclusion
    template: str
    values: Sequence[float] = ()
    reason: str = ""
    alike: Sequence[Alike] = ()

    def stands(self, tolerances: Sequence[float]) -> bool:
        """Return whether the claim holds for this seed, its equalities within these tolerances."""
        equal = all(each.apart <= most for each, most in zip(self.alike, tolerances, strict=True))
        return self.verdict is Conclusion.HOLDS and equal


@dataclass(slots=True)
class Measurements:
    """Collects the measurements of a verdict: sentence parts with numbers, conditions and equalities."""

    verdict: Conclusion = Conclusion.HOLDS
    reason: str = ""
    _parts: list[str] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)
    _alike: list[Alike] = field(default_factory=list)

    def say(self, template: str, *values: float) -> None:
        """Add a part of the sentence; fields like ``{:.2f}`` take the values in order."""
        self._parts.append(template)
        self._values += values

    def want(self, holds: bool) -> None:  # noqa: FBT001 - the condition itself
        """Add a condition without which the claim does not hold."""
        if not holds:
            self.verdict = Conclusion.FAILS

    def unknown(self, reason: str) -> None:
        """State that the claim cannot be measured."""
        self.verdict, self._parts, self.reason = Conclusion.UNKNOWN, ["–"], reason

    def equal(self, value: float, others: Sequence[float], most: float) -> None:
        """Add quantities that the claim calls equal to `value`; see Alike."""
        apart = max((abs(other - value) for other in others), default=0.0)
        self._alike.append(Alike(value, apart / abs(value) if value else float(apart > 0), most))

    def finding(self, otherwise: str = "") -> SeedFinding:
        """Return the finding; `otherwise` is the reason when the claim does not hold."""
        return SeedFinding(self.verdict, "; ".join(self._parts), self._values, self.reason or otherwise, self._alike)


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on a claim, the measurements (median and range over the seeds), and the reason when it fails.

    A claim holds when it holds for each of the `seeds`; `held` is the number of seeds for which it does.
    """

    verdict: Conclusion
    measured: str
    reason: str = ""
    seeds: int = 1
    held: int = 0

    def figures(self, why: str) -> "Finding":
        """Return the measurements without a verdict on the claim, and why; what cannot be measured stays so."""
        if self.verdict is Conclusion.UNKNOWN:
            return self
        return replace(self, verdict=Conclusion.NONE, reason=why, held=0)


def concluded(findings: Sequence[SeedFinding]) -> Finding:
    """Return the verdict over the findings of all seeds. Without any record nothing can be measured."""
    if not findings:
        return Finding(Conclusion.UNKNOWN, "–", "nothing was simulated", 0)
    first = findings[0]
    if first.verdict is Conclusion.UNKNOWN:
        return Finding(first.verdict, first.template, first.reason, len(findings))
    tolerances = _tolerances(findings)
    held = sum(each.stands(tolerances) for each in findings)
    verdict = Conclusion.HOLDS if held == len(findings) else Conclusion.FAILS
    measured = spelled(findings)
    if tolerances:
        low, high = (f"{100 * tolerance:.2g}" for tolerance in (min(tolerances), max(tolerances)))
        measured += f"; equal means within {low if low == high else f'{low} to {high}'} %"
    reason = next((each.reason for each in findings if not each.stands(tolerances)), "")
    return Finding(verdict, measured, reason, len(findings), held)


def _tolerances(findings: Sequence[SeedFinding]) -> list[float]:
    """Return the tolerance of each equality: at most the experiment's and at most the spread between seeds."""
    tolerances = []
    for same in zip(*(each.alike for each in findings), strict=True):
        values, most = [each.value for each in same], min(each.most for each in same)
        middle = median(values)
        spread = (max(values) - min(values)) / abs(middle) if middle else 0.0
        tolerances.append(min(most, spread) if len(values) >= ENOUGH else most)
    return tolerances


def spelled(findings: Sequence[SeedFinding]) -> str:
    """Return the template with each number as its median over the seeds and, where they differ, its range."""
    template, columns = findings[0].template, list(zip(*(each.values for each in findings), strict=True))
    text, place = [], 0
    for literal, name, form, _ in Formatter().parse(template):
        text.append(literal)
        if name is not None:
            text.append(_number(columns[place], form or ""))
            place += 1
    return "".join(text)


def _number(values: Sequence[float], form: str) -> str:
    numbers = (min(values), median(values), max(values))
    low, middle, high = (format(value, form) if isfinite(value) else "never" for value in numbers)
    return middle if low == high else f"{middle} ({low} to {high})"
