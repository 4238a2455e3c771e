"""Nested and overlapping failure domains, and the number of a job's tasks in each.

Machines in the same domain of every relevant kind are equal for spreading: they form a *patch*. Decisions work on
patches, which are few, instead of machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.attributes import Attributes
from omega.cellstate.model import MACHINE
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.constraints.demands import Demands, demands
from omega.schedulers.work import Work

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Patches:
    """The patch of each machine, and for each kind of domain the code (0: no such domain) of each patch."""

    of: Codes
    codes: tuple[Codes, ...]


def patches(attributes: Attributes, domains: tuple[str, ...]) -> Patches:
    """Return the patches of some kinds of domain; cached until attributes change."""
    return attributes.keep(("patches", domains), lambda: _patches(attributes, domains))


def _patches(attributes: Attributes, domains: tuple[str, ...]) -> Patches:
    columns = [attributes.codes(domain).astype(np.int64) for domain in domains]
    of: Codes = np.zeros(attributes.size, dtype=np.int64)
    for column in columns:
        # Renumbered after each kind: the product of many kinds would exceed 64 bits.
        of = np.unique(of * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    some = np.zeros(int(of.max(initial=0)) + 1, dtype=np.int64)
    some[of] = np.arange(len(of))
    return Patches(of, tuple(column[some] if len(of) else some for column in columns))


@dataclass(slots=True)
class Level:
    """One kind of domain: maximum number of tasks per domain (None: any), and the present number by code."""

    domain: str
    bound: int | None
    counts: Codes


def levels(wants: Demands, tasks: int, snapshot: Snapshot, here: Mapping[int, int]) -> list[Level]:
    """Return the kinds of domain of a job with `tasks` tasks, of which `here` are placed; without `machine`."""
    bounds: dict[str, list[int]] = {}
    for spread in wants.spread:
        if spread.domain != MACHINE:
            bound = spread.bound(tasks)
            bounds.setdefault(spread.domain, []).extend([] if bound is None else [bound])
    kinds = []
    machines = np.fromiter(here, np.int64, len(here))
    numbers = np.fromiter(here.values(), np.int64, len(here))
    for domain, most in bounds.items():
        counts = np.zeros(len(snapshot.attributes.values(domain)), dtype=np.int64)
        np.add.at(counts, snapshot.attributes.codes(domain)[machines], numbers)
        kinds.append(Level(domain, min(most, default=None), counts))
    return kinds


def most_on_machine(wants: Demands, tasks: int) -> int | None:
    """Return the maximum number of tasks per machine for a job with `tasks` tasks; None for any number."""
    bounds = [spread.bound(tasks) for spread in wants.spread if spread.domain == MACHINE]
    known = [bound for bound in bounds if bound is not None] + ([1] if wants.different else [])
    return min(known, default=None)


def closed(level: Level, snapshot: Snapshot) -> NDArray[np.bool_] | None:
    """Return the machines excluded by a bounded kind of domain: their domain is full, or they have none."""
    if level.bound is None:
        return None
    full = level.counts >= level.bound
    full[0] = True
    mask: NDArray[np.bool_] = full[snapshot.attributes.codes(level.domain)]
    return mask


def tasks_of(work: Work) -> int:
    """Return the number of tasks that run or will run: the whole of which a share is taken."""
    return sum(group.unplaced + group.placed for group in work.job.groups)


def places_of(work: Work, snapshot: Snapshot) -> dict[int, int]:
    """Return a job's tasks by machine, as fetched, or else from its record and its scheduler."""
    known = snapshot.placed.get(work.id)
    if known is not None:
        if max(known, default=0) < snapshot.size:
            return dict(known)
        return {machine: count for machine, count in known.items() if machine < snapshot.size}
    here = dict(work.places)
    for group in work.job.groups:
        machines = [machine for _, machine, leaving in group.runs if not leaving and machine not in work.places]
        for machine in machines:
            # A record has no task counts of runs, but with a single run the count is known.
            here[machine] = here.get(machine, 0) + (group.placed if len(group.runs) == 1 else 1)
    return {machine: count for machine, count in here.items() if machine < snapshot.size}


def used_by(work: Work, group: int, snapshot: Snapshot, claims: Sequence[Claim] = ()) -> set[int] | None:
    """Return the machines that `different_machines` excludes for a group; None when it does not demand it.

    These are the machines of the job's tasks and of `claims`, those for its other groups.
    """
    if not demands(work.job, group).different:
        return None
    return {*places_of(work, snapshot), *(claim.machine for claim in claims)}
