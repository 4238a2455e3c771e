"""A step of the digest: the next entries of the log, added to results, histories and sums of use.

The step reads the position, the entries and the records that they concern, and writes all of it back in one call that
takes effect only if no other process wrote a step meanwhile. A step that is repeated, or comes second, changes nothing.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from omega.cellstate import ranges
from omega.cellstate.digest import results as res
from omega.cellstate.digest.history import FAILS, UNIMPORTANT, WITH_REASON, History
from omega.cellstate.digest.hours import COUNTS, GONE, HOUR_MS, KEPT_HOURS, Ledger, Owner, Position, Settled, readable
from omega.cellstate.digest.results import CHUNK, JobResults, field_of
from omega.cellstate.digest.values import DigestStep, JobRecords
from omega.cellstate.events import Conflict, End, Fail, Join, MachineEvent, Outcome, Place, TaskEvent, job_of, reason_of

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.digest.values import Undigested
    from omega.cellstate.events import Fact
    from omega.cellstate.model import Job

MOST_VERSIONS = 1_000
"""Entries of the log in a step."""
QUIET_MS = 60_000
"""Time after which a step is written though nothing happened: running tasks count up to then."""
_COUNTED = {"place": 0} | {word: at for at, word in enumerate(COUNTS)} | dict.fromkeys(FAILS, COUNTS.index("failed"))
_WAITS = COUNTS.index("waits")
_OF_TASKS = (TaskEvent, Fail)
_OF_MACHINES = (Place, MachineEvent, Join)


def digest(cell: "Cell", now_ms: int, most: int = MOST_VERSIONS) -> bool:
    """Add the next entries of the log to the records; return whether there are more. `now_ms`: the server's clock."""
    read = cell.digest.undigested(most)
    stored = readable(Position.unpack, read.position, None)
    position = stored or Position(read.to, settled=Settled.NO, since_order=read.submissions)
    quiet = position.at_ms == 0 or now_ms - position.at_ms < QUIET_MS
    if stored and read.to <= position.version and quiet:
        return False
    step = _Step(cell, read, position, now_ms)
    step.take(read.facts)
    return cell.digest.write(step.close()) and read.to < read.newest


class _Known:
    """A job of the step: its history, its chunks, its account."""

    def __init__(
        self, job: "Job | None", history: History | None, owner: tuple[str, str], chunks: dict[int, set[int]]
    ) -> None:
        self.job, self.history = job, history or History(user=owner[0], pool=owner[1])
        self.owner = GONE if job is None else Owner(job.kind, self.history.user, self.history.pool)
        self.chunks = chunks
        self.results = JobResults()
        self.touched = False
        self.needs: dict[int, tuple[int, ...]] = {}

    def need(self, group: int) -> Sequence[int]:
        if self.job is not None and group < len(self.job.groups):
            return self.job.groups[group].need
        return self.needs.get(group, ())

    def chunk_text(self) -> str:
        for group, chunk in self.results.changed:
            self.chunks.setdefault(group, set()).add(chunk)
        return ";".join(
            f"{group}:{ranges.spell_all(sorted(chunks))}" for group, chunks in sorted(self.chunks.items()) if chunks
        )


class _Step:
    """Reads what the facts of a step concern, applies them, and collects what is to be written."""

    def __init__(self, cell: "Cell", read: "Undigested", position: Position, now_ms: int) -> None:
        self.cell, self.read, self.now_ms = cell, read, now_ms
        self.ledger = Ledger(position, len(cell.dimensions), cell.digest.usage_hour)
        self.position = position
        self.jobs: dict[str, _Known] = {}
        self._machines: dict[int, Fact] = {}

    # Reading

    def _load(self, facts: "Sequence[Fact]") -> None:
        ids = {job_id for fact in facts if (job_id := job_of(fact.event)) is not None}
        ids |= {winner for fact in facts if isinstance(fact.event, End) and (winner := fact.event.winner)}
        wanted = sorted(ids)
        jobs, records = self.cell.jobs.by_id(wanted), self.cell.digest.histories(wanted)
        stored = {job_id: readable(History.unpack, record, None) for job_id, record in records.items()}
        owners = self.cell.digest.owners([job_id for job_id in wanted if job_id in jobs and stored.get(job_id) is None])
        chunks = self.cell.digest.result_records(wanted)
        for job_id in wanted:
            listed: dict[int, set[int]] = readable(res.listed_chunks, chunks.get(job_id, b""), {})
            self.jobs[job_id] = _Known(jobs.get(job_id), stored.get(job_id), owners.get(job_id, ("", "")), listed)
        self._load_chunks(facts)

    def _load_chunks(self, facts: "Sequence[Fact]") -> None:
        events = (fact.event for fact in facts)
        there = {place for event in events if isinstance(event, _OF_TASKS) for place in self._chunks_of(event)}
        records = self.cell.digest.result_records([field_of(*place) for place in sorted(there)])
        for job_id, group, chunk in there:
            known, record = self.jobs[job_id], records.get(field_of(job_id, group, chunk))
            if record and known.job is not None:
                base = known.job.submitted_ms
                read = partial(res.unpack_results, base_ms=base)
                known.results.chunks[group, chunk] = readable(read, record, [])

    def _chunks_of(self, event: TaskEvent | Fail) -> Iterator[tuple[str, int, int]]:
        known = self.jobs[event.job]
        if known.job is None:
            return
        groups = (event.group, event.group + 1) if event.word == "promote" else (event.group,)
        for first, last in ranges.spans(event.tasks):
            for number in groups:
                for chunk in known.chunks.get(number, set()).intersection(range(first // CHUNK, last // CHUNK + 1)):
                    yield event.job, number, chunk

    # Applying

    def take(self, facts: "Sequence[Fact]") -> None:
        """Apply the facts in their order."""
        self._load(facts)
        self._mind_gap(facts)
        conflicts = any(isinstance(fact.event, Conflict) for fact in facts)
        version = 0
        for fact in facts:
            if fact.version != version:
                version = fact.version
                self.ledger.move_to(fact.at_ms, self.now_ms)
            if (job_id := job_of(fact.event)) is not None:
                self._apply(fact, self.jobs[job_id], job_id)
            if conflicts and isinstance(fact.event, _OF_MACHINES):
                self._machines[fact.event.machine] = fact
        if self.read.to == self.read.newest:
            self.ledger.move_to(self.now_ms, self.now_ms)

    def _mind_gap(self, facts: "Sequence[Fact]") -> None:
        """Begin after a gap, if entries that were not read are no longer in the log."""
        position = self.position
        self.ledger.move_to(facts[0].at_ms if facts and not position.at_ms else position.at_ms, self.now_ms)
        self.ledger.begin()
        if self.read.first > position.version + 1:
            position.settled, position.since_order = Settled.NO, self.read.submissions
            position.levels.clear()

    def _apply(self, fact: "Fact", known: _Known, job_id: str) -> None:
        event = fact.event
        if isinstance(event, _OF_TASKS):
            if isinstance(event, End) and (winner := event.winner):
                self.jobs[winner].history.add_eviction(job_id, event.size)
                self.jobs[winner].touched = True
            self._count(event, known)
            if known.job is not None:
                reason = reason_of(event) if event.word in WITH_REASON else ""
                known.results.add(event, self.position.at_ms, known.history.reason(reason) if reason else 0)
        if known.job is None:
            return
        waited = not known.history.first_placed_ms
        known.history.add(fact, self._machines.get(event.machine) if isinstance(event, Conflict) else None)
        known.touched = known.touched or event.word not in UNIMPORTANT
        if waited and known.history.first_placed_ms:
            sums = self.ledger.sums(known.owner)
            sums[_WAITS] += 1
            sums[_WAITS + 1] += max(0, self.position.at_ms - known.job.submitted_ms)

    def _count(self, event: TaskEvent | Fail, known: _Known) -> None:
        """Count tasks of a group that were placed or ended."""
        word, group, count = event.word, event.group, event.size
        if word in ("left", "promote"):
            return
        if isinstance(event, Place):
            need: Sequence[int] = event.need
            known.needs[group] = event.need
            self.ledger.change(known.owner, need, count)
        elif isinstance(event, End):
            need = known.need(group)
            self.ledger.change(known.owner, need, -count)
            if not need and self.position.settled is Settled.YES:
                self.position.settled = Settled.DOUBTED
        self.ledger.sums(known.owner)[_COUNTED[event.how if isinstance(event, Outcome) else word]] += count

    # Writing

    def close(self) -> DigestStep:
        """Return what is to be written."""
        position, read = self.position, self.read
        self.ledger.close()
        if position.settled is not Settled.YES and read.to == read.newest:
            version, held = self.cell.digest.held()
            if version == read.to:
                position.levels = {owner: list(amounts) for owner, amounts in held.items()}
                position.settled = Settled.YES
        position.version = read.to
        hours = {number: hour.pack() for number, hour in self.ledger.hours.items()}
        jobs = [self._records(known.job, known) for known in self.jobs.values() if known.job and known.touched]
        oldest = self.now_ms // HOUR_MS - KEPT_HOURS
        return DigestStep(read, position.pack(), jobs, hours, oldest)

    def _records(self, job: "Job", known: _Known) -> JobRecords:
        packed = {
            field_of(job.id, *place): res.pack_results(known.results.chunks[place], job.submitted_ms)
            for place in sorted(known.results.changed)
        }
        return JobRecords(job.id, known.history.pack(), known.chunk_text(), packed)
