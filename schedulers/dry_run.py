"""A dry run: the attempt loop on a working copy, as if all claims were accepted; nothing is committed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Outcome, Transaction, Verdict
from omega.schedulers.constraints.fetching import Fetch, fetch
from omega.schedulers.failing import as_one_line
from omega.schedulers.foreign_errors import RAISED
from omega.schedulers.gates import Hold
from omega.schedulers.loop import Arrived, Commit, Committed, Effect, Receive, Sync, Think, attempts
from omega.schedulers.preemption.victims import Victim
from omega.schedulers.resizing import Measure, Measurements, Resize, Resized
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work

if TYPE_CHECKING:
    from omega.cellstate.ports import Queries

MOST_TRIES = 8
"""Maximum number of consecutive waits for a time named by a policy without a placement; the rest is then pending."""


@dataclass(slots=True)
class Planned:
    """The plan of a job: its claims and the victims they need, or why the scheduler's gate would hold it."""

    held: str = ""

    claims: list[Claim] = field(default_factory=list)
    victims: list[Victim] = field(default_factory=list)
    after: float = 0.0
    """Seconds from the beginning to the last claim: the time that policies wait, such as for a starving pool."""


@dataclass(slots=True)
class DryRun:
    """Plans jobs one after the other on `snapshot`; each takes from the room that the previous ones left.

    `cell` is only read, for attributes, other jobs and running tasks.
    """

    scheduler: Scheduler
    snapshot: Snapshot
    cell: "Queries"
    now: float = 0.0
    """The time at which the job arrives (seconds); that of the cell, where the ages of tasks matter."""

    def plan(self, work: Work) -> Planned:
        """Attempt a job until it is placed or nothing more fits; its claims stay in the snapshot."""
        with as_one_line(self.scheduler, errors=RAISED):
            return self._plan(work)

    def _plan(self, work: Work) -> Planned:
        planned, arriving, now, tries = Planned(), [work], self.now, 0
        loop = attempts(self.scheduler)
        effect: Effect = next(loop)
        while True:
            match effect:
                case Receive(until):
                    tries = tries + 1 if until else 0
                    if (until is None and not arriving) or tries > MOST_TRIES:
                        loop.close()
                        return planned
                    now = max(now, until or 0.0)
                    effect = loop.send(Arrived(now, works=arriving))
                    arriving = []
                case Sync():
                    effect = loop.send(self.snapshot)
                case Fetch():
                    # Only this snapshot has the job's own tasks.
                    fetch(replace(effect, placed=()), self.cell, self.snapshot)
                    self.snapshot.placed = {}
                    effect = loop.send(None)
                case Think():
                    effect = loop.send(now)
                case Commit():
                    planned.after, tries = (now - self.now, 0) if effect.transactions else (planned.after, tries)
                    effect = loop.send(Committed(now, self._all_stand(effect.transactions, planned), False))
                case Hold(reasons) if work.id in reasons:
                    loop.close()
                    self.scheduler.held.works.clear()
                    planned.held = reasons[work.id]
                    return planned
                case Measure():  # an unsubmitted job has no progress; its requested size is planned
                    effect = loop.send(Measurements([], []))
                case Resize():
                    effect = loop.send(Resized([]))
                case _:
                    effect = loop.send(None)

    def _all_stand(self, transactions: Sequence[Transaction], planned: Planned) -> list[tuple[Transaction, Outcome]]:
        results = []
        for transaction in transactions:
            claims = list(transaction.claims)
            planned.claims += claims
            for claim in claims:
                planned.victims += self._evict(claim)
            results.append((transaction, Outcome(tuple((claim.count, Verdict.PLACED) for claim in claims))))
        return results

    def _evict(self, claim: Claim) -> list[Victim]:
        residents = {each.placement: each for each in self.snapshot.residents.on(claim.machine)}
        victims = []
        for placement, count in claim.evict:
            resident = residents[placement]
            victims.append(Victim(resident, count))
            self.snapshot.take(claim.machine, resident.need, -count)
            residents[placement] = replace(resident, tasks=resident.tasks - count)
        if victims:
            stay = [each for each in residents.values() if each.tasks]
            self.snapshot.residents.learn([claim.machine], self.snapshot.number, stay)
        return victims
