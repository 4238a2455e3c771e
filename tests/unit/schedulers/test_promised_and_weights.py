"""The stage of pools below their promised share, and the weights of jobs within a pool."""

from dataclasses import replace
from typing import Any

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.pools import Pool, Pools
from omega.schedulers.ordering.cell_pools import CellPools
from tests.unit.schedulers.drive import group, work
from tests.unit.schedulers.queue.test_heads import epoch_of


def opened(*pools: Pool, held: dict[str, int], promised: float = 0.0) -> CellPools:
    """An ordering over 100 units, half due to each of a and b; `promised` of the cell to a."""
    copy = ArraySnapshot(1)
    copy.pools, copy.resources = Pools(pools, version=1), ("cpu",)
    epoch = epoch_of(a=0.5, b=0.5)
    shares = dict(epoch.pools) | {"a": replace(epoch.pools["a"], promised=(promised,))}
    copy.epoch = replace(epoch, pools=shares)
    copy.usage.capacity = (100,)
    for name, amount in held.items():
        copy.usage.state((name, ""), (amount,), (1_000,))
    policy = CellPools()
    policy.observe(copy, 0.0)
    return policy


def first(policy: CellPools) -> str:
    return min("ab", key=lambda name: policy.rank((name, "", (True,))))


@pytest.mark.parametrize(
    ("held", "promised", "expected"),
    [
        ({"a": 20, "b": 0}, 0.0, "b"),
        ({"a": 20, "b": 0}, 0.3, "a"),
        ({"a": 30, "b": 0}, 0.3, "b"),
        ({"a": 0, "b": 0}, 0.3, "a"),
    ],
)
def test_a_pool_below_its_promised_share_comes_first(held: dict[str, int], promised: float, expected: str) -> None:
    assert first(opened(Pool("a", promised=True), Pool("b"), held=held, promised=promised)) == expected


def keys(pool: Pool, *jobs: dict[str, Any], placed: int = 0) -> list[float]:
    policy = opened(pool, Pool("b"), held={})
    of = group((1,), 40, unplaced=40 - placed)
    return [policy.key(work(f"j{at}", of, spec={"pool": "a", **spec})) for at, spec in enumerate(jobs)]


def test_a_fifo_pool_starts_the_heavier_job_first() -> None:
    light, heavy, plain = keys(Pool("a", mode="fifo"), {"weight": 0.5}, {"weight": 2}, {})
    assert heavy < plain < light
    assert len(set(keys(Pool("a", mode="fifo", sort_keys=("start_time",)), {"weight": 0.5}, {"weight": 2}, {}))) == 1


def test_a_fair_share_pool_compares_what_jobs_hold_by_weight() -> None:
    plain, heavy = keys(Pool("a"), {}, {"weight": 2}, placed=10)
    assert heavy < plain
