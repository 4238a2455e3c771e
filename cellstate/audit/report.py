"""The verification of a live cell, behind ``omega cell verify``.

It reads through the port alone and keeps its own books, independent of the store and its twin. Schedulers may commit
meanwhile: it checks the cell's state at one version (`reading`) and the log up to it (`replay`), and reports a
violation of the state only when further, independent readings show it too.
"""

import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate.audit.books import COMPARISONS
from omega.cellstate.audit.directories import DIRECTORIES
from omega.cellstate.audit.reading import CellState, Told, read
from omega.cellstate.audit.replay import Replay
from omega.cellstate.audit.rules import RULES, Violation
from omega.cellstate.audit.sources import SOURCES
from omega.cellstate.cuts import Cut, Cuts
from omega.cellstate.inspection import Damage, Inspection
from omega.cellstate.model import MachineState
from omega.cellstate.ports import Audited

READINGS = 9
"""Maximum number of attempts at an exact reading before the cell counts as changing too fast."""
CONFIRMATIONS = 4
"""Readings that show a violation while the cell changes; two where nothing changed during the last one.

Directories are read key by key. A job that is placed and evicted all the time may by chance differ from its directory
entry, which was read a moment before, also twice in a row.
"""
CHUNK, FACTS = 250, 10_000
"""Versions of the log per read at most, and facts that a read should have at most: a version may place 5,000 tasks."""
MARGIN = 256
"""Number of versions skipped at the old end when the log is trimmed faster than its first chunk is read."""

ByPlace = dict[tuple[str, str], list[Violation]]
"""By rule and place."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a verification.

    `settled`: whether the cell could be read exactly; if not, only the log was checked. `version`: the checked version;
    `log_from_version`: the oldest version with checked facts.
    """

    checked: Mapping[str, int]
    """Number of checked machines, tasks (of all stored jobs), jobs and facts."""
    violations: tuple[Violation, ...]
    settled: bool
    version: int
    log_from_version: int
    evictions: Mapping[str, int] = field(default_factory=dict)
    """Number of eviction sets between pools in the log, and of those checked on the copy that they were decided on."""
    constraints: Mapping[str, int] = field(default_factory=dict)
    """Number of claims in the log for groups with constraints, and of those checked on their machine's attributes."""
    cuts: tuple[Cut, ...] = ()
    """Reports of versions that the store lost: the history before and after each is checked as one."""

    @property
    def ok(self) -> bool:
        """Whether every invariant holds; False also when the cell could not be read exactly."""
        return self.settled and not self.violations

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values, under the names of ``omega cell verify --json``."""
        return {
            "ok": self.ok,
            "checked": {name: self.checked[name] for name in ("machines", "tasks", "jobs")},
            "violations": [violation._asdict() for violation in self.violations],
            "settled": self.settled,
            "version": self.version,
            "log": {"from_version": self.log_from_version, "facts": self.checked["facts"]},
            "evictions": dict(self.evictions),
            "constraints": dict(self.constraints),
            "cuts": [cut.as_json() for cut in self.cuts],
        }


class Log:
    """Replays a cell's log; restarts when the log was trimmed during the reading."""

    def __init__(self, cell: Audited, told: Told = str, since: int = 0) -> None:
        """Begin with the oldest version in the log that is after `since`."""
        self.cell, self.told, self.since, self.margin = cell, told, since, 0
        self.chunk = 1
        self.unreadable: dict[tuple[str, str], str] = {}
        self.begin()

    def begin(self) -> None:
        """Restart, a margin after the oldest version once it was trimmed during the reading."""
        now = self.cell.changed_records(0, 0)
        oldest = now.first + self.margin if now.first > 1 else now.first
        first = min(max(oldest, self.since + 1), now.version + 1)
        self.at, self.floor = first - 1, self.cell.counters()["floor"]
        self.replay = Replay(len(self.cell.dimensions), first)

    def follow(self, to: int | None = None) -> bool:
        """Replay up to version `to`, or the newest; return False when facts were trimmed before they were read."""
        target = self.cell.changed_records(0, 0).version if to is None else to
        if target < self.at:
            return self.lose()
        while self.at < target:
            most = min(self.chunk, target - self.at)
            self.cell.unreadable.clear()
            facts = self.cell.facts(self.at, most)
            self.unreadable |= self.cell.unreadable
            if self.cell.changed_records(target, 0).first > self.at + 1:
                return self.lose()
            self.replay.feed([fact for fact in facts if fact.version <= target])
            self.replay.register.forget(self.floor)
            self.at += most
            self.chunk = max(1, min(CHUNK, self.chunk * FACTS // (len(facts) + FACTS // 2)))
            self.told(f"version {self.at:,} of {target:,} of the log")
        return True

    def lose(self) -> bool:
        """Restart with a larger margin."""
        self.margin = 2 * self.margin or MARGIN
        self.begin()
        return False


def verify(cell: Audited, told: Told = str, since: int = 0) -> Report:
    """Check every invariant on a cell, which schedulers may be changing. Raises StoreError.

    `told` is called with what is being read or checked. Facts up to version `since` are not checked.
    """
    collects = gc.isenabled()
    gc.disable()  # it would search millions of records that live as long as the verification
    try:
        return _verify(cell, told, since)
    finally:
        if collects:
            gc.enable()


def _verify(cell: Audited, told: Told, since: int) -> Report:
    if unusable := cell.unusable():
        wrong = tuple(Violation(6, what, f"{key} {name}".rstrip()) for key, name, what in unusable)
        return Report(dict.fromkeys(("machines", "tasks", "jobs", "facts"), 0), wrong, True, 0, 0)
    log = Log(cell, told, since)
    suspected, shown = ByPlace(), 0
    for _ in range(READINGS):
        looked = look(cell, log)
        if looked is None:
            continue
        cell_state, by_place, still = looked
        suspected = {key: each for key, each in by_place.items() if not shown or key in suspected}
        shown += 1
        if not suspected or shown >= (2 if still else CONFIRMATIONS):
            return _report(cell_state, log.replay, suspected, settled=True, cuts=cell.cuts())
    unread = CellState(len(cell.dimensions), version=log.at)
    return _report(unread, log.replay, {}, settled=False, cuts=cell.cuts())


def look(cell: Audited, log: Log) -> tuple[CellState, ByPlace, bool] | None:
    """Read the cell once and check it; True with it if nothing changed. None when it changes too fast to be read."""
    # The log is trimmed at its old end, so that end is read before the cell.
    if not log.follow():
        return None
    cell.unreadable.clear()
    log.told("indexes")
    inspection = cell.inspect()
    cell_state = read(cell, log.told)
    if cell_state is None or not log.follow(cell_state.version):
        return None
    log.told("rules")
    machines = log.replay.constraints.machines(cell_state.jobs)
    cell_state.described = dict(zip(machines, cell.described(machines), strict=True))
    damaged = cell_state.set_aside()
    if inspection is not None:
        inspection.damaged += damaged
        inspection.damaged += [Damage(*place, what) for place, what in (cell.unreadable | log.unreadable).items()]
    still = inspection is None or inspection.version == cell_state.version
    return cell_state, check(cell_state, log.replay, inspection), still


def check(cell_state: CellState, replay: Replay, inspection: Inspection | None) -> ByPlace:
    """Apply every rule to a cell, its directories and the log up to its version; return violations by rule, place."""
    by_place: ByPlace = {}
    for rule in RULES:
        _apply(by_place, rule.__name__, rule(cell_state))
    for comparison in COMPARISONS:
        _apply(by_place, comparison.__name__, comparison(cell_state, replay))
    if inspection is None:
        return by_place
    for directory in DIRECTORIES:
        _apply(by_place, directory.__name__, directory(inspection, cell_state, replay.register))
    for source in SOURCES:
        _apply(by_place, source.__name__, source(inspection, cell_state, replay))
    return by_place


def _apply(by_place: ByPlace, rule: str, violations: Iterator[Violation]) -> None:
    """Add a rule's violations; a record that the rule cannot interpret is a violation as well."""
    try:
        for violation in violations:
            by_place.setdefault((rule, violation.where), []).append(violation)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        what = f"the rule {rule} meets a record that it cannot read: {error}"
        by_place.setdefault((rule, "cell"), []).append(Violation(6, what, "cell"))


def _report(cell_state: CellState, replay: Replay, by_place: ByPlace, *, settled: bool, cuts: Cuts) -> Report:
    gone = int(MachineState.GONE)
    checked = {
        "machines": sum(row[2] != gone for row in cell_state.rows.values()),
        "tasks": sum(group.total for job in cell_state.jobs.values() for group in job.groups),
        "jobs": len(cell_state.jobs),
        "facts": replay.facts,
    }
    distinct = {violation for violations in by_place.values() for violation in violations} | set(replay.violations)
    in_order = sorted(distinct, key=lambda v: (v.invariant, v.where, v.what))
    evictions = {"sets": replay.decisions.number, "checked": replay.decisions.checked}
    constraints = {"claims": replay.constraints.number, "checked": replay.constraints.checked}
    version = cell_state.version
    return Report(checked, tuple(in_order), settled, version, replay.start, evictions, constraints, tuple(cuts.kept))
