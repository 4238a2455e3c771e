"""What happened in a recording: jobs with their times, tasks with their runs, transactions, events."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput
from omega.cellstate.events import (
    Awaited,
    Conflict,
    End,
    Fact,
    LogEntry,
    NoFact,
    Place,
    Release,
    Submit,
    TransactionEvent,
    facts_in,
)
from omega.cellstate.model import Job
from omega.recording.clock import server_times
from omega.recording.recording import Segment

ENDED = frozenset({"finished", "failed"})
Task = tuple[str, int, int]
"""Job, group and index of a task."""


@dataclass(slots=True)
class TaskRun:
    """One run of a task: machine, start and end (ms, server's clock; end -1: it still ran at the end), how it ended."""

    task: Task
    machine: int
    start_ms: int
    end_ms: int = -1
    how: str = ""
    resident: bool = False
    """Whether it ran when the recording began."""


@dataclass(slots=True, kw_only=True)
class Decisions:
    """Calls of a kind's schedulers: transactions, those with a conflict, those without, and the time of decisions."""

    calls: int = 0
    transactions: int = 0
    conflicts: int = 0
    accepted: int = 0
    took_ms: int = 0
    times: list[float] = field(default_factory=list)
    """Decision time of a transaction of each call (seconds)."""
    tasks: int = 0
    rejected: int = 0


@dataclass
class History:
    """The facts of a segment in terms of jobs and tasks, in times of the server's clock."""

    segment: Segment
    begin_ms: int
    end_ms: int
    runs: list[TaskRun] = field(default_factory=list)
    submitted: dict[str, int] = field(default_factory=dict)
    """When each new job was submitted."""
    freed: dict[str, int] = field(default_factory=dict)
    """When jobs that waited for others, or were held at their submission, were released."""
    waits: set[str] = field(default_factory=set)
    """Jobs that waited for others, or were held at their submission."""
    decisions: dict[str, Decisions] = field(default_factory=dict)
    takers: dict[str, str] = field(default_factory=dict)
    """The scheduler that tried each job first."""
    facts: list[tuple[int, Fact]] = field(default_factory=list)
    """Facts about machines, limits, pools, members and changes of jobs, with their times."""

    def job(self, job_id: str) -> Job | None:
        """Return the record of a job."""
        return self.segment.jobs.get(job_id) or self.segment.submitted.get(job_id)


_OTHERS = frozenset(
    {"join", "machine", "limit", "pool", "enlist", "hold", "release", "stop", "resize", "update"}
)  # fmt: skip


def history_of(segment: Segment) -> History:
    """Return what happened in a segment. Raises BadInput for an entry that cannot be read."""
    begin_ms = int(segment.picture["at_ms"])
    history = History(segment, begin_ms, segment.end_ms)
    live: dict[tuple[int, str, int], dict[int, TaskRun]] = {}
    for machine, placement, job, group, tasks, leaving, since in segment.runs:
        if not leaving:
            start = since if since >= 0 else begin_ms
            runs = [TaskRun((job, group, i), machine, start, resident=True) for i in ranges.indices(tasks)]
            live[placement, job, group] = {run.task[2]: run for run in runs}
            history.runs += runs
    times = server_times(segment.entries, segment.windows)
    for entry, now in zip(segment.entries, times, strict=True):
        facts = readable_facts(entry)
        for fact in facts:
            _take(history, fact, now, live)
        if entry.basis:
            _count(history, facts, now)
    for job_id in segment.submitted:
        if segment.submitted[job_id].held and job_id not in history.freed:
            history.waits.add(job_id)
    return history


def readable_facts(entry: LogEntry) -> list[Fact]:
    """Return the facts of an entry. Raises BadInput when one cannot be read."""
    try:
        facts = facts_in(entry)
    except ValueError:
        raise BadInput(f"version {entry.version} of the recording: its basis {entry.basis!r} cannot be read") from None
    if strange := next((fact.event for fact in facts if isinstance(fact.event, NoFact)), None):
        raise BadInput(f"version {entry.version} of the recording: {strange.line!r} is no fact")
    return facts


def _take(history: History, fact: Fact, now: int, live: dict[tuple[int, str, int], dict[int, TaskRun]]) -> None:
    event = fact.event
    if isinstance(event, Place):
        job, group = event.job, event.group
        runs = [TaskRun((job, group, i), event.machine, now) for i in ranges.indices(event.tasks)]
        live[event.placement, job, group] = {run.task[2]: run for run in runs}
        history.runs += runs
    elif isinstance(event, End):
        open_runs = live.get((event.placement, event.job, event.group), {})
        for i in ranges.indices(event.tasks):
            if (run := open_runs.pop(i, None)) is not None:
                run.end_ms, run.how = now, event.word
    elif isinstance(event, Submit):
        history.submitted[event.job] = now
    elif isinstance(event, Awaited):
        history.waits.add(event.waiting)
    elif isinstance(event, Release) and event.word == "met":
        history.freed[event.job] = now
    elif event.word in _OTHERS:
        if isinstance(event, Release) and event.job not in history.freed and event.job in history.submitted:
            if not any(other.event[:2] == ("hold", event.job) for _, other in history.facts):
                history.waits.add(event.job)
            history.freed[event.job] = now
        history.facts.append((now, fact))


def _count(history: History, facts: Sequence[Fact], now: int) -> None:
    """Count the transactions of a commit; those of one job that follow one another are parted by "again"."""
    if not facts or facts[0].basis is None:
        return
    basis, kind = facts[0].basis, facts[0].by.partition("/")[0]
    decisions = history.decisions.setdefault(kind, Decisions())
    jobs: dict[tuple[str, int], bool] = {}
    parts: dict[str, int] = {}
    for fact in facts:
        event = fact.event
        if event.word == "again" and isinstance(event, TransactionEvent):
            parts[event.job] = parts.get(event.job, 0) + 1
        elif isinstance(event, Place | Conflict | TransactionEvent):
            place = event.job, parts.get(event.job, 0)
            jobs[place] = jobs.get(place, False) or isinstance(event, Conflict)
            history.takers.setdefault(event.job, fact.by)
        decisions.tasks += event.size if isinstance(event, Place) else 0
        decisions.rejected += event.word == "rejected"
    decisions.calls += 1
    decisions.transactions += len(jobs)
    decisions.conflicts += sum(jobs.values())
    decisions.accepted += sum(not conflicted for conflicted in jobs.values())
    took_ms = max(0, now - basis.began_ms)
    decisions.took_ms += took_ms
    decisions.times += [took_ms / 1000 / len(jobs)] if jobs else []
