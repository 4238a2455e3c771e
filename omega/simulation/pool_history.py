"""Pools of a simulated cell: epochs once per period of simulated time, and how the pools stood at each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.pools import ROOT, Epoch, Pools
from omega.cellstate.resources import Resources
from omega.schedulers.epochs import epoch_of
from omega.schedulers.runnable import Runnable
from omega.simulation.engine import SECOND
from omega.simulation.simulated_store import EXECUTOR, SimulatedStore
from omega.simulation.world import Eviction, World

NAMING_SECONDS = 0.05
"""Time in seconds after which an epoch names a job that waits for it."""


class Sample(NamedTuple):
    """How a pool stood at an epoch (seconds): usage and fair share as parts of the totals, satisfaction."""

    at: float
    usage: tuple[float, ...]
    fair_share: tuple[float, ...]
    satisfaction: float


@dataclass(frozen=True, slots=True)
class PoolHistory:
    """How the pools of a simulated cell stood over time: samples by pool, and all evictions."""

    resources: Sequence[str]
    samples: Mapping[str, Sequence[Sample]]
    evictions: Sequence[Eviction]

    def dominant(self, pool: str) -> int:
        """The place of the resource of which a pool is due most, over all time."""
        return int(np.mean([sample.fair_share for sample in self.samples[pool]], axis=0).argmax())

    def as_json(self) -> dict[str, Any]:
        """Return a document by pool: means over time of the dominant resource, and sums."""
        document = {}
        for name, samples in self.samples.items():
            at = self.dominant(name)
            lost = [eviction for eviction in self.evictions if eviction.pool == name]
            known = [sample.usage[at] / sample.fair_share[at] for sample in samples if sample.fair_share[at] > 0]
            document[name] = {
                "dominant_resource": self.resources[at],
                "usage_mean": fmean(sample.usage[at] for sample in samples),
                "fair_share_mean": fmean(sample.fair_share[at] for sample in samples),
                "satisfaction_mean": fmean(known) if known else None,
                "tasks_evicted": sum(eviction.tasks for eviction in lost),
                "wasted_seconds": sum(eviction.wasted for eviction in lost),
            }
        return document


@dataclass(slots=True)
class PoolClock:
    """Computes the shares of a simulated cell once per `period` (seconds). `samples` are by pool."""

    world: World
    store: SimulatedStore
    pools: Pools
    totals: Resources
    period: float = 1.0
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    _machines: ArraySnapshot = field(init=False)
    _runnable: Runnable = field(default_factory=Runnable)

    def __post_init__(self) -> None:
        """Know no machine yet."""
        self._machines = ArraySnapshot(len(self.totals))

    def start(self) -> None:
        """Configure the pools and compute the first epoch."""
        cell = self.store.cell
        self.pools = cell.pools.set(self.pools, cell.pools.get().version, 0, EXECUTOR)
        self.world.pools, self.world.resources = self.pools, cell.dimensions.names
        self._tick(None)

    def history(self) -> PoolHistory:
        """Return how the pools stood."""
        samples = {name: each for name, each in self.samples.items() if not name.endswith(f"/{ROOT}")}
        return PoolHistory(self.world.resources, samples, self.world.pool_evictions)

    def _tick(self, _: Any) -> None:
        cell, engine = self.store.cell, self.world.engine
        reply, jobs, asked = cell.pools.demands(self._machines.position)
        self._machines.apply(reply)
        totals = {tree.name: self.totals for tree in self.pools.trees}
        jobs = self._runnable.of(jobs, self.pools, self._machines, cell)
        epoch = epoch_of(
            self.pools, jobs, totals, cell.dimensions.names, self.world.epoch, version=reply.position.version,
            at_ms=engine.now // 1000, by=EXECUTOR,
        )  # fmt: skip
        self.world.epoch = epoch = replace(epoch, asked=asked)
        self._sample(epoch, engine.seconds)
        engine.at(engine.now + round(self.period * SECOND), self._tick)
        self.world.wake()

    def _sample(self, epoch: Epoch, at: float) -> None:
        for name, share in epoch.pools.items():
            sample = Sample(at, share.usage, share.fair_share, share.satisfaction)
            self.samples.setdefault(name, []).append(sample)
