"""The live answerer of the attempt loop: the store and the wall clock.

One commit is in flight while the next jobs are decided, unless conflicts are frequent; several jobs go in one round
trip, each its own transaction (docs/decisions/0003). Lost calls are sent again; a lapsed lease means a fresh start.

The settings of a scheduler in plain values are for the log and for recordings. A policy is named by its class, as the
registry names it (``module:Class``): nothing is imported by such a name.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.cell import Cell
from omega.cellstate.errors import Duplicate, Fenced, Refused, StoreError
from omega.cellstate.model import JobState
from omega.cellstate.replies import ALONE, CommitRequest, Membership, PendingJob, Reply
from omega.cellstate.transaction import Basis, Detection, Intake, Outcome, Position, Transaction
from omega.schedulers import loop
from omega.schedulers.constraints.fetching import Fetch, fetch
from omega.schedulers.failing import as_one_line
from omega.schedulers.gates import Hold, hold
from omega.schedulers.instruments import Instrument
from omega.schedulers.outcomes import ConflictRate, accepted_by_machine, rebase
from omega.schedulers.process.beat import LOOP
from omega.schedulers.queue.intake import MOST_FILLS, Intakes
from omega.schedulers.queue.looks import Watch, looks_at, rest
from omega.schedulers.resizing import Measure, Resize, measure, resize
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import LEASE_MS, Ownership, divided, leaf_of_job, of_kind
from omega.schedulers.work import keeps_running

_PLAIN = (bool, int, float, str, type(None))
IDLE_SECONDS = 1.0
"""Interval of polls by an idle scheduler: a client that freed room may not have notified it."""
SHORT_SECONDS = 0.05
"""Shorter waits are slept here: the server's clock ticks every 10 ms."""
AWAY_SECONDS = 0.5
"""Interval of retries while the store is unavailable, ±50 %."""
NO_JOBS = Intake("-", (), 0, "-")
T = TypeVar("T")
Results = list[tuple[Transaction, Outcome]]


def settings_of(scheduler: Scheduler) -> dict[str, Any]:
    """Return kind, policies, mode, detection, jobs per call, back-off, limit of attempts and retry policy."""
    policies = dict(zip(("ordering", "placement", "preemption", "sizing"), scheduler.policies, strict=True))
    return {
        "kind": scheduler.kind,
        **{axis: policy_of(policy) for axis, policy in policies.items() if policy is not None},
        "mode": scheduler.mode.name.lower(),
        "detection": scheduler.detection.name.lower(),
        "jobs_per_call": scheduler.jobs_per_call,
        "backoff": scheduler.backoff,
        "retry_limit": scheduler.retry_limit,
        **({} if scheduler.retry_policy is None else {"retry_policy": policy_of(scheduler.retry_policy)}),
    }


def policy_of(policy: object) -> dict[str, Any]:
    """Return the class of a policy, and its fields that are plain values."""
    kind = type(policy)
    described: dict[str, Any] = {"class": f"{kind.__module__}:{kind.__qualname__}"}
    for each in fields(policy) if is_dataclass(policy) and not isinstance(policy, type) else ():
        value = getattr(policy, each.name, None)
        if each.init and isinstance(value, _PLAIN):
            described[each.name] = value
    return described


class _Arrival(NamedTuple):
    """A commit and its reply, which is not applied yet."""

    request: CommitRequest
    reply: Reply


@dataclass(slots=True)
class LiveDriver:
    """Answers the effects of one scheduler from the store and the wall clock. `now` returns seconds, `pause` waits.

    Events go to the scheduler's instruments. Construction raises the store's errors; a running scheduler waits for it.
    """

    cell: Cell
    scheduler: Scheduler
    member: str
    now: Callable[[], float]
    pause: Callable[[float], None]
    _: KW_ONLY
    lease_ms: int = LEASE_MS
    pipelined: bool = True
    snapshot: ArraySnapshot = field(init=False)
    membership: Membership = field(init=False)
    ownership: Ownership = field(init=False)
    """The jobs that are this scheduler's own; the heartbeat sets it."""
    stopping: bool = False
    lapsed: Membership | None = None
    """Set by the heartbeat: the membership that lost its lease; the loop may have registered again before."""
    waiting: bool = False
    """Whether the loop waits for work; a lack of progress is then not a hang."""
    steps: int = 0
    _former: list[Membership] = field(default_factory=list)
    _number: int = 0
    _owns: Ownership | None = None
    """The ownership that the loop follows."""
    _jobs: Sequence[PendingJob] = ()
    _fresh: bool = False
    _watch: Watch = field(init=False)
    """Of what the store notifies this scheduler."""
    _alone: bool = False
    """Whether no other scheduler was told of the room that was freed last."""
    _changed: set[int] = field(default_factory=set)
    """Machines that changed since the last wait."""
    _renewed: bool = False
    _flight: CommitRequest | None = None
    _intakes: Intakes = field(init=False)
    _conflicts: ConflictRate = field(default_factory=ConflictRate)
    ahead: float = 0.0
    """Seconds by which the server's clock is ahead of `now`, as of the last heartbeat."""
    _since: float = 0.0
    _version: int = 0
    """When the current attempt began, and the version that it is decided on."""
    _rng: Random = field(default_factory=lambda: Random(0))
    _thinking: float | None = None
    _jobs_at_hand: int = 0
    _launched: float = 0.0
    _away: float | None = None
    """Time since which the store is unavailable; None while it is available."""

    def __post_init__(self) -> None:
        """Register the scheduler's name."""
        self.snapshot = ArraySnapshot(len(self.cell.dimensions))
        live = (name for name, (_, lives, _) in self.cell.schedulers.members().items() if lives)
        mine, pools = of_kind(self.member, live), self.cell.pools.get()
        self.ownership = Ownership(self.member, mine, divided(pools.leaves, mine) if pools.configured else None)
        self.scheduler.ownership = self.ownership
        self._rng = Random(self.member)
        self._intakes = Intakes(self.scheduler.kind, self.scheduler.jobs_per_call, self.scheduler.queue)
        self.scheduler.queue.bound = self._intakes.bound
        self._begin_anew(self._register(uuid4().hex))

    def register(self) -> None:
        """Register with a new incarnation and discard calls in flight. Waits for a cell that is gone."""
        for each in self._listeners:
            each.fenced(self.now())
        self._begin_anew(self._patiently(partial(self._register_again, uuid4().hex)))

    def _register_again(self, nonce: str) -> Membership:
        self.cell.check_there()
        with suppress(Duplicate):
            return self._register(nonce)
        for each in self._former:  # one of its own leases holds when another server was asked in between
            self.cell.schedulers.deregister(each, self._ms())
        return self._register(nonce)

    def _register(self, nonce: str) -> Membership:
        # Before the registration: a process that is registered does not end because the store is away.
        self.ahead = self.cell.store_ms() / 1000 - self.now()
        return self.cell.schedulers.register(self.member, nonce, self.lease_ms, self._ms(), settings_of(self.scheduler))

    @property
    def _listeners(self) -> list[Instrument]:
        return self.scheduler.instruments

    def _begin_anew(self, membership: Membership) -> None:
        self.membership, self._former = membership, [membership, *self._former[:7]]
        self._number, self._flight, self._fresh, self._renewed = 0, None, False, True
        self._alone, self._changed = False, set()
        self._watch = Watch(self.scheduler.queue)
        self._intakes.reset()
        self.snapshot.forget()
        for each in self._listeners:
            each.registered(membership.incarnation, self.now())

    def run(self) -> None:
        """Drive the attempt loop until `stopping`; the attempt in hand is finished first."""
        effects = loop.attempts(self.scheduler)
        beat = None if self.scheduler.failing is None else self.scheduler.failing.beat
        with as_one_line(self.scheduler):
            effect = next(effects)
            while not (self.stopping and isinstance(effect, loop.Receive)):
                answer = self.answer(effect)
                if beat is not None:
                    beat.enter(LOOP)
                effect = effects.send(answer)
                if beat is not None:
                    beat.leave(LOOP)
                self.steps += 1
        self.scheduler.settle(self._land(self._arrive()), self.now())
        if tried := self.scheduler.outbox.take_tried():
            self.cell.jobs.note_attempts(tried, self._ms(), self.member)
        if self._watch.asked is not None:
            self.cell.schedulers.set_blocked(self.member, None)
        self.cell.schedulers.deregister(self.membership, self._ms())
        for each in self._listeners:
            each.deregistered(self.now())

    def answer(self, effect: loop.Effect) -> loop.Answer:
        """Return the answer to an effect."""
        match effect:
            case loop.Receive():
                self._decided()
                began = self.now()
                arrived = self._receive(effect)
                for each in self._listeners:
                    each.received(arrived.now - began, len(arrived.jobs), arrived.now)
                return arrived
            case loop.Sync():
                # The reply to the commit in flight brings the changes; a sync could overtake it.
                if not self._fresh and self._flight is None:
                    self._sync()
                self._fresh = False
                self._since, self._version = self.now(), self.snapshot.position.version
                return self.snapshot
            case loop.Think():
                self._thinking, self._jobs_at_hand = self.now() if effect.works else None, len(effect.works)
                if effect.seconds:
                    self.pause(effect.seconds)
                return self.now()
            case loop.Commit():
                self._decided()
                return self._commit(tuple(effect.transactions))
            case Fetch():
                own = self._flight, self.scheduler.working
                return self._patiently(lambda: fetch(effect, self.cell, self.snapshot, *own))
            case Measure():
                return self._patiently(lambda: measure(effect, self.cell, self.scheduler.kind, self.ownership.owns))
            case Resize():
                return self._patiently(lambda: resize(effect, self.cell, self._ms(), self.member))
            case loop.Note():
                return self._patiently(lambda: self.cell.jobs.note_attempts(effect.jobs, self._ms(), self.member))
            case Hold():
                return self._patiently(lambda: hold(effect, self.cell, self.scheduler.held, self._ms(), self.member))
            case loop.Reread():
                self._reread(effect)
                return None

    def _decided(self) -> None:
        """Record the end of the current decision, if there is one."""
        if self._thinking is None:
            return
        now = self.now()
        seconds, self._thinking = now - self._thinking, None
        for each in self._listeners:
            each.thought(seconds, self._jobs_at_hand, now)

    def _intake(self) -> Intake:
        """Return the request for jobs of lanes that run short; the others wait in the store."""
        if len(self._jobs) >= self.scheduler.jobs_per_call:
            return NO_JOBS
        return self._intakes.ask(self.snapshot.lanes)

    def _fill(self) -> None:
        """Request jobs of every lane once before a job is chosen; the snapshot lists lanes before their jobs arrive."""
        for _ in range(MOST_FILLS):
            if self._owns is not self.ownership or not self._intakes.unseen(self.snapshot.lanes):
                return
            jobs, self._jobs = self._jobs, ()
            self._sync()
            self._jobs = [*jobs, *self._jobs]

    def _learn_lanes(self) -> None:
        if unknown := self.snapshot.lanes.unknown():
            self.snapshot.lanes.learn(self._patiently(lambda: self.cell.schedulers.lanes(unknown)))

    def _receive(self, effect: loop.Receive) -> loop.Arrived:
        changed = None
        if self.lapsed is self.membership:
            self._land(self._arrive())
        if self.lapsed is self.membership:
            self.register()
        if self._owns is not self.ownership:
            changed = self._owns = self.ownership
            self._intakes.follow(changed)
        if self._renewed:
            self._sync()  # every pending job arrives again before one is tried
            self._fill()
        elif effect.until is None or effect.until > 0:
            self._wait(effect.until)
        jobs, self._jobs = self._jobs, ()
        renewed, self._renewed = self._renewed, False
        return loop.Arrived(looks_at(effect.until, self.now()), jobs, changed, renewed)

    def _wait(self, until: float | None) -> None:
        changed, self._changed = self._changed, set()
        if not self._jobs:
            self._sync()
            self._fill()
        if self._jobs or self.stopping or self._reports_blocked():
            return
        pause = rest(until, self.now(), news=False)
        if pause == 0:
            return
        if self._alone:
            self._hand_on(changed)
        seconds = IDLE_SECONDS if pause is None else min(IDLE_SECONDS, pause)
        self.waiting = True
        if seconds < SHORT_SECONDS:
            self.pause(seconds)
        elif token := self._patiently(lambda: self.cell.schedulers.wait_for_work(self.member, seconds)):
            self._alone = token == ALONE
            self._watch.told()
        self.waiting = False
        self._sync()

    def _hand_on(self, machines: set[int]) -> None:
        """Tell other schedulers of the room that this one left on changed machines: it alone was told of it."""
        self._alone = False
        if machines:
            room = self.snapshot.amounts(np.array(sorted(machines))).T.tolist()
            self._patiently(lambda: self.cell.schedulers.hand_on(self.member, room))

    def _reports_blocked(self) -> bool:
        """Request notification of room freed from now on, while jobs are blocked; return whether that is new."""
        more = self._watch.asked is not None and self.ownership.owners is not None and bool(self._intakes.sole)
        if not (more or self._watch.needs_less or self._watch.changes()):
            return False
        waits = self._watch.ask()
        if waits is not None and self.ownership.owners is not None:
            waits = waits._replace(lanes=self._intakes.take_sole())
        self._patiently(lambda: self.cell.schedulers.set_blocked(self.member, waits))
        if waits is not None:
            self._sync()
        return waits is not None

    def _note_changed(self, reply: Reply) -> None:
        """Record the machines that changed, while freed room may be told to this scheduler alone."""
        if self._watch.asked is not None and self.ownership.owners is not None and len(reply.rows):
            self._changed.update(reply.rows[:, 0].tolist())

    def _sync(self) -> None:
        intake, began = self._intake(), self.now()
        reply = self._patiently(lambda: self.cell.schedulers.sync(self.snapshot.position, intake))
        self._take(reply, intake)
        self._note_changed(reply)
        self.snapshot.apply(reply)
        self._learn_lanes()
        self._fresh = True
        now = self.now()
        for each in self._listeners:
            each.synced(now - began, len(reply.rows), now, full=reply.full)

    def _take(self, reply: Reply, intake: Intake | None) -> None:
        if intake and intake.most and self._intakes.take(intake, reply):
            self._jobs = [*self._jobs, *reply.jobs] if self._jobs else reply.jobs
        if reply.full:
            self._intakes.reset()  # a restored store assigns arrival numbers again (semantics 16)

    def _reread(self, effect: loop.Reread) -> None:
        for job_id in effect.abandon:
            with suppress(Refused):  # it ended already
                self._patiently(partial(self._abandon, job_id))
        # Most of them ended or are placed: only the others are read with all their fields.
        read = self._patiently(lambda: self.cell.jobs.by_id(effect.jobs)) if effect.jobs else {}
        for job_id, known in read.items():
            job = self._patiently(partial(self.cell.jobs.get, job_id)) if known.pending else None
            if job is not None and job.pending and self.ownership.owns(job_id, leaf_of_job(job.spec)):
                self._jobs = [*self._jobs, PendingJob(0, job)]

    def _abandon(self, job_id: str) -> None:
        keep = (job := self.cell.jobs.get(job_id)) is not None and keeps_running(job)
        self.cell.jobs.stop(job_id, self._ms(), self.member, JobState.ABANDONED, keep=keep)

    # Committing

    def _commit(self, transactions: tuple[Transaction, ...]) -> loop.Committed:
        """Send transactions before the last reply is read; wait for their own reply while conflicts are frequent."""
        arrived = self._arrive()
        coarse = self.scheduler.detection is Detection.COARSE
        if arrived is not None and transactions and not coarse:
            self._launch(transactions, arrived.reply.position, asks=not arrived.request.asks)
            results = self._land(arrived)
        else:
            results = self._land(arrived)
            if transactions and not self._renewed:
                if coarse and results:
                    transactions = rebase(transactions, accepted_by_machine(results))
                self._launch(transactions, self.snapshot.position)
        if self._flight is not None and (self._conflicts.frequent or not self.pipelined):
            results += self._land(self._arrive())
        now = self.now()
        for instrument in self.scheduler.instruments:
            instrument.decided(now - self._since, now)
        return loop.Committed(now, results, self._flight is not None)

    def _launch(self, transactions: tuple[Transaction, ...], since: Position, *, asks: bool = True) -> None:
        """Send transactions, and a request for jobs unless the last reply brings some."""
        self._number, self._launched = self._number + 1, self.now()
        intake = self._intake() if asks else NO_JOBS
        self._flight = CommitRequest(
            self.membership, self._number, transactions, since, self._ms(), intake=intake,
            executors=self.snapshot.executors(self.snapshot.launch()),
            basis=Basis(self._version, round((self._since + self.ahead) * 1000), round(self.ahead * 1000)),
        )  # fmt: skip
        try:
            self.cell.schedulers.begin(self._flight)
        except StoreError:
            self._patiently(self.cell.schedulers.resend)

    def _arrive(self) -> _Arrival | None:
        """Wait for the commit in flight; after a lost reply the call is repeated, without a second effect."""
        if self._flight is None:
            return None
        try:
            reply = self._finish()
        except Fenced:
            self.register()
            return None
        request, self._flight, now = self._flight, None, self.now()
        for each in self._listeners:
            each.submitted(now - self._launched, len(request.transactions), now)
        return _Arrival(request, reply)

    def _land(self, arrived: _Arrival | None) -> Results:
        if arrived is None:
            return []
        request, reply = arrived
        self._note_changed(reply)
        self.snapshot.land(reply)
        self._learn_lanes()
        self._take(reply, request.intake)
        self._conflicts.count(reply.outcomes)
        self._fresh = True
        return list(zip(request.transactions, reply.outcomes, strict=True))

    def _finish(self) -> Reply:
        try:
            return self.cell.schedulers.finish()
        except StoreError:
            return self._patiently(self._finish_again)

    def _finish_again(self) -> Reply:
        self.cell.schedulers.resend()
        return self.cell.schedulers.finish()

    def _patiently(self, call: Callable[[], T]) -> T:
        """Repeat a call while the store is unavailable, with randomised back-off."""
        delay = 0.05
        while True:
            try:
                answer = call()
            except StoreError as error:
                if self.stopping:
                    raise
                if self._away is None:
                    self._away = self.now()
                    for each in self._listeners:
                        each.store_away(str(error), self._away)
                self.steps += 1
                self.pause(delay * (0.5 + self._rng.random()))
                delay = min(AWAY_SECONDS, delay * 2)
            else:
                if self._away is not None:
                    now = self.now()
                    for each in self._listeners:
                        each.store_back(now - self._away, now)
                    self._away = None
                return answer

    def _ms(self) -> int:
        return int(self.now() * 1000)
