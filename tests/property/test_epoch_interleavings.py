"""Changes between the reading of demands and the publication of an epoch: no pool with work stays without demand."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from omega.cellstate.cell import Cell
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.schedulers.process.epochs import PERIOD_MS, Publisher, is_due
from tests.integration.stage import made_cell, serve
from tests.tiers import first

pytestmark = pytest.mark.server
NAMES = ("a", "b", "c")
SECONDS = 2
"""The time after which each pool with work has a demand; an epoch takes one."""
SHARDS = 20
WORLDS = 50
"""In each of the shards."""


class Disturbed:
    """A cell that others change whenever one of these calls is about to begin."""

    def __init__(self, cell: RedisCell, disturb: Callable[[], None]) -> None:
        self.cell, self.pools = cell, DisturbedPools(cell, disturb)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cell, name)


class DisturbedPools:
    def __init__(self, cell: RedisCell, disturb: Callable[[], None]) -> None:
        self.cell, self.disturb = cell, disturb

    def __getattr__(self, name: str) -> Any:
        if name in ("demands", "publish_epoch", "get", "next_epoch"):
            self.disturb()
        return getattr(self.cell.pools, name)


class World:
    def __init__(self, cell: RedisCell, seed: int, at_ms: int) -> None:
        self.cell, self.rng, self.now_ms = cell, Random(f"epochs/{seed}"), at_ms
        self.made, self.pool_of = list[str](), dict[str, str]()
        self.prefix = f"w{seed}"
        self.publisher = Publisher(cast("Cell", Disturbed(cell, self.disturb)))
        self.left = 4
        self.weigh()

    def weigh(self) -> None:
        pools = [Pool(name, weight=self.rng.choice((1.0, 2.0, 3.0))) for name in NAMES]
        before = self.cell.pools.get()
        self.cell.pools.set(Pools(tuple(pools), before.trees), before.version, self.now_ms, "ada")

    def disturb(self) -> None:
        if not self.left or self.rng.random() < 0.6:
            return
        self.left -= 1
        act = self.rng.choice((self.submit, self.submit, self.stop, self.weigh))
        act()

    def submit(self) -> None:
        name = f"{self.prefix}-{len(self.pool_of)}"
        self.pool_of[name] = self.rng.choice(NAMES)
        spec = {"pool": self.pool_of[name], "user": "ada"}
        self.cell.jobs.submit(
            [JobSpec(name, name, "batch", (TaskGroup((100, 64), 3, 60_000),), spec=spec)], self.now_ms, "ada"
        )
        self.made.append(name)

    def stop(self) -> None:
        if self.made:
            self.cell.jobs.stop(self.made.pop(self.rng.randrange(len(self.made))), self.now_ms, "ada")

    def second(self) -> None:
        """What the scheduler of the first rank does within a second."""
        self.now_ms += PERIOD_MS
        if is_due(replace(self.cell.pools.epoch_mark(), now_ms=self.now_ms), 0, grows=False):
            self.publisher.publish("batch/0", self.now_ms)

    def idle(self) -> list[str]:
        """The pools whose waiting jobs the published epoch does not know."""
        epoch = self.cell.pools.epoch()
        assert epoch is not None
        jobs = self.cell.jobs.by_id(self.made)
        working = {self.pool_of[name] for name, job in jobs.items() if job.pending}
        return [name for name in sorted(working) if name not in epoch.pools or not any(epoch.pools[name].demand)]


@pytest.mark.parametrize("shard", first(1, range(SHARDS)))
def test_each_pool_with_work_has_a_demand_in_two_seconds(store_url: str, shard: int) -> None:
    with made_cell(store_url, f"interleaved-{shard}", 10) as cell:
        serve(cell)
        at_ms = cell.store_ms()
        for seed in range(shard * WORLDS, (shard + 1) * WORLDS):
            world = World(cell, seed, at_ms)
            for _ in range(3):
                world.second()  # changes come while it reads and publishes
            world.left = 0
            for _ in range(SECONDS):
                world.second()
            assert world.idle() == [], f"world {seed}"
            for name in world.made:
                cell.jobs.stop(name, world.now_ms, "ada")
            at_ms = world.now_ms + PERIOD_MS
