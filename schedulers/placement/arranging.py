"""A gang of several groups that does not fit in one order of its groups may fit in another; minimums of gangs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from omega.cellstate import ranges
from omega.cellstate.model import Gang
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, ClaimColumns
from omega.schedulers.placement.domains import places_of
from omega.schedulers.policies import Placement, claims_of
from omega.schedulers.work import Work, together

_NO_GANG = Gang.NO
RACK = "rack"
"""The attribute by which copies of slow tasks are placed apart from their originals."""
TRIES = 3
"""Random orders that are tried after the order by task size."""


def elsewhere(placement: Placement, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
    """Place a job, tasks that failed after all restarts on a machine elsewhere as far as there is room (semantics 26).

    What fits on no other machine may be placed on the same one again.
    """
    groups = work.job.groups
    if len(groups) == 1 and not groups[0].losses:
        return arranged(placement, work, snapshot, rng)
    if _has_copies(work):
        return _with_copies(placement, work, snapshot, rng)
    others = work.elsewhere(snapshot.size)
    if others is None:
        return arranged(placement, work, snapshot, rng)
    mark = snapshot.mark()
    claims = arranged(placement, work, snapshot.narrow(others), rng)
    left, places = list(work.left), dict(places_of(work, snapshot))
    for claim in claims:
        left[claim.group] -= claim.count
        places[claim.machine] = places.get(claim.machine, 0) + claim.count
    if not any(left):
        return claims
    if work.job.gang is not _NO_GANG:
        snapshot.undo(mark)
        return arranged(placement, work, snapshot, rng)
    return [*claims, *arranged(placement, replace(work, left=left, places=places), snapshot, rng)]


def chooses_machines(work: Work, machines: int) -> bool:
    """Return whether `elsewhere` places a job otherwise than its placement alone does."""
    return _has_copies(work) or work.elsewhere(machines) is not None


def _has_copies(work: Work) -> bool:
    groups = work.job.groups
    return len(groups) > 1 and any(group.copies and left for group, left in zip(groups, work.left, strict=True))


def _with_copies(placement: Placement, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
    """Place tasks, then their copies one by one: never on the machine of the original, in another rack if one has room.

    The store gives copies to claims in the order of their indices, so the first that fits nowhere ends it.
    """
    groups = work.job.groups
    own = [0 if group.copies else left for group, left in zip(groups, work.left, strict=True)]
    claims = list(elsewhere(placement, replace(work, left=own), snapshot, rng)) if any(own) else []
    racks = snapshot.attributes.codes(RACK)
    for number, (group, left) in enumerate(zip(groups, work.left, strict=True)):
        if not group.copies or not left:
            continue
        originals = {task: loss.retried.machine for loss in group.losses for task in ranges.indices(loss.tasks)}
        one = replace(work, left=[int(other == number) for other in range(len(groups))])
        for task in ranges.indices(group.waiting)[-left:]:
            others = np.ones(snapshot.size, dtype=np.bool_)
            beside = originals.get(task, snapshot.size)
            far = others
            if beside < snapshot.size:
                others[beside] = False
                far = others & (racks[: snapshot.size] != racks[beside])
            placed = arranged(placement, one, snapshot.narrow(far), rng) if far.any() else ()
            if not placed:
                placed = arranged(placement, one, snapshot.narrow(others), rng)
            if not placed:
                break
            claims += placed
    return claims


def arranged(placement: Placement, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
    """Place a job; try a gang of several groups in other orders too, the largest tasks first.

    Deciding whether any order fits would take exponential time; this finds the order of a bin packer. A gang with a
    minimum is placed as other jobs are, and its claims are dropped when they are fewer than the minimum lacks: so any
    placement keeps it (semantics 8).
    """
    alone = work.job.gang is _NO_GANG
    mark = 0 if alone else snapshot.mark()
    claims = placement.place(work, snapshot, rng)
    if type(claims) is not ClaimColumns:
        claims = claims_of(placement, claims)
    if alone:
        return claims
    if work.job.gang_min:
        return _of_minimum(placement, work, claims, mark, snapshot=snapshot, rng=rng)
    if len(claims) or work.until > snapshot.now:
        return claims
    groups = [group for group, left in enumerate(work.left) if left]
    if len(groups) < 2:
        return claims
    for order in _orders(work, groups, snapshot, rng):
        if claims := _in_order(placement, work, order, snapshot, rng):
            return claims
    return []


def _of_minimum(
    placement: Placement, work: Work, claims: Sequence[Claim], mark: int, *, snapshot: Snapshot, rng: Random
) -> Sequence[Claim]:
    """Return the claims of a gang with a minimum, or claims for its smallest tasks; none when too few fit."""
    if sum(claim.count for claim in claims) >= work.least:
        return claims
    snapshot.undo(mark)
    if sum(map(bool, work.left)) < 2 or work.remaining < work.least or work.until > snapshot.now:
        return []
    return arranged(placement, together(work), snapshot, rng)


def _orders(work: Work, groups: list[int], snapshot: Snapshot, rng: Random) -> Iterator[list[int]]:
    most = np.maximum(snapshot.capacity.max(axis=1, initial=1), 1)
    yield sorted(groups, key=lambda group: -float((np.array(work.need(group)) / most).max()))
    for _ in range(TRIES):
        rng.shuffle(groups)
        yield groups


def _in_order(placement: Placement, work: Work, order: list[int], snapshot: Snapshot, rng: Random) -> list[Claim]:
    """Place group by group, each completely or not at all, on the room that the previous ones left."""
    mark, claims, known = snapshot.mark(), list[Claim](), snapshot.placed
    places = places_of(work, snapshot)
    try:
        for group in order:
            left = [count if other == group else 0 for other, count in enumerate(work.left)]
            snapshot.placed = {**known, work.id: places} if work.id in known else known
            placed = claims_of(placement, placement.place(replace(work, left=left, places=places), snapshot, rng))
            if sum(claim.count for claim in placed) < work.left[group]:
                snapshot.undo(mark)
                return []
            places = dict(places)
            for claim in placed:
                places[claim.machine] = places.get(claim.machine, 0) + claim.count
            claims += placed
    finally:
        snapshot.placed = known
    return claims
