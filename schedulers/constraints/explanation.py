"""Why a job is pending, in counts: the machines that each of its demands excludes, in order.

Pure: it decides on a working copy as a scheduler does and undoes its claims. Attributes and other jobs must have been
fetched (fetching.py).

Warnings about valid demands name attributes and domains that no machine has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from random import Random
from typing import NamedTuple

import numpy as np

from omega.cellstate import ranges
from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints import All, Compare, Expression, OneOf, attributes_in
from omega.cellstate.constraints.evaluation import Mask, evaluate, holds
from omega.cellstate.constraints.grammar import parse
from omega.cellstate.model import Gang, GroupStatus, Job, JobState, MachineState
from omega.cellstate.replies import KindUse
from omega.cellstate.resources import Resources, format_amount
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import Demands, demands
from omega.schedulers.constraints.enforcing import related, tree_machines
from omega.schedulers.constraints.locality_levels import notes
from omega.schedulers.constraints.reasons import FOR_GOOD, Reason
from omega.schedulers.limits import (
    Limited,
    ReachedLimit,
    admitted_now,
    limit_reached,
    limited_by_kind,
    never_admitted,
    precedence_excluded,
)
from omega.schedulers.placement.arranging import elsewhere
from omega.schedulers.placement.domains import closed, levels, most_on_machine, places_of, tasks_of
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.work import Work

SHOWN = 8
"""Maximum number of attributes in a message."""
MOST_AWAY = 5
"""Machines that are named because they satisfy the constraints of a group, and take no tasks at present."""


def warnings(wants: Demands, attributes: Attributes) -> list[str]:
    """Return one line for each demand that no machine satisfies at present.

    The attributes must have been fetched. Invalid demands are refused earlier.
    """
    return list(dict.fromkeys(_warnings(wants, attributes)))


def _warnings(wants: Demands, attributes: Attributes) -> Iterator[str]:
    there = attributes.names()
    for text in (*wants.hard, *(preference.text for preference in wants.preferred)):
        for name in attributes_in(parse(text)):
            if name not in there:
                yield f"constraint {text}: {_unknown(name, there)}"
        if not holds(text, attributes).any():
            yield "; ".join([f"constraint {text}: matches no machine", *_missing(parse(text), attributes, there)])
    relations = [("near", relation) for relation in wants.near] + [("apart_from", relation) for relation in wants.apart]
    domains = [(f"spread {spread}", spread.domain) for spread in wants.spread]
    domains += [(f"{field} {relation.job}", relation.domain) for field, relation in relations]
    for what, name in domains:
        if name not in there:
            yield f"{what}: {_unknown(name, there)}"


def _missing(expression: Expression, attributes: Attributes, there: list[str]) -> Iterator[str]:
    """Yield the values that machines have of each attribute of which an expression asks for one that none has."""
    match expression:
        case All(parts):
            for part in parts:
                yield from _missing(part, attributes, there)
        case Compare(name, "==") | OneOf(name) if name in there and not evaluate(expression, attributes).any():
            codes = np.unique(attributes.codes(name)[attributes.known]).tolist()
            known = sorted(attributes.values(name)[code] for code in codes if code)
            more = ", …" if len(known) > SHOWN else ""
            yield f"known values of {name}: {', '.join(known[:SHOWN])}{more}"


def _unknown(name: str, there: list[str]) -> str:
    near = get_close_matches(name, there, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    more = ", …" if len(there) > SHOWN else ""
    return f"no machine has the attribute {name}; {hint}known: {', '.join(there[:SHOWN])}{more}"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExplanation:
    """One task group: its unplaced tasks, the number of these that fit on machines, and the reason for the others."""

    group: int
    unplaced: int
    fits: int
    reason: Reason
    steps: tuple[DemandStep, ...]
    fault: str = ""
    """The invalid part of its demands, or empty."""
    starts: int = 0
    """Tasks that would start now: those that fit and that limits admit; none if they are too few of a gang."""
    advice: tuple[str, ...] = ()
    """Attributes, domains and values that no machine has, with those that there are; parts of a locality without
    effect.
    """
    away: tuple[int, ...] = ()
    """Machines that satisfy its constraints and take no tasks at present, the first `MOST_AWAY`; of UNAVAILABLE.

    Where those that are up are too small, they are large enough.
    """


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


class _Demand(NamedTuple):
    """A demand and the machines that satisfy it; without `always` it is shown only where it excludes some."""

    reason: Reason
    what: str
    mask: Mask
    always: bool = True


def _waited_for(job: Job) -> str:
    return "waits for " + ", ".join(f"{wait.job} to {'end' if wait.any_end else 'finish'}" for wait in job.after)


def explain(
    work: Work, snapshot: Snapshot, use: KindUse | None = None, names: tuple[str, ...] = (), *,
    unserved: Reason | None = None, pool_limits: Sequence[Limited] = (), listed: int | None = 0,
) -> Explanation:  # fmt: skip
    """Explain why `work` is pending on `snapshot`, which is left unchanged.

    `use` has the limits and the use of the job's type, when there are limits; `names` are the cell's resources;
    `unserved` is why no scheduler would place it (NO_SCHEDULER, FAILING); `pool_limits` are
    those of its pools; `listed` is how many of the machines that a demand excludes are listed with it (None: all).
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
    limits = [*([] if use is None else [limited_by_kind(work.job, use, names)]), *pool_limits]
    limit, detail = limit_reached(work.job, work.left, limits, names), ""
    parts = _limited(work, parts, limits, names)
    if use is not None:
        detail = precedence_excluded(work.job, use)
    never = never_admitted(work.job, work.left, limits, names)
    limit = limit or next(iter(never.values()), None)
    detail = detail or (limit.text if limit else "")
    lacking = [part.reason for part in parts if part.reason is not Reason.WAITING]
    for_good = [reason for reason in lacking if reason in FOR_GOOD]
    others = [] if unserved is None else [unserved]
    others += [Reason.LIMIT] if detail else []
    return Explanation([*for_good, *others, *lacking, Reason.WAITING][0], known, parts, detail, limit)


def _limited(
    work: Work, parts: Sequence[GroupExplanation], limits: Sequence[Limited], names: tuple[str, ...]
) -> tuple[GroupExplanation, ...]:
    """Return the explanations with the tasks that would start now, and limits as a reason."""
    admits = admitted_now(work.job, work.left, limits, names)
    never = never_admitted(work.job, work.left, limits, names)
    starts = {part.group: min(part.fits, admits[part.group]) for part in parts}
    if sum(starts.values()) < work.least:
        starts = dict.fromkeys(starts, 0)
    limited = []
    for part in parts:
        reason = part.reason
        if part.group in never and reason not in FOR_GOOD:
            reason = Reason.NEVER
        elif reason is Reason.WAITING and not admits[part.group]:
            reason = Reason.LIMIT
        limited.append(replace(part, reason=reason, starts=starts[part.group]))
    return tuple(limited)


def _dry_run(work: Work, snapshot: Snapshot, here: dict[int, int]) -> dict[int, int]:
    """Place the tasks that fit, also of a gang; return tasks by group and update the job's machines in `here`."""
    loose = replace(work, job=replace(work.job, gang=Gang.NO, gang_min=0))
    fits: dict[int, int] = {}
    for claim in elsewhere(ServicePlacement(), loose, snapshot, Random(0)):
        fits[claim.group] = fits.get(claim.group, 0) + claim.count
        here[claim.machine] = here.get(claim.machine, 0) + claim.count
    return fits


def _part(
    work: Work, group: int, left: int, *, fits: int, snapshot: Snapshot, here: dict[int, int], names: tuple[str, ...],
    listed: int | None,
) -> GroupExplanation:  # fmt: skip
    machines, steps, emptied = snapshot.rows[2] != MachineState.GONE, list[DemandStep](), list[Reason]()
    remaining, allowed = int(machines.sum()), machines
    for demand in _demands(work, group, snapshot, here, names):
        excluded, machines, before = machines & ~demand.mask, machines & demand.mask, remaining
        remaining = int(machines.sum())
        if demand.reason is Reason.CONSTRAINT:
            allowed = allowed & demand.mask
        if demand.always or before > remaining:
            first = () if listed == 0 else tuple(np.flatnonzero(excluded)[:listed].tolist())
            steps.append(DemandStep(demand.reason, demand.what, before - remaining, remaining, first))
        if before and not remaining:
            emptied.append(demand.reason)
    reason = Reason.WAITING
    if fits < left:
        reason = emptied[0] if emptied else Reason.RESOURCES if remaining else Reason.NO_MACHINE
    wants = demands(work.job, group)
    away: tuple[int, ...] = ()
    if reason in (Reason.CONSTRAINT, Reason.TOO_LARGE):
        allowed = allowed & (snapshot.base[0] < 0) & ~(snapshot.simulated & work.job.commands)
        for d, amount in enumerate(work.need(group) if reason is Reason.TOO_LARGE else ()):
            allowed = allowed & (snapshot.capacity[d] >= amount)
        away = tuple(np.flatnonzero(allowed)[:MOST_AWAY].tolist())
    told = () if wants.fault or not wants.attributes else tuple(warnings(wants, snapshot.attributes))
    if snapshot.attributes.used:
        told += tuple(notes(work.job, group, snapshot))
    return GroupExplanation(
        group=group, unplaced=left, fits=fits, reason=Reason.UNAVAILABLE if away else reason, steps=tuple(steps),
        fault=wants.fault, advice=told, away=away,
    )  # fmt: skip


def checks(work: Work, snapshot: Snapshot, machine: int, names: tuple[str, ...]) -> dict[int, tuple[MachineCheck, ...]]:
    """Return every demand of the pending groups of `work`, checked on one machine of the snapshot."""
    here, row = places_of(work, snapshot), snapshot.rows[:, machine].tolist()
    return {
        group: tuple(_checked(_demands(work, group, snapshot, here, names), machine, work.need(group), row, len(names)))
        for group, left in enumerate(work.left)
        if left
    }


def _checked(
    asked: Iterator[_Demand], machine: int, need: Resources, row: list[int], size: int
) -> Iterator[MachineCheck]:
    """Yield checks with resources compared to free amounts; a machine that takes no tasks has none free."""
    wanted = iter([d for d, amount in enumerate(need) if amount])
    for demand in asked:
        holds = bool(demand.mask[machine])
        if demand.reason is Reason.RESOURCES:
            d = next(wanted)
            holds = row[4 + d] - row[4 + size + d] >= need[d]
        if demand.always or not holds:
            yield MachineCheck(demand.reason, demand.what, holds)


def _demands(
    work: Work, group: int, snapshot: Snapshot, here: dict[int, int], names: tuple[str, ...]
) -> Iterator[_Demand]:
    """Yield every demand of a group, in the order of explanation."""
    wants = demands(work.job, group)
    alive = snapshot.rows[2] != MachineState.OFFLINE
    yield _Demand(Reason.NO_EXECUTOR, "an executor that lives", alive, always=False)
    yield _Demand(Reason.NO_MACHINE, "up", snapshot.base[0] >= 0, always=False)
    if work.job.commands:
        yield _Demand(Reason.SIMULATED, "an executor that runs commands", ~snapshot.simulated, always=False)
    if wants.fault:
        yield _Demand(Reason.CONSTRAINT, wants.fault, np.zeros(snapshot.size, dtype=np.bool_))
    if snapshot.pools.divided:
        tree = snapshot.pools.tree_of(snapshot.pools.pool_of(work.pool, work.user)).name
        yield _Demand(Reason.CONSTRAINT, f"pool tree {tree}", tree_machines(snapshot.pools, tree, snapshot))
    for what, mask in _machines(wants, snapshot):
        yield _Demand(Reason.CONSTRAINT, what, mask)
    amounts = [
        (d, amount, f"{names[d]} {format_amount(names[d], amount)}")
        for d, amount in enumerate(work.need(group))
        if amount
    ]
    for d, amount, what in amounts:
        yield _Demand(Reason.TOO_LARGE, f"{what} of the whole machine", snapshot.capacity[d] >= amount, always=False)
    for d, amount, what in amounts:
        yield _Demand(Reason.RESOURCES, what, snapshot.room[d] >= amount)
    if work.job.groups[group].copies:
        yield _Demand(Reason.SPREAD, "another machine than its task", _apart(work.job.groups[group], snapshot))
    yield from _domains(wants, tasks_of(work), snapshot, here)


def _apart(group: GroupStatus, snapshot: Snapshot) -> Mask:
    """Return the machines for the first waiting copy of a group (semantics 41)."""
    mask, (first, _) = np.ones(snapshot.size, dtype=np.bool_), ranges.take(group.waiting, 1)
    for loss in group.losses:
        if loss.tasks == first:
            mask[loss.retried.machine : loss.retried.machine + 1] = False
    return mask


def _machines(wants: Demands, snapshot: Snapshot) -> Iterator[tuple[str, Mask]]:
    for text in wants.hard:
        yield f"constraint {text}", holds(text, snapshot.attributes)
    for relation in wants.near:
        if relation.required:
            yield f"near {relation.job} by {relation.domain}", related(relation, snapshot)
    for relation in wants.apart:
        yield f"apart_from {relation.job} by {relation.domain}", ~related(relation, snapshot)


def _domains(wants: Demands, tasks: int, snapshot: Snapshot, here: dict[int, int]) -> Iterator[_Demand]:
    most = most_on_machine(wants, tasks)
    if most is not None:
        full = np.zeros(snapshot.size, dtype=np.bool_)
        full[[machine for machine, count in here.items() if count >= most]] = True
        yield _Demand(Reason.SPREAD, "different_machines" if wants.different else f"spread machine ≤ {most}", ~full)
    for level in levels(wants, tasks, snapshot, here):
        full_domains = closed(level, snapshot)
        if full_domains is not None:
            nowhere = snapshot.attributes.codes(level.domain) == 0
            yield _Demand(Reason.SPREAD, f"spread {level.domain}: no such attribute", ~nowhere, always=False)
            yield _Demand(Reason.SPREAD, f"spread {level.domain} ≤ {level.bound}", ~full_domains)
