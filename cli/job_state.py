"""In one word how a job is, and why: the words of ``state`` and ``reason`` columns, which scripts rely on.

state   pending     something of it is unplaced        finished   every task finished
        running     everything is placed               failed     a task failed
        held        submitted, not to be placed yet    stopped    a person stopped it
                                                       abandoned  given up after too many conflicts
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cellstate.model import Gang, GroupStatus, Job, JobState, MachineState
from cellstate.resources import Resources

if TYPE_CHECKING:
    from cellstate.cell import KindUse
    from cellstate.redis_cell import RedisCell

STATES = ("pending", "running", "held", "finished", "failed", "stopped", "abandoned")
REASONS = {
    "QUEUED": "its scheduler will come to it",
    "NO_SCHEDULER": "no scheduler of its kind is live; start one with omega scheduler run",
    "NO_MACHINE": "no machine is up",
    "TOO_LARGE": "a task wants more than any machine has",
    "RESOURCES": "no machine has room for what is left",  # of a gang: not for all of it
    "LIMIT": "the limits of its kind are reached",
    "HELD": "held when it was submitted",
    "CONFLICTS": "given up after too many conflicts",
    "STOPPING": "stopped, and tasks are still on machines",
}
"""The words of a ``reason`` column, and what they mean."""
COUNTS = ("total", "queued", "placed", "finished", "failed", "stopped")


def state(job: Job) -> str:
    """The word for a job's state."""
    match job.state:
        case JobState.STOPPED:
            return "stopped"
        case JobState.ABANDONED:
            return "abandoned"
        case JobState.HELD if job.unplaced:
            return "held"
        case JobState.DONE:
            return "failed" if any(group.failed for group in job.groups) else "finished"
    return "pending" if job.unplaced else "running"


def ended(job: Job) -> bool:
    """Whether nothing of it is placed or wants a machine any more."""
    return all(not group.unplaced and not group.placed for group in job.groups)


def counts(groups: Sequence[GroupStatus]) -> dict[str, int]:
    """Tasks by what became of them; ``queued + placed + finished + failed + stopped = total``."""
    names = {"queued": "unplaced"}
    return {name: sum(getattr(group, names.get(name, name)) for group in groups) for name in COUNTS}


def group_names(job: Job) -> list[str]:
    """What each task group is called; its position when it has no name."""
    said: Sequence[Mapping[str, Any]] = job.spec.get("groups", ())
    names = [str(each.get("name", "")) for each in said] + [""] * len(job.groups)
    return [name or str(i) for i, name in zip(range(len(job.groups)), names, strict=False)]


@dataclass
class Room:
    """What the machines of a cell have and have left, to say why a job is pending."""

    cell: "RedisCell"
    _amounts: Any = None
    _kinds: "Mapping[str, KindUse] | None" = None
    _live: frozenset[str] = frozenset()
    _room: dict[Resources, int] = field(default_factory=dict)
    _lacks: dict[Resources, str | None] = field(default_factory=dict)

    def reason(self, job: Job) -> str:
        """The word for why a job is as it is; empty when there is nothing to explain."""
        match job.state:
            case JobState.ABANDONED:
                return "CONFLICTS"
            case JobState.STOPPED:
                return "" if ended(job) else "STOPPING"
            case JobState.HELD if job.unplaced:
                return "HELD"
        return self._pending(job) if job.pending else ""

    def _pending(self, job: Job) -> str:
        self._read()
        waiting = [group for group in job.groups if group.unplaced]
        if not len(self._amounts[0]):
            return "NO_MACHINE"
        if any(self.largest_lack(group.need) is not None for group in waiting):
            return "TOO_LARGE"
        if job.kind not in self._live:
            return "NO_SCHEDULER"
        if not all(self._admitted(job, group) for group in waiting):
            return "LIMIT"
        full = [self.room(group.need) < (group.unplaced if job.gang is not Gang.NO else 1) for group in waiting]
        return "RESOURCES" if all(full) or (any(full) and job.gang is not Gang.NO) else "QUEUED"

    def _read(self) -> None:
        if self._kinds is not None:
            return
        import numpy as np

        up = [machine for machine in self.cell.machines() if machine.state is MachineState.UP]
        capacity = np.array([machine.capacity for machine in up], dtype=np.int64).reshape(-1, len(self.cell.dimensions))
        allocated = np.array([machine.allocated for machine in up], dtype=np.int64).reshape(capacity.shape)
        self._amounts = capacity, capacity - allocated
        self._kinds = self.cell.kinds()
        self._live = frozenset(name.partition("/")[0] for name, (_, alive, _) in self.cell.members().items() if alive)

    def largest_lack(self, need: Resources) -> str | None:
        """The name of a resource of which no single machine that is up has enough; ``together`` when only jointly."""
        self._read()
        if need not in self._lacks:
            self._lacks[need] = self._largest_lack(need)
        return self._lacks[need]

    def _largest_lack(self, need: Resources) -> str | None:
        capacity = self._amounts[0]
        for i, name in enumerate(self.cell.dimensions.names):
            if need[i] and not (capacity[:, i] >= need[i]).any():
                return name
        return None if (capacity >= need).all(axis=1).any() else "together"

    @property
    def machines(self) -> int:
        """How many machines are up."""
        self._read()
        return len(self._amounts[0])

    def largest(self, name: str) -> int:
        """The most any machine that is up has of a resource."""
        self._read()
        capacity = self._amounts[0]
        return int(capacity[:, self.cell.dimensions.names.index(name)].max()) if len(capacity) else 0

    def room(self, need: Resources) -> int:
        """How many tasks of this need the machines that are up still hold, one kind of task alone."""
        self._read()
        if need not in self._room:
            free = self._amounts[1]
            wants = [i for i, amount in enumerate(need) if amount]
            fit = free[:, wants] // [need[i] for i in wants]
            each = fit.min(axis=1) if wants else (free >= 0).all(axis=1) * 10**9
            self._room[need] = int(each.clip(min=0).sum())
        return self._room[need]

    def _admitted(self, job: Job, group: GroupStatus) -> bool:
        use = (self._kinds or {}).get(job.kind)
        if use is None:
            return True
        limits = use.limits
        if not limits.precedence[0] <= job.precedence <= limits.precedence[1]:
            return False
        if limits.jobs is not None and use.jobs >= limits.jobs and not any(each.placed for each in job.groups):
            return False
        most = group.unplaced if job.gang is not Gang.NO else 1
        pairs = zip(limits.resources, use.used, group.need, strict=True)
        return all(limit is None or not need or used + need * most <= limit for limit, used, need in pairs)


def tally(jobs: Sequence[Job]) -> dict[str, int]:
    """Jobs by state; every state is there."""
    found = Counter(state(job) for job in jobs)
    return {word: found[word] for word in STATES}
