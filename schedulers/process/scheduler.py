"""A scheduler as a process: anyio supervises the attempt loop, the heartbeat and the signals.

The loop runs in a worker thread with the synchronous client. The event loop renews the lease every third of its length,
on its own connection, and only while the loop makes progress: a scheduler that hangs must lose its jobs to the others
(semantics 17). On SIGTERM and SIGINT the current attempt is completed first.

It logs events, and keeps for its heartbeat the reasons why its jobs were pending, with their times.
"""

import os
import socket
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

import anyio
import anyio.abc
import anyio.to_thread

from omega.cellstate.cell import Cell, Schedulers
from omega.cellstate.clock import since_1970
from omega.cellstate.durability import UNCHECKED
from omega.cellstate.errors import CellGone, Duplicate, Fenced, OmegaError, Refused, StoreError
from omega.cellstate.override import override
from omega.cellstate.replies import EARLIER, Membership, figure_totals
from omega.cellstate.server import server_info
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.store import connect_cell
from omega.cellstate.transaction import Outcome, Transaction, Verdict
from omega.schedulers.balance import Balance, loads_of
from omega.schedulers.constraints.explanation import explain
from omega.schedulers.constraints.reasons import Reason
from omega.schedulers.failing import FailingJobs, Hung, as_one_line
from omega.schedulers.heartbeat_state import HeartbeatState, read_state
from omega.schedulers.instruments import Figures, Instrument
from omega.schedulers.live_driver import LiveDriver, settings_of
from omega.schedulers.process.beat import ALIVE, HEARTBEAT, INCARNATION, Beat
from omega.schedulers.process.copies import Copies
from omega.schedulers.process.endpoint import METRICS, endpoint
from omega.schedulers.process.epochs import EpochReader
from omega.schedulers.process.excess import Excess
from omega.schedulers.process.housekeeping import housekeep
from omega.schedulers.process.log import log
from omega.schedulers.process.signals import await_store, leave_signals, once_there
from omega.schedulers.rolling import Rollouts
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import LEASE_MS, Ownership, divided, of_kind
from omega.schedulers.work import Work

REPEAT_SECONDS = 60.0
"""Time in seconds for which an error of a policy is not logged again."""
MOST_JOBS = 128
"""Maximum number of jobs with reasons in a heartbeat: those with the latest changes."""
MOST_REASONS = 5
"""Maximum number of reasons per job: the last ones."""
EXPLAINED_PER_SECOND = 10
"""Blocked jobs that are explained per second, some milliseconds each; others keep their last reason, or RESOURCES."""
NEVER = float("inf")
HUNG_LEASES = 2
"""Number of lease lengths without a step after which the loop counts as hung; its lease then expires."""
TURN_SECONDS = 0.2
MOST_DELAYED = 256
"""Maximum number of delayed jobs in a heartbeat."""
MOST_LOADS = 64
"""Maximum number of leaf pools in a heartbeat with the time that their jobs took."""
NAME_LEASES = 4 / 3
"""Number of lease lengths to wait for a name: the name of a killed process is free when its lease expires."""


class Diary(Instrument):
    """Writes the events of one scheduler to the log."""

    def __init__(self, member: str) -> None:
        """`member` is its name, ``batch/0``."""
        self._log = log.bind(member=member)
        self._raised: dict[str, float] = {}
        """When each error of a policy was logged."""

    @override
    def registered(self, incarnation: int, now: float) -> None:
        self._log.info("joined", incarnation=incarnation)

    @override
    def deregistered(self, now: float) -> None:
        self._log.info("left")

    @override
    def fenced(self, now: float) -> None:
        self._log.warning("fenced", why="its lease lapsed, or its name was taken")

    @override
    def store_away(self, error: str, now: float) -> None:
        self._log.warning("store away", error=error)

    @override
    def store_back(self, seconds: float, now: float) -> None:
        self._log.warning("store back", seconds=round(seconds, 3))

    @override
    def synced(self, seconds: float, machines: int, now: float, *, full: bool) -> None:
        if full:
            self._log.info("resync", machines=machines, seconds=round(seconds, 4))

    @override
    def raised(self, work: Any, error: str, now: float) -> None:
        if now - self._raised.get(error, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._raised = {text: at for text, at in self._raised.items() if now - at < REPEAT_SECONDS} | {error: now}
            self._log.warning(f"{error}; the job is tried again later, other jobs are placed", job=work.job.name)

    @override
    def abandoned(self, work: Any, now: float) -> None:
        self._log.warning("job abandoned", job=work.id, conflicts=work.conflicts)


class PendingReasons(Instrument):
    """Records when the reason of a pending job changed. The loop writes it, the heartbeat reads it."""

    def __init__(self, snapshot: Callable[[], Snapshot | None] = lambda: None) -> None:
        """Explain blocked jobs on the scheduler's snapshot, which `snapshot` returns to the thread of the loop."""
        self._snapshot = snapshot
        self._found: dict[str, list[tuple[int, str]]] = {}
        self._second, self._explained = 0, 0
        self._lock = threading.Lock()

    @override
    def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        if outcome.accepted:
            return
        if outcome.conflicted:
            self._record(transaction.job, Reason.CONFLICTS, now)
        elif any(verdict is Verdict.LIMIT for _, verdict in outcome.claims):
            self._record(transaction.job, Reason.LIMIT, now)

    @override
    def blocked(self, work: Work, now: float) -> None:
        last = self._found.get(work.id)
        if last and last[-1] == (int(now * 1000), Reason.LIMIT):
            return  # of this very commit
        waits = work.until > now  # a policy named a later time
        self._record(work.id, Reason.LOCALITY if waits else self._explain(work, now, last[-1][1] if last else ""), now)

    @override
    def placed(self, work: Work, now: float) -> None:
        if work.id in self._found:
            self._record(work.id, Reason.PLACED, now)

    @override
    def placed_all(self, works: Sequence[Work], now: float) -> None:
        if self._found:
            for work in works:
                self.placed(work, now)

    @override
    def committed_all(self, results: Sequence[tuple[Transaction, Outcome]], now: float) -> None:
        for transaction, outcome in results:
            if not outcome.accepted:
                self.committed(transaction, outcome, now)

    @override
    def raised(self, work: Work, error: str, now: float) -> None:
        self._record(work.id, Reason.FAILING, now)

    @override
    def abandoned(self, work: Work, now: float) -> None:
        self._record(work.id, Reason.CONFLICTS, now)

    def delayed(self, jobs: Iterable[str], now: float) -> None:
        """Record jobs that a placement delays for preferred machines."""
        for job_id in jobs:
            self._record(job_id, Reason.LOCALITY, now)

    def as_dict(self) -> dict[str, list[tuple[int, str]]]:
        """Return the reasons by job, each with the time (ms since 1970) from which it held, oldest first."""
        with self._lock:
            return {job_id: list(reasons) for job_id, reasons in self._found.items()}

    def _explain(self, work: Work, now: float, last: str) -> str:
        snapshot = self._snapshot()
        if int(now) != self._second:
            self._second, self._explained = int(now), 0
        if snapshot is None or self._explained >= EXPLAINED_PER_SECOND:
            return last if last not in ("", Reason.CONFLICTS, Reason.LIMIT, Reason.LOCALITY) else Reason.RESOURCES
        self._explained += 1
        reason = explain(work, snapshot).reason
        return Reason.RESOURCES if reason == Reason.WAITING else reason

    def _record(self, job_id: str, reason: str, now: float) -> None:
        with self._lock:
            reasons = self._found.pop(job_id, [])
            if not reasons or reasons[-1][1] != reason:
                reasons = [*reasons[1 - MOST_REASONS :], (int(now * 1000), str(reason))]
            self._found[job_id] = reasons  # the last of the mapping: those before it are dropped first
            if len(self._found) > MOST_JOBS:
                del self._found[next(iter(self._found))]


class Watched(Protocol):
    """What the process that watches this one knows (omega/live/processes/watch.py)."""

    beat: Beat
    seconds: float
    """Time that a call of a policy has."""
    former: int
    """The incarnation of the process before, which was killed; 0 for none."""
    text: str
    """Why it was killed, if no job was the cause."""

    @abstractmethod
    def hung(self) -> Mapping[str, Hung]:
        """Return the jobs at which a policy did not return."""

    @abstractmethod
    def alone(self) -> float:
        """Return for how many seconds jobs are placed one after another."""


@dataclass(slots=True)
class SupervisedScheduler:
    """One scheduler under supervision, on the store at `url`."""

    url: str
    cell: str
    _: KW_ONLY
    member: str
    scheduler: Scheduler
    lease_ms: int = LEASE_MS
    pipelined: bool = True
    watched: Watched | None = None
    figures: Figures = field(default_factory=Figures)
    reasons: PendingReasons = field(init=False)
    state: HeartbeatState = field(default_factory=HeartbeatState)
    """What the last heartbeat read, for the metrics."""
    _earlier: dict[str, int] = field(default_factory=dict)
    """What the processes of this name before this one counted."""
    _members: list[str] = field(default_factory=list)
    """The live schedulers, as of the last heartbeat."""
    _warned: set[str] = field(default_factory=set)
    """What the ordering warned of at the last heartbeat."""
    _url: str | None = None
    _rollouts: Rollouts = field(init=False)
    _live: LiveDriver | None = None
    _stopping: bool = False
    _seen_steps: int = -1
    _hung_since: float = 0.0
    _looked_after: float = 0.0
    _keeps: LiveDriver | None = None
    """What housekeeping is done with; None while the lease is not renewed."""
    _excess: Excess = field(default_factory=Excess)
    _copies: Copies = field(default_factory=Copies)
    _failed: dict[str, Any] | None = None
    """The error that ends this scheduler, with its time."""
    _balance: Balance | None = None
    """At the first in rank: which schedulers are to own which leaf pools."""
    _loads_at: tuple[float, float] = (0.0, 0.0)
    """When the loads were taken last, and the busy seconds until then."""
    _roll_at: float = NEVER
    """Time of the next step of rolling updates if it is before the next heartbeat."""

    def __post_init__(self) -> None:
        """Prepare what observes the scheduler."""
        self.reasons = PendingReasons(lambda: None if self._live is None else self._live.snapshot)
        self._rollouts = Rollouts(self.scheduler.kind, self.member)
        self.scheduler.failing = FailingJobs(None if self.watched is None else self.watched.beat)
        if self.watched is not None:
            self.scheduler.failing.learn(self.watched.hung(), since_1970())
            self.scheduler.failing.alone_until = since_1970() + self.watched.alone()

    def run(self) -> None:
        """Run until a signal; raises OmegaError when it cannot start or the store refuses for good."""
        await_store(self.url, self.member)
        self.figures.since = since_1970()
        self.scheduler.instruments += [self.figures, self.reasons, Diary(self.member)]
        with self._shown() as self._url:
            anyio.run(self._supervise)

    @contextmanager
    def _shown(self) -> Iterator[str | None]:
        """Serve metrics at OMEGA_METRICS; yields their URL."""
        where = os.environ.get(METRICS)
        if not where:
            yield None
            return
        from omega.schedulers.metrics import SchedulerMetrics  # noqa: PLC0415 - imports prometheus_client

        metrics = SchedulerMetrics(
            self.cell, self.member, self.scheduler, self.figures, lambda: self._live, lambda: self.state
        )
        with endpoint(self.member, where, metrics) as url:
            yield url

    async def _supervise(self) -> None:
        async with anyio.create_task_group() as group:
            # A registered scheduler must deregister: signals are handled before it registers.
            await group.start(self._signals)
            register = partial(once_there, self._register, self.member, lambda: self._stopping)
            self._live = await anyio.to_thread.run_sync(register)
            if self._live is not None:
                self._live.stopping = self._stopping
                group.start_soon(self._heartbeat)
                group.start_soon(self._housekeeping)
                group.start_soon(self._read_epochs)
                if self.watched is not None:
                    group.start_soon(self._turn, self.watched.beat)
                await anyio.to_thread.run_sync(self._run)
            group.cancel_scope.cancel()

    def _run(self) -> None:
        """Run the attempt loop; before an error ends it, leave the error in the store and deregister."""
        if self._live is None:
            return
        try:
            self._live.run()
        except OmegaError as error:
            self._leave(error)
            raise

    def _leave(self, error: OmegaError) -> None:
        """Store an error with the last figures, for `omega job why`, and deregister, so that others take its jobs."""
        live, self._failed = self._live, {"error": str(error), "at_ms": int(since_1970() * 1000)}
        if live is None:
            return
        with suppress(OmegaError):  # the store may be the cause
            cell = connect_cell(self.url, self.cell)
            cell.schedulers.renew(live.membership, self.lease_ms, self._figures_now())
            cell.schedulers.deregister(live.membership, int(since_1970() * 1000))
            cell.close()

    async def _signals(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        with anyio.open_signal_receiver(*leave_signals()) as signals:
            task_status.started()
            async for _ in signals:
                self._stop()

    def _stop(self) -> None:
        self._stopping = True
        if self._live is not None:
            self._live.stopping = True

    def _register(self) -> LiveDriver | None:
        """Register once the lease of a killed predecessor has expired; None when stopped before."""
        cell, lease = connect_cell(self.url, self.cell), self.lease_ms / 1000
        self._succeed(cell)
        until, figures = time.monotonic() + NAME_LEASES * lease, cell.schedulers.figures().get(self.member)
        while True:
            try:
                live = LiveDriver(
                    cell, self.scheduler, self.member, since_1970, time.sleep, lease_ms=self.lease_ms,
                    pipelined=self.pipelined,
                )  # fmt: skip
            except Duplicate:
                # Changing figures prove that the holder lives.
                if time.monotonic() > until or cell.schedulers.figures().get(self.member) != figures:
                    raise
            else:
                self._earlier = figure_totals(cell.schedulers.figures().get(self.member, {}))
                if cell.unchecked:
                    log.warning(UNCHECKED, member=self.member)
                if self.watched is not None:
                    self.watched.beat.words[INCARNATION] = live.membership.incarnation
                with suppress(OmegaError):  # the heartbeat tries again
                    cell.schedulers.renew(live.membership, self.lease_ms, self._figures_now())
                return live
            if self._stopping:
                cell.close()
                return None
            time.sleep(lease / 50)

    def _succeed(self, cell: Cell) -> None:
        """Leave for a process that was killed: others learn at which jobs, then its name is free."""
        watched = self.watched
        if watched is not None and watched.former:
            former = Membership(self.member, watched.former)
            with suppress(OmegaError):  # its lease lapsed, or the store is away
                self._failed = {"error": watched.text, "at_ms": int(since_1970() * 1000)} if watched.text else None
                cell.schedulers.renew(former, self.lease_ms, self._figures_now())
                cell.schedulers.deregister(former, int(since_1970() * 1000))
            self._failed = None
        self._learn_hung(cell.schedulers)

    def _learn_hung(self, schedulers: Schedulers) -> None:
        """Learn from others of the kind at which jobs a policy did not return: this scheduler may own them now."""
        failing = self.scheduler.failing
        for member, figures in schedulers.figures().items():
            if failing is not None and member.partition("/")[0] == self.scheduler.kind and member != self.member:
                told = {job: Hung(text, left / 1000) for job, (text, left) in figures.get("hung", {}).items()}
                failing.learn(told, since_1970())

    async def _heartbeat(self) -> None:
        cell: Cell | None = None
        try:
            while True:
                # The loop gets the same error and waits for store and cell; the lease may expire meanwhile.
                with suppress(StoreError):
                    if cell is None:
                        cell = await anyio.to_thread.run_sync(self._connect)
                    await anyio.to_thread.run_sync(self.renew_lease, cell)
                await anyio.sleep(self.lease_ms / 3000)
        except Exception:
            self._stop()  # without heartbeats the loop would be fenced repeatedly
            raise

    async def _housekeeping(self) -> None:
        """Keep house after each renewal and when a rolling update is due, on a connection and a thread of its own."""
        cell: Cell | None = None
        try:
            while True:
                with suppress(StoreError, Fenced):  # the next renewal gets the same error
                    if cell is None:
                        cell = await anyio.to_thread.run_sync(self._connect)
                    await anyio.to_thread.run_sync(self.keep_house, cell)
                await self._until_next(cell)
        except Exception:
            self._stop()
            raise

    async def _turn(self, beat: Beat) -> None:
        """Show that the event loop turns: it does not while a call in C holds the interpreter's lock."""
        while True:
            beat.words[ALIVE] += 1
            await anyio.sleep(TURN_SECONDS)

    async def _read_epochs(self) -> None:
        reader = EpochReader(self.url, self.cell, self.member)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(reader.prepare)
                while (live := self._live) is not None:
                    seconds = await reader.step(live.snapshot, self._members)
                    if live.snapshot.pools.configured is (live.ownership.owners is None):
                        with suppress(StoreError):  # the heartbeat does it next
                            await anyio.to_thread.run_sync(reader.with_cell, partial(self._divide, live))
                    await anyio.sleep(seconds)
                group.cancel_scope.cancel()
        finally:
            reader.close()

    def _connect(self) -> Cell:
        try:
            return connect_cell(self.url, self.cell)
        except Refused as error:
            if self._live is not None:
                self._live.lapsed = self._live.membership  # an idle loop does not notice
            raise CellGone(str(error)) from error

    async def _until_next(self, cell: Cell | None) -> None:
        """Wait for the next housekeeping, which may be a step of a rolling update alone."""
        due_at = time.monotonic() + self.lease_ms / (3000 if self._keeps is not None else 30_000)
        while (left := min(due_at, self._roll_at) - time.monotonic()) > 0 or self._roll_at < due_at:
            await anyio.sleep(max(0.0, left))
            if cell is not None and self._roll_at < due_at:
                with suppress(StoreError):
                    await anyio.to_thread.run_sync(self._roll, cell)

    def _roll(self, cell: Cell) -> None:
        self._roll_at = NEVER
        if self._live is not None:
            due = self._rollouts.step(cell, self._live.ownership.by_id, int(since_1970() * 1000))
            self._roll_at = NEVER if due is None else time.monotonic() + due / 1000

    def renew_lease(self, cell: Cell) -> None:
        """Renew the lease while the loop makes progress, and read the live members.

        What may take long is done elsewhere (`keep_house`): on a busy computer even little work would delay the next
        renewal by seconds.
        """
        live = self._live
        if live is None or self._hung(live):
            self._keeps = None
            return
        membership = live.membership
        if self.watched is not None:
            self.watched.beat.words[INCARNATION] = membership.incarnation
        try:
            with as_one_line(self.scheduler), self._calling():
                figures = self._figures_now()
            members = self._renewed(cell, membership, figures)
        except (CellGone, Fenced) as error:
            live.lapsed, self._keeps = membership, None
            if isinstance(error, CellGone):
                raise  # no token is written for a deleted cell
            cell.schedulers.rouse(self.member)
            return
        self.state = replace(self.state, renewed_at=since_1970())
        with self._calling():
            self._log_warnings()
        live.ahead = cell.store_ms() / 1000 - since_1970()
        self._members = list(members)
        self._follow(self._ownership(live, members, cell), live, cell)
        live.cell.schedulers.may_wake(members)
        self._keeps = live

    def _follow(self, ownership: Ownership, live: LiveDriver, cell: Cell) -> None:
        """Decide the jobs of an ownership from now on."""
        if ownership != live.ownership:
            self._learn_hung(cell.schedulers)
            live.ownership = self.scheduler.ownership = ownership
            cell.schedulers.rouse(self.member)  # it may own jobs of a lost scheduler now

    def _divide(self, live: LiveDriver, cell: Cell) -> None:
        """Decide the jobs of some pools, not of some ids, or the reverse: the cell has got pools, or has none now."""
        if self._members:
            self._follow(self._ownership(live, self._members, cell), live, cell)

    def _ownership(self, live: LiveDriver, members: Iterable[str], cell: Cell) -> Ownership:
        """Return the jobs that are this scheduler's own, now that these members live.

        The first in rank makes the table of the owners of pools, all follow what it published with its figures.
        """
        mine, pools = of_kind(self.member, members), live.snapshot.pools
        if not pools.configured:
            return Ownership(self.member, mine)
        if len(mine) == 1:
            return Ownership(self.member, mine, {})
        figures = cell.schedulers.figures()
        tables = {name: figures[name] for name in mine if figures.get(name, {}).get("owners")}
        newest = max(tables, key=lambda name: (name == mine[0], tables[name].get("at_ms", 0)), default=None)
        owners = divided(pools.leaves, mine)
        if newest is not None:
            owners |= {leaf: tuple(names) for leaf, names in tables[newest]["owners"].items()}
        if mine[0] != self.member:
            self._balance = None
        else:
            self._balance = self._balance or Balance(dict(owners))
            loads = {name: figures.get(name, {}).get("loads", {}) for name in mine}
            self._balance.step(time.monotonic(), mine, pools.leaves, loads)
        return Ownership(self.member, mine, owners)

    def _loads_now(self) -> dict[str, float]:
        """Return the parts of the time since the last renewal for which this scheduler decided jobs of leaf pools."""
        now, busy = time.monotonic(), self.figures.busy_seconds
        (before, was), self._loads_at = self._loads_at, (now, busy)
        counts, self.scheduler.decided = self.scheduler.decided, Counter()
        return loads_of(counts.most_common(MOST_LOADS), min(1.0, (busy - was) / max(1e-3, now - before)))

    def keep_house(self, cell: Cell) -> None:
        """Do what a scheduler does for the cell while it holds its lease."""
        self._roll_at, live = NEVER, self._keeps
        if self._url is not None:
            self.state = replace(read_state(cell, 0.0), renewed_at=self.state.renewed_at)
        if live is None:
            return
        self._reap(cell.schedulers, set(self._members))
        due = time.monotonic() - self._looked_after > self.lease_ms / 1000
        if due and not housekeep(cell, int(since_1970() * 1000), self.member):
            self._looked_after = time.monotonic()
        self._copies.request(cell, live.ownership.by_id, live.snapshot.size, since_1970(), self.member)
        if self._members[:1] == [self.member]:
            self._excess.relieve(cell, live.snapshot, since_1970(), self.member)
        self._roll(cell)

    def _calling(self) -> AbstractContextManager[None]:
        """Return a block in which the heartbeat is inside code of policies."""
        return nullcontext() if self.watched is None else self.watched.beat.calling(HEARTBEAT)

    def _renewed(self, cell: Cell, membership: Membership, figures: Mapping[str, Any]) -> list[str]:
        """Renew the lease; a refusal counts if all connections lead to one server, the one of the present address."""
        try:
            return cell.schedulers.renew(membership, self.lease_ms, figures)
        except Fenced:
            cell.check_there()
            return cell.schedulers.renew(membership, self.lease_ms, figures)

    def _log_warnings(self) -> None:
        """Log what the ordering warns of, and refused sizes of elastic jobs, each text once while it lasts."""
        texts = {*self.scheduler.ordering.warnings, *self.scheduler.elastic.refusals()}
        for text in sorted(texts - self._warned):
            log.warning(text, member=self.member)
        self._warned = texts

    def _figures_now(self) -> dict[str, Any]:
        """Return the figures of a copy: the loop keeps counting, and a dict cannot grow while it is read."""
        figures = self.figures
        still = replace(figures, rejections=dict(figures.rejections), in_a_row=dict(figures.in_a_row))
        preemption, queue, failing = self.scheduler.preemption, self.scheduler.queue, self.scheduler.failing
        evicts, by, asserting = preemption.evicts, preemption.by, self.scheduler.declared.asserting
        waiting = queue.delayed(MOST_DELAYED).items()
        delayed = {job_id: (int(until * 1000), level) for job_id, (until, level) in waiting}
        self.reasons.delayed(delayed, since_1970())
        where = {"metrics": self._url, "pid": os.getpid(), "host": socket.gethostname()}
        where |= {"at_ms": int(since_1970() * 1000), "uses_pools": self.scheduler.uses_pools}
        return still.as_dict(since_1970(), len(queue.ready), queue.blocked_jobs) | {
            "evicts": evicts, "evicts_by": by, "delayed": delayed, "reasons": self.reasons.as_dict(),
            "failing": ({} if failing is None else failing.by_text(self.scheduler)) | self.scheduler.elastic.refusals(),
            "failed": self._failed,
            "hung": {} if failing is None else failing.set_aside_until(since_1970()),
            "job_fields": [each.as_json() for each in self.scheduler.job_fields],
            "starving": {} if asserting is None else dict(asserting.starving()),
            "settings": settings_of(self.scheduler), EARLIER: self._earlier, **where,
            "loads": self._loads_now(), "owners": {} if self._balance is None else dict(self._balance.owners),
        }  # fmt: skip

    def _hung(self, live: LiveDriver) -> bool:
        now = time.monotonic()
        if live.waiting or live.steps != self._seen_steps:
            self._seen_steps, self._hung_since = live.steps, now
        # A process that is watched keeps its jobs until it is ended for them: else the next one hangs at them, too.
        bound = 0.0 if self.watched is None else HUNG_LEASES * self.watched.seconds
        return now - self._hung_since > max(bound, HUNG_LEASES * self.lease_ms / 1000)

    def _reap(self, schedulers: Schedulers, alive: set[str]) -> None:
        """Remove members without a lease, except within one lease of a start of the store."""
        known = schedulers.members().items()
        lapsed = [(name, number) for name, (number, holds, _) in known if not holds and name not in alive]
        if lapsed and server_info(self.url).uptime_seconds * 1000 > self.lease_ms:
            for name, number in lapsed:
                schedulers.deregister(Membership(name, number), int(since_1970() * 1000), reaped=True)
                log.info("reaped", member=name, incarnation=number, by=self.member)


def run_member(
    url: str, cell: str, member: str, scheduler: Scheduler, lease_ms: int = LEASE_MS, watched: Watched | None = None
) -> OmegaError | None:
    """Run a scheduler until it is stopped; return the error that ended it, or None."""
    try:
        SupervisedScheduler(url, cell, member=member, scheduler=scheduler, lease_ms=lease_ms, watched=watched).run()
    except OmegaError as error:
        return error
    except BaseExceptionGroup as group:
        matched = group.subgroup(OmegaError)
        if matched is None:
            raise
        return next(error for error in matched.exceptions if isinstance(error, OmegaError))
    return None


def record_failure(url: str, cell: str, member: str, error: OmegaError) -> None:
    """Store the error of a scheduler that could not be made, for `omega job why`; nothing if its name is taken."""
    at_ms = int(since_1970() * 1000)
    figures = Figures().as_dict(since_1970(), 0, 0) | {"failed": {"error": str(error), "at_ms": at_ms}, "at_ms": at_ms}
    with suppress(OmegaError):
        store = connect_cell(url, cell)
        membership = store.schedulers.register(member, uuid4().hex, LEASE_MS, at_ms)
        earlier = figure_totals(store.schedulers.figures().get(member, {}))
        store.schedulers.renew(membership, LEASE_MS, figures | {EARLIER: earlier})
        store.schedulers.deregister(membership, at_ms)
        store.close()
