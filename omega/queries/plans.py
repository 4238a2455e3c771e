"""Dry runs: where the tasks of jobs would be placed if they were submitted now."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.cellstate import ranges
from omega.queries.job_warnings import warnings
from omega.queries.pool_shares import shares_with
from omega.queries.shortfalls import MOST_MACHINES, Shortfall
from omega.queries.working_copy import as_work, look_up, working_copy
from omega.submission import taken

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import GroupStatus, Job, JobSpec, Run
    from omega.cellstate.snapshot import Snapshot
    from omega.cellstate.transaction import Claim
    from omega.schedulers.dry_run import Planned
    from omega.schedulers.scheduler import Scheduler
    from omega.schedulers.work import Work
    from omega.updating import JobUpdate


@dataclass
class PlannedJob:
    """The plan of one job. `scores` are points by group, criterion and machine."""

    spec: "JobSpec"
    planned: "Planned"
    reason: str
    unplaced: int = 0
    """Tasks that would wait."""
    names: Mapping[int, str] = field(default_factory=dict)
    victims: Mapping[str, str] = field(default_factory=dict)
    """The names of jobs that would lose tasks, by id."""
    scores: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    unchanged: bool = False
    shortfall: Shortfall | None = None
    """Why tasks would wait."""
    explanation: Mapping[str, Any] = field(default_factory=lambda: {"detail": "", "groups": [], "fits_after": []})
    """The same as plain values, once `explain` was called."""

    def explain(self) -> "PlannedJob":
        """Read what would help, while the working copy is as the plan left it."""
        if self.shortfall is not None and self.unplaced:
            short = self.shortfall
            groups = [
                {name: value for name, value in group.items() if name not in ("task_name", "indices")}
                for group in short.groups_json()
            ]
            detail = short.explanation.detail
            self.explanation = {"detail": detail, "groups": groups, "fits_after": short.remedies_json()}
        return self

    @property
    def placed(self) -> int:
        """Tasks that would be placed."""
        return sum(claim.count for claim in self.planned.claims)

    def placements(self) -> list[dict[str, Any]]:
        """Machine by machine, in the order they were chosen."""
        tasks = Counter[tuple[int, int]]()
        for claim in self.planned.claims:
            tasks[claim.group, claim.machine] += claim.count
        return [
            {"group": group, "machine": self.names[machine], "tasks": count, **self._score(group, machine)}
            for (group, machine), count in tasks.items()
        ]

    def _score(self, group: int, machine: int) -> dict[str, Any]:
        parts = {name: round(float(points[machine]), 4) for name, points in self.scores.get(group, {}).items()}
        return {"score": round(sum(parts.values()), 4) if parts else None, "scores": parts}

    def evictions(self) -> list[dict[str, Any]]:
        """Tasks it would evict, by job and machine."""
        tasks = Counter[tuple[str, int, int]]()
        for resident, count in self.planned.victims:
            tasks[resident.job, resident.machine, resident.precedence] += count
        return [
            {
                "job": job,
                "name": self.victims.get(job, job),
                "machine": self.names[machine],
                "tasks": count,
                "precedence": precedence,
            }
            for (job, machine, precedence), count in tasks.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "id": self.spec.id,
            "name": self.spec.name,
            "kind": self.spec.kind,
            "tasks": self.spec.total,
            "status": "unchanged" if self.unchanged else "new",
            "placed": self.placed,
            "unplaced": self.unplaced,
            "reason": str(self.reason) or None,
            "placements": self.placements(),
            "evictions": self.evictions(),
            "after_seconds": round(self.planned.after, 1),
            **self.explanation,
        }


class Without(NamedTuple):
    """Runs of a job that others replace."""

    job: "Job"
    runs: "Sequence[Run]"


class Planner:
    """Plans jobs in turn on one working copy."""

    def __init__(self, cell: "Cell", *, scored: bool) -> None:
        """Take a copy of the cell; `scored`: with the score of every machine."""
        from omega.schedulers.limits import LimitedUse

        self.cell, self.scored = cell, scored
        self.snapshot: Snapshot = working_copy(cell)
        self.pools = cell.pools.get()
        self.limits = self._before = LimitedUse.of(cell)
        self._schedulers: dict[str, Scheduler] = {}
        self._asked: list[Work] = []
        """The jobs planned so far; those of a cell with pools want their share."""

    def plan(self, spec: "JobSpec", order: int) -> PlannedJob:
        """Return the plan of a job with a submission number, and claim its machines on the copy."""
        from omega.schedulers.dry_run import Planned

        if self._is_there(spec):
            return PlannedJob(spec, Planned(), "", unchanged=True)
        return self._plan(spec, as_work(spec, order), {})

    def plan_more(
        self, spec: "JobSpec", work: "Work", waiting: "Mapping[int, int]", without: "Without | None" = None
    ) -> PlannedJob:
        """Return the plan of the tasks of `spec`, which a stored job gets beside those that it has.

        `work` has all its unplaced tasks; of these, `waiting` by group are placed first. It is made as if runs of the
        job `without` had ended.
        """
        places = Counter(self.cell.jobs.tasks_by_machine(work.id))
        if without is not None:
            for run in without.runs:
                need, tasks = without.job.groups[run.group].need, ranges.count(run.tasks)
                places[run.machine] -= tasks
                self.limits.evict(without.job, need, tasks)
                if self.snapshot.up[run.machine]:
                    self.snapshot.take(run.machine, need, -tasks)
        work.places = dict(+places)
        return self._plan(spec, work, waiting)

    def _plan(self, spec: "JobSpec", work: "Work", waiting: "Mapping[int, int]") -> PlannedJob:
        from omega.schedulers.constraints.explanation import explain
        from omega.schedulers.constraints.reasons import Reason
        from omega.schedulers.dry_run import DryRun
        from omega.schedulers.limits import limited_by_pools

        scheduler = self._scheduler(spec.kind)
        look_up(self.cell, self.snapshot, [work])
        scores = self._scores(scheduler, work)
        now = 0.0
        if self.pools.configured:
            now = self.cell.store_ms() / 1000
            self._asked.append(work)
            self.snapshot.pools, self.snapshot.resources = self.pools, self.cell.dimensions.names
            self.snapshot.epoch = shares_with(self.cell, self.pools, self.snapshot, self._asked)
        self._before = self.limits.copy()
        planned = DryRun(scheduler, self.snapshot, self.cell, now, self.limits).plan(work)
        work.takes_over(_as_placed(work))
        planned.claims, left = _beyond(planned.claims, waiting), work.remaining
        unplaced = min(left, spec.total - sum(claim.count for claim in planned.claims))
        found, shortfall = None, None
        if unplaced:
            use, names = self.limits.of_kind(spec.kind), self.cell.dimensions.names
            limits = limited_by_pools(work.job, self.pools, self.limits.pool_use, names)
            found = explain(work, self.snapshot, use, names, pool_limits=limits, listed=MOST_MACHINES)
            found = replace(found, reason=Reason.HELD) if planned.held else found
            shortfall = Shortfall(self.cell, work.job, work, self.snapshot, found)
        machines = sorted({claim.machine for claim in planned.claims})
        called = {m: name for m, (name, _) in zip(machines, self.cell.machines.described(machines), strict=True)}
        jobs = self.cell.jobs.by_id(sorted({each.resident.job for each in planned.victims}))
        victims = {job_id: job.name for job_id, job in jobs.items()}
        reason = "" if found is None else found.reason
        return PlannedJob(spec, planned, reason, unplaced, called, victims, scores, shortfall=shortfall)

    def withdraw(self, plan: PlannedJob, mark: int) -> bool:
        """Give back the room that the last plan claimed since `mark` of the snapshot; return False if it evicts.

        Then the copy cannot be restored, and a new planner is needed.
        """
        if plan.planned.victims:
            return False
        self.snapshot.undo(mark)
        self.limits.restore(self._before)
        if self._asked and self._asked[-1].id == plan.spec.id:
            self._asked.pop()
        if plan.placed < plan.spec.total:  # the scheduler still has the rest of the job
            self._schedulers.pop(plan.spec.kind, None)
        return True

    def _scheduler(self, kind: str) -> "Scheduler":
        from omega.schedulers import registry

        if self.pools.configured or kind not in self._schedulers:  # what it knows of starving pools is of one dry run
            self._schedulers[kind] = registry.scheduler(kind, f"{self.cell.name}/plan")
        return self._schedulers[kind]

    def _scores(self, scheduler: "Scheduler", work: "Work") -> dict[int, Mapping[str, Any]]:
        """Points of every machine, before anything is claimed."""
        import numpy as np

        from omega.schedulers.policies import Scoring

        placement, machines = scheduler.placement, np.arange(self.snapshot.size)
        if not isinstance(placement, Scoring):
            return {}
        return {group: placement.scores(work, group, self.snapshot, machines) for group in range(len(work.left))}

    def _is_there(self, spec: "JobSpec") -> bool:
        """Return whether the identical job exists; raises Duplicate when its id belongs to another job."""
        from omega.cellstate.redis.job_records import opaque

        stored = self.cell.jobs.get(spec.id)
        if stored is None:
            return False
        asked = [(group.need, group.duration_ms, group.count) for group in spec.groups]
        same = [(group.need, group.duration_ms, group.total) for group in stored.groups] == asked
        same = same and stored.spec == opaque(spec.spec, spec.groups)
        if not same or (stored.name, stored.kind, stored.precedence) != (spec.name, spec.kind, spec.precedence):
            raise taken(spec, spec.id, by_id=True)
        return True


def plan_jobs(
    cell: "Cell", specs: "Sequence[JobSpec]", *, scored: bool = False
) -> tuple[list[PlannedJob], dict[str, Any]]:
    """Plan jobs as if they were submitted now; returns the plans, and all of them as plain values."""
    warned, planner = warnings(cell, specs), Planner(cell, scored=scored)
    plans = [planner.plan(spec, order).explain() for order, spec in enumerate(specs)]
    changes = any(plan.planned.claims for plan in plans)
    rows = [plan.as_json() for plan in plans]
    return plans, {"cell": cell.name, "changes": changes, "jobs": rows, "warnings": warned}


def plan_more(
    cell: "Cell", job: "Job", more: "Mapping[int, int] | None" = None, without: Without | None = None
) -> dict[str, Any]:
    """Plan additional tasks of groups of a stored job, by group, as if they were asked for now.

    Unplaced tasks of a job that runs come first. None: the unplaced tasks of a held job, as if it were released now.
    `without`: as if these runs of the job had ended; `job` is as it will be then.
    """
    from omega.cellstate.model import JobSpec, JobState, TaskGroup
    from omega.schedulers.rolling import STARTED_WITH
    from omega.schedulers.work import Work

    said = job.spec.get("groups") or [{}] * len(job.groups)
    its = [{name: value for name, value in each.items() if name != STARTED_WITH} for each in said]
    added = {at: group.unplaced for at, group in enumerate(job.groups)} if more is None else more
    if not any(added.values()):
        return {}
    runs = job.state is JobState.ACTIVE and more is not None
    groups = [
        group if more is None else _enlarged(group, added.get(at, 0), keep=runs) for at, group in enumerate(job.groups)
    ]
    released = job.released or (more is None and bool(job.gate))
    work = Work.of(replace(job, groups=groups, state=JobState.ACTIVE, held=False, gate="", after=(), released=released))
    spec = JobSpec(
        job.id, job.name, job.kind,
        tuple(
            TaskGroup(group.need, added.get(at, 0), group.duration_ms, of_group, optional=True)  # which may be empty
            for at, (group, of_group) in enumerate(zip(job.groups, its, strict=True))
        ),
        job.precedence, spec=job.spec,
    )  # fmt: skip
    waiting = {at: group.ready for at, group in enumerate(job.groups)} if runs else {}
    plan = Planner(cell, scored=False).plan_more(spec, work, waiting, without).explain()
    return plan.as_json()


def plan_update(cell: "Cell", job: "Job", update: "JobUpdate", replaced: "Sequence[Run]") -> dict[str, Any]:
    """Plan the new tasks of an update that replaces tasks, as if all those had ended.

    The update replaces a few at a time, so the new tasks may come to other machines.
    """
    from omega.cellstate.model import GroupStatus
    from omega.schedulers.rolling import counted, going, targets

    fresh = [
        GroupStatus(
            need=group.need, duration_ms=group.duration_ms, total=0, unplaced=0, waiting=ranges.EMPTY,
            copies=group.copies, budget=group.budget, once=group.once,
        )
        for group in update.groups
    ]  # fmt: skip
    aims = targets(after := replace(job, groups=[*job.groups, *fresh], spec=update.spec))
    old = {number for target in aims for number in target.older}
    more = {
        target.group: max(
            0,
            target.count - target.finished - after.groups[target.group].total
            - sum(counted(job, job.groups[number]) for number in target.older),
        )
        for target in aims
    }  # fmt: skip
    after.groups = [
        replace(group, total=group.total - going(group), unplaced=0, placed=0, waiting=ranges.EMPTY, runs=(), losses=())
        if number in old or (group.copies and number - 1 in old) else group
        for number, group in enumerate(after.groups)
    ]  # fmt: skip
    return plan_more(cell, after, more, Without(job, replaced))


def _enlarged(group: "GroupStatus", more: int, *, keep: bool) -> "GroupStatus":
    """Return a group with additional unplaced tasks, and with those that it has if they are to be kept."""
    first = max(group.indices, group.total)
    new = ranges.spell([(first, first + more - 1)] if more else [])
    total, indices = group.total + more, first + more
    if keep:
        waiting = ranges.add(group.waiting, new)
        return replace(group, total=total, unplaced=group.unplaced + more, waiting=waiting, indices=indices)
    total -= group.unplaced
    return replace(group, total=total, unplaced=more, waiting=new, indices=indices, losses=())


def _as_placed(work: "Work") -> "Job":
    """Return the record that the job would have after its dry run."""
    groups = []
    for group, left in zip(work.job.groups, work.left, strict=True):
        placed = group.ready - left
        waiting = ranges.take(group.waiting, placed)[1]
        groups.append(replace(group, placed=group.placed + placed, unplaced=group.unplaced - placed, waiting=waiting))
    return replace(work.job, groups=groups)


def _beyond(claims: "Sequence[Claim]", first: "Mapping[int, int]") -> "list[Claim]":
    """Return claims without the first tasks of each group."""
    passed, beyond = dict(first), []
    for claim in claims:
        over = min(claim.count, passed.get(claim.group, 0))
        passed[claim.group] = passed.get(claim.group, 0) - over
        if claim.count > over:
            beyond.append(claim._replace(count=claim.count - over))
    return beyond
