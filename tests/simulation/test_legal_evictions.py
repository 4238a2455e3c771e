"""Every eviction between pools is legal at its commit, with several schedulers on old copies (rule 33)."""

from random import Random

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.pools import Pool
from omega.cellstate.verify import Report, verify
from tests.simulation.pool_ground import Ground


def audited(schedulers: int, seed: int = 1) -> Report:
    """Pools of a full cell come one after the other; decisions take long, so copies are old at the commit."""
    rng = Random(f"{seed}/evictions")
    ground = Ground(
        [Pool(f"p{i}", weight=rng.choice((1, 2, 3))) for i in range(4)], 10, schedulers=schedulers, newest_first=False,
        decision=0.1,
    )  # fmt: skip
    for _ in range(4):
        ground.job("p0", 10)
    for pool in ("p1", "p2", "p3"):
        for _ in range(4):
            ground.job(pool, rng.randint(2, 12), at=2.0 + 3.0 * rng.random(), seconds=rng.choice((1e6, 2.5)))
    cell = MemoryCell("c")
    ground.run(12, cell=cell)
    return verify(cell)


@pytest.mark.parametrize("schedulers", [1, 4, 8])
def test_each_set_was_legal(schedulers: int) -> None:
    report = audited(schedulers)
    assert report.ok, report.violations
    assert report.evictions["checked"] > 2


def test_a_simulation_in_another_cell_knows_what_pools_hold() -> None:
    """Use by pool comes with the changes of lanes, from a store as from the twin."""
    stories = []
    for cell in (None, MemoryCell("c")):
        ground = Ground([Pool("p0"), Pool("p1")], 5, schedulers=2)
        ground.job("p0", 20)
        ground.job("p1", 20, at=2.0)
        stories.append(ground.run(8, cell=cell))
    assert [(story.evicted, story.held("p0"), story.held("p1")) for story in stories] == [(10, 10.0, 10.0)] * 2
