"""Constraints for any placement and preemption: each sees only the machines that a job may use, and claims no other.

A preemption first sees those where none of the job's tasks used up its restarts (semantics 26). A policy that declares
`applies_constraints` is called as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import ClassVar

import numpy as np

from omega.cellstate.constraints.evaluation import Mask
from omega.cellstate.model import MachineState
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, ClaimColumns
from omega.schedulers.constraints.demands import NONE, demands
from omega.schedulers.constraints.enforcing import (
    demanding,
    enforced,
    kept_from_simulated,
    permitted,
    permitted_to_some,
)
from omega.schedulers.placement.domains import places_of
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.policies import (
    Placement,
    Preemption,
    applies_constraints,
    claims_of,
    keeps_apart,
    place_all_before,
)
from omega.schedulers.work import Work, together


@dataclass(frozen=True, slots=True)
class Constrained:
    """`inner` places jobs on the machines that satisfy their constraints; `careful` places jobs with other demands.

    Other demands concern several machines at once: spreading, other jobs, preferences, and different machines unless
    `inner` declares `keeps_apart`. Every placement that does not
    apply the demands of jobs itself is wrapped so by its scheduler (`within_constraints`).
    """

    inner: Placement = field(default_factory=FirstFit)
    careful: Placement = field(default_factory=ServicePlacement)

    applies_constraints: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """Return claims for the tasks that fit and mark them in the snapshot with `snapshot.take`."""
        job = work.job
        if not (job.spec or job.commands or snapshot.pools.divided):  # most jobs of a simulation
            claims = self.inner.place(work, snapshot, rng)
            return claims if type(claims) is ClaimColumns else claims_of(self.inner, claims)
        if not demanding(work, snapshot):
            return claims_of(self.inner, self.inner.place(work, snapshot, rng))
        groups = [group for group, left in enumerate(work.left) if left]
        wants = [demands(work.job, group) for group in groups]
        anywhere = not (kept_from_simulated(work, snapshot) or snapshot.pools.divided)
        if all(each is NONE for each in wants) and anywhere:
            return claims_of(self.inner, self.inner.place(work, snapshot, rng))
        apart = not all(each.per_machine for each in wants)
        if apart and not (keeps_apart(self.inner) and all(each.per_task for each in wants)):
            return self.careful.place(work, snapshot, rng)
        masks = {group: permitted(work, group, snapshot) for group in groups}
        if len(groups) == 1 and masks[groups[0]] is None:
            return claims_of(self.inner, self.inner.place(work, snapshot, rng))
        known = snapshot.placed
        try:
            return self._narrowed(work, snapshot, rng, masks)
        finally:
            snapshot.placed = known

    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        """Return the claims of the first jobs without demands, as far as the inner placement places jobs together."""
        return place_all_before(self.inner, lambda work: demanding(work, snapshot), works, snapshot, rng, most)

    def _narrowed(self, work: Work, snapshot: Snapshot, rng: Random, masks: dict[int, Mask | None]) -> Sequence[Claim]:
        """Place group by group, each on its own narrowed snapshot."""
        start, claims, places = snapshot.mark(), list[Claim](), places_of(work, snapshot)
        for group, mask in masks.items():
            left = [count if other == group else 0 for other, count in enumerate(work.left)]
            part, mark = replace(work, left=left, places=places), snapshot.mark()
            if work.id in snapshot.placed:
                snapshot.placed = {**snapshot.placed, work.id: places}
            placed = claims_of(
                self.inner, self.inner.place(part, snapshot if mask is None else snapshot.narrow(mask), rng)
            )
            if mask is not None:
                placed = enforced(part, placed, snapshot, mark)
            if work.gang and sum(claim.count for claim in placed) < work.left[group]:
                snapshot.undo(start)
                return []
            for claim in placed:
                places[claim.machine] = places.get(claim.machine, 0) + claim.count
            claims += placed
        return claims


def within_constraints(placement: Placement) -> Placement:
    """Return a placement that applies the demands of jobs: the given one, wrapped unless it declares that it does."""
    return placement if applies_constraints(placement) else Constrained(placement)


def suspects(preemption: Preemption, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int] | None:
    """Return the machines to be fetched for a job, as `Preemption.suspects`."""
    if work.remaining < work.least:
        return None  # the others of its minimum are delayed
    if work.until > snapshot.now:
        return None  # a policy delays it: it left room
    work = together(_without_copies(work))
    if not work.remaining:
        return None
    found: Sequence[int] | None = None
    for view in _views(preemption, work, snapshot):
        found = preemption.suspects(work, view, rng)
        if found:
            break
    return found


def evictions(
    preemption: Preemption, work: Work, snapshot: Snapshot, placement: Placement, rng: Random
) -> Sequence[Claim]:
    """Return the claims of a preemption, each with its victims, without the tasks that break a demand of the job.

    A gang with a minimum evicts for as many tasks as that lacks, then for one after the other.
    """
    work = together(_without_copies(work))
    mark, checked = snapshot.mark(), applies_constraints(preemption) or not demanding(work, snapshot)
    claims: Sequence[Claim] = ()
    for view in _views(preemption, work, snapshot):
        claims = claims_of(preemption, preemption.place(work, view, placement, rng))
        if claims and not checked:
            claims = enforced(work, claims, snapshot, mark)
        if claims:
            break
    return claims


def _views(preemption: Preemption, work: Work, snapshot: Snapshot) -> Iterator[Snapshot]:
    """Yield the snapshot on which machines that no group of the job may use are drained.

    Before it comes one on which those are drained too where tasks of the job used up their restarts.
    """
    if not preemption.evicts or applies_constraints(preemption):
        yield snapshot
        return
    may = permitted_to_some(work, snapshot) if demanding(work, snapshot) else None
    others = work.elsewhere(snapshot.size)
    if others is not None:
        yield _drained(snapshot, others if may is None else others & may)
    yield snapshot if may is None else _drained(snapshot, may)


def _without_copies(work: Work) -> Work:
    """Return the work without copies of slow tasks, which evict nothing (semantics 41)."""
    groups = work.job.groups
    if len(groups) == 1 or not any(group.copies for group in groups):
        return work
    return replace(work, left=[0 if group.copies else left for group, left in zip(groups, work.left, strict=True)])


def _drained(snapshot: Snapshot, may: Mask) -> Snapshot:
    """Return the snapshot on which all machines but these are drained."""
    view = snapshot.narrow(may)
    view.rows = snapshot.rows.copy()
    view.rows[2] = np.where(may, view.rows[2], np.maximum(view.rows[2], MachineState.DRAINED))
    return view
