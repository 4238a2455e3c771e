"""Failure domains that nest and overlap, and how many tasks of a job each one has.

Machines that are in the same domain of every kind in question are alike as far as spreading goes: they
form a *patch*. A decision goes on over patches, of which there are few, and not over machines.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cellstate.attributes import MACHINE, Attributes
from cellstate.snapshot import Snapshot
from schedulers.constraints.demands import Demands
from schedulers.work import Work

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Patches:
    """The patch of each machine, and for each kind of domain the code (0: no such domain) of each patch."""

    of: Codes
    codes: tuple[Codes, ...]


def patches(attributes: Attributes, domains: tuple[str, ...]) -> Patches:
    """Patches of some kinds of domain; kept until attributes change."""
    return attributes.keep(("patches", domains), lambda: _patches(attributes, domains))


def _patches(attributes: Attributes, domains: tuple[str, ...]) -> Patches:
    columns = [attributes.codes(domain).astype(np.int64) for domain in domains]
    of: Codes = np.zeros(attributes.size, dtype=np.int64)
    for column in columns:
        # Made dense after each kind, or the product of many kinds would leave 64 bits.
        of = np.unique(of * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    some = np.zeros(int(of.max(initial=0)) + 1, dtype=np.int64)
    some[of] = np.arange(len(of))
    return Patches(of, tuple(column[some] if len(of) else some for column in columns))


@dataclass(slots=True)
class Level:
    """One kind of domain: the most tasks a domain may take (None: any number), and how many each code has."""

    domain: str
    bound: int | None
    counts: Codes


def levels(wants: Demands, tasks: int, snapshot: Snapshot, here: Mapping[int, int]) -> list[Level]:
    """The kinds of domain of a job of so many tasks, of which `here` are placed; `machine` is not among them."""
    bounds: dict[str, list[int]] = {}
    for spread in wants.spread:
        if spread.domain != MACHINE:
            bound = spread.bound(tasks)
            bounds.setdefault(spread.domain, []).extend([] if bound is None else [bound])
    found = []
    machines = np.fromiter(here, np.int64, len(here))
    numbers = np.fromiter(here.values(), np.int64, len(here))
    for domain, most in bounds.items():
        counts = np.zeros(len(snapshot.attributes.values(domain)), dtype=np.int64)
        np.add.at(counts, snapshot.attributes.codes(domain)[machines], numbers)
        found.append(Level(domain, min(most, default=None), counts))
    return found


def most_on_machine(wants: Demands, tasks: int) -> int | None:
    """How many tasks of a job of so many one machine may take; None for any number."""
    bounds = [spread.bound(tasks) for spread in wants.spread if spread.domain == MACHINE]
    known = [bound for bound in bounds if bound is not None] + ([1] if wants.different else [])
    return min(known, default=None)


def closed(level: Level, snapshot: Snapshot) -> NDArray[np.bool_] | None:
    """Machines that a bounded kind of domain rules out: their domain is full, or they are in none."""
    if level.bound is None:
        return None
    full = level.counts >= level.bound
    full[0] = True
    mask: NDArray[np.bool_] = full[snapshot.attributes.codes(level.domain)]
    return mask


def tasks_of(work: Work) -> int:
    """The tasks of a job that run or are to run: what a share is a share of."""
    return sum(group.unplaced + group.placed for group in work.job.groups)


def places_of(work: Work, snapshot: Snapshot) -> dict[int, int]:
    """Tasks of a job by machine of the copy: as looked up, else what its record and its scheduler know."""
    if work.id in snapshot.placed:
        return {machine: count for machine, count in snapshot.placed[work.id].items() if machine < snapshot.size}
    here = dict(work.places)
    for group in work.job.groups:
        machines = [machine for _, machine, leaving in group.runs if not leaving and machine not in work.places]
        for machine in machines:
            # A record does not say how many tasks a run has, but that is plain when there is only one.
            here[machine] = here.get(machine, 0) + (group.placed if len(group.runs) == 1 else 1)
    return {machine: count for machine, count in here.items() if machine < snapshot.size}
