"""Two-level, as Mesos 0.9: an allocator offers free resources, schedulers accept or decline (Omega §3.3, §4.2).

The allocator picks the scheduler furthest below its fair share (dominant resources), offers it all free
resources and takes a millisecond for it; offered resources are locked. Resources freed meanwhile can be
offered to others. An offer is used for one attempt, then the rest is returned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omega.cellstate.model import Job
from omega.cellstate.override import override
from omega.cellstate.packing import FIELD, MASK, packed_need
from omega.cellstate.resources import Resources
from omega.cellstate.transaction import Claim, ClaimColumns, Mode, Outcome, Transaction, Verdict, all_placed
from omega.simulation.drive import Architecture, Results, SimulatedScheduler
from omega.simulation.engine import microseconds
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.world import World


@dataclass(frozen=True, slots=True)
class Offers:
    """Rules of the allocator.

    The first two are the paper's text; the others are additions of the authors' simulator.
    """

    offer_seconds: float = 0.001
    """Duration of making an offer."""
    hoard: bool = True
    """A scheduler with all-or-nothing transactions keeps accepted resources until its job is complete."""
    several_jobs: bool = False
    """A scheduler tries all its queued jobs on one offer; else one job an offer."""
    batch_seconds: float = 0.0
    """Time for which resources are gathered before an offer."""
    least_cpu: int = 0
    """Minimum of free cpu (millicores) for an offer; memory is ignored."""
    overlapping: bool = False
    """A scheduler takes the next offer during the decision time of the last one."""


AUTHORS = Offers(hoard=False, several_jobs=True, batch_seconds=1.0, least_cpu=100_000, overlapping=True)
"""The rules of the authors' simulator."""


class OfferedSnapshot(PackedSnapshot):
    """A copy in which only an offer's machines have free resources; only they are searched."""

    offered: Sequence[int] = ()

    @property
    @override
    def scope(self) -> int:
        return len(self.offered)

    @override
    def holding(self, need: Resources) -> list[int]:
        amounts, guards, rest = packed_need(need), self.guards, self.rest
        return [machine for machine in self.offered if (rest[machine] - amounts) & guards == guards]


@dataclass(slots=True)
class Offer:
    """A copy in which only offered resources are free, the amount left (packed), and the machines.

    `machines` is None for the copy of everything.
    """

    copy: PackedSnapshot
    left: int
    machines: list[int] | None


class TwoLevel(Architecture):
    """The allocator. Free resources are in the pool, in an offer or in a hoard.

    The pool is `whole`, a copy of the cell, while it is not offered, and `loose`, by machine, while it is.
    """

    grants = True

    def __init__(self, world: World, offers: Offers) -> None:
        """Create an empty pool; `open` fills it."""
        self.world, self.offers, self._gathering = world, offers, microseconds(offers.batch_seconds)
        self.overlapping = offers.overlapping
        self.whole, self.home = world.copy(), True
        self.loose: dict[int, int] = {}
        self.pool = 0
        self.out: dict[int, Offer] = {}
        """By scheduler."""
        self.used: dict[int, int] = {}
        """By scheduler: resources of its tasks and hoards, packed."""
        self.hoards: dict[str, tuple[Job, list[Claim]]] = {}
        self.wanting: list[SimulatedScheduler] = []
        self.making = False
        self.capacity: list[int] = []
        self._spare: list[OfferedSnapshot] = []

    def open(self) -> None:
        """Put all free resources into the pool."""
        self.world.store.refresh(self.whole)
        guards = self.whole.guards
        self.pool = sum(left - guards for left in self.whole.rest if left & guards == guards)
        self.capacity = self.whole.capacity.sum(axis=1).tolist()

    # Making offers

    def sync(self, simulated: SimulatedScheduler) -> None:
        """Wait for an offer."""
        self.wanting.append(simulated)
        self._consider()

    def _consider(self) -> None:
        """Begin to make an offer, or to gather for one, unless one is in progress."""
        if self.making:
            return
        if self._gathering:
            # Any event starts the gathering; the gathered resources are offered if they reach the minimum.
            self.making = True
            engine = self.world.engine
            engine.at(engine.now + self._gathering, self._gathered)
        elif self.wanting and self._enough():
            self.making = True
            self._make()

    def _gathered(self, _: Any) -> None:
        self.making = False
        if self.wanting and self._enough():
            self._make()

    def _enough(self) -> bool:
        return self.pool > 0 and self.pool & MASK >= self.offers.least_cpu

    def _make(self) -> None:
        simulated = min(self.wanting, key=self._share)
        self.wanting.remove(simulated)
        at = self.world.engine.now + microseconds(self.offers.offer_seconds)
        self.world.engine.at(at, self._deliver, (simulated, self._lock()))

    def _share(self, simulated: SimulatedScheduler) -> float:
        """Return the dominant share of the scheduler's resources."""
        used = self.used.get(simulated.number, 0)
        return max((used >> FIELD * d & MASK) / has if has else 0.0 for d, has in enumerate(self.capacity))

    def _lock(self) -> Offer:
        """Move the pool into an offer."""
        amounts, self.pool = self.pool, 0
        if self.home:
            self.home = False
            return Offer(self.whole, amounts, None)
        loose, self.loose = self.loose, {}
        copy = self._spare.pop() if self._spare else self._empty()
        for machine, free in loose.items():
            copy.rest[machine] += free
        copy.offered = sorted(loose)
        copy.took_over(list(loose))
        return Offer(copy, amounts, list(loose))

    def _empty(self) -> OfferedSnapshot:
        copy = OfferedSnapshot(self.world.dimensions, numbered=self.world.numbered)
        copy.start(self.whole.rows.T)
        copy.rest[:] = [copy.guards] * copy.size
        return copy

    def _deliver(self, made: tuple[SimulatedScheduler, Offer]) -> None:
        simulated, offer = made
        self.out[simulated.number] = offer
        if self.offers.batch_seconds:
            simulated.grant(offer.copy)
            return
        self.making = False
        simulated.grant(offer.copy)
        self._consider()

    # Returned resources

    def over(self, simulated: SimulatedScheduler) -> None:
        """Return the rest of the offer to the pool at the end of an attempt."""
        offer = self.out.pop(simulated.number, None)
        if offer is None:
            return
        if self.overlapping:
            self.world.engine.at(simulated.until, self._return, offer)
        else:
            self._return(offer)

    def _return(self, offer: Offer) -> None:
        self.pool += offer.left
        copy = offer.copy
        if offer.machines is None:
            self.home = True
            loose, self.loose = self.loose, {}
            self._put(list(loose), list(loose.values()))
        else:
            guards = copy.guards
            self._put(offer.machines, [copy.rest[machine] - guards for machine in offer.machines])
            for machine in offer.machines:
                copy.rest[machine] = guards
            copy.took_over(offer.machines)
            if isinstance(copy, OfferedSnapshot):
                self._spare.append(copy)
        self._consider()

    def _put(self, machines: Sequence[int], amounts: Sequence[int]) -> None:
        """Return free resources of some machines to the pool; a machine may be named several times."""
        if self.home:
            rest = self.whole.rest
            for machine, free in zip(machines, amounts, strict=True):
                rest[machine] += free
            self.whole.took_over(machines)
        else:
            loose = self.loose
            for machine, free in zip(machines, amounts, strict=True):
                if free:
                    loose[machine] = loose.get(machine, 0) + free

    @override
    def ended(self, machines: Sequence[int], amounts: Sequence[int], owner: int) -> None:
        total = sum(amounts)
        self._put(machines, amounts)
        self.pool += total
        self.used[owner] = self.used.get(owner, 0) - total
        self._consider()

    def gave_up(self, simulated: SimulatedScheduler, job_id: str) -> None:
        """Return the hoard of an abandoned job to the pool."""
        if job_id in self.hoards:
            job, claims = self.hoards.pop(job_id)
            amounts = [packed_need(job.groups[claim.group].need) * claim.count for claim in claims]
            self.ended([claim.machine for claim in claims], amounts, simulated.number)

    # Accepting

    def commit(self, simulated: SimulatedScheduler, transactions: Sequence[Transaction]) -> Results:
        """Offered resources cannot conflict, so every claim is accepted."""
        offer = self.out[simulated.number]
        results = []
        for transaction in transactions:
            work = simulated.scheduler.working[transaction.job]
            claims = transaction.claims
            if isinstance(claims, ClaimColumns) and claims.counts is None:
                total = len(claims)
                taken, outcome = packed_need(work.need(claims.group)) * total, all_placed(total)
            else:
                total = sum(claim.count for claim in claims)
                taken = sum(packed_need(work.need(claim.group)) * claim.count for claim in claims)
                outcome = Outcome(tuple((claim.count, Verdict.PLACED) for claim in claims))
            offer.left -= taken
            self.used[simulated.number] = self.used.get(simulated.number, 0) + taken
            results.append((transaction, outcome))
            enough = total == work.remaining or work.job.gang_min > 0  # no fewer than its minimum were placed
            self._accept(simulated, work.job, transaction, whole=enough)
        offer.copy.settle(stands=True)
        return results

    def _accept(self, simulated: SimulatedScheduler, job: Job, transaction: Transaction, *, whole: bool) -> None:
        if self.offers.hoard and transaction.mode is Mode.GANG:
            _, claims = self.hoards.setdefault(job.id, (job, []))
            claims += transaction.claims
            if not whole:
                return
            del self.hoards[job.id]
            transaction = transaction._replace(claims=tuple(claims))
        if self.overlapping:
            self.world.engine.at(simulated.until, self._start, (simulated, job, transaction, simulated.began))
        else:
            self._start((simulated, job, transaction, simulated.began))

    def _start(self, accepted: tuple[SimulatedScheduler, Job, Transaction, float]) -> None:
        simulated, job, transaction, self.whole.began = accepted
        self.world.commit(simulated.number, simulated.name, job, transaction, self.whole)
