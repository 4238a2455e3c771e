"""Constraints for any preemption: it sees only the machines that a job may use, and claims no other.

It first sees those where none of the job's tasks used up its restarts (semantics 26). A preemption that declares
`applies_constraints` is called as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from omega.cellstate.constraints.evaluation import Mask
from omega.cellstate.model import MachineState
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.constraints.enforcing import demanding, enforced, permitted_to_some
from omega.schedulers.policies import Placement, Preemption, applies_constraints, claims_of
from omega.schedulers.work import Work, together


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
