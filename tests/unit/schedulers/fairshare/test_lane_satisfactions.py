"""Satisfactions of several lanes are those of each lane by itself."""

from random import Random

import pytest

from omega.cellstate.pools import Epoch, Pool, Pools, PoolShare
from omega.cellstate.usage import Usage
from omega.schedulers.fairshare.standings import EpochShares
from omega.schedulers.ordering.cell_pools import MANY, LaneSatisfactions

NAMES = [f"p{number}" for number in range(12)]


def shares_of(rng: Random, size: int) -> EpochShares:
    """Return an epoch that knows most pools: with and without shares, demand beyond them, and promised parts."""
    totals, none = (100,) * size, (0.0,) * size
    rows = {}
    for name in NAMES[1:]:
        share = tuple(rng.choice((0.0, 0.1, 0.2)) for _ in range(size))
        rows[name] = PoolShare(
            name=name, parent="<Root>", tree="default", weight=1.0, fair_share=share, usage=none, guarantee=none,
            demand=tuple(part + rng.choice((0.0, 0.5)) for part in share), integral=none, limits=none, estimated=none,
            promised=share if rng.random() < 0.2 else none, satisfaction=0.0,
        )  # fmt: skip
    epoch = Epoch(number=1, version=1, pools_version=1, at_ms=0, by="t", totals={"default": totals}, pools=rows)
    return EpochShares(Pools(tuple(Pool(name) for name in NAMES)), epoch)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_several_are_as_each(size: int) -> None:
    rng, usage = Random(size), Usage(size)
    for _ in range(20):
        shares = shares_of(rng, size)
        together, single = LaneSatisfactions(shares, usage), LaneSatisfactions(shares, usage)
        needs = (tuple(rng.random() < 0.7 for _ in range(size)) for _ in range(2 * len(NAMES)))
        lanes = list(dict.fromkeys((rng.choice(NAMES), "", needed) for needed in needs))
        assert len(lanes) > MANY
        for _ in range(5):
            for name in NAMES:
                usage.state((name, ""), tuple(rng.choice((0, 5, 10, 15, 20, 40)) for _ in range(size)), (0,) * size)
            assert together.several(lanes) == [single.of(lane).satisfaction() for lane in lanes]
            assert together.several(lanes[:3]) == together.several(lanes)[:3]
