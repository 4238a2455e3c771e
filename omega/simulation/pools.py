"""Pools of a simulated cell: epochs once per period of simulated time, and how the pools stood at each."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cellstate.pools import Epoch, Pools
from cellstate.resources import Resources
from cellstate.transaction import Position
from omega.simulation.engine import SECOND
from omega.simulation.simulated_store import EXECUTOR, SimulatedStore
from omega.simulation.world import World
from schedulers.epochs import epoch_of


class Sample(NamedTuple):
    """How a pool stood at an epoch (seconds): usage and fair share as parts of the totals, satisfaction."""

    at: float
    usage: tuple[float, ...]
    fair_share: tuple[float, ...]
    satisfaction: float


@dataclass(slots=True)
class PoolClock:
    """Computes the shares of a simulated cell once per `period` (seconds). `samples` are by pool."""

    world: World
    store: SimulatedStore
    pools: Pools
    totals: Resources
    period: float = 1.0
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def start(self) -> None:
        """Configure the pools and compute the first epoch."""
        cell = self.store.cell
        self.pools = cell.set_pools(self.pools, cell.pools().version, 0, EXECUTOR)
        self.world.pools, self.world.resources = self.pools, cell.dimensions.names
        self._tick(None)

    def _tick(self, _: Any) -> None:
        cell, engine = self.store.cell, self.world.engine
        reply, jobs = cell.demands(Position())
        totals = {tree.name: self.totals for tree in self.pools.trees}
        epoch = epoch_of(
            self.pools, jobs, totals, cell.dimensions.names, self.world.epoch, version=reply.position.version,
            at_ms=engine.now // 1000, by=EXECUTOR,
        )  # fmt: skip
        self.world.epoch = epoch
        self._sample(epoch, engine.seconds)
        engine.at(engine.now + round(self.period * SECOND), self._tick)
        for number in sorted(self.world.watching):
            if number in self.world.watching:
                self.world.watching[number]()

    def _sample(self, epoch: Epoch, at: float) -> None:
        for name, share in epoch.pools.items():
            sample = Sample(at, share.usage, share.fair_share, share.satisfaction)
            self.samples.setdefault(name, []).append(sample)
