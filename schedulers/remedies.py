"""Changes that would let the rest of a job fit: evictions of less important tasks, or more machines of a given size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from omega.cellstate.model import Gang
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import demands
from omega.schedulers.constraints.enforcing import permitted
from omega.schedulers.constraints.explanation import GroupExplanation
from omega.schedulers.constraints.fetching import Fetch, fetch
from omega.schedulers.constraints.reasons import FOR_GOOD, Reason
from omega.schedulers.fitting import fitting
from omega.schedulers.placement.domains import levels, most_on_machine, tasks_of
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.work import Work, together

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.transaction import Claim

LOOKED_AT = (128, 2_000)
"""Machines on which victims are counted, and those on which they are when the first do not suffice: 0.2 s."""


@dataclass(frozen=True, slots=True)
class MoreMachines:
    """`count` machines like the one of index `like`; `apart`: number of additional domains by attribute."""

    count: int
    like: int
    apart: Mapping[str, int] = field(default_factory=dict)


def more_machines(work: Work, part: GroupExplanation, snapshot: Snapshot) -> MoreMachines | None:
    """Return the smallest number of machines of one size for the rest of a group; None when none would help."""
    rest = part.unplaced - part.fits
    if not rest or part.reason in FOR_GOOD:
        return None
    need, wants, tasks = work.need(part.group), demands(work.job, part.group), tasks_of(work)
    may = permitted(work, part.group, snapshot)
    fits = np.where(snapshot.up if may is None else snapshot.up & may, fitting(snapshot.capacity, need, rest), 0)
    bounds = {level.domain: level.bound for level in levels(wants, tasks, snapshot, {}) if level.bound is not None}
    bounds = bounds if part.reason is Reason.SPREAD else {}
    alone = most_on_machine(wants, tasks)
    most = min(int(fits.max(initial=0)), rest if alone is None else alone, *bounds.values(), rest)
    if most <= 0:
        return None
    # The smallest of the machine sizes that need the fewest machines.
    enough = np.flatnonzero(fits >= most)
    size = snapshot.capacity[:, enough] / np.maximum(snapshot.capacity.max(axis=1), 1)[:, None]
    apart = {domain: ceil(rest / bound) for domain, bound in bounds.items()}
    return MoreMachines(ceil(rest / most), int(enough[size.sum(axis=0).argmin()]), apart)


def nearest_machine(work: Work, part: GroupExplanation, snapshot: Snapshot) -> int | None:
    """Return the machine whose size is nearest to a task that is too large for all; None for other reasons."""
    if part.reason is not Reason.TOO_LARGE:
        return None
    may = permitted(work, part.group, snapshot)
    usable = np.flatnonzero(snapshot.up if may is None else snapshot.up & may)
    need = np.array(work.need(part.group))
    if not usable.size or not need.any():
        return None
    fractions = snapshot.capacity[need > 0][:, usable] / need[need > 0][:, None]
    return int(usable[np.minimum(fractions, 1).min(axis=0).argmax()])


def evictions(work: Work, snapshot: Snapshot, cell: "Cell") -> int:
    """Return the number of tasks with lower precedence to evict so that the rest fits; 0 when that does not help.

    Of a gang with a minimum the rest is what this lacks. The snapshot is left unchanged. In a large cell the machines
    are a sample, as a scheduler takes one; a larger one is fetched where the first does not suffice.
    """
    rng, mark, least = Random(0), snapshot.mark(), together(work)
    whole = replace(least, job=replace(least.job, gang=Gang.YES, gang_min=0))
    claims: Sequence[Claim] = ()
    for looks in LOOKED_AT:
        policy = PrecedencePreemption(looks=looks, most=looks)
        suspects = policy.suspects(whole, snapshot, rng)
        if suspects is None:
            return 0
        fetch(Fetch(residents=tuple(suspects)), cell, snapshot)
        claims = policy.place(whole, snapshot, ServicePlacement(), rng)
        snapshot.undo(mark)
        if claims or len(suspects) < looks:
            break
    residents = {each.placement: each for claim in claims for each in snapshot.residents.on(claim.machine)}
    victims = [(residents[placement], count) for claim in claims for placement, count in claim.evict]
    gangs = {each.job: each.together for each, _ in victims if each.together}
    return sum(gangs.values()) + sum(count for each, count in victims if not each.together)
