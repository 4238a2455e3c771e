"""Two-level, as Mesos 0.9: an allocator offers what is free, schedulers take or leave it (Omega §3.3, §4.2).

The allocator picks the scheduler furthest below its fair share (dominant resources), offers it everything
that is free and takes a millisecond for it; what is offered is locked. What is freed meanwhile can be
offered to others. An offer is used for one attempt, then the rest goes back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellstate.model import Job
from cellstate.packing import FIELD, MASK, packed_need
from cellstate.replica import Replica
from cellstate.resources import Resources
from cellstate.transaction import Claim, Mode, Outcome, Singles, Transaction, Verdict, all_placed
from omega.simulation.drive import Architecture, Desk, Results
from omega.simulation.engine import microseconds
from omega.simulation.world import World


@dataclass(frozen=True, slots=True)
class Offers:
    """How the allocator goes about it.

    The first two are the paper's text; the others are what the authors' simulator does beyond it.
    """

    offer_seconds: float = 0.001
    """How long it takes to make an offer."""
    hoard: bool = True
    """A scheduler whose transactions are all-or-nothing keeps what it took until its job is whole."""
    several_jobs: bool = False
    """A scheduler tries all its queued jobs on one offer; else one job an offer."""
    batch_seconds: float = 0.0
    """Resources are gathered for so long before they are offered."""
    least_cpu: int = 0
    """Nothing is offered while less than so much cpu (millicores) is free in all; memory is not looked at."""
    overlapping: bool = False
    """A scheduler takes the next offer while it still thinks about the last one."""


AUTHORS = Offers(hoard=False, several_jobs=True, batch_seconds=1.0, least_cpu=100_000, overlapping=True)
"""The rules of the authors' simulator."""


class Part(Replica):
    """A copy in which only the machines of an offer have room; they alone are looked through."""

    offered: Sequence[int] = ()

    @property
    def scope(self) -> int:
        """See View.scope."""
        return len(self.offered)

    def holding(self, need: Resources) -> list[int]:
        """See View.holding."""
        amounts, guards, rest = packed_need(need), self.guards, self.rest
        return [machine for machine in self.offered if (rest[machine] - amounts) & guards == guards]


@dataclass(slots=True)
class Offer:
    """A copy in which only what is offered has room, how much of it is left (packed), and on which machines.

    `machines` is None for the copy of everything.
    """

    copy: Replica
    left: int
    machines: list[int] | None


class TwoLevel(Architecture):
    """The allocator. What is free is in the pool, in an offer or in a hoard.

    The pool is `whole`, a copy of the cell, while it is at home, and `loose`, by machine, while it is out.
    """

    def __init__(self, world: World, offers: Offers) -> None:
        """The pool is empty before `open`."""
        self.world, self.offers = world, offers
        self.overlapping = offers.overlapping
        self.whole, self.home = world.copy(), True
        self.loose: dict[int, int] = {}
        self.pool = 0
        self.out: dict[int, Offer] = {}
        """By desk."""
        self.used: dict[int, int] = {}
        """By desk: what its tasks and hoards hold, packed."""
        self.hoards: dict[str, tuple[Job, list[Claim]]] = {}
        self.wanting: list[Desk] = []
        self.making = False
        self.capacity: list[int] = []
        self._spare: list[Part] = []

    def open(self) -> None:
        """Everything that is free now is the allocator's."""
        self.world.master.refresh(self.whole)
        guards = self.whole.guards
        self.pool = sum(left - guards for left in self.whole.rest if left & guards == guards)
        self.capacity = self.whole.capacity.sum(axis=1).tolist()

    # Making offers

    def sync(self, desk: Desk) -> None:
        """Wait for an offer."""
        self.wanting.append(desk)
        self._consider()

    def _consider(self) -> None:
        """Begin to make an offer, or to gather for one, unless that is going on."""
        engine, gather = self.world.engine, microseconds(self.offers.batch_seconds)
        if self.making:
            return
        if gather:
            # Whatever happens starts it, and what has gathered by then is offered or not.
            self.making = True
            engine.at(engine.now + gather, self._gathered)
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
        desk = min(self.wanting, key=self._share)
        self.wanting.remove(desk)
        at = self.world.engine.now + microseconds(self.offers.offer_seconds)
        self.world.engine.at(at, self._deliver, (desk, self._lock()))

    def _share(self, desk: Desk) -> float:
        """The dominant share of what the desk holds."""
        used = self.used.get(desk.number, 0)
        return max((used >> FIELD * d & MASK) / has if has else 0.0 for d, has in enumerate(self.capacity))

    def _lock(self) -> Offer:
        """Empty the pool into an offer."""
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

    def _empty(self) -> Part:
        copy = Part(self.world.dimensions, numbered=self.world.numbered)
        copy.start(self.whole.rows.T)
        copy.rest[:] = [copy.guards] * copy.size
        return copy

    def _deliver(self, made: tuple[Desk, Offer]) -> None:
        desk, offer = made
        self.out[desk.number] = offer
        if self.offers.batch_seconds:
            desk.grant(offer.copy)
            return
        self.making = False
        desk.grant(offer.copy)
        self._consider()

    # What comes back

    def over(self, desk: Desk) -> None:
        """The attempt is over: what is left of the offer goes back."""
        offer = self.out.pop(desk.number, None)
        if offer is None:
            return
        if self.overlapping:
            self.world.engine.at(desk.until, self._return, offer)
        else:
            self._return(offer)

    def _return(self, offer: Offer) -> None:
        self.pool += offer.left
        copy = offer.copy
        if offer.machines is None:
            self.home = True
            loose, self.loose = self.loose, {}
            self._put(loose)
        else:
            guards = copy.guards
            self._put({machine: copy.rest[machine] - guards for machine in offer.machines})
            for machine in offer.machines:
                copy.rest[machine] = guards
            copy.took_over(offer.machines)
            if isinstance(copy, Part):
                self._spare.append(copy)
        self._consider()

    def _put(self, amounts: Mapping[int, int]) -> None:
        """Put back what is free on some machines."""
        if self.home:
            for machine, free in amounts.items():
                self.whole.rest[machine] += free
            self.whole.took_over(list(amounts))
        else:
            for machine, free in amounts.items():
                if free:
                    self.loose[machine] = self.loose.get(machine, 0) + free

    def ended(self, freed: Mapping[int, int], owner: int) -> None:
        """See Architecture.ended."""
        amounts = sum(freed.values())
        self._put(freed)
        self.pool += amounts
        self.used[owner] = self.used.get(owner, 0) - amounts
        self._consider()

    def gave_up(self, desk: Desk, job_id: str) -> None:
        """A job is abandoned: its hoard goes back."""
        if job_id in self.hoards:
            job, claims = self.hoards.pop(job_id)
            freed: dict[int, int] = {}
            for claim in claims:
                amounts = packed_need(job.groups[claim.group].need) * claim.count
                freed[claim.machine] = freed.get(claim.machine, 0) + amounts
            self.ended(freed, desk.number)

    # Accepting

    def commit(self, desk: Desk, transactions: Sequence[Transaction]) -> Results:
        """What was offered cannot conflict, so all of it stands."""
        offer = self.out[desk.number]
        results = []
        for transaction in transactions:
            work = desk.scheduler.working[transaction.job]
            claims = transaction.claims
            if isinstance(claims, Singles):
                total = len(claims)
                taken, outcome = packed_need(work.need(claims.group)) * total, all_placed(total)
            else:
                total = sum(claim.count for claim in claims)
                taken = sum(packed_need(work.need(claim.group)) * claim.count for claim in claims)
                outcome = Outcome(tuple((claim.count, Verdict.PLACED) for claim in claims))
            offer.left -= taken
            self.used[desk.number] = self.used.get(desk.number, 0) + taken
            results.append((transaction, outcome))
            self._accept(desk, work.job, transaction, whole=total == work.remaining)
        offer.copy.settle(stands=True)
        return results

    def _accept(self, desk: Desk, job: Job, transaction: Transaction, *, whole: bool) -> None:
        if self.offers.hoard and transaction.mode is Mode.GANG:
            _, claims = self.hoards.setdefault(job.id, (job, []))
            claims += transaction.claims
            if not whole:
                return
            del self.hoards[job.id]
            transaction = transaction._replace(claims=tuple(claims))
        if self.overlapping:
            self.world.engine.at(desk.until, self._start, (desk, job, transaction))
        else:
            self._start((desk, job, transaction))

    def _start(self, accepted: tuple[Desk, Job, Transaction]) -> None:
        desk, job, transaction = accepted
        self.world.commit(desk.number, desk.name, job, transaction, self.whole)
