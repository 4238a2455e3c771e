"""A job's history: attempts, conflicts and their winners, evictions, losses, changes by people.

The cell keeps it with the job, in a record of bounded size (cellstate/digest/history.py). Entries of the log that the
record does not have yet are added when it is read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.cellstate.digest.history import History
from omega.cellstate.digest.hours import Position, readable
from omega.cellstate.events import Conflict, End, Fact, Join, MachineEvent, Place, Submit, job_of, parse
from omega.cellstate.transaction import Basis
from omega.queries.events import KINDS_BY_WORD, Event, event
from omega.schedulers.rolling import targets

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job
    from omega.cellstate.replies import NewestFacts

MOST_EVENTS = 1_000
"""More events than a record and these versions have of a job."""
_CHANGES = frozenset({"hold", "release", "resize", "update", "stop", "pass"})
"""Facts after which the modify index of a job is no longer the version of its submission."""


@dataclass(kw_only=True)
class Past:
    """The history of a job. `attempts` and `conflicts` are transactions of the job, and those with a conflict."""

    job: "Job"
    record: History
    complete: bool = False
    """Whether everything since the submission was read."""
    unread: tuple[int, int] | None = None
    """First and last version of the log that neither the record has nor was read here."""
    events: list[Event] = field(default_factory=list)
    """The newest events, oldest first; of many alike in one version the first, and the number of the others."""
    winners: dict[tuple[int, int | None], Mapping[str, Any]] = field(default_factory=dict)
    """By version and machine of a conflict: author, version, kind and job of the earlier change of the machine."""

    @property
    def attempts(self) -> int:
        """Number of transactions of the job."""
        return self.record.attempts

    @property
    def conflicts(self) -> int:
        """Number of its transactions with a conflict."""
        return self.record.conflicts

    @property
    def by(self) -> list[str]:
        """The schedulers that tried it; the first 16."""
        return self.record.by

    @property
    def first_placed_ms(self) -> int | None:
        """Time of the first placement of a task."""
        return self.record.first_placed_ms or None

    @cached_property
    def lost(self) -> int:
        """Number of lost tasks; those of versions that another replaced are not the job's own."""
        return self.record.lost_of(self._own)

    @property
    def again(self) -> int:
        """Number of tasks placed beyond the first time."""
        return self.record.again

    @cached_property
    def failures(self) -> Mapping[str, int]:
        """Failed tasks by reason; those of versions that another replaced are not the job's own."""
        return self.record.failures_of(self._own)

    @cached_property
    def _own(self) -> frozenset[int]:
        """The groups of the present version."""
        return frozenset(target.group for target in targets(self.job))

    @property
    def evicted_for(self) -> Mapping[str, int]:
        """Number of its evicted tasks, by the id of the job that evicted them."""
        return self.record.evicted_for

    @property
    def evicted(self) -> Mapping[str, int]:
        """Number of tasks that it evicted, by the id of their job."""
        return self.record.evicted

    def as_json(self) -> dict[str, Any]:
        """Return the history as plain values."""
        return {
            "attempts": self.attempts,
            "conflicts": self.conflicts,
            "by": list(self.by),
            "first_placed_ms": self.first_placed_ms,
            "complete": self.complete,
            "unread": unread_json(self.unread),
            "lost": self.lost,
            "placed_again": self.again,
            "events": [self._event(event) for event in self.events],
        }

    def _event(self, event: Event) -> dict[str, Any]:
        winner = self.winners.get((event.version, event.machine))
        return event.as_json() | ({"winner": winner} if event.kind == "conflict" else {})


class JobLog(NamedTuple):
    """What is kept of a job's past: its record up to a position, and a bounded part of the log since then."""

    at: Position
    history: History | None
    read: "NewestFacts"


def job_log(cell: "Cell", job: "Job") -> JobLog:
    """Read what is kept of a job's past."""
    position, record = cell.digest.job_history(job.id)
    at = readable(Position.unpack, position, Position())
    history = readable(History.unpack, record, None) if record else None
    return JobLog(at, history, cell.log.newest_facts(at.version, job.id))


def past(cell: "Cell", job: "Job", log: JobLog | None = None) -> Past:
    """Return the history of a job from what is kept of it, `log` if it was read."""
    at, history, read = log or job_log(cell, job)
    if any(isinstance(fact.event, Conflict) for fact in read.facts):  # whose winners are other jobs
        read = cell.log.newest_facts(at.version)
    found = Past(job=job, record=history or History.of(job))
    submitted = _add(found.record, job, read.facts)
    found.complete = submitted or (read.after <= at.version and job.order > at.since_order)
    found.unread = None if found.complete else unread_versions(at.version, read)
    dimensions = cell.dimensions
    for fact, winner in _facts(found.record, job):
        each = _summed(fact, job.id) or event(fact, dimensions)
        found.events.append(each)
        if winner is not None:
            found.winners[each.version, each.machine] = winner
    return found


def unread_versions(version: int, read: "NewestFacts") -> tuple[int, int] | None:
    """Return the first and last version of the log after `version` that a bounded reading left out; None without."""
    first = max(version + 1, read.first)
    return (first, read.after) if first <= read.after else None


def unread_json(versions: tuple[int, int] | None) -> dict[str, int] | None:
    """Return the first and last version as plain values."""
    return versions and dict(zip(("from", "to"), versions, strict=True))


def unread_text(job: "Job", versions: tuple[int, int]) -> str:
    """Return what is missing, and how to read it."""
    first, last = versions
    missing = f"versions {first:,} to {last:,} of the log are missing: no scheduler or agent has added them yet"
    return f"{missing}; list them with omega events --job {job.id} --since {first - 1}"


def _add(record: History, job: "Job", facts: list[Fact]) -> bool:
    """Add the facts of the job; return whether its submission is among them."""
    machines: dict[int, Fact] = {}
    submitted = False
    for fact in facts:
        said = fact.event
        if isinstance(said, Place | MachineEvent | Join):
            machines[said.machine] = fact
        if isinstance(said, End) and said.winner == job.id:
            record.add_eviction(said.job, said.size)
        if job_of(said) == job.id:
            submitted |= isinstance(said, Submit)
            record.add(fact, machines.get(said.machine) if isinstance(said, Conflict) else None)
    return submitted


def _facts(record: History, job: "Job") -> Iterator[tuple[Fact, Mapping[str, Any] | None]]:
    """Yield the kept events as facts; a submission that the record does not have follows from the job."""
    if not any(kept[3].startswith("submit ") for kept in record.events):
        total = sum(group.total for group in job.groups)
        said = Submit(("submit", job.id, job.name, job.kind, str(job.precedence), str(total)))
        changed = any(kept[3].partition(" ")[0] in _CHANGES for kept in record.events)
        yield Fact(0 if changed else job.modified, job.submitted_ms, job.submitter, said), None
    for version, at_ms, by, line, basis, won in record.events:
        winner = None
        if won is not None:
            author, changed, word, other = won
            winner = {"by": author, "version": changed, "kind": word, "job": other}
        yield Fact(version, at_ms, by, parse(line)[0], Basis(*basis) if basis else None), winner


def _summed(fact: Fact, job: str) -> Event | None:
    """Return the event of several alike ones of a job, of which only the number is kept; None for a fact of its own."""
    match tuple(fact.event):
        case ("+", word, events, tasks) if events.isdecimal() and tasks.isdecimal():
            more, kind = {"events": int(events)}, KINDS_BY_WORD.get(word, word)
            return Event(
                version=fact.version, at_ms=fact.at_ms, by=fact.by, kind=kind, job=job, count=int(tasks), more=more
            )  # fmt: skip
    return None
