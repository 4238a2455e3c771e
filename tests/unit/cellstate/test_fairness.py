"""The legality of eviction sets between pools (semantics 33): worked cases, and laws over drawn ones."""

from math import inf

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.fairness import PoolLoss, amounts_of, is_below, is_kept_in_full, is_legal, keeps_its_share, ratio

SLOT = (1,)


def one(used: int, share: float, held: int, theirs: float, units: int = 1, size: int = 1, need: int = 1) -> bool:
    """Whether `units` units of `size` may go for one task of `need`."""
    loss = PoolLoss((held,), (theirs,), [(size,)] * units)
    return is_legal((used,), (share,), (need,), [loss])


@pytest.mark.parametrize(
    ("why", "legal", "case"),
    [
        ("half of the cell is due", True, one(0, 4, 8, 4)),
        ("at its share", False, one(4, 4, 8, 4)),
        ("the victim stands at its share, and would end one unit below", False, one(0, 4, 4, 4)),
        ("the victim stands half a unit above", True, one(0, 1, 2, 1.5)),
        ("small shares: three against one", True, one(1, 1.5, 3, 1.5)),
        ("small shares: two against one", False, one(1, 1.5, 2, 1.5)),
        ("one unit each is a change of places", False, one(0, 0.8, 1, 0.8)),
        ("two units against none, shares below one", True, one(0, 0.8, 2, 0.8)),
        ("the room goes to the pool that lacks most of its share", True, one(1, 5, 4, 3, size=4, need=4)),
        ("nothing is due to the victim", True, one(0, 3, 5, 0)),
        ("nothing is due to the evictor", False, one(0, 0, 5, 0)),
        ("a gang of two for a task, the victim ends at its share", True, one(0, 4, 6, 4, size=2)),
        ("three gangs of two for six", False, one(0, 4, 8, 4, units=3, size=2, need=6)),
    ],
)
def test_one_resource(why: str, legal: bool, case: bool) -> None:
    assert case is legal, why


def test_every_unit_counts_alone() -> None:
    # 10 − 1 − 4 = 5: with a unit of 4 the pool ends less than one unit below 8, but not with the unit of 1 as well.
    assert keeps_its_share(PoolLoss((10,), (8.0,), [(4,)]))
    assert not keeps_its_share(PoolLoss((10,), (8.0,), [(1,), (4,)]))


def test_a_share_is_kept_in_full_in_a_resource_that_is_lost() -> None:
    assert is_kept_in_full(PoolLoss((3,), (1.5,), [(1,)]))
    assert not is_kept_in_full(PoolLoss((2,), (1.5,), [(1,)]))
    assert not is_kept_in_full(PoolLoss((3,), (1.5,), [(1,), (1,)]))
    assert is_kept_in_full(PoolLoss((2, 9), (1.5, 4.0), [(1, 1)]))
    assert not is_kept_in_full(PoolLoss((2, 9), (1.5, 4.0), [(1, 0)]))


def test_only_what_changes_hands_counts() -> None:
    # Scenario F02: A holds 4 of 5 reserved and 30 borrowed spot GPUs, C 5 of 5 reserved ones.
    reserved, borrowed = (1, 0), (0, 1)
    assert is_below((4, 30), (5.0, 25.0), reserved)
    assert not is_legal((5, 0), (5.0, 0.0), reserved, [PoolLoss((4, 30), (5.0, 25.0), [reserved])])
    assert is_legal((0, 0), (5.0, 5.0), borrowed, [PoolLoss((4, 30), (5.0, 25.0), [borrowed])])


def test_ratios_of_nothing() -> None:
    assert ratio((0,), (0.0,), SLOT) == (0.0, 0.0)
    assert ratio((3,), (0.0,), SLOT) == (inf, 3.0)
    assert ratio((2,), (4.0,), SLOT) == (0.5, 0.0)
    assert amounts_of((1 / 3 + 1 / 3, 0.1), (3, 10)) == (2.0, 1.0)


@st.composite
def cells(draw: st.DrawFn) -> tuple[list[int], list[float], list[int]]:
    pools = draw(st.integers(2, 5))
    used = draw(st.lists(st.integers(0, 12), min_size=pools, max_size=pools))
    shares = draw(st.lists(st.integers(0, 24).map(lambda n: n / 4), min_size=pools, max_size=pools))
    return used, shares, draw(st.lists(st.integers(0, 999), min_size=60, max_size=60))


@given(cells())
def test_evictions_end_and_nobody_is_pushed_a_unit_below(cell: tuple[list[int], list[float], list[int]]) -> None:
    used, shares, order = cell
    moves = 0
    for pick in order:
        legal = [
            (a, b)
            for a in range(len(used))
            for b in range(len(used))
            if a != b and used[b] and one(used[a], shares[a], used[b], shares[b])
        ]
        if not legal:
            return
        evictor, victim = legal[pick % len(legal)]
        before = sorted(ratio((has,), (share,), SLOT) for has, share in zip(used, shares, strict=True))[::-1]
        used[evictor] += 1
        used[victim] -= 1
        after = sorted(ratio((has,), (share,), SLOT) for has, share in zip(used, shares, strict=True))[::-1]
        assert after < before, "every eviction lowers the descending list of ratios"
        assert used[victim] > shares[victim] - 1
        assert used[evictor] < shares[evictor] + 1
        moves += 1
    assert moves < len(order), "evictions end"
