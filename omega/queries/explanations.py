"""Why a job is pending: the machines that each of its demands excludes, and changes that would help."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omega.cellstate.model import JobState
from omega.queries import wording
from omega.queries.delays import delay_json
from omega.queries.failures import Failures
from omega.queries.job_state import group_names, held_for, state
from omega.queries.job_status import losses, waits_for
from omega.queries.machines import find_machines
from omega.queries.pool_standing import job_share, standing
from omega.queries.room import DELAYABLE, PoolLimits, Room
from omega.queries.task_names import TaskNames
from omega.queries.working_copy import delayed_by, look_up, working_copy

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries
    from omega.cellstate.replies import KindUse
    from omega.cellstate.snapshot import Snapshot
    from omega.schedulers.constraints.explanation import DemandStep, Explanation, GroupExplanation


MOST_PAST_REASONS = 8
MOST_MACHINES = 20
"""Machines that each demand excludes and that are listed by name when not all of them are asked for."""


def explain_job(cell: "Queries", job: "Job", listed: int | None = MOST_MACHINES) -> dict[str, Any]:
    """Return the explanation of a job's state; of each demand the first `listed` machines (None: all)."""
    return settled(cell, job) if not waits(job) else Explained.of(cell, job, listed).as_json()


def explain_machine(cell: "Queries", job: "Job", asked: str) -> dict[str, Any]:
    """Return every demand of the pending groups of a job, checked on one machine, with the machine's values.

    All demands that the machine does not satisfy are there, not only the first; ``fits`` is how many tasks it holds.
    Raises Refused when the machine is unknown.
    """
    from omega.schedulers.constraints.explanation import checks
    from omega.schedulers.work import Work

    machine, work, snapshot = find_machines(cell, [asked])[0], Work.of(job), working_copy(cell)
    look_up(cell, snapshot, [work])
    groups, names = [], group_names(job)
    free = tuple(has - used for has, used in zip(machine.capacity, machine.allocated, strict=True))
    for group, results in checks(work, snapshot, machine.index, cell.dimensions.names).items():
        most = [amount // need for amount, need in zip(free, work.need(group), strict=True) if need]
        fits = max(0, min([work.left[group], *most])) if all(check.holds for check in results) else 0
        groups.append(
            {
                "group": group,
                "name": names[group],
                "unplaced": work.left[group],
                "fits": fits,
                "checks": [check._asdict() | {"reason": str(check.reason)} for check in results],
            }
        )
    values = {
        "name": machine.name,
        "index": machine.index,
        "state": machine.state.name.lower(),
        "capacity": cell.dimensions.numbers(machine.capacity),
        "free": cell.dimensions.numbers(free),
        "attributes": dict(machine.attributes),
    }
    return _head(cell, job) | {"machine": values, "groups": groups}


def waits(job: "Job") -> bool:
    """Return whether a job waits for machines; a held job does not."""
    return job.pending and job.state is not JobState.HELD


def settled(cell: "Queries", job: "Job") -> dict[str, Any]:
    """Return the explanation of a job that does not wait for machines, as plain values."""
    reason = Room(cell).reason(job) or ("PLACED" if state(job) == "running" else "DONE")
    detail = held_for(job) if reason == "HELD" else ""
    detail = f"waits for {waits_for(cell, job)}" if reason == "DEPENDENCY" else detail
    return _head(cell, job) | {
        "reason": reason,
        "detail": detail,
        "failure": None,
        "limit": None,
        "groups": [],
        "fits_after": [],
        "losses": losses(cell, job),
        "past_reasons": past_reasons(cell, job.id),
    }


class Explained:
    """Explain one pending job, decided on a working copy of the cell as by its scheduler."""

    def __init__(
        self,
        cell: "Queries",
        job: "Job",
        snapshot: "Snapshot",
        use: "KindUse | None",
        *,
        failures: Failures,
        listed: int | None = 0,
    ) -> None:
        from omega.schedulers.constraints.explanation import explain
        from omega.schedulers.work import Work

        self.cell, self.job, self.snapshot = cell, job, snapshot
        self.work = Work.of(job)
        look_up(cell, snapshot, [self.work])
        self.explanation: Explanation = explain(
            self.work,
            snapshot,
            use,
            cell.dimensions.names,
            unserved=failures.reason(job.id, job.kind),
            pool_limits=PoolLimits(cell).of(job),
            listed=listed,
        )
        indices = sorted({index for part in self.explanation.parts for step in part.steps for index in step.machines})
        self.machines = {at: name for at, (name, *_) in zip(indices, cell.described(indices), strict=True)}
        """Names of the machines that are listed, by index."""
        self.failure = failures.of(job.id, job.kind)
        self.delay: dict[str, Any] | None = None
        """Until when and at which level its scheduler delays it (`delay_json`)."""
        self.groups, self.tasks = group_names(job), TaskNames.of(job)
        self.pool, self.share = standing(cell, job), job_share(cell, job)

    @classmethod
    def of(cls, cell: "Queries", job: "Job", listed: int | None = 0) -> "Explained":
        """Explain a job on a copy of the cell as it is now, with `listed` machines of each demand (None: all)."""
        kind, members = job.kind, cell.members()
        use, failures = cell.kinds().get(kind), Failures(cell, members)
        explained = cls(cell, job, working_copy(cell), use, failures=failures, listed=listed)
        delay = delayed_by(members).get(job.id)
        if delay is not None and explained.explanation.reason in DELAYABLE:
            from omega.schedulers.constraints.reasons import Reason

            explained.explanation = replace(explained.explanation, reason=Reason.LOCALITY)
            explained.delay = delay_json(delay, cell.store_ms())
        return explained

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        groups = [
            {
                "group": part.group,
                "name": self.groups[part.group],
                "unplaced": part.unplaced,
                **self.waiting(part),
                "fits": part.fits,
                "starts": part.starts,
                "reason": str(part.reason),
                "advice": list(part.advice),
                "steps": [
                    {
                        "reason": str(step.reason),
                        "what": step.what,
                        "excludes": step.excludes,
                        "remaining": step.remaining,
                        "machines": self.names_of(step),
                    }
                    for step in part.steps
                ],
                "lacking": self.lacking(part),
            }
            for part in self.explanation.parts
        ]
        explanation = self.explanation
        return self.head | {
            "reason": str(explanation.reason),
            "detail": explanation.detail,
            "delay": self.delay,
            "failure": self.failure and self.failure.as_json(),
            "limit": explanation.limit and explanation.limit.as_json(),
            "machines": explanation.machines,
            "groups": groups,
            "losses": losses(self.cell, self.job),
            "pool": self.pool,
            "fair_share": self.share,
            "past_reasons": past_reasons(self.cell, self.job.id),
            "fits_after": [{name: value for name, value in each.items() if name != "text"} for each in self.remedies()],
        }

    @property
    def head(self) -> dict[str, Any]:
        """What every explanation begins with: the job, its state and counts."""
        return _head(self.cell, self.job)

    def waiting(self, part: "GroupExplanation") -> dict[str, Any]:
        """Return the names and indices of the pending tasks of a group."""
        return self.tasks.as_json(part.group, self.job.groups[part.group].waiting)

    def names_of(self, step: "DemandStep") -> list[str]:
        """Return the names of the machines that are listed with a demand."""
        return [self.machines[index] for index in step.machines]

    def lacking(self, part: "GroupExplanation") -> list[dict[str, Any]]:
        """Return the resources of which no single machine that is up has enough free for a task, in smallest units.

        ``free`` is what all these machines have free together, ``most_free`` and ``largest`` the most that one has free
        and has at all: a task of more than `largest` needs a larger machine.
        """
        from omega.cellstate.model import MachineState

        rows, size = self.snapshot.rows, len(self.cell.dimensions)
        up = rows[:, rows[2] == MachineState.UP]
        if part.fits >= part.unplaced or not up.shape[1]:
            return []
        capacity, free = up[4 : 4 + size], up[4 : 4 + size] - up[4 + size : 4 + 2 * size]
        return [
            {
                "resource": name,
                "need": need,
                "free": int(free[d].clip(min=0).sum()),
                "most_free": int(free[d].max().clip(min=0)),
                "largest": int(capacity[d].max()),
            }
            for d, (name, need) in enumerate(zip(self.cell.dimensions.names, self.work.need(part.group), strict=True))
            if need > free[d].max()
        ]

    def remedies(self) -> list[dict[str, Any]]:
        """Return changes that would let the rest fit, each with its ``text``; none where limits exclude all."""
        if self.explanation.reason in ("LIMIT", "NEVER"):
            return []
        return [*self._evictions(), *self._more_machines()]

    def _evictions(self) -> Iterator[dict[str, Any]]:
        """Yield the eviction of less important tasks, if it alone would let the rest fit."""
        from omega.schedulers.remedies import evictions

        tasks = evictions(self.work, self.snapshot, self.cell)
        if tasks:
            below, may = self.job.precedence, may_evict(self.cell, self.job.kind)
            who = "its scheduler may" if may else "its scheduler may not"
            yield {
                "evictions": tasks,
                "precedence_below": below,
                "allowed": may,
                "text": f"{wording.count(tasks, 'task')} of precedence < {below:,} evicted ({who})",
            }

    def _more_machines(self) -> Iterator[dict[str, Any]]:
        from omega.schedulers.remedies import more_machines

        for part in self.explanation.parts:
            more = more_machines(self.work, part, self.snapshot)
            if more is None:
                continue
            capacity = tuple(int(amount) for amount in self.snapshot.capacity[:, more.like])
            name = self.cell.described([more.like])[0][0]
            apart = "".join(f", in {wording.count(n, f'more {domain}')}" for domain, n in more.apart.items())
            size = wording.amounts(self.cell.dimensions, capacity)
            yield {
                "machines": more.count,
                "like": name,
                "capacity": self.cell.dimensions.numbers(capacity),
                "apart": dict(more.apart),
                "group": part.group,
                "text": f"{wording.count(more.count, 'more machine')} like {name} ({size}){apart}",
            }


def may_evict(cell: "Queries", kind: str) -> bool:
    """Return whether schedulers of a kind evict: those that live, else those that would be started."""
    from omega.cellstate.errors import BadInput
    from omega.schedulers import registry

    said = [
        figures["evicts"]
        for name, (_, alive, figures) in cell.members().items()
        if alive and name.partition("/")[0] == kind and "evicts" in figures
    ]
    if said:
        return any(said)
    try:
        return registry.scheduler(kind).preemption.evicts
    except BadInput:
        return False


def past_reasons(cell: "Queries", job_id: str) -> list[dict[str, object]]:
    """Return the last reasons of a job, oldest first, as its schedulers left them with their heartbeats.

    Each has the time (ms since 1970) from which it held. A scheduler lists the 128 jobs of which a reason changed
    last, and the last five reasons of each; it starts empty after a restart.
    """
    reasons = [
        (int(at_ms), member, str(reason))
        for member, figures in cell.figures().items()
        for at_ms, reason in figures.get("reasons", {}).get(job_id, ())
    ]
    last = sorted(reasons, key=lambda each: each[0])[-MOST_PAST_REASONS:]
    return [{"at_ms": at_ms, "reason": reason, "by": member} for at_ms, member, reason in last]


def _head(cell: "Queries", job: "Job") -> dict[str, Any]:
    own = [group for group in job.groups if not group.copies]
    return {
        "cell": cell.name,
        "id": job.id,
        "name": job.name,
        "kind": job.kind,
        "state": state(job),
        "unplaced": sum(group.unplaced for group in own),
        "total": sum(group.total for group in own),
    }
