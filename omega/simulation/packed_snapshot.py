"""The simulator's snapshot: one packed integer per machine, updated by changes.

It creates the arrays of a `Snapshot` on demand. A commit in the simulator is validated before the next decision,
so no claims are in flight: open claims are either accepted or undone.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.array_snapshot import Narrowed
from omega.cellstate.model import MachineState
from omega.cellstate.override import override
from omega.cellstate.packing import FIELD, GUARD, MASK, fields, packed, packed_need
from omega.cellstate.replies import Reply, Rows, StaleSnapshot
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot

Open = tuple[Sequence[int], int]
"""Machines of claims, once for each task or run, and the packed amounts on each."""

NOBODY = np.empty(0, dtype=np.int64)


class PackedSnapshot(Snapshot):
    """A snapshot that is updated by values instead of records.

    `rest[i]` is the free amount on machine i, packed, with guards; `nothing` where it takes none. `numbers` are the
    sequence numbers at the last sync, kept only when `numbered`: fine detection needs none. `watching` enables `freed`;
    `wants_use` is whether a policy needs the use of users and pools. `began` (seconds): of the decision at hand.
    """

    def __init__(self, dimensions: int, *, numbered: bool = True) -> None:
        """Create an empty snapshot."""
        super().__init__(dimensions)
        self.guards = packed([GUARD] * dimensions)
        # Without guards, and large enough in each field that no need borrows: 0 less a need is negative, all bits set.
        self.nothing = packed([GUARD >> 1] * dimensions)
        self.rest: list[int] = []
        self.numbers: list[int] = []
        self.numbered = numbered
        self.followed = self.redescribed = -1
        self.watching = False
        self.wants_use = False
        self.began = 0.0
        self.changed: list[int] = []
        self._claimed: list[Open] = []
        self._dense = self._shown = False
        self._unwritten: list[int] = []
        self._words: list[array[int]] = [array("q") for _ in range(dimensions)]
        self._rooms: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64) for _ in range(dimensions)]

    # The arrays of a Snapshot

    @property
    @override
    def free(self) -> Sequence["array[int]"]:
        # Created on the first access, and shown to policies from then until the next sync.
        self._make_dense()
        self._shown = self._dense
        return self._words

    @property
    @override
    def room(self) -> Sequence[NDArray[np.int64]]:
        # As `free`.
        self._make_dense()
        self._shown = self._dense
        return self._rooms

    @property
    @override
    def number(self) -> Any:
        # A list, all 0 when this copy is not `numbered`.
        return self.numbers

    @property
    @override
    def base(self) -> NDArray[np.int64]:
        # Computed on each access.
        rest = list(self.rest)
        for machines, amounts in self._claimed:
            for machine in machines:
                rest[machine] += amounts
        free = fields(rest, self.dimensions) - GUARD
        free[(free < 0).any(axis=1)] = -1
        return np.ascontiguousarray(free.T)

    @property
    @override
    def allocated(self) -> NDArray[np.int64]:
        # A machine that takes no tasks has its amounts from its last description.
        base = self.base
        return np.where(base < 0, super().allocated, self.capacity - base)

    def _make_dense(self) -> None:
        """Create the arrays, or write into them what changed since they were read last."""
        if not self._dense:
            if not self.size:
                return
            self._dense = True
            self._words = [array("q", bytes(8 * self.size)) for _ in range(self.dimensions)]
            self._rooms = [np.frombuffer(word, dtype=np.int64) for word in self._words]
            self._unwritten.clear()
            self._write(range(self.size))
        elif self._unwritten:
            machines, self._unwritten = self._unwritten, []
            self._write(machines if len(machines) < self.size else range(self.size))

    def _write(self, machines: Sequence[int]) -> None:
        """Write the amounts of some machines into the arrays."""
        rest, closed = self.rest, -1
        if len(machines) > 24:
            index = np.fromiter(machines, dtype=np.int64, count=len(machines))
            amounts = fields([rest[machine] for machine in machines], self.dimensions) - GUARD
            amounts[(amounts < 0).any(axis=1)] = closed
            for d in range(self.dimensions):
                self._rooms[d][index] = amounts[:, d]
            return
        for machine in machines:
            left = rest[machine]
            open_ = left & self.guards == self.guards
            for d, word in enumerate(self._words):
                word[machine] = (left >> FIELD * d & MASK) - GUARD if open_ else closed

    def _note(self, machines: Sequence[int]) -> None:
        """Note machines whose amounts changed; a policy that holds the arrays sees claims at once."""
        if self._shown:
            self._write(machines)
        elif len(self._unwritten) < self.size:
            self._unwritten += machines

    # Updates from the cell

    @override
    def apply(self, reply: Reply) -> None:
        if reply.full:
            self._grow(0)
        elif reply.position.version < self.position.version:
            raise StaleSnapshot
        if len(reply.rows):
            self.changes += 1
            self._grow(int(reply.rows[:, 0].max()) + 1)
            self._take_in(reply.rows)
            size, rest, numbers, machines = self.dimensions, self.rest, self.numbers, reply.rows[:, 0].tolist()
            before = [rest[machine] for machine in machines]
            for index, number, state, _, *amounts in reply.rows.tolist():
                left = [has - used for has, used in zip(amounts[:size], amounts[size:], strict=True)]
                takes = state == MachineState.UP and min(left) >= 0
                rest[index] = packed(left) + self.guards if takes else self.nothing
                numbers[index] = number if self.numbered else 0
            known = zip(machines, before, strict=True)  # a machine may be repeated: its last state counts
            self.took_over(machines, [machine for machine, had in known if self.has_more(rest[machine], had)])
        if reply.lanes is not None:
            self.lanes.apply(reply.lanes, full=reply.full)
        self.position = reply.position

    def _take_in(self, rows: Rows) -> None:
        """Store records: executors, capacities, states."""
        index = rows[:, 0]
        before = self.rows[:, index] if self.attributes.used else None
        self.rows[:, index] = rows.T
        if before is not None:
            self.attributes.note(index, before, self.rows[:, index])

    def start(self, rows: Rows) -> None:
        """Apply all records except free amounts, which the caller writes to `rest`."""
        self._grow(len(rows))
        self.rows[:, :] = rows.T

    def restate(self, rows: Rows) -> None:
        """As `start`, of some machines, which may be new."""
        self._grow(int(rows[:, 0].max()) + 1)
        self._take_in(rows)

    def _grow(self, size: int) -> None:
        """Grow to `size` machines; with 0 clear all."""
        known = len(self.rest)
        if not size:
            self.rest[:] = [self.nothing] * known
            self._dense = self._shown = False
            self.changed += range(known)
        elif size > known:
            self.rest += [self.nothing] * (size - known)
            self.numbers += [0] * (size - known)
            rows = np.zeros((len(self.rows), size), dtype=np.int64)
            rows[2, :] = MachineState.GONE
            rows[:, :known] = self.rows
            self.rows, self.size, self._dense, self._shown = rows, size, False, False
            self.attributes.resize(size)

    @property
    def wholesale(self) -> bool:
        """Whether changed machines need not be reported, so that all may be written at once."""
        return not (self.watching or self._dense)

    def took_over(self, machines: Sequence[int], gained: Sequence[int] | None = None) -> None:
        """Record that the caller wrote `rest` of these machines, some of which `gained` room; None: perhaps all."""
        self._shown = False
        if self._dense:
            self._note(machines)
        self._gained(machines if gained is None else gained)

    def has_more(self, now: int, before: int) -> bool:
        """Return whether an amount of `rest` has more of some resource than it had before."""
        if now == before:
            return False
        return any(now >> at & MASK > before >> at & MASK for at in range(0, FIELD * self.dimensions, FIELD))

    def freed(self) -> NDArray[np.int64]:
        """Return machines that may have gained room since the last call while `watching`."""
        if not self.changed:
            return NOBODY
        changed, self.changed = self.changed, []
        if len(changed) == 1:
            return np.array(changed, dtype=np.int64)
        return np.unique(np.array(changed, dtype=np.int64))

    @override
    def forget_freed(self) -> None:
        self.changed.clear()

    def _gained(self, machines: Sequence[int]) -> None:
        if self.watching:
            self.changed += machines

    # Decisions

    @override
    def with_room(self, room: Sequence[NDArray[np.int64]]) -> Snapshot:
        return Narrowed(self, room)

    @override
    def take(self, machine: int, need: Resources, count: int) -> None:
        amounts = packed_need(need) * count
        self.rest[machine] -= amounts
        self._claimed.append(((machine,), amounts))
        if self._shown:
            for word, amount in zip(self._words, need, strict=True):
                word[machine] -= amount * count
        elif self._dense:
            self._note((machine,))

    @override
    def take_each(self, need: Resources, machines: list[int], onto: list[int] | None = None) -> list[int]:
        amounts, rest, guards = packed_need(need), self.rest, self.guards
        stood: list[int] = []
        for machine in machines:
            left = rest[machine] - amounts
            if left & guards == guards:
                rest[machine] = left
                stood.append(machine)
        if self._dense:
            self._note(stood)
        if onto is None:
            self._claimed.append((stood, amounts))
            return stood[:]  # the caller's list may change; what was claimed does not
        claimed = self._claimed[-1][0]
        if not isinstance(claimed, list):
            raise TypeError("take_each onto claims of take")
        claimed += stood
        onto += stood
        return onto

    def decided(self) -> tuple[Sequence[int], int, Sequence[int]] | None:
        """Return the open claims, if they are those of one `take_each`: machines, packed amounts of each, and `rest`.

        Each of them fitted. Those of `take`, which are not checked, are a tuple and equal no list.
        """
        return (*self._claimed[0], self.rest) if len(self._claimed) == 1 else None

    @override
    def mark(self) -> int:
        return len(self._claimed)

    @override
    def undo(self, mark: int) -> None:
        for machines, amounts in self._claimed[mark:]:
            for machine in machines:
                self.rest[machine] += amounts
            if self._dense:
                self._note(machines)
        del self._claimed[mark:]

    def settle(self, *, stands: bool) -> None:
        """Accept or undo the open claims; changes in the cell arrive with the next sync.

        Room of undone claims counts as freed: a job may have been blocked because of it. That of a policy's own `undo`
        does not: a gang that does not fit would be tried again and again.
        """
        if self.wants_use:
            self.usage.settle()
        if stands:
            self._claimed.clear()
            return
        for machines, _ in self._claimed:
            self._gained(machines)
        self.undo(0)

    @override
    def holding(self, need: Resources) -> list[int]:
        self._make_dense()
        fits = np.ones(self.size, dtype=np.bool_)
        for room, amount in zip(self._rooms, need, strict=True):
            fits &= room >= amount
        return np.flatnonzero(fits).tolist()

    @override
    def amounts(self, machines: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._dense and not self._unwritten:
            return np.stack([room[machines] for room in self._rooms])
        free = fields([self.rest[machine] for machine in machines.tolist()], self.dimensions) - GUARD
        free[(free < 0).any(axis=1)] = -1
        return np.ascontiguousarray(free.T)
