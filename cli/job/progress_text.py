"""Progress lines of a followed job: placements and their schedulers, requeued tasks, and the end."""

from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.model import GroupStatus, Job
from omega.queries import units
from omega.queries.events import Event
from omega.queries.job_state import counts, group_names, waiting
from omega.schedulers.constraints.reasons import MEANING

BACK = {"lost": "lost with their machine", "evicted": "evicted", "retried": "failed after all restarts on a machine"}


@dataclass
class GroupProgress:
    """Progress of one task group of the job."""

    name: str
    placed: bool = False
    ended: bool = False
    by: dict[str, None] = field(default_factory=dict)
    transactions: set[int] = field(default_factory=set)
    last_ms: int = 0
    returned: int = 0
    """The last version at which tasks were lost or evicted."""
    ran: bool = False
    """Whether an agent ran its tasks: simulated tasks have no exit code."""
    failures: dict[str, int] = field(default_factory=dict)
    """Number of failed tasks by reason."""
    failed: int | None = None
    """Index of the first task that failed on an agent."""


@dataclass
class ProgressText:
    """Makes lines from successive states of a job and the events of its log. Times are arguments.

    Without events (the log grew faster than it was read) the lines have fewer details.
    """

    job: Job
    conflicts: int = 0
    reason: str = ""
    groups: list[GroupProgress] = field(default_factory=list)
    _back: dict[tuple[int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._know_groups()

    def _know_groups(self) -> None:
        for number, name in enumerate(group_names(self.job)):
            self._part(number).name = name

    def _part(self, group: int) -> GroupProgress:
        """Return the progress of a group; an update adds groups, and events tell of them before the job does."""
        while group >= len(self.groups):
            self.groups.append(GroupProgress(str(len(self.groups))))
        return self.groups[group]

    def add_event(self, event: Event) -> None:
        """Record an event of the job."""
        if event.kind == "conflict":
            self.conflicts += 1
        elif event.kind == "place":
            part = self._part(event.more["group"])
            part.by[event.by] = None
            part.transactions.add(event.version)
            part.last_ms = max(part.last_ms, event.at_ms)
        elif event.kind in ("finished", "failed"):
            part = self._part(event.more["group"])
            part.ran |= event.by.startswith("agent/")
            if why := event.more.get("reason"):
                part.failures[why] = part.failures.get(why, 0) + (event.count or 0)
            if event.kind == "failed" and part.ran and part.failed is None:
                part.failed = ranges.indices(event.more["tasks"])[0]
        elif event.kind in BACK:
            part = self._part(event.more["group"])
            part.returned = event.version
            key = event.more["group"], event.kind
            self._back[key] = self._back.get(key, 0) + (event.count or 0)

    def update(self, job: Job, now_ms: int) -> list[str]:
        """Record the job's state; returns the lines to print."""
        self.job = job
        self._know_groups()
        text: list[str] = []
        known = [key for key in self._back if key[0] < len(job.groups)]
        for (i, kind), count in [(key, self._back.pop(key)) for key in known]:
            surplus = job.groups[i].optional
            self.groups[i].placed &= surplus
            then = "not placed again (optional)" if surplus else "pending again"
            text.append(self._line(now_ms, i, f"{units.count(count, 'task')} {BACK[kind]}, {then}"))
        for i, (part, group) in enumerate(zip(self.groups, job.groups, strict=False)):
            # The log is read after the job, whose state may be older than the loss of its tasks.
            outdated = part.returned > max(part.transactions, default=0)
            if not part.placed and not outdated and not group.unplaced and group.total > group.stopped:
                part.placed = True
                text.append(self._line(min(part.last_ms or now_ms, now_ms), i, self._placed(part, group)))
            if group.total and not part.ended and not group.unplaced and not group.placed:
                part.ended = True
                text.append(self._line(now_ms, i, _ended(group, part)))
        return text

    def pending(self, reason: str, now_ms: int) -> list[str]:
        """Record the reason why the job is pending; returns the lines to print, once per reason."""
        if reason == self.reason:
            return []
        self.reason = reason
        since = units.seconds(max(0, now_ms - self.job.submitted_ms) / 1000)
        return (
            [f"  {since:<7} {units.count(waiting(self.job), 'task')} pending: {MEANING.get(reason, reason)}"]
            if reason
            else []
        )

    def hint(self) -> str:
        """Return the command that prints the output of a failed task; empty when none failed."""
        for part in self.groups:
            if part.failed is not None:
                group = f" --group {part.name}" if len(self.groups) > 1 else ""
                return f"see omega job logs {self.job.id}{group} --task {part.failed} --stderr"
        return ""

    def _line(self, at_ms: int, group: int, text: str) -> str:
        name = f"{self.groups[group].name}: " if len(self.groups) > 1 else ""
        return f"  {units.seconds(max(0, at_ms - self.job.submitted_ms) / 1000):<7} {name}{text}"

    def _placed(self, part: GroupProgress, group: GroupStatus) -> str:
        text = f"{units.count(group.total - group.stopped, 'task')} placed"
        if not part.by:
            return text
        attempts = units.count(len(part.transactions), "transaction")
        return f"{text} by {units.listing(list(part.by))} in {attempts} ({units.count(self.conflicts, 'conflict')})"


def _ended(group: GroupStatus, part: GroupProgress) -> str:
    numbers = counts([group])
    why = {
        "finished": "exit 0" if part.ran else "",
        "failed": units.listing(
            [text if count == numbers["failed"] else f"{count:,} × {text}" for text, count in part.failures.items()]
        ),
    }
    ways = [
        f"{numbers[word]:,} {word}" + (f" ({why[word]})" if why.get(word) else "")
        for word in ("finished", "failed", "stopped")
        if numbers[word]
    ]
    return ", ".join(ways)
