"""What happened in a recording: jobs with their times, tasks with their runs, transactions, events."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.logged_facts import facts_in
from omega.cellstate.model import Job
from omega.cellstate.replies import Fact
from omega.recording.clock import server_times
from omega.recording.recording import Segment

ENDED = frozenset({"finished", "failed"})
TAKEN_OFF = ENDED | {"retried", "lost", "evicted", "stopped"}
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
    {"join", "machine", "limit", "pool", "trees", "enlist", "leave", "lapse", "hold", "release", "stop", "resize",
     "gate", "pass", "speculate", "update"}
)  # fmt: skip


def history_of(segment: Segment) -> History:
    """Return what happened in a segment. Raises ValueError or IndexError for entries that cannot be read."""
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
        facts = facts_in(entry)
        for fact in facts:
            _take(history, fact, now, live)
        if entry.basis:
            _count(history, facts, now)
    for job_id in segment.submitted:
        if segment.submitted[job_id].held and job_id not in history.freed:
            history.waits.add(job_id)
    return history


def _take(history: History, fact: Fact, now: int, live: dict[tuple[int, str, int], dict[int, TaskRun]]) -> None:
    word, words = fact.words[0], fact.words
    if word == "place":
        job, group = words[3], int(words[4])
        runs = [TaskRun((job, group, i), int(words[2]), now) for i in ranges.indices(words[5])]
        live[int(words[1]), job, group] = {run.task[2]: run for run in runs}
        history.runs += runs
    elif word in TAKEN_OFF:
        open_runs = live.get((int(words[1]), words[3], int(words[4])), {})
        for i in ranges.indices(words[5]):
            if (run := open_runs.pop(i, None)) is not None:
                run.end_ms, run.how = now, word
    elif word == "submit":
        history.submitted[words[1]] = now
    elif word == "awaited":
        history.waits.add(words[2])
    elif word == "met":
        history.freed[words[1]] = now
    elif word in _OTHERS:
        if word == "release" and words[1] not in history.freed and words[1] in history.submitted:
            if not any(other.words[:2] == ("hold", words[1]) for _, other in history.facts):
                history.waits.add(words[1])
            history.freed[words[1]] = now
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
        word, words = fact.words[0], fact.words
        if word == "again":
            parts[words[1]] = parts.get(words[1], 0) + 1
        job = words[3] if word == "place" else words[1] if word in ("conflict", "aborted", "rejected") else ""
        if job:
            place = job, parts.get(job, 0)
            jobs[place] = jobs.get(place, False) or word == "conflict"
            history.takers.setdefault(job, fact.by)
        if word == "place":
            decisions.tasks += ranges.count(words[5])
        decisions.rejected += word == "rejected"
    decisions.calls += 1
    decisions.transactions += len(jobs)
    decisions.conflicts += sum(jobs.values())
    decisions.accepted += sum(not conflicted for conflicted in jobs.values())
    took_ms = max(0, now - basis.began_ms)
    decisions.took_ms += took_ms
    decisions.times += [took_ms / 1000 / len(jobs)] if jobs else []
