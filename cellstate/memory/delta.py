"""Changes of the twin for snapshots; ``lua/parts/delta.lua`` and ``rows.lua``."""

from collections.abc import Iterable, Sequence

import numpy as np

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.publish import catch_up
from omega.cellstate.memory.records import MachineRow
from omega.cellstate.model import MachineState
from omega.cellstate.packing import GUARD, fields
from omega.cellstate.replies import Rows
from omega.cellstate.transaction import Position


def describe(ledger: Ledger, machines: Sequence[MachineRow]) -> None:
    """Update the rarely changing part of the records of some machines."""
    if not machines:
        return
    rows = np.array([(m.index, 0, m.state, m.executor, *m.capacity) for m in machines], dtype=np.int64)
    while rows[:, 0].max() >= len(ledger.seldom):
        ledger.seldom = np.concatenate([ledger.seldom, np.zeros_like(ledger.seldom)])
    ledger.described += [m.index for m in machines]
    ledger.seldom[rows[:, 0], : rows.shape[1]] = rows
    for m in machines:
        if m.state is MachineState.UP:
            ledger.shut.discard(m.index)
        else:
            ledger.shut.add(m.index)


def rows_of(ledger: Ledger, machines: Iterable[int]) -> Rows:
    """Return the records of some machines; a machine may occur several times."""
    size, listed = len(ledger.dimensions), list(machines)
    if not listed:
        return ledger.seldom[:0]
    rows = ledger.seldom[listed]
    rows[:, 1] = [ledger.numbers[index] for index in listed]
    free = fields([ledger.free[index] for index in listed], size)
    np.subtract(rows[:, 4 : 4 + size], free - GUARD, out=rows[:, 4 + size :])
    return rows


def has_diverged(ledger: Ledger, since: Position) -> bool:
    """Return whether a snapshot belongs to a history that this cell does not have (semantics 16)."""
    catch_up(ledger)
    at = since.version - ledger.floor - 1
    return since.version > ledger.version or (at >= 0 and ledger.tags[at] != since.tag)


def delta(ledger: Ledger, since: Position) -> tuple[bool, Rows]:
    """Return whether the reply is complete, and the records changed after `since` (semantics 16, 18)."""
    catch_up(ledger)
    at = since.version - ledger.floor - 1
    if at < 0 or has_diverged(ledger, since):
        return True, rows_of(ledger, ledger.M)
    changed = ledger.trail[ledger.marks[at] - ledger.cut :]
    rows = rows_of(ledger, changed if len(changed) < 64 else dict.fromkeys(changed))
    restated = [index for version, index in ledger.restated if version > since.version]
    if restated:
        drained = rows_of(ledger, restated).copy()
        drained[:, 2] = MachineState.DRAINED
        rows = np.concatenate([drained, rows])
    return False, rows


def latest(ledger: Ledger) -> Position:
    """Return the version and its tag."""
    catch_up(ledger)
    return Position(ledger.version, ledger.tags[-1] if ledger.tags else "")
