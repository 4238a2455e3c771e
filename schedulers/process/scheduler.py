"""A scheduler as a process: anyio supervises the attempt loop, the heartbeat and the signals.

The loop runs in a worker thread with the synchronous client; the event loop beside it renews the lease
once in a third of its length, on a connection of its own, and only while the loop makes progress: a
scheduler that hangs must lose its jobs to the others (semantics 17). SIGTERM and SIGINT let it finish
the attempt in hand.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from cellstate.cell import Membership
from cellstate.errors import CellGone, Duplicate, Fenced, OmegaError, Refused, StoreError
from cellstate.redis import RedisCell
from cellstate.server import check_suitable, server_info
from schedulers.instruments import Figures
from schedulers.live import LEASE_MS, Live
from schedulers.process.diary import Diary
from schedulers.process.endpoint import METRICS, endpoint
from schedulers.process.housekeeping import housekeep
from schedulers.process.log import log
from schedulers.process.signals import leave_signals
from schedulers.rolling import Rollouts
from schedulers.scheduler import Scheduler
from schedulers.sharing import owned

NEVER = float("inf")
HUNG_LEASES = 2
"""After so many leases without a step the loop counts as hung and the lease is left to lapse."""
MOST_DELAYED = 256
"""Delayed jobs that a heartbeat lists."""
NAME_LEASES = 4 / 3
"""How many leases to wait for a name: one that died with it lets go of it when its lease ends."""


@dataclass(slots=True)
class Process:
    """One scheduler under supervision, on the store at `url`."""

    url: str
    cell: str
    member: str
    scheduler: Scheduler
    lease_ms: int = LEASE_MS
    pipelined: bool = True
    figures: Figures = field(default_factory=Figures)
    pending: int = 0
    """Jobs of its kind that want a machine, as of the last heartbeat; kept only for the metrics."""
    _url: str | None = None
    _rollouts: Rollouts = field(init=False)
    _live: Live | None = None
    _stopping: bool = False
    _seen_steps: int = -1
    _hung_since: float = 0.0
    _looked_after: float = 0.0
    _roll_at: float = NEVER
    """When the updates that are rolling are to be looked at next, if that is before the next heartbeat."""

    def __post_init__(self) -> None:
        """Nothing is looked after yet."""
        self._rollouts = Rollouts(self.scheduler.kind, self.member)

    def run(self) -> None:
        """Run until a signal; raises OmegaError when it cannot start or the store refuses for good."""
        check_suitable(server_info(self.url))
        self.figures.since = time.time()
        self.scheduler.instruments += [self.figures, Diary(self.member)]
        with self._shown() as self._url:
            anyio.run(self._supervise)

    @contextmanager
    def _shown(self) -> Iterator[str | None]:
        """Show metrics where OMEGA_METRICS wants them; yields their URL."""
        where = os.environ.get(METRICS)
        if not where:
            yield None
            return
        from schedulers.metrics import SchedulerMetrics  # noqa: PLC0415 - imports prometheus_client

        metrics = SchedulerMetrics(
            self.cell, self.member, self.scheduler, self.figures, lambda: self._live, lambda: self.pending
        )
        with endpoint(self.member, where, metrics) as url:
            yield url

    async def _supervise(self) -> None:
        async with anyio.create_task_group() as group:
            # Who has a name must leave in order: signals are heard before it is taken.
            await group.start(self._signals)
            self._live = await anyio.to_thread.run_sync(self._register)
            if self._live is not None:
                self._live.stopping = self._stopping
                group.start_soon(self._heartbeat)
                await anyio.to_thread.run_sync(self._live.run)
            group.cancel_scope.cancel()

    async def _signals(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        with anyio.open_signal_receiver(*leave_signals()) as signals:
            task_status.started()
            async for _ in signals:
                self._stop()

    def _stop(self) -> None:
        self._stopping = True
        if self._live is not None:
            self._live.stopping = True

    def _register(self) -> Live | None:
        """Take the name, once the lease of one that died with it is over; None when told to stop before."""
        cell, lease = RedisCell.connect(self.url, self.cell), self.lease_ms / 1000
        until, figures = time.monotonic() + NAME_LEASES * lease, cell.figures().get(self.member)
        while True:
            try:
                return Live(cell, self.scheduler, self.member, time.time, time.sleep, self.lease_ms, self.pipelined)
            except Duplicate:
                # Figures that move are those of one that lives.
                if time.monotonic() > until or cell.figures().get(self.member) != figures:
                    raise
            if self._stopping:
                cell.close()
                return None
            time.sleep(lease / 50)

    async def _heartbeat(self) -> None:
        cell: RedisCell | None = None
        try:
            while True:
                # The loop meets the same error and waits for store and cell; the lease may lapse meanwhile.
                with suppress(StoreError):
                    if cell is None:
                        cell = await anyio.to_thread.run_sync(self._connect)
                    await anyio.to_thread.run_sync(self.renew_lease, cell)
                await self._until_next(cell)
        except Exception:
            self._stop()  # without a heartbeat the loop would only be fenced, again and again
            raise

    def _connect(self) -> RedisCell:
        try:
            return RedisCell.connect(self.url, self.cell)
        except Refused as error:
            if self._live is not None:
                self._live.lapsed = self._live.membership  # the loop may be idle, and not notice by itself
            raise CellGone(str(error)) from error

    async def _until_next(self, cell: RedisCell | None) -> None:
        """Wait for the next heartbeat; an update that is rolling does not."""
        beat_at = time.monotonic() + self.lease_ms / 3000
        while (left := min(beat_at, self._roll_at) - time.monotonic()) > 0 or self._roll_at < beat_at:
            await anyio.sleep(max(0.0, left))
            if cell is not None and self._roll_at < beat_at:
                with suppress(StoreError):
                    await anyio.to_thread.run_sync(self._roll, cell)

    def _roll(self, cell: RedisCell) -> None:
        """Fetch after updates."""
        self._roll_at = NEVER
        if self._live is not None:
            due = self._rollouts.step(cell, self._live.owned, int(time.time() * 1000))
            self._roll_at = NEVER if due is None else time.monotonic() + due / 1000

    def renew_lease(self, cell: RedisCell) -> None:
        """Renew the lease if the loop lives, learn who else does, and take note of lapsed members."""
        self._roll_at, live = NEVER, self._live
        if live is None or self._hung(live):
            return
        queued, blocked = len(self.scheduler.queue.ready), self.scheduler.queue.blocked_jobs
        membership = live.membership
        try:
            members = cell.renew_scheduler(membership, self.lease_ms, self._figures_now(queued, blocked))
        except Fenced:
            live.lapsed = membership
            cell.check_there()  # a token for a cell that is gone would be all there is of it
            cell.rouse(self.member)
            return
        before, live.owned = live.owned, owned(self.member, members)
        if live.owned != before:
            cell.rouse(self.member)  # it may sleep beside the jobs of one that is gone
        live.cell.may_wake(members)
        if self._url is not None:
            self.pending = cell.queue_depths().get(self.scheduler.kind, 0)
        self._reap(cell, set(members))
        due = time.monotonic() - self._looked_after > self.lease_ms / 1000
        if due and not housekeep(cell, int(time.time() * 1000), self.member):
            self._looked_after = time.monotonic()
        self._roll(cell)

    def _figures_now(self, queued: int, blocked: int) -> dict[str, Any]:
        """The figures of a copy. The loop counts on meanwhile, and an array that is being read refuses to grow."""
        figures, waits = self.figures, replace(self.figures.waits, last=self.figures.waits.last[:])
        still = replace(figures, waits=waits, rejections=dict(figures.rejections), in_a_row=dict(figures.in_a_row))
        evicts, by = self.scheduler.preemption.evicts, self.scheduler.preemption.by
        delayed = {job_id: int(until * 1000) for job_id, until in self.scheduler.queue.delayed(MOST_DELAYED).items()}
        where = {"metrics": self._url, "pid": os.getpid(), "host": socket.gethostname()}
        return still.as_dict(time.time(), queued, blocked) | {
            "evicts": evicts, "evicts_by": by, "delayed": delayed, **where,
        }  # fmt: skip

    def _hung(self, live: Live) -> bool:
        now = time.monotonic()
        if live.waiting or live.steps != self._seen_steps:
            self._seen_steps, self._hung_since = live.steps, now
        return now - self._hung_since > HUNG_LEASES * self.lease_ms / 1000

    def _reap(self, cell: RedisCell, alive: set[str]) -> None:
        """Remove members without a lease, but not within one lease of a (re)start of the store."""
        known = cell.members().items()
        lapsed = [(name, number) for name, (number, holds, _) in known if not holds and name not in alive]
        if lapsed and server_info(self.url).uptime_seconds * 1000 > self.lease_ms:
            for name, number in lapsed:
                cell.deregister_scheduler(Membership(name, number), int(time.time() * 1000), reaped=True)
                log.info("reaped", member=name, incarnation=number, by=self.member)


def run_member(url: str, cell: str, member: str, scheduler: Scheduler, lease_ms: int = LEASE_MS) -> OmegaError | None:
    """Run a scheduler until it is told to leave; returns the error that ended it, if one did."""
    try:
        Process(url, cell, member, scheduler, lease_ms).run()
    except OmegaError as error:
        return error
    except BaseExceptionGroup as group:
        matched = group.subgroup(OmegaError)
        if matched is None:
            raise
        return next(error for error in matched.exceptions if isinstance(error, OmegaError))
    return None
