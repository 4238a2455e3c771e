"""Why a job is pending, in counts: the machines that each of its demands excludes, in order.

Pure: it decides on a working copy as a scheduler does and undoes its claims. Attributes and other jobs must have been
fetched (fetching.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple, Protocol

import numpy as np

from omega.cellstate.model import Gang, Job, JobState, MachineState
from omega.cellstate.replies import KindUse
from omega.cellstate.resources import Resources, format_amount
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import Demands, demands
from omega.schedulers.constraints.evaluation import Mask, holds, related
from omega.schedulers.constraints.reasons import FOR_GOOD, Reason
from omega.schedulers.limits import ReachedLimit, limit_reached, precedence_excluded
from omega.schedulers.placement.domains import closed, levels, most_on_machine, places_of, tasks_of
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.work import Work


@dataclass(frozen=True, slots=True)
class DemandStep:
    """One demand: its kind (a `Reason`), its text, the number of machines it excludes and the number that remain.

    `machines` are the first indices of those that it excludes, as many as were asked for.
    """

    reason: Reason
    what: str
    excludes: int
    remaining: int
    machines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """One task group: its unplaced tasks, the number of these that fit now, and the reason for the others."""

    group: int
    unplaced: int
    fits: int
    reason: Reason
    steps: tuple[DemandStep, ...]
    fault: str = ""
    """The invalid part of its demands, or empty."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is pending, over the machines of the cell: permanent reasons first, then the first of the others."""

    reason: Reason
    machines: int
    parts: tuple[GroupExplanation, ...] = ()
    detail: str = ""
    """The limit that concerns the whole job; empty when there is none."""
    limit: ReachedLimit | None = None
    """The limit of its job type or of a pool that excludes all of its tasks."""

    @property
    def unplaced(self) -> int:
        """Number of unplaced tasks."""
        return sum(part.unplaced for part in self.parts)


class MachineCheck(NamedTuple):
    """One demand on one machine: its kind, its text, whether the machine satisfies it."""

    reason: Reason
    what: str
    holds: bool


class _Keeps(Protocol):
    def keep(self, reason: Reason, what: str, mask: Mask, *, always: bool = True) -> None:
        """Apply a demand, given the machines that satisfy it."""


@dataclass(slots=True)
class _Machine:
    """Checks of one machine."""

    machine: int
    checks: list[MachineCheck] = field(default_factory=list)

    def keep(self, reason: Reason, what: str, mask: Mask, *, always: bool = True) -> None:
        """Add the check of a demand; a demand that is not `always` shown is left out when it is satisfied."""
        holds = bool(mask[self.machine])
        if always or not holds:
            self.checks.append(MachineCheck(reason, what, holds))


@dataclass(slots=True)
class _Sieve:
    """Remaining machines, and the steps so far."""

    left: Mask
    listed: int | None = 0
    """Number of excluded machines to list for each step; None: all."""
    steps: list[DemandStep] = field(default_factory=list)
    emptied: Reason | None = None

    def keep(self, reason: Reason, what: str, mask: Mask, *, always: bool = True) -> None:
        """Exclude the machines outside `mask`; a step that excludes none is kept only when it is `always` shown."""
        before, was = int(self.left.sum()), self.left
        self.left = was & mask
        remaining = int(self.left.sum())
        if always or before > remaining:
            first = () if self.listed == 0 else tuple(np.flatnonzero(was & ~mask)[: self.listed].tolist())
            self.steps.append(DemandStep(reason, what, before - remaining, remaining, first))
        if before and not remaining and self.emptied is None:
            self.emptied = reason


def _waited_for(job: Job) -> str:
    """Return what a held or dependent job waits for."""
    return "waits for " + ", ".join(f"{wait.job} to {'end' if wait.any_end else 'finish'}" for wait in job.after)


def explain(
    work: Work, snapshot: Snapshot, use: KindUse | None = None, names: tuple[str, ...] = (), *, scheduled: bool = True,
    pool_limit: ReachedLimit | None = None, listed: int | None = 0,
) -> Explanation:  # fmt: skip
    """Explain why `work` is pending on `snapshot`, which is left unchanged.

    `use` has the limits and the use of the job's type, when there are limits; `names` are the cell's resources;
    `scheduled` is whether a scheduler of its type is live; `pool_limit` is the limit of a pool that excludes it;
    `listed` is how many of the machines that a demand excludes are listed with it (None: all).
    """
    known = int((snapshot.rows[2] != MachineState.GONE).sum())
    if work.job.state is JobState.HELD:
        waits = work.job.after and not work.job.held
        return Explanation(
            Reason.DEPENDENCY if waits else Reason.HELD, known, (), _waited_for(work.job) if waits else ""
        )
    if work.job.state is not JobState.ACTIVE:
        return Explanation(Reason.DONE, known)
    if not work.remaining:
        return Explanation(Reason.PLACED, known)
    names = names or tuple(f"resource {d}" for d in range(snapshot.dimensions))
    mark = snapshot.mark()
    here = places_of(work, snapshot)
    fits = _dry_run(work, snapshot, here)
    parts = tuple(
        _part(work, group, left, fits=fits.get(group, 0), snapshot=snapshot, here=here, names=names, listed=listed)
        for group, left in enumerate(work.left)
        if left
    )
    snapshot.undo(mark)
    detail, limit = "", pool_limit
    if use is not None:
        detail, limit = precedence_excluded(work.job, use), limit_reached(work.job, work.left, use, names) or limit
    detail = detail or (limit.text if limit else "")
    lacking = [part.reason for part in parts if part.reason is not Reason.WAITING]
    for_good = [reason for reason in lacking if reason in FOR_GOOD]
    others = [] if scheduled else [Reason.NO_SCHEDULER]
    others += [Reason.LIMIT] if detail else []
    return Explanation([*for_good, *others, *lacking, Reason.WAITING][0], known, parts, detail, limit)


def _dry_run(work: Work, snapshot: Snapshot, here: dict[int, int]) -> dict[int, int]:
    """Place the tasks that fit, also of a gang; return tasks by group and update the job's machines in `here`."""
    loose = replace(work, job=replace(work.job, gang=Gang.NO))
    fits: dict[int, int] = {}
    for claim in ServicePlacement().place(loose, snapshot, Random(0)):
        fits[claim.group] = fits.get(claim.group, 0) + claim.count
        here[claim.machine] = here.get(claim.machine, 0) + claim.count
    return fits


def _part(
    work: Work,
    group: int,
    left: int,
    *,
    fits: int,
    snapshot: Snapshot,
    here: dict[int, int],
    names: tuple[str, ...],
    listed: int | None,
) -> GroupExplanation:
    wants = demands(work.job, group)
    sieve = _Sieve(snapshot.rows[2] != MachineState.GONE, listed)
    _apply(sieve, wants, work, group, snapshot, here, names)
    reason = Reason.WAITING
    if fits < left:
        reason = sieve.emptied or (Reason.RESOURCES if sieve.left.any() else Reason.NO_MACHINE)
    return GroupExplanation(group, left, fits, reason, tuple(sieve.steps), wants.fault)


def checks(work: Work, snapshot: Snapshot, machine: int, names: tuple[str, ...]) -> dict[int, tuple[MachineCheck, ...]]:
    """Return every demand of the pending groups of `work`, checked on one machine of the snapshot."""
    here, found = places_of(work, snapshot), {}
    for group, left in enumerate(work.left):
        if left:
            one = _Machine(machine)
            _apply(one, demands(work.job, group), work, group, snapshot, here, names)
            found[group] = tuple(
                _with_free(one.checks, work.need(group), snapshot.rows[:, machine].tolist(), len(names))
            )
    return found


def _with_free(checks: list[MachineCheck], need: Resources, row: list[int], size: int) -> Iterator[MachineCheck]:
    """Yield checks with resources compared to free amounts; a machine that takes no tasks has none free."""
    wanted = iter([d for d, amount in enumerate(need) if amount])
    for check in checks:
        if check.reason is Reason.RESOURCES:
            d = next(wanted)
            yield check._replace(holds=row[4 + d] - row[4 + size + d] >= need[d])
        else:
            yield check


def _apply(
    sieve: _Keeps, wants: Demands, work: Work, group: int, snapshot: Snapshot, here: dict[int, int],
    names: tuple[str, ...],
) -> None:  # fmt: skip
    """Pass every demand of a group to `sieve`, in the order of explanation."""
    sieve.keep(Reason.NO_EXECUTOR, "an executor that lives", snapshot.rows[2] != MachineState.OFFLINE, always=False)
    sieve.keep(Reason.NO_MACHINE, "up", snapshot.base[0] >= 0, always=False)
    if work.job.commands:
        sieve.keep(Reason.SIMULATED, "an executor that runs commands", ~snapshot.simulated, always=False)
    if wants.fault:
        sieve.keep(Reason.CONSTRAINT, wants.fault, np.zeros(snapshot.size, dtype=np.bool_))
    for what, mask in _machines(wants, snapshot):
        sieve.keep(Reason.CONSTRAINT, what, mask)
    for d, amount in enumerate(work.need(group)):
        if amount:
            what = f"{names[d]} {format_amount(names[d], amount)}"
            sieve.keep(Reason.TOO_LARGE, f"{what} of the whole machine", snapshot.capacity[d] >= amount, always=False)
    for d, amount in enumerate(work.need(group)):
        if amount:
            sieve.keep(Reason.RESOURCES, f"{names[d]} {format_amount(names[d], amount)}", snapshot.room[d] >= amount)
    _domains(sieve, wants, tasks_of(work), snapshot, here)


def _machines(wants: Demands, snapshot: Snapshot) -> Iterator[tuple[str, Mask]]:
    """Yield the demands on single machines, as text and the machines that satisfy them."""
    for text in wants.hard:
        yield f"constraint {text}", holds(text, snapshot.attributes)
    for relation in wants.near:
        if relation.required:
            yield f"near {relation.job} by {relation.domain}", related(relation, snapshot)
    for relation in wants.apart:
        yield f"apart_from {relation.job} by {relation.domain}", ~related(relation, snapshot)


def _domains(sieve: _Keeps, wants: Demands, tasks: int, snapshot: Snapshot, here: dict[int, int]) -> None:
    most = most_on_machine(wants, tasks)
    if most is not None:
        full = np.zeros(snapshot.size, dtype=np.bool_)
        full[[machine for machine, count in here.items() if count >= most]] = True
        sieve.keep(Reason.SPREAD, "different_machines" if wants.different else f"spread machine ≤ {most}", ~full)
    for level in levels(wants, tasks, snapshot, here):
        full_domains = closed(level, snapshot)
        if full_domains is not None:
            nowhere = snapshot.attributes.codes(level.domain) == 0
            sieve.keep(Reason.SPREAD, f"spread {level.domain}: no such attribute", ~nowhere, always=False)
            sieve.keep(Reason.SPREAD, f"spread {level.domain} ≤ {level.bound}", ~full_domains)
