"""Preemption on one machine: the three stages, the reasons for evictions, the back-off and warnings (§11).

The regular stage uses free room alone. The aggressive stage places a task of an aggressively starving element in the
room of aggressively preemptible and preemptible tasks, the normal stage one of a starving element in the room of
preemptible ones. Each stage evicts for one task at a time, and a machine rests after an accepted eviction.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cellstate.errors import BadInput
from cellstate.resources import Resources
from schedulers.fairshare.partition import Preemptible
from schedulers.fairshare.starvation import Status


class Reason(StrEnum):
    """Why a task is evicted."""

    STARVING = "starving"
    OVER = "machine over capacity"
    LIMIT = "limit violated"


class Candidate(NamedTuple):
    """A running unit (task or strict gang) on a machine; `order` rises with its start, `owner` is its job or pool."""

    name: object
    need: Resources
    order: int
    preemptible: Preemptible
    owner: str = ""


class Chosen(NamedTuple):
    """A unit that is to go, and why."""

    name: object
    reason: Reason


STAGES: tuple[tuple[Status, Preemptible], ...] = (
    (Status.AGGRESSIVELY_STARVING, Preemptible.AGGRESSIVELY),
    (Status.STARVING, Preemptible.YES),
)
"""The preemptive stages in their order: whom they serve, and the least preemptible tasks that they may evict."""


def least_for(status: Status) -> Preemptible | None:
    """Return the least preemptible tasks that an element of this status may evict; None for none."""
    return next((least for served, least in STAGES if status >= served), None)


def for_task(candidates: Iterable[Candidate], lacking: Resources, status: Status) -> list[Chosen] | None:
    """Choose victims that free what is `lacking`: the most preemptible and newest first, and none without need.

    None when they do not suffice, or the evictor does not starve.
    """
    least = least_for(status)
    if least is None:
        return None
    eligible = [each for each in candidates if each.preemptible >= least]
    missing, found = list(lacking), list[Candidate]()
    for each in sorted(eligible, key=lambda each: (-each.preemptible, -each.order)):
        if all(amount <= 0 for amount in missing):
            break
        if any(need > 0 and amount > 0 for need, amount in zip(each.need, missing, strict=True)):
            found.append(each)
            missing = [amount - need for amount, need in zip(missing, each.need, strict=True)]
    if any(amount > 0 for amount in missing):
        return None
    return [Chosen(each.name, Reason.STARVING) for each in _without_needless(found, missing)]


def for_capacity(candidates: Iterable[Candidate], excess: Resources) -> list[Chosen]:
    """Choose what leaves a machine that holds `excess` too much; the oldest and least preemptible stay."""
    rest = sorted(candidates, key=lambda each: (each.preemptible, each.order))
    room = [sum(each.need[d] for each in rest) - over for d, over in enumerate(excess)]
    gone = []
    for each in rest:
        if all(amount <= left for amount, left in zip(each.need, room, strict=True)):
            room = [left - amount for left, amount in zip(room, each.need, strict=True)]
        else:
            gone.append(Chosen(each.name, Reason.OVER))
    return gone


def for_limits(candidates: Iterable[Candidate], excess: Mapping[str, Resources]) -> list[Chosen]:
    """Choose what leaves because its owner is above a limit by `excess`: preemptible units, the newest first."""
    over = {owner: list(amounts) for owner, amounts in excess.items()}
    found = []
    for each in sorted(candidates, key=lambda each: -each.order):
        left = over.get(each.owner)
        if left is None or each.preemptible is Preemptible.NO:
            continue
        if any(amount > 0 and need > 0 for amount, need in zip(left, each.need, strict=True)):
            over[each.owner] = [amount - need for amount, need in zip(left, each.need, strict=True)]
            found.append(Chosen(each.name, Reason.LIMIT))
    return found


def _without_needless(found: Sequence[Candidate], missing: Sequence[int]) -> list[Candidate]:
    """Drop what turns out not to be needed, the oldest and least preemptible first."""
    kept, spare = list[Candidate](), [-amount for amount in missing]
    for each in sorted(found, key=lambda each: (each.preemptible, each.order)):
        if all(need <= left for need, left in zip(each.need, spare, strict=True)):
            spare = [left - need for left, need in zip(spare, each.need, strict=True)]
        else:
            kept.append(each)
    return kept[::-1]


@dataclass(slots=True)
class Backoff:
    """The rest of machines after evictions: `seconds` from the last accepted eviction that anybody made there."""

    seconds: float = 0.5
    _last: dict[int, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise BadInput(f"back-off of {self.seconds:g} s; want 0 or more")

    def evicted(self, machine: int, at: float) -> None:
        """An eviction on a machine was accepted; an attempt that was refused does not count."""
        self._last[machine] = max(at, self._last.get(machine, at))

    def rests(self, machine: int, now: float, seconds: float | None = None) -> bool:
        """Return whether no further eviction is planned there now; `seconds` in place of the usual rest."""
        rest = self.seconds if seconds is None else seconds
        return now < self._last.get(machine, -rest) + rest


class Exchanges:
    """Evictions of other schedulers, as a snapshot shows them.

    One transaction that leaves what is held on a machine as it was, and still raises the machine's number by one, let
    tasks go and started others.
    """

    def __init__(self) -> None:
        """Create without machines."""
        self._rows: NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)

    def seen(self, rows: NDArray[np.int64]) -> list[int]:
        """Return the machines with an exchange since the last call; `rows`: those of the snapshot."""
        before, self._rows = self._rows, rows.copy()
        size = min(before.shape[1], rows.shape[1])
        if not size:
            return []
        once = rows[1, :size] == before[1, :size] + 1
        same = (rows[2:, :size] == before[2:, :size]).all(axis=0)
        return [int(machine) for machine in np.flatnonzero(once & same)]


@dataclass(slots=True)
class Warnings:
    """Tasks that were warned of their eviction: each has `seconds` to end by itself (allocation preemption timeout)."""

    seconds: float = 10.0
    _until: dict[object, float] = field(default_factory=dict, repr=False)

    def warn(self, name: object, now: float) -> float:
        """Warn a task, once; returns when it is to be gone (seconds)."""
        return self._until.setdefault(name, now + self.seconds)

    def due(self, now: float) -> list[object]:
        """Take out the tasks whose time is over."""
        found = [name for name, until in self._until.items() if until <= now]
        for name in found:
            del self._until[name]
        return found

    def ended(self, name: object) -> None:
        """A warned task ended by itself."""
        self._until.pop(name, None)
