"""A copy narrowed to some machines: the rest takes nothing, and what is claimed is claimed in both."""

import numpy as np
import pytest

from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Position
from omega.simulation.packed_snapshot import PackedSnapshot
from tests.unit.schedulers.drive import copy, room, rows

MASK = np.array([True, False, True, False])


def packed(*free: tuple[int, ...]) -> Snapshot:
    """The same as the simulator keeps it."""
    snapshot = PackedSnapshot(len(free[0]))
    snapshot.apply(Reply(Position(1, "t"), full=True, rows=rows(free)))
    return snapshot


@pytest.fixture(params=[copy, packed])
def whole(request: pytest.FixtureRequest) -> Snapshot:
    made: Snapshot = request.param((4, 4), (4, 4), (-1, -1), (4, 4))
    return made


def test_machines_outside_take_nothing(whole: Snapshot) -> None:
    part = whole.narrow(MASK)
    assert room(part) == [(4, 4), (-1, -1), (-1, -1), (-1, -1)]
    assert (part.size, part.dimensions) == (whole.size, 2)
    assert [part.number[i] for i in range(4)] == [whole.number[i] for i in range(4)]
    assert part.holding((1, 1)) == [0]


def test_what_is_taken_is_taken_from_both_and_given_back_to_both(whole: Snapshot) -> None:
    whole.take(3, (1, 1), 1)
    part = whole.narrow(MASK)
    mark = part.mark()
    part.take(0, (1, 2), 2)
    assert part.take_each((1, 0), [0, 0, 0]) == [0, 0]
    assert room(part)[0] == room(whole)[0] == (0, 0)
    part.undo(mark)
    assert room(part)[0] == room(whole)[0] == (4, 4)
    assert room(whole)[3] == (3, 3), "what was taken before is taken still"


def test_undo_beyond_the_narrowing_leaves_the_rest_closed(whole: Snapshot) -> None:
    start = whole.mark()
    whole.take(3, (1, 1), 1)
    part = whole.narrow(MASK)
    part.take(0, (1, 1), 1)
    part.undo(start)
    assert room(whole)[3] == (4, 4)
    assert room(part)[3] == (-1, -1)
    assert room(part)[0] == (4, 4)


def test_a_part_of_a_part(whole: Snapshot) -> None:
    inner = whole.narrow(np.array([True, True, False, False])).narrow(np.array([True, False, True, True]))
    assert inner.holding((1, 1)) == [0]
    mark = inner.mark()
    inner.take(0, (4, 4), 1)
    assert room(whole)[0] == (0, 0)
    inner.undo(mark)
    assert room(whole)[0] == (4, 4)


def test_a_part_follows_no_store(whole: Snapshot) -> None:
    with pytest.raises(TypeError):
        whole.narrow(MASK).apply(Reply(Position(9, "t"), full=False, rows=rows([])))
