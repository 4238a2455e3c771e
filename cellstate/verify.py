"""The verification of a live cell, behind ``omega cell verify``.

It reads through the port alone and keeps its own books, independent of the store and its twin. Schedulers may commit
meanwhile: it checks the cell's state at one version (`invariants`), what follows from that (`derive`) and the log up to
it, and reports a violation of the state only when further, independent readings show it too.
"""

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate.cuts import Cut, Cuts
from omega.cellstate.derive import Difference, differences
from omega.cellstate.fold import Books
from omega.cellstate.invariants import GROUP_RULES, OF_MEMORY, RULES, Violation, groups_of
from omega.cellstate.log_rules import LOG_RULES, LOG_RULES_OF_MEMORY, claims_with_constraints
from omega.cellstate.model import MachineState
from omega.cellstate.ports import Audited
from omega.cellstate.primary import Primary, Reading

SHOWN = 16
"""Bytes of a record that a violation shows."""
READINGS = 9
"""Maximum number of attempts at an exact reading before the cell counts as changing too fast."""
CONFIRMATIONS = 4
"""Readings that show a violation while the cell changes; two where nothing changed during the last one.

Large indexes are read key by key. A job that is placed and evicted all the time may by chance differ from its entry,
which was read a moment before, also twice in a row.
"""
CHUNK, FACTS = 250, 10_000
"""Versions of the log per read at most, and facts that a read should have at most: a version may place 5,000 tasks."""
MARGIN = 256
"""Number of versions skipped at the old end when the log is trimmed faster than its first chunk is read."""

Told = Callable[[str], object]
"""Called with what is being read or checked."""
ByPlace = dict[tuple[str, str], list[Violation]]
"""By rule and place."""
INDEXES, UNREADABLE = "indexes", "records_are_readable"
"""The rules of what follows from primary records, and of records that cannot be read."""
_OF_JOBS = ("jobnames", "pending", "waiters", "housekeeping")
"""Indexes of which invariant 4 says what they hold."""


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
        self.books = Books(len(self.cell.dimensions), first)

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
            self.books.feed([fact for fact in facts if fact.version <= target])
            self.books.forget(self.floor)
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
        reading, by_place = looked
        suspected = {key: each for key, each in by_place.items() if not shown or key in suspected}
        shown += 1
        if not suspected or shown >= (CONFIRMATIONS if reading.primary.aged else 2):
            return _report(reading.primary, log.books, suspected, settled=True, cuts=cell.cuts())
    unread = Primary(resources=tuple(cell.dimensions.names), version=log.at)
    return _report(unread, log.books, {}, settled=False, cuts=cell.cuts())


def look(cell: Audited, log: Log) -> tuple[Reading, ByPlace] | None:
    """Read the cell once and check it. None when it changes too fast to be read."""
    # The log is trimmed at its old end, so that end is read before the cell.
    if not log.follow():
        return None
    cell.unreadable.clear()
    reading = cell.read_records(log.told)
    if reading is None or not log.follow(reading.primary.version):
        return None
    log.told("rules")
    damaged = [Violation(6, what, f"{key} {name}".rstrip()) for key, name, what in reading.primary.damaged]
    damaged += [Violation(6, what, f"{key} {name}") for (key, name), what in log.unreadable.items()]
    by_place = check(reading, log.books)
    _apply(by_place, UNREADABLE, damaged)
    return reading, by_place


def check(reading: Reading, books: Books) -> ByPlace:
    """Apply every rule to a cell, its indexes and the log up to its version; return violations by rule, place."""
    by_place: ByPlace = {}
    primary = reading.primary
    whole = reading.kept is None
    for rule in RULES if whole else OF_MEMORY:
        _apply(by_place, rule.__name__, rule(primary))
    for group in groups_of(primary):
        for group_rule in GROUP_RULES:
            _apply(by_place, group_rule.__name__, group_rule(primary, group))
    _apply(by_place, INDEXES, map(_violation, differences(reading)))
    for log_rule in LOG_RULES if whole else LOG_RULES_OF_MEMORY:
        _apply(by_place, log_rule.__name__, log_rule(primary, books))
    return by_place


def _violation(difference: Difference) -> Violation:
    """Return a difference between an index and primary records as a violation."""
    key, name, expected, stored = difference
    if stored is None:
        what = f"is not there, by the records it is {_said(expected)}"
    elif expected is None:
        what = f"is {_said(stored)}, and no record gives it"
    else:
        what = f"is {_said(stored)}, by the records {_said(expected)}"
    return Violation(4 if key.partition(":")[0] in _OF_JOBS else 6, what, f"{key} {name.decode(errors='replace')}")


def _said(value: bytes | float | None) -> str:
    """Return a stored value for a person: text in quotes, else its first bytes and their number."""
    if isinstance(value, (int, float)):
        return f"{value:.15g}"
    text = (value or b"").decode(errors="replace")
    return repr(text) if text.isprintable() else f"{(value or b'')[:SHOWN].hex(' ')}… ({len(value or b'')} bytes)"


def _apply(by_place: ByPlace, rule: str, violations: Iterable[Violation]) -> None:
    """Add a rule's violations; a record that the rule cannot interpret is a violation as well."""
    try:
        for violation in violations:
            by_place.setdefault((rule, violation.where), []).append(violation)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        what = f"the rule {rule} meets a record that it cannot read: {error}"
        by_place.setdefault((rule, "cell"), []).append(Violation(6, what, "cell"))


def _report(primary: Primary, books: Books, by_place: ByPlace, *, settled: bool, cuts: Cuts) -> Report:
    checked = {
        "machines": sum(row[2] != MachineState.GONE for row in primary.rows.values()),
        "tasks": sum(group.total for job in primary.jobs.values() for group in job.groups),
        "jobs": len(primary.jobs),
        "facts": books.facts,
    }
    distinct = {violation for violations in by_place.values() for violation in violations} | set(books.violations)
    in_order = sorted(distinct, key=lambda v: (v.invariant, v.where, v.what))
    evictions = {"sets": books.sets, "checked": books.checked_sets}
    constraints = claims_with_constraints(primary, books)
    version = primary.version
    return Report(checked, tuple(in_order), settled, version, books.start, evictions, constraints, tuple(cuts.kept))
