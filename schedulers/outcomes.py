"""Claims and outcomes of one job: counted into its work, compared with what the scheduler did meanwhile."""

from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.model import MOST_CLAIMS
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, ClaimColumns, Detection, Mode, Outcome, Transaction, Verdict
from omega.cellstate.usage import Usage, times
from omega.schedulers.work import Work

MANY_CONFLICTS = 0.2
"""Share of transactions with a conflict above which conflicts count as frequent."""
OF_LAST_CALL = 0.2
"""Weight of the last call in the moving average of conflicts."""
_PLACED, _GANG = frozenset({Verdict.PLACED}), Mode.GANG
_new = tuple.__new__
"""Makes the transactions: a call of the class would take a third of a microsecond longer."""


@dataclass(slots=True)
class ConflictRate:
    """Moving average of the share of transactions with a conflict, by call."""

    share: float = 0.0

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """Add the outcomes of a call."""
        if outcomes:
            conflicts = sum([outcome.conflicted for outcome in outcomes])
            self.share += OF_LAST_CALL * (conflicts / len(outcomes) - self.share)

    @property
    def frequent(self) -> bool:
        """Whether more than MANY_CONFLICTS of the recent transactions had a conflict."""
        return self.share > MANY_CONFLICTS


class CommitRules(Protocol):
    """The settings of a scheduler that decide on the form of its transactions."""

    mode: Mode
    detection: Detection
    counts_use: bool


def transaction(rules: CommitRules, work: Work, claims: Sequence[Claim], snapshot: Snapshot, size: int) -> Transaction:
    """Return the transaction of a job's claims, which are the last `size` on the snapshot."""
    if size > MOST_CLAIMS:
        snapshot.undo(snapshot.mark() - size + MOST_CLAIMS)
        claims = claims[:MOST_CLAIMS]
    if rules.detection:  # coarse
        claims = seen(claims, snapshot.number)
    elif type(claims) is list:
        claims = tuple(claims)
    if rules.counts_use:
        book(work, claims, snapshot.usage)
    job = work.job
    if snapshot.others:
        snapshot.take_other(job.name, claims)
    gang = job.gang and (not job.gang_min or work.least)
    return _new(Transaction, (job.id, claims, _GANG if gang else rules.mode, rules.detection, None))


def book(work: Work, claims: Sequence[Claim], usage: Usage) -> None:
    """Count the claimed tasks of a job as use of its user and pool."""
    (pool, user), job_id = work.whose, work.job.id
    if type(claims) is ClaimColumns:
        tasks, group = len(claims.machines) if claims.counts is None else sum(claims.counts), claims.group
        usage.take(user, pool, times(work.job.groups[group].need, tasks), (job_id, group))
        return
    counts: dict[int, int] = {}
    for claim in claims:
        counts[claim.group] = counts.get(claim.group, 0) + claim.count
    for group, tasks in counts.items():
        usage.take(user, pool, times(work.need(group), tasks), (job_id, group))


def seen(claims: Sequence[Claim], numbers: NDArray[np.int64]) -> Sequence[Claim]:
    """Add the numbers of the machines at the sync, which coarse detection compares."""
    if type(claims) is ClaimColumns:
        claims.seen = [int(numbers[machine]) for machine in claims.machines]
        return claims
    return tuple([claim._replace(seen=int(numbers[claim.machine])) for claim in claims])


def admitted(work: Work) -> Work:
    """Return the part of a job that it may place now; a limit of one group does not exclude the others."""
    left, work.admitted = [min(pair) for pair in zip(work.left, work.admitted or work.left, strict=True)], None
    job, lacks = work.job, work.job.gang_min
    if lacks:  # what is left out does not run
        job = replace(job, gang_min=lacks + work.remaining - sum(left))
    return replace(work, job=job, left=left)


def count(work: Work, claims: Sequence[Claim], outcome: Outcome) -> AbstractSet[Verdict]:
    """Apply accepted claims; return the verdicts of the others, and PLACED when some or all were accepted."""
    if type(claims) is ClaimColumns:
        placed = outcome.placed
        work.left[claims.group] -= placed
        work.placed += placed
        return _PLACED if outcome.accepted else {verdict for _, verdict in outcome.claims}
    if outcome.accepted:
        left, places = work.left, work.places
        for machine, group, tasks, _, _ in claims:
            left[group] -= tasks
            places[machine] = places.get(machine, 0) + tasks
        work.placed += outcome.placed
        return _PLACED
    verdicts = set()
    for claim, (placed, verdict) in zip(claims, outcome.claims, strict=True):
        verdicts.add(verdict)
        if placed:
            work.left[claim.group] -= placed
            work.placed += placed
            work.places[claim.machine] = work.places.get(claim.machine, 0) + placed
    return verdicts


def rebase(transactions: Sequence[Transaction], own: dict[int, int]) -> tuple[Transaction, ...]:
    """Raise the numbers that coarse transactions saw by the scheduler's own accepted transactions since.

    `own` counts, per machine, accepted transactions of the commit that was in flight when these were decided.
    Changes by others are not counted, so they still show as a move.
    """
    if not own:
        return tuple(transactions)
    return tuple(_rebase(each, own) if each.detection is Detection.COARSE else each for each in transactions)


def _rebase(transaction: Transaction, own: dict[int, int]) -> Transaction:
    claims: list[Claim] = [claim._replace(seen=claim.seen + own.get(claim.machine, 0)) for claim in transaction.claims]
    return transaction._replace(claims=tuple(claims))


def accepted_by_machine(results: Iterable[tuple[Transaction, Outcome]]) -> dict[int, int]:
    """Return the number of accepted transactions per machine."""
    own: dict[int, int] = {}
    for transaction, outcome in results:
        pairs = zip(transaction.claims, outcome.claims, strict=True)
        for machine in {claim.machine for claim, (placed, _) in pairs if placed}:
            own[machine] = own.get(machine, 0) + 1
    return own
