"""The simulator's working copy: what takes nothing takes nothing, whatever is asked for."""

import numpy as np
import pytest

from cellstate.cell import Reply
from cellstate.model import MachineState
from cellstate.packed_snapshot import PackedSnapshot
from cellstate.transaction import Position


def copy_of(*states: MachineState) -> PackedSnapshot:
    """Machines of (10, 10) in these states, with (1, 2) allocated on each."""
    rows = [[index, 0, state, 0, 10, 10, 1, 2] for index, state in enumerate(states)]
    copy = PackedSnapshot(2)
    copy.apply(Reply(Position(1, "a"), full=True, rows=np.array(rows, dtype=np.int64)))
    return copy


@pytest.mark.parametrize("state", [MachineState.DRAINED, MachineState.DOWN, MachineState.GONE])
@pytest.mark.parametrize("need", [(1, 1), (0, 1), (0, 0), (9, 8)])
def test_a_machine_that_is_not_up_takes_nothing(state: MachineState, need: tuple[int, int]) -> None:
    copy = copy_of(MachineState.UP, state)
    assert copy.take_each(need, [1, 0, 1]) == [0]
    assert copy.holding((0, 0)) == [0]


def test_a_machine_takes_what_it_has() -> None:
    copy = copy_of(MachineState.UP)
    assert copy.take_each((3, 3), [0, 0, 0, 0]) == [0, 0]
    copy.undo(0)
    assert copy.take_each((9, 8), [0]) == [0]
    assert copy.take_each((0, 0), [0]) == [0]
    assert copy.take_each((0, 1), [0]) == []
