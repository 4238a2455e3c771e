"""The lanes of a snapshot follow the rows of the store: use and demand are those of the last row of each lane."""

import numpy as np

from omega.cellstate.lanes import BASE, Lane, Lanes
from omega.cellstate.usage import Usage


def _lanes(*rows: tuple[int, ...]) -> tuple[Lanes, Usage]:
    usage = Usage(2)
    lanes = Lanes(2, usage)
    lanes.apply(np.array(rows), full=True)
    lanes.learn({1: (7, Lane("batch", 0, user="ada"))})
    return lanes, usage


def test_a_changed_lane_changes_the_use_by_the_difference() -> None:
    lanes, usage = _lanes((BASE + 1, 7, 2, 5, 10, 20, 3, 4))
    lanes.apply(np.array([(BASE + 1, 7, 1, 6, 6, 12, 7, 12)]), full=False)
    assert usage.by_account() == {("", "ada"): ((7, 12), (6, 12))}
    assert (lanes.states[1].pending, lanes.states[1].arrival) == (1, 6)
    lanes.apply(np.array([(BASE + 1, 7, 0, 6, 0, 0, 0, 0)]), full=False)
    assert (usage.users(), 1 in lanes.states) == ([], False)


def test_a_lane_that_is_listed_twice_has_its_last_state() -> None:
    lanes, usage = _lanes((BASE + 1, 7, 2, 5, 10, 20, 3, 4))
    rows = [(BASE + 1, 7, 9, 8, 1, 1, 1, 1), (BASE + 1, 7, 1, 6, 6, 12, 7, 12)]
    lanes.apply(np.array(rows), full=False)
    assert (usage.by_account(), lanes.states[1].pending) == ({("", "ada"): ((7, 12), (6, 12))}, 1)


def test_a_lane_of_another_serial_is_another_lane() -> None:
    lanes, usage = _lanes((BASE + 1, 7, 2, 5, 10, 20, 3, 4))
    lanes.apply(np.array([(BASE + 1, 8, 2, 5, 1, 1, 1, 1)]), full=False)
    assert (usage.users(), lanes.unknown()) == ([], [1])
