"""Brings what a mirror holds of a cell up to date, in bounded rounds of reads.

Every change of a cell writes an entry of the log that names the machines and jobs that it changed. So the records that
new entries name are read again, and all others are as they were read. A round reads the machines up to one version, the
log up to that version, then records, which may be newer: the next round reads those again.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from omega.cellstate.errors import CellGone
from omega.cellstate.model import Job
from omega.cellstate.pools import Epoch
from omega.cellstate.ranges import count
from omega.cellstate.replies import LogEntry
from omega.cellstate.transaction import Position
from omega.queries.event_list import Missing
from omega.queries.fleet import Fleet
from omega.queries.machines import tasks_on
from omega.queries.mirror.conflicts import WORDS, Contests
from omega.queries.mirror.event_ring import LEAST_ENTRIES, facts_of, named_in
from omega.queries.mirror.held_cell import HeldCell
from omega.queries.mirror.index import Index
from omega.queries.mirror.job_records import put_job
from omega.queries.mirror.last_hour import LastHour
from omega.queries.mirror.reasons import Reasons

if TYPE_CHECKING:
    from omega.cellstate.ports import Queries

ENTRIES_AT_ONCE = 1_000
MOST_BEHIND = 20_000
"""Versions that are read in a round; a cell that changed more meanwhile is read as a whole."""
MACHINES_AT_ONCE, JOBS_AT_ONCE = 10_000, 2_000
"""Machines described and jobs read in a round of a first reading."""
OLDEST_CHECKED = 1_000
"""Ended jobs that are looked for in a round when the cell retired some."""
TOPICS = ("cell", "jobs", "machines", "schedulers", "pools", "events")


class Reader:
    """Reads one cell; `index` is that of the last round, `topics` those of the last change of each topic."""

    def __init__(self, cell: "Queries", held: HeldCell, lock: AbstractContextManager[bool]) -> None:
        self._cell, self._held, self._lock = cell, held, lock
        self.reasons = Reasons(held)
        self.hour = LastHour(held.dimensions.names)
        self.contests = Contests(len(held.dimensions), self._pool_of)
        self.index = Index()
        self.topics = dict.fromkeys(TOPICS, Index())
        self.tags: dict[str, Index] = {}
        """The last index of each tag that was published."""
        self.counts: np.ndarray[tuple[int], np.dtype[np.int32]] = np.zeros(0, dtype=np.int32)
        """Running tasks by machine."""
        self._uncounted = 0
        """Machines from this index on are not counted yet."""
        self._at = 0
        """The version up to which the log was read."""
        self._before: int | None = None
        """Jobs submitted before this one are not read yet."""
        self._jobs_read = self._began = False
        self._partings = 0
        self._found: set[str] | None = None
        """Jobs that a reading of all found so far."""

    @property
    def loading(self) -> tuple[int, int]:
        """How many records the reading of all has read, of how many."""
        held = self._held
        machines = held.snapshot.size
        described = machines - len(held.snapshot.attributes.wanting(held.snapshot.rows[2]))
        jobs = held.held_sums.stored if held.held_sums else 0
        read = jobs if self._jobs_read else len(self._found or ())
        return min(described, self._uncounted) + min(read, jobs), machines + jobs

    def read(self, now_ms: int) -> frozenset[str]:
        """Do one round; return the topics that changed. Raises StoreError, Refused."""
        cell, held = self._cell, self._held
        resources = cell.check_exists().split(",")
        if tuple(resources) != tuple(held.dimensions.names):
            raise CellGone(f"cell {held.name}: was replaced by one with other resources")
        cell.look_back()
        jobs, machines = self._lost()
        before = held.snapshot.position
        reply = cell.sync(before)
        newest = reply.position.version
        log = cell.changed_records(0, 0)
        entries = self._entries(newest, log.first)
        for entry in entries:
            named = named_in(entry)
            jobs.update(dict.fromkeys(named[0], entry.version))
            machines.update(named[1])
        read = self._read_jobs(list(jobs))
        changed = self._read_figures()
        machines.update(index for index in reply.rows[:, 0].tolist() if index < self._uncounted)
        runs = tasks_on(cell.runs(sorted(machines)))
        with self._lock:
            held.snapshot.apply(reply)
            held.snapshot.forget_freed()
            held.snapshot.pools = held.held_pools
            held.snapshot.resources = held.dimensions.names
            self._grow_counts()
            for index in machines:
                if index < len(self.counts):
                    self.counts[index] = runs.get(index, 0)
            held.ring.add(entries)
            held.log_first = log.first
            for job_id, version in jobs.items():
                self._put(job_id, read.get(job_id), version)
            self._at = newest
            self._add_facts(entries, now_ms)
            if reply.position != before:
                changed |= {"events", "cell", "pools"} | ({"jobs"} if jobs else set())
                changed |= {"machines"} if len(reply.rows) else set()
            self._publish(reply.position, changed)
        self._load()
        with self._lock:
            self.reasons.renew()
        return frozenset(changed)

    def _add_facts(self, entries: Iterable[LogEntry], now_ms: int) -> None:
        """Add what the entries say of placements, conflicts and evictions."""
        placed = 0
        for entry in entries:
            facts = facts_of(entry, WORDS)
            placed += sum(count(fact.words[5]) for fact in facts if fact.words[0] == "place")
            self.contests.add(facts)
        held = self._held
        self.hour.add_members(held.held_members, now_ms)
        self.hour.add_cell(Fleet(held.sums()).utilisation(held.dimensions.names), placed, now_ms)

    def _pool_of(self, job_id: str) -> str:
        job = self._held.table.get(job_id)
        if job is None:
            return ""
        pool, user = (word if isinstance(word := job.spec.get(name), str) else "" for name in ("pool", "user"))
        return self._held.held_pools.pool_of(pool, user)

    # The log

    def _lost(self) -> tuple[dict[str, int], set[int]]:
        """After a cut return jobs and machines that the lost versions had changed, else nothing."""
        seen, ring = self._cell.sightings, self._held.ring
        jobs, machines = dict[str, int](), set[int]()
        if seen.partings == self._partings:
            return jobs, machines
        self._partings = seen.partings
        covered = seen.agreed > 0 and ring.first <= seen.agreed + 1
        for entry in ring.after(seen.agreed) if covered else ():
            named = named_in(entry)
            jobs.update(dict.fromkeys(named[0], seen.agreed))
            machines.update(named[1])
        with self._lock:
            ring.cut_after(seen.agreed)
            self.contests.cut_after(seen.agreed)
            self.tags = {}
        self._at = min(self._at, seen.agreed)
        if not covered:
            self._begin_again()
        return jobs, machines

    def _begin_again(self) -> None:
        """Read all jobs again, and the runs of all machines."""
        self._before, self._jobs_read, self._found, self._uncounted = None, False, set(), 0

    def _entries(self, newest: int, first: int) -> list[LogEntry]:
        """Return the new entries of the log up to a version; when some are missing everything is read again."""
        cell, ring = self._cell, self._held.ring
        if not self._began:
            self._began, self._found = True, set()
            self._at = max(newest - ENTRIES_AT_ONCE, first - 1, 0)
            return self._entries_to(newest)
        if self._at + 1 < first or newest - self._at > MOST_BEHIND:
            at = max(first - 1, newest - ENTRIES_AT_ONCE)
            if at > self._at:
                ring.miss(Missing("gap", self._at + 1, at))
                self._at = at
            self._begin_again()
        entries = self._entries_to(newest)
        if len(entries) != newest - self._at:  # an entry that cannot be read names nothing
            self._begin_again()
        del cell
        return entries

    def _entries_to(self, newest: int) -> list[LogEntry]:
        entries, at = list[LogEntry](), self._at
        while at < newest:
            read = self._cell.log_entries(at, min(ENTRIES_AT_ONCE, newest - at))
            entries += [entry for entry in read if entry.version <= newest]
            if not read:
                break
            at = read[-1].version
        return entries

    # Jobs

    def _read_jobs(self, ids: list[str]) -> dict[str, Job]:
        """Read jobs with the specification of those that a person changed."""
        found = self._cell.jobs_by_id(ids)
        table, unread = self._held.table, list[str]()
        for job_id, job in found.items():
            row = table.row(job_id)
            if (
                row is not None
                and table.value("modified", row) == job.modified
                and table.value("order", row) == job.order
            ):
                job.spec = table.job(row).spec
            else:
                unread.append(job_id)
        for job_id, spec in self._cell.specs(unread).items():
            found[job_id].spec = spec
        return found

    def _put(self, job_id: str, job: Job | None, version: int) -> None:
        if job is None:
            put_job(self._held.table, self.reasons, job_id, None, version)
        else:
            put_job(self._held.table, self.reasons, job_id, job, version)
            if self._found is not None:
                self._found.add(job_id)

    def _load(self) -> None:
        """Read the next part of what was not read yet: descriptions, runs, older entries of the log, jobs."""
        cell, held = self._cell, self._held
        wanting = held.snapshot.attributes.wanting(held.snapshot.rows[2])[:MACHINES_AT_ONCE]
        described = cell.described(wanting.tolist()) if len(wanting) else []
        part = range(self._uncounted, min(self._uncounted + MACHINES_AT_ONCE, held.snapshot.size))
        runs = tasks_on(cell.runs(part)) if part else {}
        with self._lock:
            held.snapshot.describe(wanting, described)
            held.snapshot.forget_freed()
            for index in part:
                self.counts[index] = runs.get(index, 0)
            self._uncounted = max(self._uncounted, part.stop)
        self._load_log()
        self._load_jobs()

    def _load_log(self) -> None:
        ring = self._held.ring
        oldest = max(self._held.log_first, 1)
        if not len(ring) or ring.first <= oldest or len(ring) >= LEAST_ENTRIES or ring.whole or ring.missing:
            return
        since = max(oldest - 1, ring.first - 1 - ENTRIES_AT_ONCE)
        read = [entry for entry in self._cell.log_entries(since, ring.first - 1 - since) if entry.version < ring.first]
        with self._lock:
            ring.whole = not read or not ring.add_before(read)

    def _load_jobs(self) -> None:
        if self._jobs_read:
            return
        page = self._cell.job_page(JOBS_AT_ONCE, self._before)
        with self._lock:
            for job in page.jobs:
                self._put(job.id, job, self._at)
            self._before = page.before
            if page.before is None:
                self._jobs_read = True
                found = self._found or set()
                self._found = None
                for job_id in [job_id for job_id in self._held.table.ids() if job_id not in found]:
                    self._put(job_id, None, self._at)

    def _retired(self) -> None:
        """Drop jobs that the cell keeps no more: those that ended first are retired first."""
        table, held = self._held.table, self._held
        if not self._jobs_read or len(table) <= held.sums().stored:
            return
        oldest = list(islice(table.ended_first(), OLDEST_CHECKED))
        there = self._cell.running(oldest).keys()
        with self._lock:
            for job_id in oldest:
                if job_id not in there:
                    self._put(job_id, None, self._at)

    # Figures

    def _read_figures(self) -> set[str]:
        """Read what has no entry in the log; return the topics that changed."""
        cell, held, changed = self._cell, self._held, set[str]()
        members, figures, sums, kinds = cell.members(), cell.figures(), cell.sums(), cell.kinds()
        counters, cuts, refuses, mark = cell.counters(), cell.cuts(), cell.refuses_writes(), cell.epoch_mark()
        pools, epoch = cell.pools(), self._epoch(mark.number)
        use = cell.pool_use() if pools.limited else {}
        depths, lanes = cell.queue_depths(), cell.lanes()
        if (members, figures) != (held.held_members, held.held_figures):
            changed |= {"schedulers", "cell"}
        if (cuts, refuses) != (held.held_cuts, held.refuses):
            changed.add("cell")
        if (pools, epoch, use) != (held.held_pools, held.held_epoch, held.held_pool_use):
            changed.add("pools")
        with self._lock:
            held.held_members, held.held_figures, held.held_sums, held.held_kinds = members, figures, sums, kinds
            held.held_counters, held.held_cuts, held.refuses, held.mark = counters, cuts, refuses, mark
            held.held_pools, held.held_epoch, held.held_pool_use = pools, epoch, use
            held.held_depths, held.held_lanes = depths, lanes
        return changed

    def _epoch(self, number: int) -> Epoch | None:
        held = self._held.held_epoch
        if not number:
            return None
        return held if held is not None and held.number == number else self._cell.epoch()

    # Indexes

    def _publish(self, position: Position, changed: set[str]) -> None:
        """Set the index of this round: a change without a version raises its beat."""
        beat = self.index.beat
        if position.version == self.index.version and position.tag == self.index.tag and changed:
            beat += 1
        self.index = Index(position.version, position.tag, beat)
        self.tags[position.tag] = self.index
        if len(self.tags) > LEAST_ENTRIES:
            del self.tags[next(iter(self.tags))]
        for topic in changed:
            self.topics[topic] = self.index

    def _grow_counts(self) -> None:
        size = self._held.snapshot.size
        if len(self.counts) < size:
            self.counts = np.concatenate([self.counts, np.zeros(size - len(self.counts), dtype=np.int32)])
