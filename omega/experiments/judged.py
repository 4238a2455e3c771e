"""A claim with what was measured of it, and the verdict by intervals (docs/decisions/0060)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nextafter

from omega.experiments.bootstrap import FEWEST_JOBS, Interval, sums_of
from omega.experiments.finding import Conclusion
from omega.experiments.results import Record

ABOVE_0, ABOVE_1 = nextafter(0, 1), nextafter(1, 2)
"""Equal values confirm no effect."""
STRADDLES = "the interval of a measured value includes a bound of the expectation"


@dataclass(slots=True, kw_only=True)
class Judged:
    """A claim with what was measured of it.

    It holds if each measured interval is within its bounds, and fails if one is outside. Otherwise it is undecided.
    Fewer than `FEWEST_JOBS` jobs in a run decide nothing.
    """

    name: str
    figure: int
    claim: str
    source: str
    expectation: str
    otherwise: str = ""
    """Reason if the claim does not hold."""
    fitted: str = ""
    """Inputs that were fitted; the claim is then no evidence."""
    measured: list[str] = field(default_factory=list)
    _verdicts: list[Conclusion] = field(default_factory=list)
    fewest: int | None = None
    """Smallest number of jobs in a run that it uses."""

    def use(self, records: Sequence[Record], kind: str) -> None:
        """Count the jobs of a kind of records that the claim uses."""
        jobs = sums_of(records, kind).jobs
        self.fewest = jobs if self.fewest is None else min(self.fewest, jobs)

    def within(self, text: str, value: Interval, low: float = -inf, high: float = inf, form: str = ".2f") -> None:
        """Add a measurement, which must be from `low` to `high`; `ABOVE_1` and `ABOVE_0` exclude what is equal."""
        self.measured.append(f"{text}: {value.text(form)}")
        if not isfinite(value.value):
            self._verdicts.append(Conclusion.UNKNOWN)
        elif value.low >= low and value.high <= high and low <= value.value <= high:
            self._verdicts.append(Conclusion.HOLDS)
        elif value.high < low or value.low > high:
            self._verdicts.append(Conclusion.FAILS)
        else:
            self._verdicts.append(Conclusion.UNDECIDED)

    def want(self, text: str, *, holds: bool) -> None:
        """Add a condition without an interval."""
        self.measured.append(text)
        self._verdicts.append(Conclusion.HOLDS if holds else Conclusion.FAILS)

    @property
    def verdict(self) -> Conclusion:
        """The verdict."""
        found = set(self._verdicts)
        if found and self.fewest is not None and self.fewest < FEWEST_JOBS:
            return Conclusion.INSUFFICIENT
        if not found or Conclusion.UNKNOWN in found:
            return Conclusion.UNKNOWN
        order = (Conclusion.FAILS, Conclusion.UNDECIDED, Conclusion.HOLDS)
        return next(each for each in order if each in found)

    @property
    def reason(self) -> str:
        """Why it does not hold; ``""`` if it holds."""
        if self.verdict is Conclusion.INSUFFICIENT:
            return f"a run has {self.fewest:,} jobs, and at least {FEWEST_JOBS} decide"
        if self.verdict is Conclusion.UNDECIDED:
            return STRADDLES
        if self.verdict is Conclusion.UNKNOWN:
            return "nothing of it was simulated, or what it is compared with never occurred"
        return self.otherwise if self.verdict is Conclusion.FAILS else ""

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "name": self.name, "figure": self.figure, "claim": self.claim, "source": self.source,
            "expectation": self.expectation, "measured": self.measured, "verdict": str(self.verdict),
            "reason": self.reason, "fitted": self.fitted, "jobs": self.fewest,
        }  # fmt: skip
