"""Freed room in the snapshot of a live scheduler."""

import numpy as np

from omega.cellstate.array_snapshot import FREED_KEPT, ArraySnapshot
from omega.cellstate.model import MachineState
from omega.cellstate.replies import Reply
from omega.cellstate.transaction import Position


def test_freed_room_that_nobody_asks_for_is_noted_a_few_times_at_most() -> None:
    """The worker that computes epochs, and ``omega top``, never ask."""
    snapshot = ArraySnapshot(1)
    for version in range(1, 4 * FREED_KEPT):
        row = np.array([[0, version, MachineState.UP, 0, version, 0]])
        snapshot.apply(Reply(Position(version, "t"), full=version == 1, rows=row))
    assert sum(len(part) for part in snapshot._freed) <= 2 * snapshot.size + FREED_KEPT
    assert snapshot.freed().tolist() == [0]
