"""Progress lines of a followed job: placements and their schedulers, requeued tasks, and the end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cellstate import ranges
from cellstate.model import GroupStatus, Job
from cli import words
from omega.queries.events import Event
from omega.queries.job_state import counts, group_names
from schedulers.constraints.reasons import MEANING

BACK = {"lost": "lost with their machine", "evicted": "evicted"}


@dataclass
class Chapter:
    """One task group of the job."""

    name: str
    placed: bool = False
    ended: bool = False
    by: dict[str, None] = field(default_factory=dict)
    transactions: set[int] = field(default_factory=set)
    last_ms: int = 0
    returned: int = 0
    """The version at which tasks last came back."""
    ran: bool = False
    """Return whether an agent ran it: simulated tasks have no exit code."""
    failures: dict[str, int] = field(default_factory=dict)
    """Tasks that failed, by their reason."""
    failed: int | None = None
    """The first task that failed where it was run."""


@dataclass
class Story:
    """Turns looks at a job, and the events of its log, into lines. Pure: times come as arguments.

    Without events (the log was faster than the reader) the lines have fewer details.
    """

    job: Job
    conflicts: int = 0
    reason: str = ""
    chapters: list[Chapter] = field(default_factory=list)
    _back: dict[tuple[int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A chapter for each group."""
        self.chapters = [Chapter(name) for name in group_names(self.job)]

    def hear(self, event: Event) -> None:
        """Take note of an event of the job."""
        if event.kind == "conflict":
            self.conflicts += 1
        elif event.kind == "place":
            chapter = self.chapters[event.more["group"]]
            chapter.by[event.by] = None
            chapter.transactions.add(event.version)
            chapter.last_ms = max(chapter.last_ms, event.at_ms)
        elif event.kind in ("finished", "failed"):
            chapter = self.chapters[event.more["group"]]
            chapter.ran |= event.by.startswith("agent/")
            if why := event.more.get("reason"):
                chapter.failures[why] = chapter.failures.get(why, 0) + (event.count or 0)
            if event.kind == "failed" and chapter.ran and chapter.failed is None:
                chapter.failed = ranges.indices(event.more["tasks"])[0]
        elif event.kind in BACK:
            chapter = self.chapters[event.more["group"]]
            chapter.returned = event.version
            key = event.more["group"], event.kind
            self._back[key] = self._back.get(key, 0) + (event.count or 0)

    def look(self, job: Job, now_ms: int) -> list[str]:
        """Record the job's state; returns the lines to print."""
        self.job = job
        told: list[str] = []
        for (i, kind), count in self._back.items():
            surplus = job.groups[i].optional
            self.chapters[i].placed &= surplus
            then = "given up" if surplus else "to be placed again"
            told.append(self._line(now_ms, i, f"{words.count(count, 'task')} {BACK[kind]}, {then}"))
        self._back.clear()
        for i, (chapter, group) in enumerate(zip(self.chapters, job.groups, strict=True)):
            # The log is read after the job, which may still look as it did before its tasks came back.
            outdated = chapter.returned > max(chapter.transactions, default=0)
            if not chapter.placed and not outdated and not group.unplaced and group.total > group.stopped:
                chapter.placed = True
                told.append(self._line(min(chapter.last_ms or now_ms, now_ms), i, self._placed(chapter, group)))
            if group.total and not chapter.ended and not group.unplaced and not group.placed:
                chapter.ended = True
                told.append(self._line(now_ms, i, _ended(group, chapter)))
        return told

    def wait(self, reason: str, now_ms: int) -> list[str]:
        """Record the reason why the job is pending; returns the lines to print, once per reason."""
        if reason == self.reason:
            return []
        self.reason = reason
        pending = sum(group.unplaced for group in self.job.groups)
        since = words.seconds(max(0, now_ms - self.job.submitted_ms) / 1000)
        return [f"  {since:<7} {words.count(pending, 'task')} pending: {MEANING.get(reason, reason)}"] if reason else []

    def hint(self) -> str:
        """Where to read more of what failed; empty when there is nothing to read."""
        for chapter in self.chapters:
            if chapter.failed is not None:
                group = f" --group {chapter.name}" if len(self.chapters) > 1 else ""
                return f"see omega job logs {self.job.id}{group} --task {chapter.failed} --stderr"
        return ""

    def _line(self, at_ms: int, group: int, text: str) -> str:
        name = f"{self.chapters[group].name}: " if len(self.chapters) > 1 else ""
        return f"  {words.seconds(max(0, at_ms - self.job.submitted_ms) / 1000):<7} {name}{text}"

    def _placed(self, chapter: Chapter, group: GroupStatus) -> str:
        text = f"{words.count(group.total - group.stopped, 'task')} placed"
        if not chapter.by:
            return text
        attempts = words.count(len(chapter.transactions), "transaction")
        return f"{text} by {words.listing(list(chapter.by))} in {attempts} ({words.count(self.conflicts, 'conflict')})"


def _ended(group: GroupStatus, chapter: Chapter) -> str:
    found = counts([group])
    why = {
        "finished": "exit 0" if chapter.ran else "",
        "failed": words.listing(
            [text if count == found["failed"] else f"{count:,} × {text}" for text, count in chapter.failures.items()]
        ),
    }
    ways = [
        f"{found[word]:,} {word}" + (f" ({why[word]})" if why.get(word) else "")
        for word in ("finished", "failed", "stopped")
        if found[word]
    ]
    return ", ".join(ways)


def sums(jobs: Sequence[Job]) -> dict[str, int]:
    """Return the tasks of several jobs by state."""
    return counts([group for job in jobs for group in job.groups])
