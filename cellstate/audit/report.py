"""Is a live cell as its rules say? The judge behind ``omega cell verify``.

It reads through the port alone and keeps books of its own; it knows neither the store nor its twin.
Schedulers may commit meanwhile: what is judged is a picture of one version (`reading`) and the log
up to it (`replay`), and what a picture shows broken is reported only when a second one, read
afresh, shows it too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cellstate.audit.books import COMPARISONS
from cellstate.audit.reading import Picture, read
from cellstate.audit.replay import Replay
from cellstate.audit.rules import RULES, Violation
from cellstate.model import MachineState
from cellstate.snapshot import Audited

__all__ = ["Report", "Violation", "verify"]

READINGS = 6
"""Attempts at an exact picture before the cell is said to change too fast."""
CHUNK = 250
"""Versions of the log read at once."""
MARGIN = 256
"""Versions left out at the old end when the log is trimmed faster than its first chunk is read."""

Found = dict[tuple[str, str], list[Violation]]
"""By rule and place."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification found.

    `settled`: whether the cell could be read exactly; if not, only the log was judged. `version`: the
    version that was judged; `log_from_version`: the oldest one whose facts were.
    """

    checked: Mapping[str, int]
    """How many machines, tasks (of all jobs that are kept), jobs and facts were looked at."""
    violations: tuple[Violation, ...]
    settled: bool
    version: int
    log_from_version: int

    @property
    def ok(self) -> bool:
        """Whether every invariant holds; False also when the cell could not be read exactly."""
        return self.settled and not self.violations

    def as_json(self) -> dict[str, Any]:
        """The report as plain values, under the names of ``omega cell verify --json``."""
        return {
            "ok": self.ok,
            "checked": {name: self.checked[name] for name in ("machines", "tasks", "jobs")},
            "violations": [violation._asdict() for violation in self.violations],
            "settled": self.settled,
            "version": self.version,
            "log": {"from_version": self.log_from_version, "facts": self.checked["facts"]},
        }


class _Log:
    """Follows a cell's log into a replay; begins anew when the log was trimmed under its hands."""

    def __init__(self, cell: Audited) -> None:
        self.cell, self.margin = cell, 0
        self.begin()

    def begin(self) -> None:
        now = self.cell.snapshot(0, 0)
        first = min(now.first + self.margin, now.version + 1) if now.first > 1 else now.first
        self.at = first - 1
        self.replay = Replay(len(self.cell.dimensions), first)

    def follow(self, to: int | None = None) -> bool:
        """Replay up to version `to`, or the newest; False when facts were trimmed before they were read."""
        target = self.cell.snapshot(0, 0).version if to is None else to
        if target < self.at:
            return self.lose()
        while self.at < target:
            most = min(CHUNK, target - self.at)
            facts = self.cell.facts(self.at, most)
            if self.cell.snapshot(target, 0).first > self.at + 1:
                return self.lose()
            self.replay.feed([fact for fact in facts if fact.version <= target])
            self.at += most
        return True

    def lose(self) -> bool:
        self.margin = 2 * self.margin or MARGIN
        self.begin()
        return False


def verify(cell: Audited) -> Report:
    """Check every invariant on a cell, which schedulers may be changing. Raises StoreError."""
    log = _Log(cell)
    suspected: Found | None = None
    for _ in range(READINGS):
        # The log is trimmed at its old end, so that end is read before the cell.
        if not log.follow():
            continue
        picture = read(cell)
        if picture is None or not log.follow(picture.version):
            continue
        found = judge(picture, log.replay)
        if suspected is not None:
            found = {key: violations for key, violations in found.items() if key in suspected}
        elif found:
            suspected = found
            continue
        return _report(picture, log.replay, found, settled=True)
    return _report(Picture(len(cell.dimensions), version=log.at), log.replay, {}, settled=False)


def judge(picture: Picture, replay: Replay) -> Found:
    """Apply every rule to a picture and to the log up to its version; what is found by rule and place."""
    found: Found = {}
    for rule in RULES:
        for violation in rule(picture):
            found.setdefault((rule.__name__, violation.where), []).append(violation)
    for comparison in COMPARISONS:
        for violation in comparison(picture, replay):
            found.setdefault((comparison.__name__, violation.where), []).append(violation)
    return found


def _report(picture: Picture, replay: Replay, found: Found, *, settled: bool) -> Report:
    gone = int(MachineState.GONE)
    checked = {
        "machines": sum(row[2] != gone for row in picture.rows.values()),
        "tasks": sum(group.total for job in picture.jobs.values() for group in job.groups),
        "jobs": len(picture.jobs),
        "facts": replay.facts,
    }
    all_found = {violation for violations in found.values() for violation in violations} | set(replay.violations)
    in_order = sorted(all_found, key=lambda v: (v.invariant, v.where, v.what))
    return Report(checked, tuple(in_order), settled, picture.version, replay.start)
