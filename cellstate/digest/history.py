"""The history of a job: what of the log concerns it, in a record of bounded size.

Housekeeping adds the entries of the log; a reader adds those that housekeeping has not reached yet, by the same rules.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgpack

from omega.cellstate.digest.hours import unpacked
from omega.cellstate.events import Conflict, End, Fail, Outcome, Place, job_of, reason_of, tasks_of

if TYPE_CHECKING:
    from omega.cellstate.events import Fact
    from omega.cellstate.model import Job

MOST_EVENTS, MOST_BYTES = 64, 6_000
"""Events that are kept, and their size; the newest."""
MOST_SINGLE = 3
"""Events of one sort and version that are kept one by one: of more, their number."""
LONGEST = 300
"""Size of an event's words; a longer one is kept as a number of tasks."""
MOST_NAMES = 16
"""Names in each count of a record; the rest is counted under `OTHERS`."""
MOST_REASONS = 120
"""Reasons of failures that are told apart; others have number 0."""
OTHERS = "…"
RETURNS = frozenset({"lost", "retried", "evicted"})
"""Ends of tasks that are placed again, unless the fact after says otherwise."""
FAILS = frozenset({"failed", "retried", "fail"})
WITH_REASON = FAILS | {"left"}
"""Facts whose reason results have."""
QUIET = frozenset({"finished", "left"})
"""Facts of which only the numbers are kept: results have the rest."""
_OF_FAILURES, _ATTEMPTS = (End, Fail), (Place, Conflict)
UNIMPORTANT = frozenset({"submit", "attempt", "awaited"})
"""Facts that do not begin a record: a pending job has none."""
Kept: TypeAlias = list[Any]
"""Version, time, author, words, basis, and of a conflict (author, version, word, job) of the earlier change."""


@dataclass(slots=True, kw_only=True)
class History:
    """The history of a job. `attempts` are its transactions, `conflicts` those of them with a conflict."""

    user: str = ""
    pool: str = ""
    attempts: int = 0
    conflicts: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    """Number of lost tasks by group."""
    again: int = 0
    """Tasks placed beyond the first time: restarts elsewhere, after an eviction or a loss."""
    returned: int = 0
    first_placed_ms: int = 0
    last: list[int] = field(default_factory=lambda: [0, 0])
    """Version of the last attempt, and of the last conflict."""
    by: list[str] = field(default_factory=list)
    evicted_for: dict[str, int] = field(default_factory=dict)
    """Number of its evicted tasks, by the id of the job that evicted them."""
    evicted: dict[str, int] = field(default_factory=dict)
    """Number of tasks that it evicted, by the id of their job."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed tasks by group and reason: ``0 exit 3``, ``2 command not found: …``; ``* exit 3`` of further groups."""
    reasons: list[str] = field(default_factory=list)
    """The reasons of failed tasks as results number them, from 1."""
    events: list[Kept] = field(default_factory=list)

    @classmethod
    def of(cls, job: "Job") -> "History":
        """Return the history of a job with which nothing has happened."""
        user, pool = (str(job.spec.get(name) or "") for name in ("user", "pool"))
        return cls(user=user, pool=pool)

    @classmethod
    def unpack(cls, record: bytes) -> "History":
        """Read a record. Raises ValueError."""
        history = cls(**dict(zip(cls.__slots__, unpacked(record, *_TYPES), strict=True)))
        for each in history.events:
            shape = [type(value) for value in each[:4]] == [int, int, str, str] and len(each) == 6 and each[3] != ""
            if not shape or not all(
                value is None or (isinstance(value, list) and len(value) == size)
                for value, size in zip(each[4:], (2, 4), strict=True)
            ):
                raise ValueError(f"{each!r} is no event")
        names = [
            pair
            for each in (history.lost, history.evicted_for, history.evicted, history.failures)
            for pair in each.items()
        ]
        if any(type(name) is not str or type(count) is not int for name, count in names):
            raise ValueError("a count without name")
        if any(type(name) is not str for name in (*history.by, *history.reasons)) or len(history.last) != 2:
            raise ValueError("a name that is no text")
        return history

    def pack(self) -> bytes:
        """Return the record."""
        self._bound()
        record: bytes = msgpack.packb([getattr(self, name) for name in self.__slots__])
        return record

    def reason(self, text: str) -> int:
        """Return the number of a reason of failed tasks; 0 when there are too many."""
        text = text[:LONGEST]
        if text in self.reasons:
            return self.reasons.index(text) + 1
        if len(self.reasons) >= MOST_REASONS:
            return 0
        self.reasons.append(text)
        return len(self.reasons)

    def failures_of(self, groups: Collection[int]) -> dict[str, int]:
        """Return the failed tasks of these groups by reason, and those of which the record does not know the group."""
        counts: dict[str, int] = {}
        for name, count in self.failures.items():
            group, _, reason = name.partition(" ")
            if not group.isdecimal() or int(group) in groups:
                reason = reason or OTHERS
                counts[reason] = counts.get(reason, 0) + count
        return counts

    def lost_of(self, groups: Collection[int]) -> int:
        """Return the number of lost tasks of these groups, and of further ones of which the record has only the sum."""
        return sum(count for group, count in self.lost.items() if not group.isdecimal() or int(group) in groups)

    def add_eviction(self, victim: str, count: int) -> None:
        """Count tasks of another job that it evicted."""
        _add(self.evicted, victim, count)

    def add(self, fact: "Fact", winner: "Fact | None" = None) -> None:
        """Add a fact of the job; `winner`: of a conflict, the earlier change of the machine."""
        event = fact.event
        word = event.word
        if word in QUIET:
            return
        count = tasks_of(event)
        if isinstance(event, _OF_FAILURES) and word in FAILS and (reason := reason_of(event)):
            self._add_failure(event.group, reason, count)
        if isinstance(event, Fail) or (isinstance(event, Outcome) and word == "promote" and event.how in RETURNS):
            self.returned = max(0, self.returned - count)
        elif isinstance(event, End) and word in RETURNS:
            if word == "lost":
                _add(self.lost, str(event.group), count)
            self.returned += count
            if other := event.winner:
                _add(self.evicted_for, other, count)
        elif isinstance(event, _ATTEMPTS):
            self._attempted(fact, conflict=isinstance(event, Conflict))
            if isinstance(event, Place):
                back = min(count, self.returned)
                self.again, self.returned = self.again + back, self.returned - back
                self.first_placed_ms = self.first_placed_ms or fact.at_ms
        self._keep(fact, count, winner)

    def _add_failure(self, group: int, reason: str, count: int) -> None:
        name = f"{group} {reason}"[:LONGEST]
        if name not in self.failures and len(self.failures) >= MOST_NAMES:
            name = f"* {reason}"
        _add(self.failures, name, count, 2 * MOST_NAMES)

    def _attempted(self, fact: "Fact", *, conflict: bool) -> None:
        for at, name in enumerate(("attempts", "conflicts")[: 1 + conflict]):
            if self.last[at] != fact.version:
                self.last[at] = fact.version
                setattr(self, name, getattr(self, name) + 1)
        if fact.by not in self.by and len(self.by) < MOST_NAMES:
            self.by.append(fact.by)

    def _keep(self, fact: "Fact", count: int, winner: "Fact | None") -> None:
        """Keep a fact as an event; further ones of its sort and version as numbers of events and tasks."""
        word, text, events = fact.event.word, fact.event.line, self.events
        same = [each for each in events[-MOST_SINGLE - 1 :] if each[0] == fact.version] if events else []
        summed = next((each for each in same if each[3].startswith(f"+ {word} ")), None)
        if summed is not None:
            _, _, number, tasks = summed[3].split(" ")
            summed[3] = f"+ {word} {int(number) + 1} {int(tasks) + count}"
            return
        if len(text) > LONGEST or sum(each[3].split(" ", 1)[0] == word for each in same) >= MOST_SINGLE:
            text = f"+ {word} 1 {count}"
        won = winner and [winner.by, winner.version, winner.event.word, job_of(winner.event)]
        basis = list(fact.basis[:2]) if fact.basis else None
        events.append([fact.version, fact.at_ms, fact.by, text, basis, won])
        if len(events) > 2 * MOST_EVENTS:
            self._bound()

    def _bound(self) -> None:
        size, kept = 0, 0
        if len(self.events) < MOST_BYTES // (2 * LONGEST):
            return
        for each in reversed(self.events[-MOST_EVENTS:]):
            size += 24 + len(each[2]) + len(each[3])
            if size > MOST_BYTES:
                break
            kept += 1
        del self.events[: len(self.events) - kept]


_TYPES = (str, str, int, int, dict, int, int, int, list, list, dict, dict, dict, list, list)
"""Types of the fields of a history."""
_FIRST_PLACED, _EVENTS = map(History.__slots__.index, ("first_placed_ms", "events"))


def start_and_end(record: bytes) -> tuple[int | None, int | None]:
    """Return when the first task of a job was placed and when the job ended, as far as its record has it.

    A list reads many records, and these values alone. Raises ValueError.
    """
    try:
        values = msgpack.unpackb(record, use_list=False)
        ends = (each[1] for each in reversed(values[_EVENTS]) if each[3].startswith("done "))
        return int(values[_FIRST_PLACED]) or None, int(next(ends, 0)) or None
    except (TypeError, IndexError, AttributeError, msgpack.UnpackException) as error:
        raise ValueError(f"not readable: {error}") from None


def _add(counts: dict[str, int], name: str, count: int, most: int = MOST_NAMES) -> None:
    name = name[:LONGEST]
    name = name if name in counts or len(counts) < most else OTHERS
    counts[name] = counts.get(name, 0) + count
