"""A scheduler's figures as Prometheus metrics, the same as in `omega scheduler list`.

They are read on another thread while the attempt loop counts: figures of one scrape may differ by one event, and
nothing is locked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from omega.schedulers.heartbeat_state import HeartbeatState
from omega.schedulers.instruments import BOUNDS, DurationHistogram, Figures
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.scheduler import Scheduler

MOST_MACHINES = 20
"""Maximum number of rejecting machines with their own label; the others are summed as ``other``."""

DURATIONS: Mapping[str, str] = {
    "wait": "From a job's submission to its first attempt",
    "dequeue": "Requesting jobs, including the wait for some",
    "sync": "Synchronising the snapshot",
    "think": "Deciding on the jobs of an attempt",
    "submit": "From sending transactions until their outcome is known",
}
COUNTS: Mapping[str, tuple[str, str]] = {
    "jobs": ("jobs", "Jobs attempted for the first time"),
    "jobs_placed": ("finished_jobs", "Jobs placed whole"),
    "jobs_abandoned": ("abandoned_jobs", "Jobs abandoned after too many conflicts"),
    "jobs_blocked": ("times_blocked", "Times a job was blocked because no task of it fitted"),
    "tasks_placed": ("tasks", "Tasks placed"),
    "attempts": ("attempts", "Decisions on a job"),
    "transactions": ("transactions", "Transactions that claimed something"),
    "conflicts": ("conflicts", "Transactions with a claim rejected as moved or full"),
    "unfair": ("unfair", "Transactions of which nothing was placed because of the shares of pools"),
    "accepted": ("accepted", "Transactions without a conflict; conflict fraction is conflicts ÷ accepted"),
    "busy_seconds": ("busy_seconds", "Time spent deciding and committing"),
    "resyncs": ("resyncs", "Full reads of the cell"),
    "fencings": ("fencings", "Times its lease lapsed or its name was taken"),
    "store_losses": ("stalls", "Times the store was unavailable"),
}


@dataclass(slots=True, eq=False)
class SchedulerMetrics(Collector):
    """The metrics of one scheduler. `live` returns the object with its snapshot, once there is one; `state` what the
    last heartbeat read.
    """  # fmt: skip

    cell: str
    member: str
    scheduler: Scheduler
    figures: Figures
    live: Callable[[], LiveDriver | None]
    state: Callable[[], HeartbeatState] = HeartbeatState

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; the registry calls it."""
        names, values = ["cell", "scheduler"], [self.cell, self.member]
        for name, (field, about) in COUNTS.items():
            count = CounterMetricFamily(f"omega_scheduler_{name}", about, labels=names)
            count.add_metric(values, getattr(self.figures, field))
            yield count
        for name, about in DURATIONS.items():
            yield _histogram(f"omega_scheduler_{name}_seconds", about, names, values, getattr(self.figures, name))
        scheduler, state = self.scheduler, self.state()
        for name, about, now in (
            ("queue_depth", "Jobs in the queue, those that back off included", len(scheduler.queue.ready)),
            ("blocked", "Jobs that fit nowhere and wait until room is freed", len(scheduler.queue.blocked)),
            ("unacknowledged", "Jobs with a transaction in flight", len(scheduler.working)),
            (
                "pending",
                "Jobs of this kind with unplaced tasks, over all schedulers",
                state.pending.get(scheduler.kind, 0),
            ),
            ("renewed_timestamp_seconds", "Last renewal of its lease, seconds since 1970; 0: none", state.renewed_at),
        ):
            yield _gauge(f"omega_scheduler_{name}", about, names, [(values, now)])
        yield from _of_heartbeat(state, names, values)
        yield self._rejections(names, values)
        yield self._utilisation(names, values)
        yield from self._pools(names, values)

    def _rejections(self, names: list[str], values: list[str]) -> Metric:
        about = "Claims rejected as moved or full since the start, by machine; repeated ones indicate a fault"
        worst = sorted(dict(self.figures.rejections).items(), key=lambda item: -item[1])
        rows = [([*values, str(machine)], count) for machine, count in worst[:MOST_MACHINES]]
        if others := sum(count for _, count in worst[MOST_MACHINES:]):
            rows.append(([*values, "other"], others))
        return _gauge("omega_scheduler_rejections", about, [*names, "machine"], rows)

    def _pools(self, names: list[str], values: list[str]) -> Iterator[Metric]:
        """Yield shares of pools by the published epoch, as parts of their tree's machines."""
        live = self.live()
        epoch = live.snapshot.epoch if live is not None else None
        if live is None or epoch is None:
            return
        shares, resources = epoch.pools.values(), live.cell.dimensions.names
        for name, about in (
            ("fair_share", "Fair share of a pool"), ("usage", "Part that the jobs of a pool hold"),
            ("demand", "Part that the jobs of a pool hold or want"), ("guarantee", "Strong guarantee of a pool"),
        ):  # fmt: skip
            rows = [
                ([*values, share.name, resource], part)
                for share in shares
                for resource, part in zip(resources, getattr(share, name), strict=True)
            ]
            yield _gauge(f"omega_pool_{name}", about, [*names, "pool", "resource"], rows)
        about, rows = "Usage ÷ fair share; +Inf without a share", [([*values, s.name], s.satisfaction) for s in shares]
        yield _gauge("omega_pool_satisfaction", about, [*names, "pool"], rows)
        yield GaugeMetricFamily("omega_epoch", "Number of the epoch of fair shares in use", value=epoch.number)

    def _utilisation(self, names: list[str], values: list[str]) -> Metric:
        about = "Allocated share of the capacity of machines that are up, by this scheduler's snapshot"
        live = self.live()
        parts = [] if live is None else zip(live.cell.dimensions.names, live.snapshot.utilisation(), strict=True)
        rows = [([*values, resource], part) for resource, part in parts]
        return _gauge("omega_cell_utilisation", about, [*names, "resource"], rows)


def _of_heartbeat(state: HeartbeatState, names: list[str], values: list[str]) -> Iterator[Metric]:
    """Yield what all schedulers of a cell read alike; each exports it, so that one that ends hides nothing."""
    store = state.store
    for name, about, now in (
        ("refuses_writes", "Whether the store refused writes at the last heartbeat", bool(store.refuses)),
        ("replicas", "Replicas of the store's primary that are in sync", store.replicas),
        ("memory_bytes", "Memory that the store uses", store.memory_bytes),
        ("memory_limit_bytes", "The store's maxmemory; 0 without a limit", store.memory_limit_bytes),
    ):
        yield _gauge(f"omega_store_{name}", about, names, [(values, now)])
    for name, about, total in (
        ("cuts", "Times the store lost versions of the cell, as after a failover", state.cuts.number),
        ("lost_versions", "Versions of the cell that the store surely lost", state.cuts.lost),
    ):
        count = CounterMetricFamily(f"omega_cell_{name}", about, labels=names)
        count.add_metric(values, total)
        yield count
    for name, about, counts in (
        ("machines", "Machines of the cell by state", state.machines),
        ("tasks", "Tasks of the cell by state", state.tasks),
    ):
        yield _gauge(f"omega_cell_{name}", about, [*names, "state"], [([*values, k], n) for k, n in counts.items()])


def _gauge(name: str, about: str, labels: list[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    gauge = GaugeMetricFamily(name, about, labels=labels)
    for values, value in rows:
        gauge.add_metric(values, value)
    return gauge


def _histogram(name: str, about: str, names: list[str], values: list[str], durations: DurationHistogram) -> Metric:
    """Cumulative classes, as Prometheus defines them."""
    metric, so_far, buckets = HistogramMetricFamily(name, about, labels=names), 0, []
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), list(durations.classes), strict=True):
        so_far += count
        buckets.append((bound, so_far))
    metric.add_metric(values, buckets, sum_value=durations.total)
    return metric
