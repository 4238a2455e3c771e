"""The audit of evictions between pools: thresholds that did not hold are reported from the log alone (rule 33)."""

import pytest

from omega.cellstate.events import Fact, parse
from omega.cellstate.fold import Books

A, B = 4, 8  # what was placed on m0 before


def replayed(*lines: str) -> list[str]:
    """Fold the log of a cell with a job of each pool on one machine, and then these facts as version 5."""
    books = Books(1, 1)
    begin = [
        (1, "join 0 m0 1 20"),
        (2, "submit a1 a1 batch 10 20"), (2, "submit b1 b1 batch 10 20"),
        (3, "place 1 0 a1 0 0-3 1"), (4, "place 2 0 b1 0 0-7 1"),
    ]  # fmt: skip
    facts = [*begin, *((5, line) for line in lines)]
    books.feed([Fact(version, 0, "batch/0", parse(line)[0]) for version, line in facts])
    return [each.what for each in books.violations]


EVICT, PLACE = "evicted 2 0 b1 0 6-7 4 10 fair-share:a1", "place 3 0 a1 0 4-5 1"


def test_legal() -> None:
    assert replayed("assert a1 a,;4;6;6 b,;8;6;6", EVICT, PLACE) == []


@pytest.mark.parametrize(
    ("asserted", "said"),
    [
        ("assert a1 a,;4;6;4 b,;8;6;6", "did not stand below its share"),
        ("assert a1 a,;4;6;6 b,;8;6;7", "ends a unit or more below its share"),
        ("assert a1 a,;4;6;6 b,;8;9;6", "holds more afterwards"),
        ("assert a1 a,;4;6;6 b,;8;5;6", "lost more than was evicted"),
        ("assert b1 b,;4;6;6 a,;8;6;6", "which asserted nothing"),
        ("assert a1 a,;4;6 b,;8;6;6", "cannot be read"),
        ("assert a1 =a1;4;6;6 =b1;8;6;7", "lost tasks that its floor keeps"),
        ("assert a1 =a1;4;6;6 +b1;8;6;-", "lost tasks that its floor keeps"),
        ("assert a1 =a1;4;6;6 =b1;8;7;6", "lost other amounts"),
        ("assert a1 =a1;4;6;4 =b1;8;6;6", "did not stand below its share"),
    ],
)
def test_reported(asserted: str, said: str) -> None:
    found = replayed(asserted, EVICT, PLACE)
    assert any(said in what for what in found), found


def test_legal_with_a_floor() -> None:
    assert replayed("assert a1 =a1;4;6;6 =b1;8;6;6", EVICT, PLACE) == []


def test_an_eviction_for_a_share_without_an_assertion() -> None:
    assert any("which asserted nothing" in what for what in replayed(EVICT, PLACE))
