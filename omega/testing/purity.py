"""What a decision may not do: change its snapshot, read a clock, or draw random numbers of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from random import Random
from types import FrameType, FunctionType
from typing import Any

from omega.cellstate.snapshot import Snapshot
from omega.schedulers.policies import Joining, with_wrapped
from omega.schedulers.scheduler import Scheduler

_NOW = ("now", "utcnow", "today")
"""Methods of `datetime` and `date` that read the clock."""
_SEED = Random.seed.__code__
_DICE = getattr(sys.modules[Random.__module__], "_inst", None)
"""The generator behind the functions of the module `random`."""


@contextmanager
def watched() -> Iterator[None]:
    """Let a policy decide. Raises AssertionError when it reads a clock, or random numbers that it was not given.

    Generators of NumPy are not watched: the contracts compare decisions instead.
    """
    seen: list[str] = []

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            owner, name = getattr(argument, "__self__", None), argument.__name__
            of_date = getattr(owner, "__module__", "") == "datetime" and name in _NOW
            if (argument.__module__ == "time" or of_date) and not _of_test_tools(frame):
                seen.append(f"{name} reads a clock: the time is snapshot.now, or the argument now")
            elif (owner is not None and owner is _DICE) or name == "urandom":
                seen.append(f"{name} draws random numbers: draw them from the rng that is given")
        elif event == "call" and frame.f_code is _SEED and frame.f_locals.get("a") is None:
            seen.append("Random() without a seed: draw from the rng that is given")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert not seen, seen[0]


def _of_test_tools(frame: FrameType) -> bool:
    """Return whether Hypothesis calls, which measures how long collections of garbage take."""
    return str(frame.f_globals.get("__name__", "")).startswith("hypothesis")


class Unchanged:
    """What policies read of a snapshot and may not change: machines, use of users and pools, shares, attributes."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Record it."""
        self.snapshot = snapshot
        self.before = self._read()

    def _read(self) -> dict[str, Any]:
        snapshot = self.snapshot
        return {
            "rows (states, capacities)": snapshot.rows.tolist(),
            "number": [int(number) for number in snapshot.number],
            "now": snapshot.now,
            "usage": (snapshot.usage.by_account(), tuple(snapshot.usage.capacity)),
            "pools": (snapshot.pools, snapshot.epoch, dict(snapshot.pool_use)),
            "placed": (dict(snapshot.placed), dict(snapshot.others)),
            "residents": [snapshot.residents.on(machine) for machine in range(snapshot.size)],
        }

    def check(self, what: str) -> None:
        """Raise AssertionError when something differs."""
        after = self._read()
        for name, was in self.before.items():
            assert after[name] == was, f"{what} changed snapshot.{name}; only take and undo change a snapshot"


def fresh(policy: Any, axis: str) -> Any:
    """Return a copy of a policy as its scheduler makes one: without state, and with its peers."""
    copy = deepcopy(policy)
    if isinstance(copy, Joining):
        setattr(Scheduler("batch"), axis, copy)
    return copy


def mentions(name: str, policy: Any) -> bool:
    """Return whether the code of a policy, or of one that it wraps, sets or reads an attribute of this name."""
    code = (vars(kind).values() for each in with_wrapped(policy) for kind in type(each).__mro__)
    return any(name in each.__code__.co_names for found in code for each in found if isinstance(each, FunctionType))
