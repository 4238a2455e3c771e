"""A job's history from the log: attempts, conflicts and their winners, evictions, losses, changes by people."""

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omega.queries.events import Event, events, extent, since_time
from omega.schedulers.rolling import targets

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries

MOST_VERSIONS = 20_000
"""Versions of the log that are searched for a job's history: about a second."""
CLOCK_MARGIN_MS = 60_000
"""Margin in ms for times in the log, which come from many clocks."""
MOST_EVENTS = 1_000
"""Events of a job that are kept, the newest."""


@dataclass(kw_only=True)
class Past:
    """The history of a job from the log, since its submission.

    `attempts` and `conflicts` are versions: transactions of the job, and those of them with a conflict.
    """

    job: "Job"
    attempts: set[int] = field(default_factory=set)
    conflicts: set[int] = field(default_factory=set)
    by: dict[str, None] = field(default_factory=dict)
    first_placed_ms: int | None = None
    complete: bool = False
    """Whether the log still has all of it, from the submission on."""
    evicted_for: dict[str, int] = field(default_factory=dict)
    """Number of its evicted tasks, by the id of the job that evicted them."""
    evicted: dict[str, int] = field(default_factory=dict)
    """Number of tasks that it evicted, by the id of their job."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed tasks by reason: ``exit 3``, ``command not found: …``."""
    lost: int = 0
    again: int = 0
    """Tasks placed beyond the first time: restarts elsewhere, after an eviction or a loss."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    winners: dict[tuple[int, int | None], Event] = field(default_factory=dict)
    """By version and machine of a conflict: the earlier placement or change of the machine."""
    _last: dict[int, Event] = field(default_factory=dict)
    _returned: int = 0

    @cached_property
    def _current(self) -> frozenset[int]:
        """The groups that are not superseded."""
        return frozenset(target.group for target in targets(self.job))

    def add_event(self, event: Event) -> None:
        """Record an event of the cell."""
        if event.kind == "evicted":
            self._add_eviction(event)
        if event.job == self.job.id:
            self._add_own(event)
        # Room goes to placements; a machine's own change raises its number as well.
        if event.machine is not None and event.kind in ("place", "machine", "join"):
            self._last[event.machine] = event

    def _add_eviction(self, event: Event) -> None:
        cause, _, winner = str(event.more.get("reason", "")).partition(":")
        if cause in ("precedence", "fair-share") and event.job is not None and self.job.id in (event.job, winner):
            counts, other = (self.evicted_for, winner) if event.job == self.job.id else (self.evicted, event.job)
            counts[other] = counts.get(other, 0) + (event.count or 0)

    def _add_own(self, event: Event) -> None:
        count = event.count or 0
        self.events.append(event)
        current = event.more.get("group") in self._current  # what a refused version did is not the job's own
        if current and event.kind in ("failed", "retried", "fail") and (why := event.more.get("reason")):
            self.failures[why] = self.failures.get(why, 0) + count
        if event.kind == "fail":
            self._returned -= count
        if event.kind in ("lost", "retried", "evicted"):
            self.lost += count if event.kind == "lost" else 0
            self._returned += count
        if event.kind in ("place", "conflict"):
            self.attempts.add(event.version)
            self.by[event.by] = None
        if event.kind == "place":
            back = min(count, self._returned)
            self.again, self._returned = self.again + back, self._returned - back
            self.first_placed_ms = event.at_ms if self.first_placed_ms is None else self.first_placed_ms
        elif event.kind == "conflict":
            self.conflicts.add(event.version)
            if event.machine in self._last:
                self.winners[event.version, event.machine] = self._last[event.machine]

    def as_json(self) -> dict[str, Any]:
        """Return the history as plain values."""
        return {
            "attempts": len(self.attempts),
            "conflicts": len(self.conflicts),
            "by": list(self.by),
            "first_placed_ms": self.first_placed_ms,
            "complete": self.complete,
            "lost": self.lost,
            "placed_again": self.again,
            "events": [self._event(event) for event in self.events],
        }

    def _event(self, event: Event) -> dict[str, Any]:
        won = self.winners.get((event.version, event.machine)) if event.kind == "conflict" else None
        winner = {"by": won.by, "version": won.version, "kind": won.kind, "job": won.job} if won else None
        return event.as_json() | ({"winner": winner} if event.kind == "conflict" else {})


def past(cell: "Queries", job: "Job") -> Past:
    """Search the log for a job, from its submission on."""
    kept = extent(cell)
    start = since_time(cell, job.submitted_ms - CLOCK_MARGIN_MS, kept)
    to = min(kept.newest, start + MOST_VERSIONS)
    history = Past(job=job)
    kinds: set[str] = set()
    for event in events(cell, start, to):
        history.add_event(event)
        if event.job == job.id:
            kinds.add(event.kind)
    history.complete = "submit" in kinds and ("ended" in kinds or to == kept.newest)
    return history
