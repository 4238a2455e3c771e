"""Claims and outcomes of one job: counted into its work, compared with what the scheduler did meanwhile."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from cellstate.transaction import Claim, Detection, Outcome, Singles, Transaction, Verdict
from schedulers.work import Work

_PLACED = frozenset({Verdict.PLACED})


def claimed_tasks(claims: Sequence[Claim]) -> Iterable[tuple[int, int]]:
    """Yield claimed tasks by group."""
    if isinstance(claims, Singles):
        return [(claims.group, len(claims))]
    counts: dict[int, int] = {}
    for claim in claims:
        counts[claim.group] = counts.get(claim.group, 0) + claim.count
    return counts.items()


def admitted(work: Work) -> Work:
    """Return the part of a job that it may place now; a limit of one group does not exclude the others."""
    left, work.admitted = [min(pair) for pair in zip(work.left, work.admitted or work.left, strict=True)], None
    return replace(work, left=left)


def count(work: Work, claims: Sequence[Claim], outcome: Outcome) -> AbstractSet[Verdict]:
    """Apply accepted claims; return the verdicts of the others, and PLACED when some or all were accepted."""
    if type(claims) is Singles:
        placed = outcome.placed
        work.left[claims.group] -= placed
        work.placed += placed
        return _PLACED if outcome.accepted else {verdict for _, verdict in outcome.claims}
    if outcome.accepted:
        for machine, group, tasks, _, _ in claims:
            work.left[group] -= tasks
            work.places[machine] = work.places.get(machine, 0) + tasks
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


def rebase(transaction: Transaction, own: dict[int, int]) -> Transaction:
    """Raise the numbers that a coarse transaction saw by the scheduler's own accepted transactions since.

    `own` counts, per machine, accepted transactions of the commit that was in flight when this one was decided.
    Changes by others are not counted, so they still show as a move.
    """
    if transaction.detection is Detection.FINE or not own:
        return transaction
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
