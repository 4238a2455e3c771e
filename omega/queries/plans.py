"""Dry runs: where the tasks of jobs would be placed if they were submitted now."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from omega.queries.job_warnings import warnings
from omega.queries.pool_shares import shares_with
from omega.queries.room import PoolLimits
from omega.queries.shortfalls import MOST_MACHINES, Shortfall
from omega.queries.working_copy import as_work, look_up, working_copy
from omega.submission import taken

if TYPE_CHECKING:
    from omega.cellstate.model import Job, JobSpec
    from omega.cellstate.ports import Queries
    from omega.cellstate.snapshot import Snapshot
    from omega.schedulers.constraints.explanation import Explanation
    from omega.schedulers.dry_run import Planned
    from omega.schedulers.scheduler import Scheduler
    from omega.schedulers.work import Work


@dataclass
class PlannedJob:
    """The plan of one job. `scores` are points by group, criterion and machine."""

    spec: "JobSpec"
    planned: "Planned"
    reason: str
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

    @property
    def unplaced(self) -> int:
        """Tasks that would wait."""
        return 0 if self.unchanged else self.spec.total - self.placed

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


class Planner:
    """Plans jobs in turn on one working copy."""

    def __init__(self, cell: "Queries", *, scored: bool) -> None:
        """Take a copy of the cell; `scored`: with the score of every machine."""
        self.cell, self.scored = cell, scored
        self.snapshot: Snapshot = working_copy(cell)
        self.kinds, self.pools = cell.kinds(), cell.pools()
        self._pool_limits = PoolLimits(cell)
        self._schedulers: dict[str, Scheduler] = {}
        self._asked: list[Work] = []
        """The jobs planned so far; those of a cell with pools want their share."""

    def plan(self, spec: "JobSpec", order: int) -> PlannedJob:
        """Return the plan of a job with a submission number, and claim its machines on the copy."""
        from omega.schedulers.constraints.explanation import explain
        from omega.schedulers.constraints.reasons import Reason
        from omega.schedulers.dry_run import DryRun, Planned

        if self._is_there(spec):
            return PlannedJob(spec, Planned(), "", unchanged=True)
        work, use = as_work(spec, order), self.kinds.get(spec.kind)
        scheduler = self._scheduler(spec.kind)
        look_up(self.cell, self.snapshot, [work])
        limits = self._pool_limits.of(work.job)
        found = explain(work, self.snapshot, use, self.cell.dimensions.names, pool_limits=limits)
        if found.reason in ("LIMIT", "NEVER"):
            return PlannedJob(spec, Planned(), found.reason, shortfall=self._shortfall(work, found))
        scores = self._scores(scheduler, work)
        now = 0.0
        if self.pools.configured:
            now = self.cell.store_ms() / 1000
            self._asked.append(work)
            self.snapshot.pools, self.snapshot.resources = self.pools, self.cell.dimensions.names
            self.snapshot.epoch = shares_with(self.cell, self.pools, self.snapshot, self._asked)
        planned = DryRun(scheduler, self.snapshot, self.cell, now).plan(work)
        if planned.held:
            found = replace(found, reason=Reason.HELD)
        elif work.remaining:
            names = self.cell.dimensions.names
            found = explain(work, self.snapshot, use, names, pool_limits=limits, listed=MOST_MACHINES)
        machines = sorted({claim.machine for claim in planned.claims})
        called = {m: name for m, (name, _) in zip(machines, self.cell.described(machines), strict=True)}
        jobs = self.cell.jobs_by_id(sorted({each.resident.job for each in planned.victims}))
        victims = {job_id: job.name for job_id, job in jobs.items()}
        shortfall = self._shortfall(work, found) if work.remaining else None
        return PlannedJob(
            spec, planned, found.reason if work.remaining else "", called, victims, scores, shortfall=shortfall
        )

    def _shortfall(self, work: "Work", found: "Explanation") -> Shortfall:
        return Shortfall(self.cell, work.job, work, self.snapshot, found)

    def withdraw(self, plan: PlannedJob, mark: int) -> bool:
        """Give back the room that the last plan claimed since `mark` of the snapshot; return False if it evicts.

        Then the copy cannot be restored, and a new planner is needed.
        """
        if plan.planned.victims:
            return False
        self.snapshot.undo(mark)
        if self._asked and self._asked[-1].id == plan.spec.id:
            self._asked.pop()
        if plan.unplaced:  # the scheduler still has the rest of the job
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

        stored = self.cell.job(spec.id)
        if stored is None:
            return False
        asked = [(group.need, group.duration_ms, group.count) for group in spec.groups]
        same = [(group.need, group.duration_ms, group.total) for group in stored.groups] == asked
        same = same and stored.spec == opaque(spec.spec, spec.groups)
        if not same or (stored.name, stored.kind, stored.precedence) != (spec.name, spec.kind, spec.precedence):
            raise taken(spec, spec.id, by_id=True)
        return True


def plan_jobs(
    cell: "Queries", specs: "Sequence[JobSpec]", *, scored: bool = False
) -> tuple[list[PlannedJob], dict[str, Any]]:
    """Plan jobs as if they were submitted now; returns the plans, and all of them as plain values."""
    warned, planner = warnings(cell, specs), Planner(cell, scored=scored)
    plans = [planner.plan(spec, order).explain() for order, spec in enumerate(specs)]
    changes = any(plan.planned.claims for plan in plans)
    rows = [plan.as_json() for plan in plans]
    return plans, {"cell": cell.name, "changes": changes, "jobs": rows, "warnings": warned}


def plan_more(cell: "Queries", job: "Job", more: "Mapping[int, int]") -> dict[str, Any]:
    """Plan additional tasks of groups of a stored job, by group, as if they were submitted now."""
    from omega.cellstate.model import JobSpec, TaskGroup
    from omega.submission import new_id
    from omega.versions import UPDATING

    its = job.spec.get("groups") or [{}] * len(job.groups)
    asked = [(job.groups[at], count, its[at]) for at, count in more.items() if count]
    groups = tuple(TaskGroup(group.need, count, group.duration_ms, spec) for group, count, spec in asked)
    if not groups:
        return {}
    fields = {name: value for name, value in job.spec.items() if name not in UPDATING}
    spec = JobSpec(new_id(), job.name, job.kind, groups, job.precedence, spec=fields)
    found: dict[str, Any] = plan_jobs(cell, [spec])[1]["jobs"][0]
    return found
