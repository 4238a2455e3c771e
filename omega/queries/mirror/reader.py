"""Brings what a mirror holds of a cell up to date, in bounded rounds of reads.

Every change of a cell writes an entry of the log that names the machines and jobs that it changed. So the records that
new entries name are read again, and all others are as they were read. A round reads the machines up to one version, the
log up to that version, then records, which may be newer: the next round reads those again.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from omega.cellstate.digest.hours import Position as Digested, readable
from omega.cellstate.errors import Refused
from omega.cellstate.events import LogEntry
from omega.cellstate.model import Job
from omega.cellstate.replies import Reply
from omega.cellstate.transaction import Position
from omega.queries.event_list import Missing
from omega.queries.fleet import Fleet
from omega.queries.job_times import job_times
from omega.queries.machines import tasks_on
from omega.queries.mirror.conflicts import Contests
from omega.queries.mirror.demand_classes import DemandClasses
from omega.queries.mirror.figures import read_figures
from omega.queries.mirror.held_cell import HeldCell
from omega.queries.mirror.index import Index
from omega.queries.mirror.last_hour import LastHour
from omega.queries.mirror.loading import MACHINES_AT_ONCE, PARTS_AT_ONCE, Loading
from omega.queries.mirror.named_records import Listener, Named
from omega.queries.mirror.packed_jobs import kept_of
from omega.queries.mirror.reasons import Reasons

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

ENTRIES_AT_ONCE = 1_000
TAIL_LETTERS = 2 << 20
"""Letters of the newest entries that the first round reads: one may have the facts of a thousand jobs."""
MOST_BEHIND = 20_000
"""Versions that are read in a round; a cell that changed more meanwhile is read as a whole."""
JOBS_AT_ONCE = 500
"""Jobs that are put into the table while pages wait for the lock: some 10 ms."""
OLDEST_CHECKED = 2_000
"""Ended jobs that are looked for in a round when the cell retired some."""
TOPICS = ("cell", "jobs", "machines", "schedulers", "pools", "events")
MOST_TAGS = 10_000
"""Indexes that are known to be of the history of the cell: those of readings of more than an hour."""


class Reader:
    """Reads one cell; `index` is that of the last round, `topics` those of the last change of each topic."""

    def __init__(self, cell: "Cell", held: HeldCell, lock: AbstractContextManager[bool], *, whole: bool) -> None:
        self._whole = whole
        self.cell, self.held, self.lock = cell, held, lock
        self.reasons, self.demands, self.loading = Reasons(held), DemandClasses(held.table), Loading(self)
        self.hour = LastHour(held.dimensions.names)
        self.contests = Contests(self._pool_of)
        self.index = Index()
        self.topics = dict.fromkeys(TOPICS, Index())
        self.tags: dict[str, Index] = {}
        """The last index of each tag that was published."""
        self.counts = np.zeros(0, dtype=np.int32)
        """Running tasks by machine."""
        self.at: int = -1
        """The version up to which the log was read; -1 before the first round."""
        self._named = Named()
        """What the log named and was not read again yet."""
        self._untimed, self._early = dict[str, int](), dict[str, int]()
        """Jobs whose start and end are to be read, and those of which the digest of the log has to come further first;
        with the version of their last change."""
        self._digested = 0, 0
        """Version and number of a submission of the digest's position at the last reading."""
        self._stale = True
        """Whether the version moved, or jobs were retired, since figures of all of the cell were read."""
        self._partings = cell.sightings.partings
        self._changed = set[str]()

    def read(self, now_ms: int) -> None:
        """Do one round. Raises StoreError, Refused; a round that failed is continued by the next."""
        cell, held = self.cell, self.held
        if tuple(cell.check_exists().split(",")) != tuple(held.dimensions.names):
            raise Refused(f"cell {held.name}: was replaced by one with other resources")
        cell.look_back()
        self._drop_lost()
        before = held.snapshot.position
        reply = cell.schedulers.sync(before)
        retired = held.held_sums is not None and held.held_sums.stored != cell.jobs.count()
        self._stale = self._stale or retired or reply.position != before
        self._apply(reply)
        self._read_log(reply.position.version)
        self._changed |= read_figures(cell, held, self.lock, moved=self._stale)
        self._stale = False
        if self._whole:
            self._read_named()
            self._retire()
            if not self.loading.done:
                self._changed |= {"cell", "jobs", "machines"}
            self.loading.step()
            self._read_times()
            if self.loading.described:
                self.reasons.renew(cell, self.lock, changed=bool(self._changed))
        else:
            self._named = Named()
        with self.lock:
            self._sample(now_ms)
            self._publish(reply.position)

    # Machines

    def _apply(self, reply: Reply) -> None:
        snapshot = self.held.snapshot
        joined = self._joined(reply)
        parts = [joined[at : at + MACHINES_AT_ONCE] for at in range(0, len(joined), MACHINES_AT_ONCE)]
        described = [each for part in parts for each in self.cell.machines.described(part)]
        with self.lock:
            if reply.position != snapshot.position:
                self._changed |= {"events", "cell", "pools"}
            if len(reply.rows) and (not reply.full or reply.position != snapshot.position):
                self._changed.add("machines")
            snapshot.apply(reply)
            if joined:
                snapshot.learn(joined, described)
            snapshot.forget_freed()
            more = snapshot.size - len(self.counts)
            if more > 0:
                self.counts = np.concatenate([self.counts, np.zeros(more, dtype=np.int32)])
        if not reply.full:
            self._named.machines.update(reply.rows[:, 0].tolist())

    def _joined(self, reply: Reply) -> list[int]:
        """Return the machines of a reply that were never described: a mirror that is looked at shows none nameless."""
        if not (self._whole and self.loading.complete and len(reply.rows)):
            return []
        known, index = self.held.snapshot.attributes.known, np.unique(reply.rows[:, 0])
        new = index >= len(known)
        new[~new] = ~known[index[~new]]
        found: list[int] = index[new].tolist()
        return found

    def count(self, machines: Sequence[int]) -> None:
        """Count the running tasks of some machines."""
        runs = tasks_on(self.cell.machines.runs(machines))
        with self.lock:
            self.counts[np.array(machines, dtype=np.intp)] = [runs.get(machine, 0) for machine in machines]

    # The log

    def _drop_lost(self) -> None:
        """After a cut read again what the lost versions had changed; everything, when that is not known."""
        seen, ring = self.cell.sightings, self.held.ring
        if seen.partings == self._partings:
            return
        covered = seen.agreed > 0 and 0 < ring.first <= seen.agreed + 1
        with self.lock:
            if covered:
                self._named.add(ring.after(seen.agreed), Listener())
            else:
                self.loading.begin_again()
            ring.cut_after(seen.agreed)
            self.contests.cut_after(seen.agreed)
            self.tags = {tag: index for tag, index in self.tags.items() if index.version <= seen.agreed}
            self.at = min(self.at, seen.agreed)
            self._partings = seen.partings
            self.held.mark, self._stale = None, True  # pools and epochs of the same numbers may be others

    def _read_log(self, newest: int) -> None:
        """Add the entries up to a version."""
        ring, first = self.held.ring, self.cell.log.changed_records(0, 0).first
        since, whole = self.at, True
        if since < 0 or since + 1 < first or newest - since > MOST_BEHIND:
            whole = False
            since, entries = self._tail(max(first - 1, newest - ENTRIES_AT_ONCE, 0), newest)
        else:
            entries = self._entries(since, newest)
        with self.lock:
            if self.at >= 0 and since > self.at:
                ring.miss(Missing("gap", self.at + 1, since))
            ring.add(entries)
            self.contests.first = self.contests.first or since + 1
            self.held.log_first = first
            named = self._named if whole else Named()  # all is read after the first round, and after a gap
            readable = named.add(entries, self.contests) and len(entries) == newest - since
            if self.at >= 0 and not (whole and readable):
                self.loading.begin_again()
            self.at = newest

    def _tail(self, oldest: int, newest: int) -> tuple[int, list[LogEntry]]:
        """Return the newest entries above a version, as many as `TAIL_LETTERS` have, and the version before them."""
        entries, since, width = list[LogEntry](), newest, 4
        while since > oldest and sum(len(entry.facts) for entry in entries) < TAIL_LETTERS:
            to, since = since, max(oldest, since - width)
            entries = [*(each for each in self.cell.log.entries(since, to - since) if each.version <= to), *entries]
            width *= 2
        return since, entries

    def _entries(self, since: int, newest: int) -> list[LogEntry]:
        entries, at = list[LogEntry](), since
        while at < newest:
            read = self.cell.log.entries(at, min(ENTRIES_AT_ONCE, newest - at))
            entries += [entry for entry in read if entry.version <= newest]
            if not read:
                break
            at = read[-1].version
        return entries

    # Records

    def _read_named(self) -> None:
        """Read the jobs and the tasks of the machines that the log named."""
        named = self._named
        if named.jobs:
            self._changed.add("jobs")
        while ids := list(islice(named.jobs, JOBS_AT_ONCE)):
            found = self._jobs(ids)
            with self.lock:
                for job_id in ids:
                    self.put(job_id, found.get(job_id), named.jobs.pop(job_id))
        machines = sorted(index for index in named.machines if index < self.loading.counted)
        if machines:
            self.count(machines)
        named.machines.clear()

    def _jobs(self, ids: list[str]) -> dict[str, Job]:
        """Read jobs, with the specification of those that a person changed."""
        found, table, unread = self.cell.jobs.by_id(ids), self.held.table, list[str]()
        for job_id, job in found.items():
            row = table.row(job_id)
            same = row is not None and (table.value("modified", row), table.value("order", row))
            if row is not None and same == (job.modified, job.order):
                job.spec = table.job(row).spec
            else:
                unread.append(job_id)
        for job_id, spec in self.cell.jobs.specs(unread).items():
            found[job_id].spec = kept_of(spec)
        return found

    def put(self, job_id: str, job: Job | None, version: int) -> None:
        """Put a job as it is now into the table; None for one that is no longer kept."""
        table = self.held.table
        row = table.row(job_id)
        if row is not None:
            self.reasons.leave(table.value("shape", row), table.value("waiting", row))
            self.demands.leave(table.value("demand", row))
        if job is None:
            table.drop(job_id)
            for jobs in (self._untimed, self._early):
                jobs.pop(job_id, None)
            return
        job.spec = kept_of(job.spec)
        table.put(job, version, shape=self.reasons.enter(job), demand=self.demands.enter(job))
        self._untimed[job_id] = version
        self.loading.found(job_id)

    def _read_times(self) -> None:
        """Read when changed jobs started and ended: at once, and again when the digest of the log has come further."""
        cell, table = self.cell, self.held.table
        position = readable(Digested.unpack, cell.digest.position(), Digested())
        before, self._digested = self._digested, (position.version, position.since_order)
        if position.since_order != before[1]:  # entries were lost before the digest reached them
            self._untimed = dict.fromkeys(table.ids(), self.at)
        elif position.version != before[0]:
            self._untimed = self._early | self._untimed  # those that changed since have a later version
        self._early = self._early if self._digested == before else {}
        for _ in range(PARTS_AT_ONCE):
            jobs = [job for job_id in islice(self._untimed, JOBS_AT_ONCE) if (job := table.get(job_id)) is not None]
            if not jobs:
                return
            times = job_times(cell, jobs, position.since_order)
            with self.lock:
                for job in jobs:
                    if table.put_times(job.id, times[job.id]):
                        self._changed.add("jobs")
                    version = self._untimed.pop(job.id)
                    if version > position.version and times[job.id].lacks(job):
                        self._early[job.id] = version

    def _retire(self) -> None:
        """Drop jobs that the cell keeps no more: those that ended first are retired first, without an entry."""
        table = self.held.table
        gone = len(table) - self.held.sums().stored
        if not self.loading.jobs_done or gone <= 0:
            return
        oldest = list(islice(table.ended_first(), max(OLDEST_CHECKED, gone)))
        there = self.cell.jobs.running(oldest).keys()
        with self.lock:
            for job_id in oldest:
                if job_id not in there:
                    self.put(job_id, None, self.at)
        self._changed.add("jobs")

    def _pool_of(self, job_id: str) -> str:
        job = self.held.table.get(job_id)
        if job is None:
            return ""
        pool, user = (word if isinstance(word := job.spec.get(name), str) else "" for name in ("pool", "user"))
        return self.held.held_pools.pool_of(pool, user)

    # Results

    def _sample(self, now_ms: int) -> None:
        """Add this round to the series of the last hour."""
        held, placed = self.held, self._named.placed
        self._named.placed = 0
        self.hour.add_members(held.held_members, now_ms)
        self.hour.add_cell(Fleet(held.sums()).utilisation(held.dimensions.names), placed, now_ms)

    def touch(self, topic: str) -> None:
        """Let a topic change without a version."""
        self.index = self.topics[topic] = self.tags[self.index.tag] = self.index._replace(beat=self.index.beat + 1)

    def _publish(self, position: Position) -> None:
        """Set the index of this round: changes without a version raise its beat."""
        beat = self.index.beat + bool(position == (self.index.version, self.index.tag) and self._changed)
        self.index = Index(position.version, position.tag, beat)
        self.tags[position.tag] = self.index
        if len(self.tags) > MOST_TAGS:
            del self.tags[next(iter(self.tags))]
        for topic in self._changed:
            self.topics[topic] = self.index
        self._changed = set()
