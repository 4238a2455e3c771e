"""Fair shares of a live cell: every scheduler reads the published epoch, and publishes the next one when it is due.

Shares are computed in a process of their own, which the first two schedulers in rank start: the attempt loop does not
wait for it. Until it runs, a thread computes them in a cell of few jobs: a process starts in seconds on a busy
computer, and jobs wait for the first epoch.

There is no leader. Live schedulers are ranked by name. The first publishes at the end of a period, each other one a
part of a period later, only if there is no newer epoch by then. So a dead scheduler is replaced within a period, and
schedulers seldom compute the same epoch twice (semantics 34).
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio.to_process
import anyio.to_thread

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.cell import Cell, CellPools
from omega.cellstate.errors import OmegaError, Unreadable
from omega.cellstate.pools import Epoch
from omega.cellstate.replies import EpochMark
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.store import connect_cell
from omega.schedulers.epochs import epoch_of
from omega.schedulers.pool_machines import totals_of
from omega.schedulers.runnable import Runnable

PERIOD_MS = 1_000
"""Minimum length of an epoch in milliseconds, by the server's clock."""
STAGGER = 0.25
"""The part of a period by which each next scheduler in rank waits longer, up to one period."""
REST_PART = 4
"""An epoch is at least so many times as long as the processor time that it took: most of the time none is computed."""
MOST_REST_MS = 60_000
"""Time in milliseconds after which the next epoch is due, however long the last one took."""
FIRST_SECONDS = 10.0
"""Time in seconds by which each next scheduler in rank waits longer for the first epoch of a cell."""
CHECK_SECONDS = 10.0
"""Interval in seconds at which one scheduler reads the whole record of an epoch that did not change."""
FEW_JOBS = 2_000
"""Maximum number of live jobs of a cell whose first epochs a thread may compute: it slows the attempt loop down."""
PREPARED_RANKS = 2
"""Number of schedulers, the first in rank, that start the process that computes epochs before they have to publish."""
POLL_SECONDS = 0.2
IDLE_SECONDS = 1.0
"""Interval in seconds of reads of a cell without pools."""


def is_due(mark: EpochMark, rank: int, *, grows: bool, period_ms: int = PERIOD_MS, waited: float = 0.0) -> bool:
    """Return whether a scheduler of this rank is to publish an epoch now.

    The first epoch reads all jobs, so only the first in rank computes it, until others have `waited` for it in vain
    (seconds).
    Nothing is computed while nothing changed since the epoch was read, except by its own publication, unless the volume
    of some integral guarantee or decayed usage `grows`.
    Where the server's clock was put back, or another server took over whose clock is behind, the period of the last
    epoch does not count.
    """
    if not mark.configured:
        return False
    if mark.number == 0 or not mark.readable:
        return waited >= rank * FIRST_SECONDS
    if mark.version == mark.published == mark.read + 1 and not grows:
        return False
    age_ms = mark.now_ms - mark.at_ms
    return age_ms < 0 or age_ms >= period_ms * (1 + min(1.0, rank * STAGGER))


def readable_epoch(pools: CellPools) -> Epoch | None:
    """Return the published epoch; None also when its record cannot be read, which the next epoch replaces."""
    try:
        return pools.epoch()
    except Unreadable:
        return None


@dataclass(slots=True)
class Publisher:
    """Computes and publishes epochs of a cell, with a snapshot of its machines that each epoch brings up to date."""

    cell: Cell
    snapshot: Snapshot = field(init=False)
    _runnable: Runnable = field(default_factory=Runnable)

    def __post_init__(self) -> None:
        """Create an empty snapshot."""
        self.snapshot = ArraySnapshot(len(self.cell.dimensions))

    def publish(self, by: str, now_ms: int | None = None, period_ms: int = PERIOD_MS) -> int:
        """Publish the next epoch; returns the cell's version then, 0 when another scheduler was first."""
        cell, snapshot, began = self.cell, self.snapshot, time.thread_time()
        pools, previous, number = cell.pools.get(), readable_epoch(cell.pools), cell.pools.next_epoch()
        reply, jobs, asked = cell.pools.demands(snapshot.position)
        snapshot.apply(reply)
        jobs = self._runnable.of(jobs, pools, snapshot, cell)
        at_ms = cell.store_ms() if now_ms is None else now_ms
        epoch = epoch_of(
            pools, jobs, totals_of(pools, snapshot, cell.dimensions.names), cell.dimensions.names, previous,
            version=snapshot.position.version, at_ms=at_ms, by=by,
        )  # fmt: skip
        took_ms = round(1000 * (time.thread_time() - began))  # a halt or a slow store is no work
        return cell.pools.publish_epoch(replace(epoch, number=number, took_ms=took_ms, asked=asked), period_ms, at_ms)


_publishers: dict[tuple[str, str], Publisher] = {}


def prepare(url: str, cell: str) -> None:
    """Connect to the cell in a worker process, so that the first epoch takes no longer than the others."""
    if (url, cell) not in _publishers:
        _publishers[url, cell] = Publisher(connect_cell(url, cell))


def publish(url: str, cell: str, by: str, period_ms: int) -> int:
    """Publish the next epoch, in a worker process; connection and snapshot are kept for the next call."""
    prepare(url, cell)
    publisher = _publishers[url, cell]
    try:
        return publisher.publish(by, period_ms=period_ms)
    except Exception:
        forget(url, cell)
        raise


def forget(url: str, cell: str) -> None:
    """Close this process's connection to the cell, and drop the snapshot for its epochs."""
    if (publisher := _publishers.pop((url, cell), None)) is not None:
        publisher.cell.close()


@dataclass(slots=True)
class EpochReader:
    """Keeps pools and epoch of a scheduler's snapshot up to date, on a connection of its own."""

    url: str
    cell_name: str
    member: str
    _cell: Cell | None = None
    _wanted: anyio.Event = field(default_factory=anyio.Event)
    """Set when this scheduler is to start the process that computes epochs."""
    _ready: anyio.Event = field(default_factory=anyio.Event)
    """Set when that process runs."""
    _missing_since: float | None = None
    """Since when the cell has pools and no epoch (seconds of the monotonic clock)."""
    _checked: float = -math.inf
    _damaged: bool = False
    _partings: int = 0

    async def step(self, snapshot: Snapshot, members: Sequence[str]) -> float:
        """Read the changes, publish when an epoch is due; returns the seconds until the next step."""
        try:
            mark = await anyio.to_thread.run_sync(self.read, snapshot)
            ranked = sorted(members)
            rank = ranked.index(self.member) if self.member in ranked else len(ranked)
            pools = snapshot.pools
            grows = any(pool.integral.kind != "none" for pool in pools.pools) or any(
                tree.usage_half_life is not None for tree in pools.trees
            )
            took_ms = 0 if snapshot.epoch is None else snapshot.epoch.took_ms
            period_ms = max(PERIOD_MS, min(MOST_REST_MS, REST_PART * took_ms))
            waited = self._waited(mark)
            damaged = mark.configured and (self._damaged or await anyio.to_thread.run_sync(self._check, rank))
            if damaged or is_due(mark, rank, grows=grows, period_ms=period_ms, waited=waited):
                await self._publish(period_ms)
                await anyio.to_thread.run_sync(self.read, snapshot)
            elif mark.configured and rank < min(PREPARED_RANKS, len(ranked)):
                self._wanted.set()
        except (OmegaError, anyio.BrokenWorkerProcess):
            self.close()  # the attempt loop meets the same error, and waits for store and cell
            return IDLE_SECONDS
        return POLL_SECONDS if mark.configured else IDLE_SECONDS

    def _waited(self, mark: EpochMark) -> float:
        """Return how long (seconds) this scheduler has waited for the first epoch."""
        if mark.number or not mark.configured:
            self._missing_since = None
            return 0.0
        if self._missing_since is None:
            self._missing_since = time.monotonic()
        return time.monotonic() - self._missing_since

    async def _publish(self, period_ms: int) -> None:
        """Publish the next epoch, in the worker process once it runs."""
        self._wanted.set()
        url, cell, member = self.url, self.cell_name, self.member
        if self._ready.is_set() or await anyio.to_thread.run_sync(self._has_many_jobs):
            await self._ready.wait()
            forget(url, cell)
            await anyio.to_process.run_sync(publish, url, cell, member, period_ms, cancellable=True)
        else:
            await anyio.to_thread.run_sync(publish, url, cell, member, period_ms, abandon_on_cancel=True)

    def _has_many_jobs(self) -> bool:
        return self._cell is not None and self._cell.jobs.live_count() > FEW_JOBS

    async def prepare(self) -> None:
        """Start the worker process once this scheduler is to have one; it replaces the thread that publishes."""
        await self._wanted.wait()
        while not self._ready.is_set():
            try:
                await anyio.to_process.run_sync(prepare, self.url, self.cell_name, cancellable=True)
                self._ready.set()
            except (OmegaError, anyio.BrokenWorkerProcess):
                await anyio.sleep(IDLE_SECONDS)

    def read(self, snapshot: Snapshot) -> EpochMark:
        """Bring a snapshot's pools and epoch up to date."""
        if self._cell is None:
            self._cell, self._partings = connect_cell(self.url, self.cell_name), 0
            self._cell.look_back()
        mark, before = self._cell.pools.epoch_mark(), (snapshot.pools, snapshot.epoch)
        partings = self._cell.sightings.partings
        if lost := partings != self._partings:  # the same numbers are of other pools and another epoch now
            self._partings, mark = partings, self._cell.pools.epoch_mark()
        if lost or mark.pools_version != snapshot.pools.version:
            snapshot.pools, snapshot.resources = self._cell.pools.get(), self._cell.dimensions.names
        if not mark.configured:
            snapshot.epoch = None
        elif lost or mark.number != (snapshot.epoch.number if snapshot.epoch else 0) or not mark.readable:
            snapshot.epoch = readable_epoch(self._cell.pools)
            self._damaged = snapshot.epoch is None and (mark.number > 0 or not mark.readable)
        if (snapshot.pools, snapshot.epoch) != before:
            self._cell.look_back()  # a version that has them: after a cut it shows that they are lost
        return mark

    def with_cell(self, call: Callable[[Cell], None]) -> None:
        """Call something with the connection, if there is one."""
        if self._cell is not None:
            call(self._cell)

    def _check(self, rank: int) -> bool:
        """Return whether the record of the published epoch is damaged; the first in rank reads it now and then."""
        if rank or self._cell is None or time.monotonic() - self._checked < CHECK_SECONDS:
            return False
        self._checked = time.monotonic()
        try:
            self._cell.pools.epoch()
        except Unreadable:
            return True
        return False

    def close(self) -> None:
        """Close the connection."""
        if self._cell is not None:
            self._cell.close()
            self._cell = None
        forget(self.url, self.cell_name)
