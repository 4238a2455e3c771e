"""The simulator's working copy: what takes nothing takes nothing, whatever is asked for."""

import numpy as np
import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.model import MachineState
from omega.cellstate.packing import packed_need
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Position
from omega.simulation.packed_snapshot import PackedSnapshot


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


@pytest.mark.parametrize("kind", [ArraySnapshot, PackedSnapshot])
@pytest.mark.parametrize(
    ("used", "state", "gains"),
    [
        ((1, 2), MachineState.UP, False), ((2, 2), MachineState.UP, False), ((1, 1), MachineState.UP, True),
        ((2, 1), MachineState.UP, True), ((0, 0), MachineState.DRAINED, False),
    ],
)  # fmt: skip
def test_a_machine_is_freed_when_it_has_more_of_some_resource(
    kind: type[ArraySnapshot] | type[PackedSnapshot], used: tuple[int, int], state: MachineState, gains: bool
) -> None:
    copy = kind(2)
    if isinstance(copy, PackedSnapshot):
        copy.watching = True
    before, between = (MachineState.UP, (1, 2)), (MachineState.UP, (0, 0))
    for version, states in enumerate([[before], [between, (state, used)]], 1):  # of a repeated row the last one counts
        copy.freed()
        rows = np.array([[0, version, up, 0, 10, 10, *held] for up, held in states], dtype=np.int64)
        copy.apply(Reply(Position(version, "a"), full=version == 1, rows=rows))
    assert copy.freed().tolist() == ([0] if gains else [])


def test_what_was_claimed_is_compared_by_value() -> None:
    """A list that somebody changed, or one that was never claimed, is no proof that its claims fit."""
    need = packed_need((4, 4))
    copy = copy_of(MachineState.UP, MachineState.UP)
    assert copy.decided() is None
    stood = copy.take_each((4, 4), [0, 1])
    assert copy.decided() == ([0, 1], need, copy.rest)
    stood.append(0)
    assert copy.decided() == ([0, 1], need, copy.rest), "nobody checked whether that fits"
    stood.pop()
    assert copy.take_each((4, 4), [0, 0], stood) == [0, 1, 0]
    assert copy.decided() == ([0, 1, 0], need, copy.rest)
    copy.take(1, (4, 4), 1)
    assert copy.decided() is None, "something else is open"
    copy.undo(0)
    copy.take(0, (4, 4), 1)
    decided = copy.decided()
    assert decided is not None
    assert decided[0] != [0], "take does not check"


def test_no_attribute_of_a_snapshot_can_be_set_without_effect() -> None:
    for kind in (ArraySnapshot, PackedSnapshot):
        for name in ("free", "room", "base", "number", "allocated", "capacity"):
            with pytest.raises(AttributeError):
                setattr(kind(2), name, [])


def test_both_kinds_implement_the_same_snapshot() -> None:
    names = {name for name in dir(Snapshot) if not name.startswith("_")}
    assert names <= set(dir(ArraySnapshot)) & set(dir(PackedSnapshot))
    assert {name for name in names if getattr(getattr(Snapshot, name), "__isabstractmethod__", False)} >= {
        "free",
        "room",
        "base",
        "number",
        "apply",
        "freed",
        "take",
        "take_each",
        "mark",
        "undo",
        "holding",
        "amounts",
        "with_room",
    }
