"""Why a job is pending, in one word: the words of ``reason`` columns (`omega.schedulers.constraints.reasons`)."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from omega.cellstate.model import GroupStatus, Job, JobState
from omega.cellstate.resources import Resources
from omega.queries.failures import Failures
from omega.queries.fleet import Fleet
from omega.queries.job_state import ended, waiting
from omega.queries.machine_room import FEW_MACHINES, MachineRoom, ManyMachines, machine_room, sampled_room
from omega.queries.working_copy import Members, delayed_by, latest, look_up

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.pools import Pools
    from omega.cellstate.pools.records import PoolUse
    from omega.cellstate.replies import KindUse
    from omega.cellstate.snapshot import Snapshot
    from omega.schedulers.constraints.reasons import Reason
    from omega.schedulers.limits import Limited

DELAYABLE = ("WAITING", "RESOURCES")
"""Reasons of a job that its scheduler delays, as far as room shows: it leaves room to others."""
MOST_EXPLAINED = 200
"""Jobs of different demands that are explained for a list; of those beyond only room and limits are looked at."""


class PoolLimits:
    """The pools of a cell and their limits; they are read once, when first needed, unless `pools` is given."""

    def __init__(self, cell: "Cell", pools: "Pools | None" = None) -> None:
        self.cell, self._given = cell, pools

    @cached_property
    def pools(self) -> "Pools":
        """The pools of the cell."""
        return self.cell.pools.get() if self._given is None else self._given

    @cached_property
    def _use(self) -> "Mapping[str, PoolUse]":
        return self.cell.pools.use()

    def of(self, job: Job) -> "list[Limited]":
        """Return the limits of a job's pool and its ancestors."""
        from omega.schedulers.limits import limited_by_pools

        if not self.pools.limited:
            return []
        return limited_by_pools(job, self.pools, self._use, self.cell.dimensions.names)


def _retried(group: GroupStatus) -> bool:
    """Return whether tasks of a group are delayed because they failed after all restarts on a machine."""
    return not group.copies and any(loss.due_ms and loss.retried.failures for loss in group.losses)


@dataclass
class Room:
    """Capacity and free resources of a cell's machines, to explain why a job is pending."""

    cell: "Cell"
    _free: MachineRoom | None = None
    _sample: MachineRoom | None = None
    _fleet: Fleet | None = None
    _kinds: "Mapping[str, KindUse] | None" = None
    _failures: Failures | None = None
    _delayed: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    _room: dict[Resources, int] = field(default_factory=dict)
    _lacks: dict[Resources, str | None] = field(default_factory=dict)
    _snapshot: "Snapshot | None" = None
    _reasons: dict[Hashable, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pool_limits = PoolLimits(self.cell)

    def reason(self, job: Job) -> str:
        """Return the word for why a job is as it is; empty when there is nothing to explain."""
        match job.state:
            case JobState.ABANDONED:
                return "CONFLICTS"
            case JobState.STOPPED:
                return ("DEPENDENCY" if job.after else "") if ended(job) else "STOPPING"
            case JobState.HELD if waiting(job):
                return "DEPENDENCY" if job.after and not (job.held or job.gate) else "HELD"
        if not waiting(job):
            return ""
        if not job.pending:
            return "BACKOFF" if any(_retried(group) for group in job.groups) else "LOST"
        return self._pending(job)

    def _pending(self, job: Job) -> str:
        fleet = self.fleet
        if self._demanding(job):
            return self._explained(job)
        waiting = [group for group in job.groups if group.unplaced]
        if not fleet.up:
            return "NO_EXECUTOR" if fleet.some_offline else "NO_MACHINE"
        if job.commands and fleet.all_simulated:
            return "SIMULATED"
        if any(self.largest_lack(group.need) is not None for group in waiting):
            large_away = any(self.fleet.away(group.need, commands=job.commands) for group in waiting)
            return "UNAVAILABLE" if large_away else "TOO_LARGE"
        limited = self._limited(job)
        if unserved := self._unserved(job):
            return limited if limited == "NEVER" else str(unserved)
        if limited:
            return limited
        if job.id in self._delayed:
            return "LOCALITY"
        return "WAITING" if all(self._fits(group.need, group.unplaced) for group in waiting) else "RESOURCES"

    def _fits(self, need: Resources, count: int) -> bool:
        """Return whether tasks fit: a sample of machines may show that they do, the sums that they do not."""
        if self._free is None and need not in self._room and self.fleet.total > FEW_MACHINES:
            if self._sample is None:
                self._sample = sampled_room(self.cell.machines)
            if self._sample.room(need) >= count:
                return True
            if self.fleet.room_at_most(need) < count:
                return False
        return self.room(need) >= count

    def _unserved(self, job: Job) -> "Reason | None":
        """Return why no scheduler would place a job."""
        return None if self._failures is None else self._failures.reason(job.id, job.kind)

    def _limited(self, job: Job) -> str:
        """Return NEVER if limits exclude tasks whatever is in use, LIMIT if they exclude all now, else nothing."""
        from omega.schedulers.limits import limit_reached, limited_by_kind, never_admitted, precedence_excluded

        use, left, names = (self._kinds or {}).get(job.kind), [each.ready for each in job.groups], self._names
        limits = [*([] if use is None else [limited_by_kind(job, use, names)]), *self._pool_limits.of(job)]
        if limits and never_admitted(job, left, limits, names):
            return "NEVER"
        excluded = use is not None and precedence_excluded(job, use)
        return "LIMIT" if excluded or limit_reached(job, left, limits, names) else ""

    @property
    def _names(self) -> tuple[str, ...]:
        return self.cell.dimensions.names

    @classmethod
    def of(
        cls, snapshot: "Snapshot", cell: "Cell", kinds: "Mapping[str, KindUse]", members: Members,
        free: MachineRoom | None = None,
    ) -> "Room":  # fmt: skip
        """Return the room of a cell for a caller that has a working copy, and has read the rest as well."""
        free = free or ManyMachines(snapshot, len(cell.dimensions))
        failures, delayed, fleet = Failures(cell, members), delayed_by(members), Fleet(cell.sums())
        return cls(
            cell, _free=free, _fleet=fleet, _kinds=kinds, _failures=failures, _delayed=delayed, _snapshot=snapshot
        )

    @property
    def fleet(self) -> Fleet:
        """The machines by shape; limits and schedulers are read with them. Their free resources are read by `room`."""
        if self._fleet is None:
            self._fleet = Fleet(self.cell.sums())
            self._kinds = self.cell.pools.limited_kinds()
            members = self.cell.schedulers.members()
            self._failures, self._delayed = Failures(self.cell, members), delayed_by(members)
        return self._fleet

    def _demanding(self, job: Job) -> bool:
        """Return whether it demands more than room, known from its record alone."""
        from omega.schedulers.constraints.demands import NONE, demands

        if self._pool_limits.pools.divided:
            return len(self._reasons) < MOST_EXPLAINED
        waits = (i for i, group in enumerate(job.groups) if group.unplaced)
        return len(self._reasons) < MOST_EXPLAINED and any(demands(job, i) is not NONE for i in waits)

    def _explained(self, job: Job) -> str:
        """Return the reason in the form of `job why`; jobs of one shape share it."""
        from omega.schedulers.constraints.explanation import explain
        from omega.schedulers.work import Work

        work, pools = Work.of(job), self._pool_limits.pools
        pool, unserved = pools.pool_of(work.pool, work.user) if pools.configured else "", self._unserved(job)
        key = job.kind, job.precedence, work.shape(), pool, unserved
        if key not in self._reasons:
            if self._snapshot is None:
                self._snapshot = latest(self.cell)
            look_up(self.cell, self._snapshot, [work])
            use = (self._kinds or {}).get(job.kind)
            self._reasons[key] = explain(
                work, self._snapshot, use, self._names, unserved=unserved, pool_limits=self._pool_limits.of(job)
            ).reason
        reason = self._reasons[key]
        return "LOCALITY" if reason in DELAYABLE and job.id in self._delayed else reason

    def delay(self, job: Job) -> tuple[int, str] | None:
        """Return until when (ms since 1970) and at which level its scheduler delays a job; None if it does not."""
        _ = self.fleet  # delays are read with it
        return self._delayed.get(job.id)

    def largest_lack(self, need: Resources) -> str | None:
        """The name of a resource of which no single machine that is up has enough; ``together`` when only jointly."""
        if need not in self._lacks:
            self._lacks[need] = self.fleet.largest_lack(need, self.cell.dimensions.names)
        return self._lacks[need]

    def room(self, need: Resources) -> int:
        """How many tasks of this need the machines that are up still hold, one kind of task alone.

        Only the free amounts of all machines tell.
        """
        if need not in self._room:
            if self._free is None:
                self._free = machine_room(self.cell)
            self._room[need] = self._free.room(need)
        return self._room[need]
