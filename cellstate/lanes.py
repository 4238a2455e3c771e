"""Lanes: the jobs of one kind, precedence, pool, user and class of expected duration, as the store counts them.

A snapshot has for each lane the number of pending jobs, their demand and the use of running tasks. So use by user and
pool is known, and a scheduler requests the next jobs of the few lanes that its policy ranks best
(docs/decisions/0019-lanes.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, log2
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from omega.cellstate.fairness import leaf_of
from omega.cellstate.replies import Rows
from omega.cellstate.resources import Resources
from omega.cellstate.usage import Account, Usage

BASE = 1 << 40
"""The index of lane 0 among the rows of the change list; those of machines are below."""
BUCKET_SPAN, LANE_SPAN = 1 << 33, 1 << 38
"""A score in a queue is lane × LANE_SPAN + bucket × BUCKET_SPAN + arrival."""
MOST_WANTED = 1 << 33
"""Upper bound of the counted demand of a task group, so that sums stay exact (lua/parts/lanes.lua)."""
MOST_LANES = 32_000
CLASSES = 4
"""Classes of expected duration for each doubling: within a class jobs are received by arrival."""


class Lane(NamedTuple):
    """The common properties of a lane's jobs; ``""`` is no pool, no user; `expected` the class of the duration."""

    kind: str
    precedence: int
    pool: str = ""
    user: str = ""
    expected: int | None = None

    def __str__(self) -> str:
        """Return the name under which the store keeps it."""
        return _name_of(*self)

    @classmethod
    def named(cls, name: str) -> "Lane":
        """Read the name of a lane."""
        kind, precedence, whose = name.split(" ")
        pool, user, expected = whose.split(",")
        return cls(kind, int(precedence), unquote(pool), unquote(user), int(expected) if expected else None)


@lru_cache(maxsize=4096)
def _name_of(kind: str, precedence: int, *whose: Any) -> str:
    pool, user, expected = whose
    said = "" if expected is None else expected
    return f"{kind} {precedence} {quote(pool, safe='')},{quote(user, safe='')},{said}"


@lru_cache(maxsize=1024)
def _nobodys(kind: str, precedence: int) -> Lane:
    return Lane(kind, precedence)


def lane_of(kind: str, precedence: int, spec: Mapping[str, Any]) -> Lane:
    """Return the lane of a job; values that are no text or no duration count as absent."""
    if not spec:
        return _nobodys(kind, precedence)
    pool, user = (word if isinstance(word := spec.get(name), str) else "" for name in ("pool", "user"))
    return Lane(kind, precedence, pool, user, class_of(spec.get("expected_duration")))


def class_of(seconds: object) -> int | None:
    """Return the class of an expected duration; None when there is none."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds >= 0 or not isfinite(seconds):
        return None
    return max(0, round(CLASSES * log2(1 + 1_000 * seconds)))


@dataclass(slots=True)
class LaneState:
    """The state of a lane: number of pending jobs, arrival of the last, their demand, use of running tasks.

    `serial` distinguishes it from earlier lanes of the same number.
    """

    serial: int
    pending: int
    arrival: int
    wanted: Resources
    held: Resources
    account: Account | None = None
    """Where its amounts count, once its name is known."""


class Lanes:
    """The lanes of a cell in a snapshot. Amounts are added to `usage` once the name of a lane is known."""

    def __init__(self, dimensions: int, usage: Usage) -> None:
        """Create without lanes."""
        self._dimensions, self._usage = dimensions, usage
        self.states: dict[int, LaneState] = {}
        self.names: dict[int, Lane] = {}
        self._serials: dict[int, int] = {}
        self._empty: dict[int, int] = {}
        """Serials of lanes in which nothing is held or wanted now. Some are deleted; in others there are live jobs."""
        self._latest = 0
        self._any_unnamed = False
        """Whether the name of some lane may be unknown."""

    def apply(self, rows: Rows, *, full: bool) -> None:
        """Apply changed rows, or all rows (`full`). A repeated lane has its last state."""
        size = self._dimensions
        if full:
            for number in list(self.states):
                self._forget(number)
            self._empty.clear()
        states, move, columns = self.states, self._usage.move, list(zip(*rows.tolist(), strict=True))
        amounts = (zip(*each, strict=True) for each in (columns[4 : 4 + size], columns[4 + size :]))
        for index, serial, pending, arrival, wanted, held in zip(*columns[:4], *amounts, strict=True):
            number = index - BASE
            state = states.get(number)
            if state is not None and state.serial == serial and pending:
                if state.account is not None:
                    move(state.account, had=state.held, held=held, wanted_before=state.wanted, wanted=wanted)
                state.pending, state.arrival, state.wanted, state.held = pending, arrival, wanted, held
                continue
            self._latest = max(self._latest, serial)
            self._forget(number)
            if pending or any(wanted) or any(held):
                self.states[number] = LaneState(serial, pending, arrival, wanted, held)
                self._empty.pop(number, None)
                self._count(number, 1)
                self._any_unnamed = True  # perhaps
            else:
                self._empty[number] = serial

    def _forget(self, number: int) -> None:
        if number in self.states:
            self._count(number, -1)
            del self.states[number]

    def known(self, number: int) -> bool:
        """Return whether the name of a lane is known."""
        state = self.states.get(number)
        return state is not None and self._serials.get(number) == state.serial

    def _count(self, number: int, sign: int) -> None:
        if self.known(number):
            state, lane = self.states[number], self.names[number]
            whose = lane.pool, lane.user
            account = self._usage.account(whose)
            account.lanes += sign
            state.account = account if sign > 0 else None
            self._usage.change(whose, state.held, state.wanted, sign)

    def unknown(self) -> list[int]:
        """Return the lanes without a known name; of empty ones only when there are others."""
        if not self._any_unnamed:
            return []
        unnamed = [number for number, state in self.states.items() if state.account is None]
        self._any_unnamed = bool(unnamed)
        return [*unnamed, *self._unknown_empty()] if unnamed else []

    def _unknown_empty(self) -> list[int]:
        return [number for number, serial in self._empty.items() if self._serials.get(number) != serial]

    def learn(self, named: Mapping[int, tuple[int, Lane]]) -> None:
        """Apply serials and names; lanes deleted meanwhile stay unknown until their change arrives."""
        for number, (serial, lane) in named.items():
            if number in self.states:
                self._count(number, -1)
            self.names[number], self._serials[number] = lane, serial
            if number in self.states:
                self._count(number, 1)
        for number in self._unknown_empty():
            if number not in named:
                del self._empty[number]
        for number in self.names.keys() - self.states.keys() - self._empty.keys():
            del self.names[number], self._serials[number]

    def by_leaf(self) -> dict[str, list[int]]:
        """The lanes of every leaf pool (`fairness.leaf_of`), with those in which nothing is held or wanted now."""
        lanes: dict[str, list[int]] = {}
        empty = (number for number, serial in self._empty.items() if self._serials.get(number) == serial)
        for number in (*(number for number in self.states if self.known(number)), *empty):
            lane = self.names[number]
            lanes.setdefault(leaf_of(lane.pool, lane.user), []).append(number)
        return lanes

    @property
    def complete_to(self) -> int:
        """The serial up to which every lane is known by name."""
        unknown = [state.serial for number, state in self.states.items() if not self.known(number)]
        unknown += [self._empty[number] for number in self._unknown_empty()]
        return min([self._latest, *(serial - 1 for serial in unknown)])

    def of_kind(self, kind: str) -> list[int]:
        """Return the lanes of a kind with pending jobs."""
        names = self.names
        return [
            number
            for number, state in self.states.items()
            if state.pending and state.account is not None and names[number].kind == kind
        ]
