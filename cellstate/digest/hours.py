"""Use of a cell by account in sums of an hour: what tasks held, how many began and ended, and how long jobs waited.

An account is a kind, user and pool. What tasks held is an integral over time, so a task counts while it runs. Times are
those of the log, which come from many clocks: they never go back, and never beyond the server's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import msgpack

HOUR_MS = 3_600_000
KEPT_HOURS = 90 * 24
MOST_ACCOUNTS = 500
"""Accounts of an hour; the use of further ones is counted as that of `OTHERS`."""
MOST_GAPS = 20
COUNTS = ("started", "finished", "failed", "stopped", "evicted", "lost", "waits", "wait_ms")
"""Numbers of an account: tasks, except `waits`: jobs that were placed first, and how long they had waited."""
LARGEST = (1 << 63) - 1


class Owner(NamedTuple):
    """An account: whose use it is."""

    kind: str
    user: str = ""
    pool: str = ""


GONE = Owner("?", "?", "?")
"""The account of jobs that were deleted before their tasks were counted."""
OTHERS = Owner("…", "…", "…")


class Settled(IntEnum):
    """Whether the levels are those of the cell."""

    YES = 0
    DOUBTED = 1
    """Tasks of a deleted job ended: the levels are to be compared with the cell."""
    NO = 2
    """Entries of the log are missing: until the levels were read again, nothing is known of what tasks hold."""


@dataclass(slots=True)
class Position:
    """How far the log was read: its version, the time then, and what the tasks of each account held."""

    version: int = 0
    at_ms: int = 0
    settled: Settled = Settled.YES
    since_order: int = 0
    """The number of the last submission before the last gap: of later jobs everything was read."""
    levels: dict[Owner, list[int]] = field(default_factory=dict)

    @classmethod
    def unpack(cls, record: bytes) -> "Position":
        """Read a record; an empty one is the begin. Raises ValueError."""
        if not record:
            return cls()
        version, at_ms, settled, order, levels = unpacked(record, int, int, int, int, dict)
        held = {_owner(name): _amounts(amounts) for name, amounts in levels.items()}
        return cls(version, at_ms, Settled(settled), order, held)

    def pack(self) -> bytes:
        """Return the record; accounts that hold nothing are left out."""
        levels = {"\n".join(owner): held for owner, held in self.levels.items() if any(held)}
        record: bytes = msgpack.packb([self.version, self.at_ms, int(self.settled), self.since_order, levels])
        return record


@dataclass(slots=True)
class Hour:
    """The sums of an hour, and spans of it (ms) in which what tasks held is unknown."""

    uses: dict[Owner, list[int]] = field(default_factory=dict)
    gaps: list[list[int]] = field(default_factory=list)

    @classmethod
    def unpack(cls, record: bytes) -> "Hour":
        """Read a record. Raises ValueError."""
        uses, gaps = unpacked(record, dict, list)
        numbers = {_owner(name): _amounts(each, floats=True) for name, each in uses.items()}
        return cls(numbers, [[begin, end] for begin, end in map(_amounts, gaps)])

    def pack(self) -> bytes:
        """Return the record. A number beyond 63 bits is kept as a float."""
        numbers = {"\n".join(owner): list(map(_number, each)) for owner, each in self.uses.items()}
        record: bytes = msgpack.packb([numbers, self.gaps])
        return record

    def of(self, owner: Owner, size: int) -> list[int]:
        """Return the numbers of an account, `COUNTS` and an amount × ms of each resource."""
        known = self.uses.get(owner)
        if known is None:
            if len(self.uses) >= MOST_ACCOUNTS:
                owner = OTHERS
            known = self.uses.setdefault(owner, [0] * size)
        return known

    def add_gap(self, from_ms: int, to_ms: int) -> None:
        """Note a span; spans that touch, and too many of them, are joined."""
        if self.gaps and (self.gaps[-1][1] >= from_ms or len(self.gaps) >= MOST_GAPS):
            self.gaps[-1][1] = max(self.gaps[-1][1], to_ms)
        else:
            self.gaps.append([from_ms, to_ms])


class Ledger:
    """The hours that a step of the digest changes."""

    def __init__(self, position: Position, dimensions: int, stored: Callable[[int], bytes]) -> None:
        """Continue at `position`; `stored` returns the record of an hour, empty without one."""
        self.position, self._size, self._stored = position, len(COUNTS) + dimensions, stored
        self._dimensions = dimensions
        self.hours: dict[int, Hour] = {}
        self._since: dict[Owner, int] = {}
        self._begun = 0
        self._hour, self._current = -1, dict[Owner, list[int]]()

    def _sums(self, hour: int, owner: Owner) -> list[int]:
        """Return the numbers of an account in an hour."""
        return self._at(hour).of(owner, self._size)

    def _at(self, hour: int) -> Hour:
        known = self.hours.get(hour)
        if known is None:
            record = self._stored(hour)
            known = self.hours[hour] = readable(Hour.unpack, record, Hour()) if record else Hour()
        return known

    def sums(self, owner: Owner) -> list[int]:
        """Return the numbers of an account in the present hour, to be added to."""
        known = self._current.get(owner)
        if known is None:
            known = self._current[owner] = self._sums(self._hour, owner)
        return known

    def begin(self) -> None:
        """Begin at the present time: the levels held from then on."""
        self._begun = self.position.at_ms

    def move_to(self, at_ms: int, now_ms: int) -> None:
        """Set the present time: never earlier than before, never later than `now_ms`."""
        position = self.position
        at_ms = max(position.at_ms, min(at_ms, now_ms))
        position.at_ms = at_ms
        if at_ms // HOUR_MS != self._hour:
            self._hour = at_ms // HOUR_MS
            self._current.clear()

    def change(self, owner: Owner, need: Sequence[int], tasks: int) -> None:
        """Tasks of an account were placed, or (below 0) ended, at the present time."""
        levels = self.position.levels
        level = levels.get(owner)
        if level is None:
            level = levels[owner] = [0] * self._dimensions
        if self._since.get(owner, self._begun) != self.position.at_ms:
            self._integrate(owner, level)
        for at, amount in enumerate(need):
            level[at] += amount * tasks

    def _integrate(self, owner: Owner, level: Sequence[int]) -> None:
        now = self.position.at_ms
        since, self._since[owner] = max(self._since.get(owner, self._begun), now - KEPT_HOURS * HOUR_MS), now
        while since < now and any(level) and self.position.settled is not Settled.NO:
            to = min(now, (since // HOUR_MS + 1) * HOUR_MS)
            sums = self._sums(since // HOUR_MS, owner)
            for at, amount in enumerate(level, len(COUNTS)):
                sums[at] += max(0, amount) * (to - since)
            since = to

    def close(self) -> None:
        """Integrate all accounts up to the present time, and note the gap of unknown levels."""
        for owner, level in self.position.levels.items():
            if any(level):
                self._integrate(owner, level)
        now = self.position.at_ms
        since = max(self._begun, now - KEPT_HOURS * HOUR_MS)
        while self.position.settled is Settled.NO and since < now:
            to = min(now, (since // HOUR_MS + 1) * HOUR_MS)
            self._at(since // HOUR_MS).add_gap(since, to)
            since = to


Value = TypeVar("Value")


def readable(read: Callable[[bytes], Value], record: bytes, otherwise: Value) -> Value:
    """Return what `read` returns of a record, or `otherwise`: a damaged record is replaced by the next step."""
    try:
        return read(record)
    except ValueError:
        return otherwise


def unpacked(record: bytes, *types: type) -> list[Any]:
    """Return the values of a record, which have these types. Raises ValueError."""
    try:
        values = msgpack.unpackb(record)
    except (TypeError, msgpack.UnpackException) as error:
        raise ValueError(f"not readable: {error}") from None
    if not isinstance(values, list) or [type(value) for value in values] != list(types):
        raise ValueError(f"not {len(types)} values of the right types")
    return values


def _amounts(values: object, *, floats: bool = False) -> list[int]:
    """Return a list of numbers. Raises ValueError."""
    if not isinstance(values, list) or any(
        type(each) is not int and not (floats and type(each) is float) for each in values
    ):
        raise ValueError("not a list of numbers")
    return [int(each) for each in values]


def _owner(name: object) -> Owner:
    words = name.split("\n") if isinstance(name, str) else []
    if len(words) != len(Owner._fields):
        raise ValueError(f"{name!r} is no account")
    return Owner(*words)


def _number(number: int) -> int | float:
    return number if number <= LARGEST else float(number)


def total(uses: Mapping[Owner, Sequence[int]], size: int) -> list[int]:
    """Return the sums of some accounts."""
    sums = [0] * size
    for numbers in uses.values():
        for at, number in enumerate(numbers):
            sums[at] += number
    return sums
