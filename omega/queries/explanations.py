"""Why a job is pending: the machines that each of its demands excludes, and changes that would help."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omega.cellstate.model import JobState
from omega.cellstate.pages import own_groups
from omega.queries.delays import delay_json
from omega.queries.failures import Failures
from omega.queries.job_state import group_names, held_for, state
from omega.queries.job_status import losses, waits_for
from omega.queries.machines import find_machines
from omega.queries.pool_standing import PoolsRead, job_share, standing
from omega.queries.room import DELAYABLE, PoolLimits, Room
from omega.queries.shortfalls import MOST_MACHINES, Shortfall
from omega.queries.working_copy import delayed_by, latest, look_up, working_copy

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Schedulers
    from omega.cellstate.model import Job
    from omega.cellstate.replies import KindUse
    from omega.cellstate.snapshot import Snapshot


MOST_PAST_REASONS = 8


def explain_job(
    cell: "Cell", job: "Job", listed: int | None = MOST_MACHINES, pools: PoolsRead | None = None
) -> dict[str, Any]:
    """Return the explanation of a job's state; of each demand the first `listed` machines (None: all)."""
    return settled(cell, job) if not waits(job) else Explained.of(cell, job, listed, pools).as_json()


def explain_machine(cell: "Cell", job: "Job", asked: str) -> dict[str, Any]:
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


def settled(cell: "Cell", job: "Job") -> dict[str, Any]:
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
        "past_reasons": past_reasons(cell.schedulers, job.id),
    }


class Explained(Shortfall):
    """Explain one pending job, decided on a working copy of the cell as by its scheduler."""

    def __init__(
        self,
        cell: "Cell",
        job: "Job",
        snapshot: "Snapshot",
        use: "KindUse | None",
        *,
        failures: Failures,
        listed: int | None = 0,
        pools: PoolsRead | None = None,
    ) -> None:
        from omega.schedulers.constraints.explanation import explain
        from omega.schedulers.work import Work

        work = Work.of(job)
        look_up(cell, snapshot, [work])
        unserved, limits = failures.reason(job.id, job.kind), PoolLimits(cell).of(job)
        names = cell.dimensions.names
        found = explain(work, snapshot, use, names, unserved=unserved, pool_limits=limits, listed=listed)
        super().__init__(cell, job, work, snapshot, found)
        self.failure = failures.of(job.id, job.kind)
        self.delay: dict[str, Any] | None = None
        """Until when and at which level its scheduler delays it (`delay_json`)."""
        self.pool, self.share = standing(cell, job, pools), job_share(cell, job, pools)

    @classmethod
    def of(cls, cell: "Cell", job: "Job", listed: int | None = 0, pools: PoolsRead | None = None) -> "Explained":
        """Explain a job on a copy of the cell as it is now, with `listed` machines of each demand (None: all).

        `pools`: what was read of the pools already.
        """
        kind, members = job.kind, cell.schedulers.members()
        use, failures = cell.pools.kinds().get(kind), Failures(cell, members)
        explained = cls(cell, job, latest(cell), use, failures=failures, listed=listed, pools=pools)
        delay = delayed_by(members).get(job.id)
        if delay is not None and explained.explanation.reason in DELAYABLE:
            from omega.schedulers.constraints.reasons import Reason

            explained.explanation = replace(explained.explanation, reason=Reason.LOCALITY)
            explained.delay = delay_json(delay, cell.store_ms())
        return explained

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        explanation = self.explanation
        return self.head | {
            "reason": str(explanation.reason),
            "detail": explanation.detail,
            "delay": self.delay,
            "failure": self.failure and self.failure.as_json(),
            "limit": explanation.limit and explanation.limit.as_json(),
            "machines": explanation.machines,
            "groups": self.groups_json(),
            "losses": losses(self.cell, self.job),
            "pool": self.pool,
            "fair_share": self.share,
            "past_reasons": past_reasons(self.cell.schedulers, self.job.id),
            "fits_after": self.remedies_json(),
        }

    @property
    def head(self) -> dict[str, Any]:
        """What every explanation begins with: the job, its state and counts."""
        return _head(self.cell, self.job)


def past_reasons(schedulers: "Schedulers", job_id: str) -> list[dict[str, object]]:
    """Return the last reasons of a job, oldest first, as its schedulers left them with their heartbeats.

    Each has the time (ms since 1970) from which it held. A scheduler lists the 128 jobs of which a reason changed
    last, and the last five reasons of each; it starts empty after a restart.
    """
    reasons = [
        (int(at_ms), member, str(reason))
        for member, figures in schedulers.figures().items()
        for at_ms, reason in figures.get("reasons", {}).get(job_id, ())
    ]
    last = sorted(reasons, key=lambda each: each[0])[-MOST_PAST_REASONS:]
    return [{"at_ms": at_ms, "reason": reason, "by": member} for at_ms, member, reason in last]


def _head(cell: "Cell", job: "Job") -> dict[str, Any]:
    own = own_groups(job)
    return {
        "cell": cell.name,
        "id": job.id,
        "name": job.name,
        "kind": job.kind,
        "state": state(job),
        "unplaced": sum(group.unplaced for group in own),
        "total": sum(group.total for group in own),
    }
