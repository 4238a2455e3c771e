"""A cell as ``omega top`` shows it, made after each round of a reader: rates, what waits, runs and wants attention."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omega.cellstate.events import Fact
from omega.cellstate.model import BUCKETS, Job
from omega.cellstate.replies import PendingJob
from omega.cellstate.transaction import Ask, Intake
from omega.queries.event_text import sentences
from omega.queries.events import Event, event
from omega.queries.job_state import state
from omega.queries.job_times import NOT_KNOWN, JobTimes, job_times
from omega.queries.mirror.event_ring import facts_of
from omega.queries.mirror.packed_jobs import kept_of
from omega.queries.names import Names
from omega.queries.overview import (
    ListedJob,
    Overview,
    PoolLine,
    Rates,
    SchedulerRates,
    VersionEvents,
)
from omega.queries.pool_shares import order, starving_pools, status
from omega.queries.ranked_machines import ranked
from omega.queries.room import Room
from omega.queries.schedulers import description

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Machine
    from omega.queries.mirror.held_cell import HeldCell

MOST_WAITING = 200
"""Maximum number of pending jobs of each kind that are read, the earliest arrivals."""
MOST_RUNNING = 200
"""Maximum number of running jobs that are shown."""
MOST_SEARCHED = 2_000
"""Number of newest jobs among which running ones are looked for."""
MOST_MACHINES = 1_000
"""Maximum number of machines that are shown, those that most want attention."""
MOST_VERSIONS = 1_000
"""Maximum number of versions of the log per round; older ones of a cell that changes faster are skipped."""
MOST_FACTS = 20_000
"""Facts of the log per round; one version may place the tasks of a thousand jobs."""
MOST_CHANGES = 200
"""Number of newest versions that are kept, and of older ones that may need attention."""
HISTORY = 240
"""Number of rounds in the history."""
LATELY_MS = 10_000
"""Time in ms before the first round over which its rates are computed."""
ATTENTION = frozenset(
    ("conflict", "evicted", "lost", "failed", "abandon", "stop", "machine", "expire", "register", "deregister", "limit",
     "pool", "trees", "restore", "unfit", "fit")
)  # a table # fmt: skip
"""Kinds of event that may need attention: newer events do not replace them."""
FIGURES = ("busy_seconds", "seconds", "conflicts", "accepted")
"""Figures needed to compare a heartbeat with the one before."""


@dataclass(slots=True)
class _Past:
    """Heartbeats of one scheduler: the figures of the last one, and the rates since the previous one."""

    figures: Mapping[str, Any]
    busyness: float | None = None
    conflict_fraction: float | None = None
    history: "deque[float]" = field(default_factory=lambda: deque(maxlen=HISTORY))

    def add_heartbeat(self, now: Mapping[str, Any]) -> None:
        """Record a heartbeat unless it is already recorded."""
        last = self.figures.get("seconds", 0.0)
        if not now.keys() >= set(FIGURES) or now["seconds"] == last:
            return
        before = self.figures if now["seconds"] > last else {}  # else it was started again
        self.figures = now
        busy, lasted, conflicts, accepted = (now[name] - before.get(name, 0) for name in FIGURES)
        self.busyness = min(1.0, busy / lasted) if lasted > 0 else 0.0
        self.conflict_fraction = conflicts / accepted if accepted > 0 else float(conflicts)
        self.history.append(self.busyness)


class Overviews:
    """Makes overviews of one cell; some jobs and names are read for them, the rest is what a reader holds."""

    def __init__(self, cell: "Cell", held: "HeldCell", store: str) -> None:
        self._cell, self._held, self._store, self.names = cell, held, store, Names(cell)
        self._members: dict[str, _Past] = {}
        self._seen: int | None = None
        self._read_ms = 0
        self._changes: deque[VersionEvents] = deque(maxlen=MOST_CHANGES)
        self._attention: deque[VersionEvents] = deque(maxlen=MOST_CHANGES)
        self._past: dict[str, deque[float]] = {}
        self._running: tuple[Mapping[str, int], list[Job]] = (Counter(), [])
        self._running_version = -1
        self._times: Mapping[str, JobTimes] = {}
        self._partings = 0

    def make(self, now_ms: int) -> Overview:
        """Return the cell as it was read at `now_ms`, just before. Raises StoreError."""
        cell, held = self._cell, self._held
        before = held.held_counters["version"]
        snapshot, depths, known = held.snapshot, held.schedulers.queue_depths(), held.schedulers.members()
        pending = self._first_pending([kind for kind, depth in depths.items() if depth])
        machines = ranked(cell, snapshot, MOST_MACHINES)
        self.names.know({machine.index: machine.name for machine in machines.first})
        room = Room.of(snapshot, cell, held.pools.kinds(), known)
        live, running = self._read_running(room, machines.first)
        times = self._read_times([each.job for each in pending] + running)
        queue = [ListedJob(each.arrival, each.job, room.reason(each.job), times[each.job.id]) for each in pending]
        self._read_versions([each.job for each in pending] + running)
        rates = self._read_log(now_ms)
        self._keep_history(machines.utilisation, rates)
        return Overview(
            cell.name,
            self._store,
            cell.dimensions,
            now_ms,
            snapshot.position.version,
            machines,
            [self._member(*each) for each in sorted(known.items())],
            sorted(queue, key=lambda each: each.position),
            [ListedJob(-job.order, job, "", times[job.id]) for job in reversed(running)],
            live,
            depths,
            self._newest_changes(),
            rates,
            {name: tuple(values) for name, values in self._past.items()},
            held.refuses_writes(),
            self._pool_lines(starving_pools(known)),
            before == self._running_version == cell.counters()["version"],
        )

    def _pool_lines(self, starving: Mapping[str, str]) -> tuple[PoolLine, ...]:
        """Return the pools of the published epoch; of those that starve their state."""
        pools, epoch, mark = self._held.pools.get(), self._held.pools.epoch(), self._held.mark
        if mark is None or not mark.configured or epoch is None:
            return ()
        lines = []
        for position, (depth, name) in enumerate(order(pools, epoch.pools)):
            share = epoch.pools[name]
            stands = starving.get(name) or status(pools, name, share, share.fair_share)
            lines.append(PoolLine(position, depth, share, stands))
        return tuple(lines)

    # Jobs

    def _first_pending(self, kinds: list[str]) -> list[PendingJob]:
        """Return the first pending jobs of some kinds; machines that changed meanwhile are brought up to date."""
        everywhere, snapshot = "1" * BUCKETS, self._held.snapshot
        pending: list[PendingJob] = []
        snapshot.lanes.learn(self._cell.schedulers.lanes(snapshot.lanes.unknown()))
        for kind in kinds:
            lanes = sorted(snapshot.lanes.of_kind(kind), key=lambda lane: -snapshot.lanes.names[lane].precedence)
            asks = tuple(Ask(lane, 0, MOST_WAITING) for lane in lanes[:MOST_WAITING])
            reply = self._cell.schedulers.sync(snapshot.position, Intake(kind, asks, MOST_WAITING, everywhere))
            pending += reply.jobs
        return pending

    def _read_running(self, room: Room, machines: "Sequence[Machine]") -> tuple[Mapping[str, int], list[Job]]:
        """Return how many jobs are in each state, and running ones: of the newest jobs, then of the shown machines.

        So it costs the same whatever the number of jobs.
        """
        self._drop_lost()
        version, states = self._held.snapshot.position.version, room.fleet.sums.jobs
        if version == self._running_version:
            return self._running
        found = _running(self._cell.jobs.by_id(self._cell.jobs.newest_ids(MOST_SEARCHED)))
        if len(found) < min(states["running"], MOST_RUNNING):
            there = {run.job for run in self._cell.machines.runs([each.index for each in machines[:MOST_RUNNING]])}
            found |= _running(self._cell.jobs.by_id(sorted(there - found.keys())[:MOST_SEARCHED]))
        newest = sorted(found.values(), key=lambda job: job.order)[-MOST_RUNNING:]
        self._running, self._running_version = (states, newest), version
        return self._running

    def _read_times(self, jobs: Sequence[Job]) -> Mapping[str, JobTimes]:
        """Return when jobs started; none of them has ended, so a start that is known stays as it is."""
        known = self._times
        self._times = {job.id: known.get(job.id, NOT_KNOWN) for job in jobs} | job_times(
            self._cell, [job for job in jobs if known.get(job.id, NOT_KNOWN) == NOT_KNOWN]
        )
        return self._times

    def _read_versions(self, jobs: Sequence[Job]) -> None:
        """Read which groups of jobs are of versions that an update replaced, where that was not read with them."""
        several = [job for job in jobs if len(job.groups) > 1 and "targets" not in job.spec]
        specs = self._cell.jobs.specs(sorted({job.id for job in several}))
        for job in several:
            job.spec = {**job.spec, **kept_of(specs.get(job.id, {}))}

    # Schedulers

    def _member(self, name: str, known: tuple[int, bool, dict[str, Any]]) -> SchedulerRates:
        past = self._members.setdefault(name, _Past({}))
        past.add_heartbeat(known[2])
        return SchedulerRates(description(name, *known), past.busyness, past.conflict_fraction, tuple(past.history))

    # The log

    def _read_log(self, now_ms: int) -> Rates:
        self._drop_lost()
        newest = self._held.snapshot.position.version
        if self._seen is None or self._seen > newest:  # the first round, or the store lost versions
            since, seconds = max(0, newest - MOST_VERSIONS), LATELY_MS / 1000
        else:
            since, seconds = max(self._seen, newest - MOST_VERSIONS), max(now_ms - self._read_ms, 1) / 1000
        facts, since = self._last_facts(since, newest)
        new = [event(fact, self._cell.dimensions) for fact in facts]
        self._keep_changes(new)
        if self._seen is None or self._seen > newest:
            new = [each for each in new if each.at_ms >= now_ms - LATELY_MS]
            share = 1.0
        else:
            share = (newest - self._seen) / max(newest - since, 1)
        self._seen, self._read_ms = newest, now_ms
        return _rates(new, seconds / share if share else seconds)

    def _drop_lost(self) -> None:
        """Drop what was read of versions that the store lost: others have their numbers now."""
        seen = self._cell.sightings
        if seen.partings == self._partings:
            return
        self._partings, self._seen, self._running_version, self._times = seen.partings, None, -1, {}
        for changes in (self._changes, self._attention):
            left = [change for change in changes if change.first.version <= seen.agreed]
            changes.clear()
            changes.extend(left)

    def _last_facts(self, since: int, newest: int) -> tuple[list[Fact], int]:
        """Return the last facts after a version, about `MOST_FACTS` at most, and the version after which they begin."""
        parts, number, after = list[list[Fact]](), 0, newest
        for entry in self._held.ring.newest_first():
            if entry.version <= since or number >= MOST_FACTS:
                break
            parts.append(facts_of(entry))
            number, after = number + len(parts[-1]), entry.version - 1
        return [fact for part in reversed(parts) for fact in part], since if number < MOST_FACTS else after

    def _keep_changes(self, read: list[Event]) -> None:
        """Keep the newest versions, and those that may need attention, with their text."""
        versions = sorted({each.version for each in read})
        newest = set(versions[-MOST_CHANGES:])
        troubled = set(sorted({each.version for each in read if each.kind in ATTENTION})[-MOST_CHANGES:])
        shown = [each for each in read if each.version in newest or each.version in troubled]
        self.names.read_jobs(each.job for each in shown)
        self.names.read_machines(each.machine for each in shown)
        for same, text in sentences(shown, self.names):
            change = VersionEvents(tuple(same), text)
            if change.first.version in newest:
                self._changes.appendleft(change)
            if change.first.version in troubled:
                self._attention.appendleft(change)

    def _newest_changes(self) -> tuple[VersionEvents, ...]:
        kept = {change.first.version: change for change in (*self._attention, *self._changes)}
        return tuple(change for _, change in sorted(kept.items(), reverse=True))

    def _keep_history(self, use: Mapping[str, Mapping[str, float]], rates: Rates) -> None:
        now = {name: each["fraction"] for name, each in use.items()} | {"placed": rates.placed}
        for name, value in now.items():
            self._past.setdefault(name, deque(maxlen=HISTORY)).append(value)


def _running(jobs: Mapping[str, Job]) -> dict[str, Job]:
    return {job_id: job for job_id, job in jobs.items() if state(job) == "running"}


def _rates(events: Iterable[Event], seconds: float) -> Rates:
    events = list(events)

    def tasks(*kinds: str) -> float:
        return sum(each.count or 0 for each in events if each.kind in kinds) / seconds

    conflicted = {(each.version, each.job) for each in events if each.kind == "conflict"}
    placed = {(each.version, each.job) for each in events if each.kind == "place"} - conflicted
    return Rates(tasks("place"), len(conflicted) / max(1, len(placed)), tasks("evicted", "lost"))
