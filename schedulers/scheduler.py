"""A scheduler: the composition of its policies, its queue, and the processing of outcomes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from random import Random

from omega.cellstate.fairness import leaf_of
from omega.cellstate.model import Job, JobState
from omega.cellstate.replies import PendingJob, jobs_of
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import ClaimColumns, Detection, Mode, Outcome, Transaction, Verdict
from omega.schedulers.constrained import evictions, suspects
from omega.schedulers.constraints.fetching import Fetch, wanted
from omega.schedulers.failing import FailingJobs, place_together, set_aside, without_hung
from omega.schedulers.foreign_errors import RAISED
from omega.schedulers.gates import Gate, HeldJobs
from omega.schedulers.instruments import Instrument, announce, report_blocked
from omega.schedulers.job_fields import JobField, declared
from omega.schedulers.ordering.without_pools import PrecedenceFifo
from omega.schedulers.outbox import Outbox
from omega.schedulers.outcomes import admitted, count, transaction
from omega.schedulers.placement.arranging import elsewhere
from omega.schedulers.placement.delay import within_locality
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import (
    Declarations,
    NoPreemption,
    Ordering,
    Peers,
    Placement,
    PlacesAll,
    Preemption,
    Sizing,
    with_wrapped,
)
from omega.schedulers.process.beat import JOB
from omega.schedulers.queue.queue import Queue
from omega.schedulers.resizing import Elastic
from omega.schedulers.retrying import RETRY_LIMIT, RetryPolicy, Step, next_step
from omega.schedulers.sharing import Keeps, Ownership, alone
from omega.schedulers.work import Work

CALL_CLAIMS = 2_000
"""Claims after which a call to the store takes no further job: about 30 ms of the server's time."""
_PLACED, _ACTIVE = Verdict.PLACED, JobState.ACTIVE  # read once: each access is as slow as a call
_ACCEPTED = frozenset({Verdict.PLACED})
_SEEN_BY_POLICIES = frozenset({"ordering", "placement", "preemption", "sizing", "ownership", "retry_policy"})


@dataclass(slots=True)
class Scheduler:
    """Policies combined to a scheduler of a kind; the same object runs live and simulated.

    `jobs_per_call` is the number of jobs decided per round trip, each in its own transaction. `backoff` (seconds) is
    the first, randomised wait after a conflict; it doubles up to a second, in pools up to 10 ms. A gang always backs
    off, other jobs only when nothing was placed, so that two jobs that need the same room do not collide repeatedly.
    """

    kind: str
    ordering: Ordering = field(default_factory=PrecedenceFifo)
    placement: Placement = field(default_factory=FirstFit)
    preemption: Preemption = field(default_factory=NoPreemption)
    sizing: Sizing | None = None
    """Number of workers of elastic jobs; None: the requested number."""
    mode: Mode = Mode.INCREMENTAL
    detection: Detection = Detection.FINE
    jobs_per_call: int = 8
    backoff: float = 0.002
    retry_limit: int = RETRY_LIMIT
    t_job: float = 0.0
    t_task: float = 0.0
    t_jobs: Sequence[float] = ()
    """If set, each decision takes one of these times, drawn, in place of `t_job`."""
    paths: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Other (t_job, t_task) for jobs of some kinds: the fast and the slow path of a monolithic scheduler."""
    gate: Gate | None = None
    """If set, it is asked before each attempt of a job, and may hold it."""
    retry_policy: RetryPolicy | None = None
    """If set, every attempt counts, and a job that fits nowhere is retried instead of blocked."""
    follows_pools: bool = False
    """Whether the tree's ordering and preemption between pools are used as soon as the cell has pools."""
    job_fields: Sequence[JobField] = ()
    """Fields of its jobs that it and its policies declare."""
    ownership: Ownership = field(default_factory=lambda: alone(""))
    """Which jobs are its own, among those of the live schedulers of its kind."""
    rng: Random = field(default_factory=lambda: Random(0))
    instruments: list[Instrument] = field(default_factory=list)
    queue: Queue = field(init=False)
    elastic: Elastic = field(init=False)
    outbox: Outbox = field(default_factory=Outbox, init=False)
    failing: FailingJobs | None = field(default=None, init=False)
    """Jobs at which a policy raised; None: an error of a policy ends the loop."""
    held: HeldJobs = field(default_factory=HeldJobs, init=False)
    working: dict[str, Work] = field(default_factory=dict, init=False)
    """Jobs being decided or committed."""
    _preempting: list[tuple[Work, Sequence[int]]] = field(default_factory=list, init=False)
    """Current jobs that fit nowhere, and the machines to fetch before other tasks are evicted for them."""
    counts_use: bool = field(default=False, init=False)
    """Whether a policy may read the use of users and pools."""
    _within: Placement = field(init=False)
    """The placement, as it applies the demands and the locality of jobs."""
    places_all: PlacesAll | None = field(default=None, init=False)
    """The placement, if it can place several jobs in one call."""
    declared: Declarations = field(init=False)
    """What its policies declare."""
    decided: Counter[str] = field(default_factory=Counter, init=False)
    """Jobs decided by leaf pool, where pools have owners, since somebody took this count."""
    _joined: bool = field(default=False, init=False)
    """Whether the policies know their present peers."""
    alone: bool = field(default=False, init=False)
    """Whether nobody else places tasks meanwhile, as in a dry run."""
    without_pools: tuple[Ordering, Preemption] | None = field(default=None, init=False)
    """The policies of its own, while those of the cell's pools are in use."""

    def __post_init__(self) -> None:
        self.queue, self.elastic = Queue(self.ordering), Elastic(self.sizing)
        self._take_note()

    def _take_note(self) -> None:
        """Store the methods of the policies that are called for each job."""
        self.counts_use = self.queue.follows_use or self.preemption.evicts
        self._within = within_locality(self.placement)
        self.declared = known = Declarations(*self.policies, self._within)
        self.queue.blocked.reads, self.queue.evicting.asserting = known.reads, known.asserting
        self.queue.evicting.follows_use = not self.alone and self.preemption.evicts and self.preemption.follows_use
        self.places_all = known.places_all
        self.job_fields = declared(self, *known.with_wrapped, *with_wrapped(self.gate))
        self._join()

    @property
    def policies(self) -> tuple[Ordering, Placement, Preemption, Sizing | None]:
        """Its policies, one of each axis."""
        return self.ordering, self.placement, self.preemption, self.sizing

    def _join(self) -> None:
        self._joined = True  # before they are read: another thread may change the scheduler's number
        ordering, placement, preemption, sizing = self.policies
        own = self.ownership
        peers = Peers(
            self.kind, own.number, len(own.members), ordering, placement, preemption, sizing, self.retry_policy,
            own.place_in,
        )  # fmt: skip
        for policy in self.declared.joining:
            policy.join(peers)

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field; a new policy takes effect at once, on an idle scheduler."""
        object.__setattr__(self, name, value)
        if name not in _SEEN_BY_POLICIES or not hasattr(self, "elastic"):
            return
        if name in ("ownership", "retry_policy"):
            self._joined = False
            return
        if name == "ordering":
            self.queue.follow(self.ordering)
        elif name == "sizing":
            self.elastic = Elastic(self.sizing)
        self._take_note()

    def fresh(self, seed: str) -> "Scheduler":
        """Return the same composition, idle, with random numbers from the stream `seed`.

        Policies are copied together: objects that two of them share, their copies share too.
        """
        own = [each.name for each in fields(self) if each.init and each.name not in ("rng", "instruments")]
        copies = deepcopy({name: getattr(self, name) for name in own})
        return replace(self, **copies, rng=Random(seed), instruments=list(self.instruments))

    # Arriving jobs

    def renew(self) -> None:
        """Queue jobs in flight again, with their counts; a job that was placed after all is read again."""
        self.take(self.working.values())
        self.working.clear()

    def take(self, works: Iterable[Work]) -> None:
        """Queue jobs as they are."""
        for work in works:
            self.queue.ready.add(work)

    def admit(self, arrivals: Sequence[PendingJob]) -> None:
        """Take up jobs that became pending, or news of jobs already in hand."""
        jobs = [job for job in jobs_of(arrivals) if job.state is _ACTIVE]
        if self.sizing is not None:
            for job in jobs:
                self.elastic.take(job)
        queue, ids = self.queue, {job.id for job in jobs}
        new = queue.ready.works.keys().isdisjoint(ids) and self.working.keys().isdisjoint(ids)
        if queue.has_blocked or not new or len(ids) < len(jobs):
            for job in jobs:
                self._take_news(job)
        else:  # none is known yet: together they cost a fraction
            queue.ready.add_all([work for work in Work.of_all(jobs, whose=queue.follows_use) if any(work.left)])

    def _take_news(self, job: Job) -> None:
        """Take up a job that may be in hand."""
        if job.id in self.working:
            self.working[job.id].takes_over(job)
            return
        work = self.queue.discard(job.id)
        if work is None:
            work = Work.of(job)
        else:
            work.takes_over(job)
            work.not_before = 0.0
        if any(work.left):
            self.queue.ready.add(work)

    def disown(self, keeps: Keeps) -> None:
        """Drop queued and blocked jobs that now belong to another member."""
        self.queue.keep(keeps)
        self.elastic.keep(keeps)

    def next_due(self) -> float | None:
        """When there is something to do next (seconds): 0 for at once, None when only news can bring something."""
        own = self.queue.next_due()
        if self.sizing is None:
            return own
        sized = self.elastic.next_due()
        return sized if own is None else own if sized is None else min(own, sized)

    def asks(self, snapshot: Snapshot, now: float) -> Fetch | None:
        """What is to be looked up for blocked jobs; None when there is nothing."""
        queue = self.queue
        return queue.asks(self.kind, snapshot, now) if queue.blocked.groups or queue.limited.groups else None

    @property
    def uses_pools(self) -> bool:
        """Whether weights, guarantees and the other settings of the cell's pools decide on its jobs."""
        return self.follows_pools or self.declared.uses_pools

    def requeue(self, snapshot: Snapshot, now: float) -> None:
        """Let the policies see the copy and the time, and make the blocked jobs ready that may be placed now."""
        if self.follows_pools and snapshot.pools.configured != (self.without_pools is not None):
            self._follow_pools()
        if not self._joined:
            self._join()
        if self.counts_use:
            snapshot.usage.capacity = snapshot.total()
        self.queue.observe(snapshot, now)
        if (asserting := self.declared.asserting) is not None:
            asserting.observe(snapshot, now)
        self.queue.requeue(snapshot, self.preemption, self.rng, now)

    def _follow_pools(self) -> None:
        """Use the policies of the cell's pools, or its own again; jobs in the queue stay in it.

        Within a pool its own preemption evicts, unless that reads use itself.
        """
        if self.without_pools is not None:
            (self.ordering, self.preemption), self.without_pools = self.without_pools, None
            return
        from omega.schedulers.ordering.cell_pools import CellPools  # noqa: PLC0415 - most cells have no pools
        from omega.schedulers.preemption.fair_share import FairSharePreemption  # noqa: PLC0415 - as above
        from omega.schedulers.preemption.precedence import PrecedencePreemption  # noqa: PLC0415 - as above

        own = self.preemption
        self.without_pools = self.ordering, own
        within = own if own.evicts and not own.follows_use else PrecedencePreemption()
        self.ordering, self.preemption = CellPools(), FairSharePreemption(within)

    def wanted(self, works: Sequence[Work], snapshot: Snapshot) -> Fetch | None:
        """What must be looked up before these jobs are decided; None when nothing lacks."""
        return wanted(works, snapshot, always=self.declared.reads_attributes)

    def choose(self, now: float) -> list[Work]:
        """Take the next jobs out of the queue, at most `jobs_per_call`."""
        chosen, working = self.queue.choose(now, self.jobs_per_call), self.working
        for work in chosen:
            working[work.job.id] = work
        if self.failing is not None and self.failing.hung:
            chosen = without_hung(self, self.failing, chosen, now)
        if self.queue.joined:
            joined, self.queue.joined = self.queue.joined, []
            announce(self.instruments, joined, now)
            report_blocked(self.instruments, joined, now)
        return chosen

    # Deciding

    def decide(self, works: Sequence[Work], snapshot: Snapshot, now: float) -> list[Transaction]:
        """Place each job on the snapshot; one that fits nowhere is blocked, or waits for `preempt`: no transaction.

        Once the transactions have CALL_CLAIMS claims together, the remaining jobs go back to the queue.
        """
        snapshot.now = now
        if self.ownership.owners is not None:
            self.decided.update([leaf_of(*work.whose) for work in works])
        transactions: list[Transaction] = []
        beat = None if self.failing is None else self.failing.begun(works)
        left, placed = CALL_CLAIMS, place_together(self, works, snapshot, CALL_CLAIMS) if len(works) > 1 else ()
        together = len(placed)
        for number, work in enumerate(works):
            if left <= 0:
                self.working.pop(work.id, None)
                self.queue.ready.add(work)
                continue
            if number >= together and self.queue.blocked.groups and self.queue.joins(work):
                self.working.pop(work.id, None)
                report_blocked(self.instruments, [work], now)
                continue
            work.attempts += 1
            mark = snapshot.mark()
            if beat is not None:
                beat.words[JOB] = number + 1
            try:
                if number < together:
                    claims = placed[number]
                else:
                    part = work if work.admitted is None else admitted(work)
                    claims = elsewhere(self._within, part, snapshot, self.rng)
                if size := len(claims.machines if type(claims) is ClaimColumns else claims):
                    transactions.append(transaction(self, work, claims, snapshot, size))
                    left -= size
                    continue
                if self.queue.follows_use:
                    snapshot.usage.forget_promises()  # those of undecided jobs do not count for evictions
                if self._spare(work, now):
                    self.working.pop(work.id, None)
                    if work.remaining:
                        self.queue.ready.add(work)
                elif (machines := suspects(self.preemption, work, snapshot, self.rng)) is not None:
                    self._preempting.append((work, machines))
                else:
                    self._found_unfit(work, now)
            except RAISED as error:
                snapshot.undo(mark)
                set_aside(self, work, error, now)
        if self.queue.follows_use:
            snapshot.usage.forget_promises()
        return transactions

    def suspects(self) -> tuple[int, ...] | None:
        """Machines to be looked up before `preempt`; None when nobody is to be evicted for any job in hand."""
        machines = {machine for _, machines in self._preempting for machine in machines}
        return tuple(sorted(machines)) if self._preempting else None

    def preempt(self, snapshot: Snapshot, now: float) -> list[Transaction]:
        """Evict for jobs that fit nowhere; one that is not helped is tried again while machines are not known."""
        transactions = []
        preempting, self._preempting = self._preempting, []
        beat = None if self.failing is None else self.failing.beat
        for work, _ in preempting:
            mark = snapshot.mark()
            if beat is not None:
                beat.single(work.id)
            try:
                claims = evictions(self.preemption, work, snapshot, self._within, self.rng)
                if claims:
                    asserting = self.declared.asserting
                    asserted = None if asserting is None else asserting.assertion(work)
                    made = transaction(self, work, claims, snapshot, len(claims))
                    transactions.append(made._replace(assertion=asserted))
                elif suspects(self.preemption, work, snapshot, self.rng):
                    self.working.pop(work.id, None)
                    work.not_before = now  # behind those that are due
                    self.queue.ready.add(work)
                else:
                    self._found_unfit(work, now)
            except RAISED as error:
                snapshot.undo(mark)
                set_aside(self, work, error, now)
        return transactions

    def _found_unfit(self, work: Work, now: float) -> None:
        """Nothing of a job could be placed."""
        self.outbox.note(work, now)
        self.working.pop(work.id, None)
        if self.retry_policy is not None and work.until <= now:
            self._proceed(work, self.retry_policy.next_step(work, now), now)
        else:
            self.queue.block(work)
            report_blocked(self.instruments, [work], now)

    def _proceed(self, work: Work, step: Step, now: float) -> None:
        if step is Step.RETRY:
            self.queue.ready.add(work)
        elif step is Step.REREAD:
            self.outbox.gone.append(work.id)
        elif step is Step.LIMIT:
            self.queue.limit(work)
            report_blocked(self.instruments, [work], now)
        else:
            self.outbox.given_up.append(work.id)
            for instrument in self.instruments:
                instrument.abandoned(work, now)

    # Settling

    def settle(self, results: Sequence[tuple[Transaction, Outcome]], now: float) -> None:
        """Act on the outcomes of transactions: each job is done, is retried with what is left, read anew, or given up.

        No job is blocked here: room was perhaps freed since it was decided, so it is tried once more.
        """
        for instrument in self.instruments:
            instrument.committed_all(results, now)
        done: list[Work] = []
        pop, sizes = self.working.pop, self.sizing is not None
        for committed, outcome in results:
            job_id, claims, _, _, assertion = committed
            if assertion is not None and (asserting := self.declared.asserting) is not None:
                asserting.settled(committed, outcome, now)
            work = pop(job_id, None)
            if work is None:
                continue
            if work.requeued_by is not None:
                self.queue.tried(work)
            if outcome.accepted and type(claims) is ClaimColumns and not sizes:
                left, placed = work.left, outcome.placed
                left[claims.group] -= placed
                work.placed += placed
                if left[0] == 0 and len(left) == 1:
                    done.append(work)
                    continue
                verdicts: AbstractSet[Verdict] = _ACCEPTED
            else:
                verdicts = count(work, claims, outcome)
            if sizes:
                self._spare(work, now)
            if not outcome.placed and _PLACED not in verdicts:
                self.outbox.note(work, now)
            if any(work.left):
                self._proceed(work, next_step(self, work, verdicts, outcome, now), now)
            else:
                done.append(work)
        if done:
            for instrument in self.instruments:
                instrument.placed_all(done, now)

    def _spare(self, work: Work, now: float) -> bool:
        """Give up surplus workers that found no machine; return whether there were any."""
        if totals := self.elastic.spare(work.job, work.left, now):
            self.outbox.spare.setdefault(work.id, {}).update(totals)
        return bool(totals)
