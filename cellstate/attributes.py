"""Attributes of machines in a snapshot, stored so that a test of all machines is one vector operation.

Machines with equal attributes share a *profile*; each attribute is a *column* of small integer codes, 0 where it is
absent. A scheduler without jobs that ask for attributes never reads any.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.constraints import number_of
from omega.cellstate.model import MACHINE, Described, MachineState, Pairs

MOST_KEPT = 256
"""Maximum number of cached results: 25 MB for 100,000 machines."""

Codes = NDArray[np.int32]

Kept = TypeVar("Kept")


@dataclass(slots=True)
class AttributeColumn:
    """One attribute: its values so far (code 0 is absent), and the code of each profile."""

    values: list[str] = field(default_factory=lambda: [""])
    known: dict[str, int] = field(default_factory=dict)
    profiles: list[int] = field(default_factory=list)

    def code(self, value: str) -> int:
        """Return the code of a value, a new one for a new value."""
        if value not in self.known:
            self.known[value] = len(self.values)
            self.values.append(value)
        return self.known[value]


class Attributes:
    """Attributes by machine index; empty, and without cost, until the first `learn`.

    `version` rises with every change. `stale` marks machines with possibly outdated attributes: never read, or the
    machine joined again since.
    """

    def __init__(self) -> None:
        """Create without machines."""
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
        self._columns: dict[str, AttributeColumn] = {}
        self._kept: dict[Hashable, object] = {}
        self.known[:] = False
        self.stale[:] = True

    # Updates from the store

    def resize(self, size: int) -> None:
        """Grow to the size of the snapshot."""
        more, self.size = size - self.size, size
        self.stale = np.pad(self.stale, (0, more), constant_values=True)
        self.known, self._profile = np.pad(self.known, (0, more)), np.pad(self._profile, (0, more))
        self._names += [""] * more
        self._change()

    def note(self, index: NDArray[np.int64], before: NDArray[np.int64], now: NDArray[np.int64]) -> None:
        """Mark those of the changed machines that may have joined again (``lua/join.lua``).

        A join brings a machine up, or changes its executor, its capacity, or only its number. The last also results
        from an end and a claim of equal amounts, so more machines may be marked than joined. A change of attributes
        alone, combined with claims, does not show in the rows before and after: the change list marks such a machine as
        drained in between, and the reader of the list marks it as stale.
        """
        half = 4 + (len(now) - 4) // 2
        joined = (before[2] != MachineState.UP) & (now[2] == MachineState.UP)
        joined |= (before[3:half] != now[3:half]).any(axis=0)
        joined |= (before[1] != now[1]) & (before[2:] == now[2:]).all(axis=0)
        self.stale[index[joined]] = True

    def wanting(self, states: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the machines with attributes to read, given the states of all machines."""
        if len(states) > self.size:
            self.resize(len(states))
        stale = np.flatnonzero(self.stale)  # few or none, most of the time
        there: NDArray[np.bool_] = states[stale] != MachineState.GONE
        return stale[there]

    def learn(self, machines: Sequence[int] | NDArray[np.intp], described: Iterable[Described]) -> list[int]:
        """Apply descriptions; return the machines with changed attributes.

        One without a name is of a machine that a mirror (omega/queries/mirror) did not read yet: it stays stale.
        """
        self.used = True
        if len(self._profiles) > 2 * self.size + 1000:
            self._forget()
        changed, fresh = [], False
        for machine, (name, pairs) in zip(map(int, machines), described, strict=True):
            if not name:
                continue
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

    # Queries

    def names(self) -> list[str]:
        """Return the attributes that machines have, including `machine`, in order."""
        present = np.unique(self._profile[self.known]).tolist()
        return sorted({MACHINE}.union(*(self._profiles[profile] for profile in present)))

    def name(self, machine: int) -> str:
        """Return a machine's name, empty if it was not read."""
        return self._names[machine] if machine < self.size else ""

    def described(self, machine: int) -> Described:
        """Return the name of a machine and its attributes, empty if they were not read."""
        return self.name(machine), tuple(self._profiles[int(self._profile[machine])].items())

    def named(self, name: str) -> Sequence[int]:
        """Return the machines with a name; one that was removed may keep the name of its successor."""
        return self.keep(("by name",), self._by_name).get(name, ())

    def _by_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for machine, name in enumerate(self._names):
            if name:
                found.setdefault(name, []).append(machine)
        return found

    def get(self, machine: int, attribute: str) -> str | None:
        """Return a machine's value of an attribute, or None."""
        if attribute == MACHINE:
            return self.name(machine) or None
        return self._profiles[int(self._profile[machine])].get(attribute)

    def codes(self, attribute: str) -> Codes:
        """Return the code of each machine's value, 0 where it has none."""
        return self.keep(("codes", attribute), lambda: self._codes(attribute))

    def values(self, attribute: str) -> list[str]:
        """Return the value of each code; the first represents absence."""
        return ["", *self._names] if attribute == MACHINE else self._column(attribute).values

    def numbers(self, attribute: str) -> NDArray[np.float64]:
        """Return the number in each code's value, NaN where it is none."""
        return self.keep(("numbers", attribute), lambda: np.array([number_of(v) for v in self.values(attribute)]))

    def keep(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return the result of `make`, cached under `key` until an attribute changes; `key` has all it depends on."""
        if key not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value]  # one maker a key

    def _codes(self, attribute: str) -> Codes:
        if attribute == MACHINE:
            return np.where(self.known, np.arange(1, self.size + 1), 0).astype(np.int32)
        return np.array(self._column(attribute).profiles, dtype=np.int32)[self._profile]

    def _column(self, attribute: str) -> AttributeColumn:
        column = self._columns.setdefault(attribute, AttributeColumn())
        for profile in self._profiles[len(column.profiles) :]:
            value = profile.get(attribute)
            column.profiles.append(0 if value is None else column.code(value))
        return column
