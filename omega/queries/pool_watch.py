"""History of the pools of a live cell during `omega pool watch`, for the figure of pools over time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omega.queries.events import Event, events, extent
from omega.simulation.pool_history import PoolHistory, Sample
from omega.simulation.world import Eviction

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell


@dataclass(slots=True)
class PoolWatch:
    """Samples of pools since `began_ms` (the clock of the watching process)."""

    cell: "Cell"
    began_ms: int
    _samples: dict[str, list[Sample]] = field(default_factory=dict)
    _after: int = field(init=False)

    def __post_init__(self) -> None:
        self.cell.look_back()
        self._after = extent(self.cell).newest

    def add(self, document: Mapping[str, Any], now_ms: int) -> None:
        """Add the pools as they are now (`pools_json`)."""
        at = (now_ms - self.began_ms) / 1000
        for row in document["pools"]:
            usage, share = (tuple(row[name].values()) for name in ("usage", "fair_share"))
            satisfaction = float("inf") if row["satisfaction"] == "infinite" else row["satisfaction"]
            self._samples.setdefault(row["name"], []).append(Sample(at, usage, share, satisfaction))

    def history(self) -> PoolHistory:
        """Return the samples, and the evictions meanwhile; a task placed before the log begins counts no run time."""
        kept, seen = extent(self.cell), self.cell.sightings
        after = min(self._after, seen.agreed) if seen.partings else self._after
        evicted = list(events(self.cell, after, kept.newest, {"evicted"}))
        placements = {event.more["placement"] for event in evicted}
        started = {
            event.more["placement"]: event.at_ms
            for event in (events(self.cell, kept.first - 1, kept.newest, {"place"}) if placements else ())
            if event.more["placement"] in placements
        }
        leaves = self._pools_of({event.job for event in evicted if event.job})
        evictions = [self._eviction(event, started, leaves) for event in evicted]
        return PoolHistory(self.cell.dimensions.names, self._samples, evictions)

    def _eviction(self, event: Event, started: Mapping[int, int], leaves: Mapping[str, str]) -> Eviction:
        tasks, ran = event.count or 0, event.at_ms - started.get(event.more["placement"], event.at_ms)
        pool = leaves.get(event.job or "", "")
        return Eviction((event.at_ms - self.began_ms) / 1000, pool, tasks, tasks * max(0, ran) / 1000)

    def _pools_of(self, ids: set[str]) -> dict[str, str]:
        jobs, pools = self.cell.jobs.by_id(sorted(ids)), self.cell.pools.get()
        lanes = self.cell.schedulers.lanes([job.lane for job in jobs.values()])
        return {
            name: pools.pool_of(lanes[job.lane][1].pool, lanes[job.lane][1].user)
            for name, job in jobs.items()
            if job.lane in lanes
        }
