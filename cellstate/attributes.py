"""Attributes of machines in a working copy, kept so that a question about all of them is one vector operation.

Machines with equal attributes share a *profile*; each attribute is a *column* of small integer codes,
0 where it is absent. A scheduler none of whose jobs asks for attributes never reads any.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cellstate.model import Described, MachineState, Pairs

MACHINE = "machine"
"""The attribute that every machine has: its name."""
MOST_KEPT = 256
"""Answers kept at once: 25 MB for 100,000 machines."""

Codes = NDArray[np.int32]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
Kept = TypeVar("Kept")


def number_of(text: str) -> float:
    """The number that an attribute's value says, NaN when it says none."""
    return float(text) if _NUMBER.fullmatch(text) else nan


@dataclass(slots=True)
class Column:
    """One attribute: the values met so far (code 0 is absent), and the code of each profile."""

    values: list[str] = field(default_factory=lambda: [""])
    known: dict[str, int] = field(default_factory=dict)
    profiles: list[int] = field(default_factory=list)

    def code(self, value: str) -> int:
        """The code of a value, a new one when it was never met."""
        if value not in self.known:
            self.known[value] = len(self.values)
            self.values.append(value)
        return self.known[value]


class Attributes:
    """Attributes by machine index; empty, and free of cost, until `learn` is first called.

    `version` rises whenever anything changes. `stale` marks machines whose attributes may not be what is
    kept: never read, or the machine joined again since.
    """

    def __init__(self) -> None:
        """Know of no machine."""
        self.size = 0
        self.version = 0
        self.used = False
        self.stale: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self.known: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._forget()

    def _forget(self) -> None:
        self._profile: Codes = np.zeros(self.size, dtype=np.int32)
        self._names = [""] * self.size
        self._interned: dict[Pairs, int] = {(): 0}
        self._profiles: list[dict[str, str]] = [{}]
        self._columns: dict[str, Column] = {}
        self._kept: dict[Hashable, object] = {}
        self.known[:] = False
        self.stale[:] = True

    # Following the store

    def resize(self, size: int) -> None:
        """The copy grew to so many rows."""
        more = size - self.size
        self.size = size
        self.stale = np.concatenate([self.stale, np.ones(more, dtype=np.bool_)])
        self.known = np.concatenate([self.known, np.zeros(more, dtype=np.bool_)])
        self._profile = np.concatenate([self._profile, np.zeros(more, dtype=np.int32)])
        self._names += [""] * more
        self._change()

    def note(self, index: NDArray[np.int64], before: NDArray[np.int64], now: NDArray[np.int64]) -> None:
        """Mark the machines among those whose rows changed that may have joined anew (``lua/join.lua``).

        A join brings a machine up, or changes its executor, its capacity, or nothing but its number: the
        last is also what an end and a claim of equal amounts leave, so more may be marked than joined.
        A change of nothing but attributes, together with claims, cannot be told from the rows before and after:
        the change list names such a machine as drained in between, and who sees that calls it stale too.
        """
        half = 4 + (len(now) - 4) // 2
        joined = (before[2] != MachineState.UP) & (now[2] == MachineState.UP)
        joined |= (before[3:half] != now[3:half]).any(axis=0)
        joined |= (before[1] != now[1]) & (before[2:] == now[2:]).all(axis=0)
        self.stale[index[joined]] = True

    def wanting(self, states: NDArray[np.int64]) -> NDArray[np.intp]:
        """Machines whose attributes are to be read, given the states of all."""
        if len(states) > self.size:
            self.resize(len(states))
        return np.flatnonzero(self.stale & (states != MachineState.GONE))

    def learn(self, machines: Sequence[int] | NDArray[np.intp], described: Iterable[Described]) -> list[int]:
        """Take over what the store says of machines; returns those of which something else was kept."""
        self.used = True
        if len(self._profiles) > 2 * self.size + 1000:
            self._forget()
        changed, fresh = [], False
        for machine, (name, pairs) in zip(map(int, machines), described, strict=True):
            profile = self._interned.get(pairs)
            if profile is None:
                profile = self._interned[pairs] = len(self._profiles)
                self._profiles.append(dict(pairs))
            self.stale[machine] = False
            if not self.known[machine]:
                self.known[machine] = fresh = True
            elif self._profile[machine] != profile:
                changed.append(machine)
            elif self._names[machine] == name:
                continue
            self._profile[machine], self._names[machine] = profile, name
        if changed or fresh:
            self._change()
        return changed

    def _change(self) -> None:
        self.version += 1
        self._kept.clear()

    # Asking

    def names(self) -> list[str]:
        """The attributes that machines have, `machine` included, in order."""
        present = np.unique(self._profile[self.known])
        found = {name for profile in present.tolist() for name in self._profiles[profile]}
        return sorted(found | {MACHINE})

    def name(self, machine: int) -> str:
        """A machine's name, empty while it was not read."""
        return self._names[machine] if machine < self.size else ""

    def get(self, machine: int, attribute: str) -> str | None:
        """One machine's value, None when it has none."""
        if attribute == MACHINE:
            return self.name(machine) or None
        return self._profiles[int(self._profile[machine])].get(attribute)

    def codes(self, attribute: str) -> Codes:
        """The code of each machine's value, 0 where it has none."""
        if attribute == MACHINE:
            return self.keep(("codes", MACHINE), self._machines)
        return self.keep(("codes", attribute), lambda: self._gather(attribute))

    def values(self, attribute: str) -> list[str]:
        """The value of each code; the first stands for none."""
        return ["", *self._names] if attribute == MACHINE else self._column(attribute).values

    def numbers(self, attribute: str) -> NDArray[np.float64]:
        """The number that each code's value says, NaN when it says none."""
        return self.keep(("numbers", attribute), lambda: np.array([number_of(v) for v in self.values(attribute)]))

    def keep(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What `make` says, kept under `key` until anything here changes; `key` says all it depends on."""
        if key not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value]  # one maker a key

    def _machines(self) -> Codes:
        return np.where(self.known, np.arange(1, self.size + 1), 0).astype(np.int32)

    def _gather(self, attribute: str) -> Codes:
        return np.array(self._column(attribute).profiles, dtype=np.int32)[self._profile]

    def _column(self, attribute: str) -> Column:
        column = self._columns.setdefault(attribute, Column())
        for profile in self._profiles[len(column.profiles) :]:
            value = profile.get(attribute)
            column.profiles.append(0 if value is None else column.code(value))
        return column
