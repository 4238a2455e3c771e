"""The verification of a live cell, behind ``omega cell verify``.

It reads through the port alone and keeps its own books, independent of the store and its twin. Schedulers may commit
meanwhile: it checks the cell's state at one version (`invariants`), what follows from that (`derive`) and from the log
up to it (`fold`, and the rules here: what the facts say, the records have), and reports a violation of the state only
when further, independent readings show it too. The numbers are those of the invariants in ARCHITECTURE.md.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from omega.cellstate import ranges
from omega.cellstate.cell import Cell
from omega.cellstate.cuts import Cut, Cuts
from omega.cellstate.derive import Difference, differences, lives
from omega.cellstate.errors import BadInput
from omega.cellstate.fold import (
    COUNTS,
    UNKNOWN,
    Books,
    CommitBook,
    GroupBook,
    JobBook,
    MachineBook,
    PlacedClaim,
    canonical,
    exceeds,
    pool_place,
)
from omega.cellstate.invariants import GROUP_RULES, OF_MEMORY, RULES, Violation, groups_of
from omega.cellstate.logged_settings import terms_of
from omega.cellstate.model import Gang, Job, JobState, Limits, MachineState
from omega.cellstate.pools.records import digest, unpack_pool
from omega.cellstate.primary import Mail, Primary, Reading
from omega.cellstate.replies import Rows
from omega.cellstate.tasks import TaskLoss
from omega.cellstate.transaction import CONFLICTS, Verdict

SHOWN = 16
"""Bytes of a record that a violation shows."""
READINGS = 9
"""Maximum number of attempts at an exact reading before the cell counts as changing too fast."""
CONFIRMATIONS = 4
"""Readings that show a violation while the cell changes; two where nothing changed during the last one.

Large indexes are read key by key. A job that is placed and evicted all the time may by chance differ from its entry,
which was read a moment before, also twice in a row.
"""
CHUNK, FACTS = 250, 10_000
"""Versions of the log per read at most, and facts that a read should have at most: a version may place 5,000 tasks."""
MARGIN = 256
"""Number of versions skipped at the old end when the log is trimmed faster than its first chunk is read."""

Told = Callable[[str], object]
"""Called with what is being read or checked."""
ByPlace = dict[tuple[str, str], list[Violation]]
"""By rule and place."""
INDEXES, UNREADABLE = "indexes", "records_are_readable"
"""The rules of what follows from primary records, and of records that cannot be read."""
PROVEN_MS = 600_000
"""Time after which a placement resets the number of losses (semantics 26)."""
LogRule = Callable[[Primary, Books], Iterator[Violation]]
_OPEN = (JobState.ACTIVE, JobState.HELD)
_OF_JOBS = ("jobnames", "pending", "waiters", "housekeeping")
"""Indexes of which invariant 4 says what they hold."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a verification.

    `settled`: whether the cell could be read exactly; if not, only the log was checked. `version`: the checked version;
    `log_from_version`: the oldest version with checked facts.
    """

    checked: Mapping[str, int]
    """Number of checked machines, tasks (of all stored jobs), jobs and facts."""
    violations: tuple[Violation, ...]
    settled: bool
    version: int
    log_from_version: int
    evictions: Mapping[str, int] = field(default_factory=dict)
    """Number of eviction sets between pools in the log, and of those checked on the copy that they were decided on."""
    constraints: Mapping[str, int] = field(default_factory=dict)
    """Number of claims in the log for groups with constraints, and of those checked on their machine's attributes."""
    cuts: tuple[Cut, ...] = ()
    """Reports of versions that the store lost: the history before and after each is checked as one."""

    @property
    def ok(self) -> bool:
        """Whether every invariant holds; False also when the cell could not be read exactly."""
        return self.settled and not self.violations

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values, under the names of ``omega cell verify --json``."""
        return {
            "ok": self.ok,
            "checked": {name: self.checked[name] for name in ("machines", "tasks", "jobs")},
            "violations": [violation._asdict() for violation in self.violations],
            "settled": self.settled,
            "version": self.version,
            "log": {"from_version": self.log_from_version, "facts": self.checked["facts"]},
            "evictions": dict(self.evictions),
            "constraints": dict(self.constraints),
            "cuts": [cut.as_json() for cut in self.cuts],
        }


class Log:
    """Replays a cell's log; restarts when the log was trimmed during the reading."""

    def __init__(self, cell: Cell, told: Told = str, since: int = 0) -> None:
        """Begin with the oldest version in the log that is after `since`."""
        self.cell, self.told, self.since, self.margin = cell, told, since, 0
        self.chunk = 1
        self.unreadable: dict[tuple[str, str], str] = {}
        self.begin()

    def begin(self) -> None:
        """Restart, a margin after the oldest version once it was trimmed during the reading."""
        now = self.cell.log.changed_records(0, 0)
        oldest = now.first + self.margin if now.first > 1 else now.first
        first = min(max(oldest, self.since + 1), now.version + 1)
        self.at, self.floor = first - 1, self.cell.counters()["floor"]
        self.books = Books(len(self.cell.dimensions), first)

    def follow(self, to: int | None = None) -> bool:
        """Replay up to version `to`, or the newest; return False when facts were trimmed before they were read."""
        target = self.cell.log.changed_records(0, 0).version if to is None else to
        if target < self.at:
            return self.lose()
        while self.at < target:
            most = min(self.chunk, target - self.at)
            self.cell.unreadable.clear()
            facts = self.cell.log.facts(self.at, most)
            self.unreadable |= self.cell.unreadable
            if self.cell.log.changed_records(target, 0).first > self.at + 1:
                return self.lose()
            self.books.feed([fact for fact in facts if fact.version <= target])
            self.books.forget(self.floor)
            self.at += most
            self.chunk = max(1, min(CHUNK, self.chunk * FACTS // (len(facts) + FACTS // 2)))
            self.told(f"version {self.at:,} of {target:,} of the log")
        return True

    def lose(self) -> bool:
        """Restart with a larger margin."""
        self.margin = 2 * self.margin or MARGIN
        self.begin()
        return False


def verify(cell: Cell, told: Told = str, since: int = 0) -> Report:
    """Check every invariant on a cell, which schedulers may be changing. Raises StoreError.

    `told` is called with what is being read or checked. Facts up to version `since` are not checked.
    """
    collects = gc.isenabled()
    gc.disable()  # it would search millions of records that live as long as the verification
    try:
        return _verify(cell, told, since)
    finally:
        if collects:
            gc.enable()


def _verify(cell: Cell, told: Told, since: int) -> Report:
    if unusable := cell.log.unusable():
        wrong = tuple(Violation(6, what, f"{key} {name}".rstrip()) for key, name, what in unusable)
        return Report(dict.fromkeys(("machines", "tasks", "jobs", "facts"), 0), wrong, True, 0, 0)
    log = Log(cell, told, since)
    suspected, shown = ByPlace(), 0
    for _ in range(READINGS):
        looked = look(cell, log)
        if looked is None:
            continue
        reading, by_place = looked
        suspected = {key: each for key, each in by_place.items() if not shown or key in suspected}
        shown += 1
        if not suspected or shown >= (CONFIRMATIONS if reading.primary.aged else 2):
            return _report(reading.primary, log.books, suspected, settled=True, cuts=cell.cuts())
    unread = Primary(resources=tuple(cell.dimensions.names), version=log.at)
    return _report(unread, log.books, {}, settled=False, cuts=cell.cuts())


def look(cell: Cell, log: Log) -> tuple[Reading, ByPlace] | None:
    """Read the cell once and check it. None when it changes too fast to be read."""
    # The log is trimmed at its old end, so that end is read before the cell.
    if not log.follow():
        return None
    cell.unreadable.clear()
    reading = cell.log.read_records(log.told)
    if reading is None or not log.follow(reading.primary.version):
        return None
    log.told("rules")
    damaged = [Violation(6, what, f"{key} {name}".rstrip()) for key, name, what in reading.primary.damaged]
    damaged += [Violation(6, what, f"{key} {name}") for (key, name), what in log.unreadable.items()]
    by_place = check(reading, log.books)
    _apply(by_place, UNREADABLE, damaged)
    return reading, by_place


def check(reading: Reading, books: Books) -> ByPlace:
    """Apply every rule to a cell, its indexes and the log up to its version; return violations by rule, place."""
    by_place: ByPlace = {}
    primary = reading.primary
    whole = reading.kept is None
    for rule in RULES if whole else OF_MEMORY:
        _apply(by_place, rule.__name__, rule(primary))
    for group in groups_of(primary):
        for group_rule in GROUP_RULES:
            _apply(by_place, group_rule.__name__, group_rule(primary, group))
    _apply(by_place, INDEXES, map(_violation, differences(reading)))
    for log_rule in LOG_RULES if whole else LOG_RULES_OF_MEMORY:
        _apply(by_place, log_rule.__name__, log_rule(primary, books))
    return by_place


def _violation(difference: Difference) -> Violation:
    """Return a difference between an index and primary records as a violation."""
    key, name, expected, stored = difference
    if stored is None:
        what = f"is not there, by the records it is {_said(expected)}"
    elif expected is None:
        what = f"is {_said(stored)}, and no record gives it"
    else:
        what = f"is {_said(stored)}, by the records {_said(expected)}"
    return Violation(4 if key.partition(":")[0] in _OF_JOBS else 6, what, f"{key} {name.decode(errors='replace')}")


def _said(value: bytes | float | None) -> str:
    """Return a stored value for a person: text in quotes, else its first bytes and their number."""
    if isinstance(value, (int, float)):
        return f"{value:.15g}"
    text = (value or b"").decode(errors="replace")
    return repr(text) if text.isprintable() else f"{(value or b'')[:SHOWN].hex(' ')}… ({len(value or b'')} bytes)"


def _apply(by_place: ByPlace, rule: str, violations: Iterable[Violation]) -> None:
    """Add a rule's violations; a record that the rule cannot interpret is a violation as well."""
    try:
        for violation in violations:
            by_place.setdefault((rule, violation.where), []).append(violation)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        what = f"the rule {rule} meets a record that it cannot read: {error}"
        by_place.setdefault((rule, "cell"), []).append(Violation(6, what, "cell"))


def _report(primary: Primary, books: Books, by_place: ByPlace, *, settled: bool, cuts: Cuts) -> Report:
    checked = {
        "machines": sum(row[2] != MachineState.GONE for row in primary.rows.values()),
        "tasks": sum(group.total for job in primary.jobs.values() for group in job.groups),
        "jobs": len(primary.jobs),
        "facts": books.facts,
    }
    distinct = {violation for violations in by_place.values() for violation in violations} | set(books.violations)
    in_order = sorted(distinct, key=lambda v: (v.invariant, v.where, v.what))
    evictions = {"sets": books.sets, "checked": books.checked_sets}
    constraints = claims_with_constraints(primary, books)
    version = primary.version
    return Report(checked, tuple(in_order), settled, version, books.start, evictions, constraints, tuple(cuts.kept))


# What follows from the log: a book has its values under the names of a record's


def _differ(where: str, numbers: Mapping[str, int], book: object, has: Mapping[str, Any]) -> Iterator[Violation]:
    """Compare the values of a record with what the log says; `numbers`: the invariants, of others 4."""
    for name, value in has.items():
        known = getattr(book, name)
        if known is not None and known != value:
            what = f"its {name} {'are' if name.endswith('s') else 'is'} {_named(value)}, by the log {_named(known)}"
            yield Violation(numbers.get(name, 4), what, where)


def _named(value: Any) -> str:
    return value.name.lower() if isinstance(value, IntEnum) else repr(value)


_OF_MACHINES = {
    "number": 3, "state": 1, "capacity": 1, "allocated": 1, "name": 6, "executor": 6, "attributes": 6, "tree": 6,
}  # fmt: skip


def machines_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """1, 3, 6: a machine is as its last facts leave it, and none is without facts.

    It has no more allocated than its capacity, unless it came back smaller and took nothing since.
    """
    executors, unknown = {number: name for name, number in p.executors.items()}, MachineBook()
    for index in p.rows.keys() - books.machines.keys() if books.complete else ():
        yield Violation(3, "never joined by the log", f"machine {index}")
    for index in books.machines.keys() - p.rows.keys():
        yield Violation(3, "is in the log and not in the cell", f"machine {index}")
    for index, row in p.rows.items():
        where, book = f"machine {index}", books.machines.get(index, unknown)
        (capacity, allocated), (name, pairs) = p.amounts(row), p.described.get(index, ("", ()))
        has: dict[str, Any] = {"number": row[1], "state": row[2], "capacity": capacity, "allocated": allocated}
        has |= {"name": name, "attributes": dict(pairs)}
        if executors:
            has["executor"] = executors.get(row[3])
        if index in p.trees:
            has["tree"] = "-" if p.trees[index] is None else str(p.trees[index])
        yield from _differ(where, _OF_MACHINES, book, has)
        if book is not unknown and book.name is None and books.complete:
            yield Violation(6, "is in the cell, and no fact says that it joined", where)
        # It may have come back smaller before the remaining log begins.
        known = books.complete or book.capacity is not None
        if known and book.over is False and exceeds(allocated, capacity):
            what = f"{list(allocated)} allocated of {list(capacity)}, and it did not come back smaller"
            yield Violation(1, what, where)
        if book.peak is not None and exceeds(book.peak, capacity):
            yield Violation(1, f"placements left {list(book.peak)} allocated of {list(capacity)}", where)


def changes_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """3: an entry of the change list has the machines that the facts of its version changed, as they were then."""
    facts = dict(books.touched)
    executors = np.array([*(p.executors.get(name, -1) for name in books.executors), -1], np.int64)
    for version, _, rows, _ in p.changes:
        if (numbers := facts.get(version)) is None:
            continue
        said, listed = (_last_rows(each) for each in (np.array(numbers).reshape(-1, rows.shape[1]), rows))
        if listed[:, 0].tolist() != said[:, 0].tolist():
            what = f"has the machines {listed[:, 0].tolist()}, the facts of its version name {said[:, 0].tolist()}"
            yield Violation(3, what, f"changes {version}")
            continue
        at = np.where(said[:, 3] == UNKNOWN, -1, said[:, 3])
        said[:, 3] = np.where(at < 0, UNKNOWN, executors[at])
        for other in np.flatnonzero(((said != UNKNOWN) & (said != listed)).any(axis=1)).tolist():
            known = [None if each == UNKNOWN else each for each in said[other].tolist()]
            what = f"has machine {known[0]} as {listed[other].tolist()}, by the facts {known}"
            yield Violation(3, what, f"changes {version}")


def _last_rows(rows: Rows) -> Rows:
    """Return the last row of each machine, by index."""
    backwards = rows[::-1]
    return backwards[np.unique(backwards[:, 0], return_index=True)[1]]


def placements_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """5: running and leaving tasks are exactly those placed less those ended."""
    for placement, book in books.placements.unlike(p.runs):
        runs, where = p.runs.at(placement), f"placement {placement}"
        if any((run.machine, run.job, run.group) != book.owner for run in runs):
            yield Violation(5, f"is not on the machine, job and group {book.owner} of the log", where)
        live, leaving = ([run.tasks for run in runs if run.leaving == leaves] for leaves in (False, True))
        if book.tasks is None:
            for tasks in live:
                back = ranges.split(canonical(tasks), book.gone)[0]
                if back != ranges.EMPTY:
                    yield Violation(5, f"tasks {back} ended and run again under this id", where)
            continue
        for word, known, now in (("run", book.tasks, live), ("leave", book.leaving, leaving)):
            text = now[0] if now else ranges.EMPTY
            if text != known and canonical(text) != canonical(known):
                yield Violation(5, f"tasks {text} {word}, by the log {known}", where)
    if (first := books.first_placement) is not None:
        for placement in books.placements.missing(p.runs.placement[p.runs.placement >= first]):
            yield Violation(5, "is on a machine and not in the log, or ended there", f"placement {placement}")
    if books.last_placement not in (None, p.placements):
        what = f"the last id given out is {p.placements}, in the log {books.last_placement}"
        yield Violation(5, what, "placements")


def messages_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """6: a message starts the tasks of its placement, or ends some of them."""
    for executor, mails in p.mailboxes.items():
        for mail in mails:
            for what in _unlike_placement(p, books, mail):
                yield Violation(6, f"has a message about placement {mail.placement} {what}", f"box:{executor}")


def _unlike_placement(p: Primary, books: Books, mail: Mail) -> Iterator[str]:
    book, tasks = books.placements.get(mail.placement), canonical(mail.tasks)
    known = None if book is None else book.placed
    if known is None:
        runs = [run.tasks for run in p.runs.at(mail.placement) if run.machine == mail.machine]
        running = canonical(",".join(runs)) if runs else ranges.EMPTY
        if mail.job and ranges.split(running, tasks)[1] != ranges.EMPTY:
            yield f"of tasks {mail.tasks}, and tasks {running} are on its machine"
    elif mail.job and tasks != canonical(known):
        yield f"of tasks {mail.tasks}, by the log {known}"
    elif ranges.split(canonical(known), tasks)[0] != tasks:
        yield f"that ends tasks {mail.tasks}, by the log {known} were placed"


def jobs_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """1, 4, 6: a job is as its facts leave it; one that is not kept has nothing left, and no update."""
    ends = dict(p.done)
    for job_id, book in books.jobs.items():
        where, job = f"job {job_id}", p.jobs.get(job_id)
        if job is not None:
            yield from _differ(where, {"update": 6}, book, _had_by(job, book, p.updates.get(job_id, "")))
            for what in _unlike(job, book):
                yield Violation(4, what, where)
            if book.ended is not None and ends.get(job_id, book.ended) != book.ended:
                what = f"ended in version {ends[job_id]} by the list, in {book.ended} by the log"
                yield Violation(6, what, where)
        elif book.version is not None and (book.unplaced or book.placed):
            what = f"is not kept, with {book.unplaced} tasks unplaced and {book.placed} placed"
            yield Violation(4, what, where)
    for job_id in p.updates.keys() - p.jobs.keys():
        known = books.jobs.get(job_id)
        if known.update == "" if known is not None else books.complete:
            yield Violation(6, "is updated, by the log no job of that id is", f"job {job_id}")


def _had_by(job: Job, book: JobBook, update: str) -> dict[str, Any]:
    """Return what a record has of the values that the log says; ``groups``: what never changes of each."""
    has: dict[str, Any] = {
        "order": job.order, "gate": job.gate, "released": job.released, "update": update,
        "groups": tuple(map(terms_of, job.groups)),
    }  # fmt: skip
    if book.groups is not None:  # an entry that does not describe a job says nothing of its gang either
        has["gang"] = int(job.gang), job.gang_min
    if not lives(job):
        has["state"] = job.state
    if book.version is None:
        return has
    if job.state is JobState.HELD:
        has["waits"] = {wait.job for wait in job.after}
    return has | {
        "name": job.name, "kind": job.kind, "precedence": job.precedence, "submitted_ms": job.submitted_ms,
        "submitter": job.submitter, "begun": job.begun,
        "counts": tuple(sum(getattr(group, name) for group in job.groups) for name in COUNTS),
        "indices": sum(group.indices for group in job.groups if not group.copies),
    }  # fmt: skip


def _unlike(job: Job, book: JobBook) -> Iterator[str]:
    """Yield what of a job does not follow from its facts, beside equal values."""
    if book.surely and job.modified not in book.modified:
        yield f"its modify index is {job.modified}, and people changed it in versions {sorted(book.modified)}"
    if book.held is False and job.held:
        yield "is held, and was released by a person"
    if book.version is None:
        return
    if book.held and job.state in _OPEN and not job.held:
        yield "was held by a person and is not held"
    if book.ended is None and not lives(job):
        yield f"is {job.state.name.lower()} with nothing left, and no fact says that it is done"
    if strange := {wait.job for wait in job.after} - book.waits_ever:
        yield f"waits for {sorted(strange)}, which the log does not have"
    if job.awaited and not book.awaited:
        yield "is awaited, by the log by no job"


def groups_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """1, 4: a group has the need and the total of its facts, and the delayed, lost and failed tasks since its start.

    Losses are counted since the last placement that ran long enough. A group of copies has none: its entries name the
    originals.
    """
    for (job_id, number), said in books.groups.items():
        if job_id in p.jobs and number >= len(p.jobs[job_id].groups) and said.job is books.jobs[job_id]:
            yield Violation(4, "is in the log and not in the job", f"job {job_id} group {number}")
    proven = max((last for at, last in p.ticks if at <= p.now_ms - PROVEN_MS), default=0)
    for job_id, job in p.jobs.items():
        if (book := books.jobs.get(job_id)) is None:
            continue
        for number, group in enumerate(job.groups):
            known, where = books.groups.get((job_id, number)), f"job {job_id} group {number}"
            said = known if known is not None and known.job is book else GroupBook(book)
            yield from _differ(where, {"need": 1}, said, {"need": group.need, "total": group.total})
            if said.dropped and not group.optional:
                yield Violation(4, "has tasks dropped, and is not optional", where)
            if not book.live:
                continue
            now = ranges.EMPTY
            for loss in group.losses:
                now = ranges.add(now, loss.tasks) if loss.due_ms else now
            if said.delayed not in (None, now):
                yield Violation(4, f"tasks {now} are delayed, by the log {said.delayed}", where)
            for what in _miscounted(said.returned, () if group.copies else group.losses, proven):
                yield Violation(4, what, where)


def _miscounted(returned: Sequence[tuple[str, str, int]], losses: Sequence[TaskLoss], proven: int) -> Iterator[str]:
    """Yield what is wrong with the numbers of losses and of retried failures of tasks.

    Placements up to `proven` may have reset both, however they ended.
    """
    least, most = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for how, tasks, placement in returned if losses else ():
        for task in ranges.indices(tasks):
            if placement <= proven:
                least["lost", task] = least["retried", task] = 0
            most[how, task] += 1
            least[how, task] += 1
    for loss in losses:
        for how, times in (("lost", loss.times), ("retried", loss.retried.failures)):
            of = [(how, task) for task in ranges.indices(loss.tasks)]
            if wrong := next((each for each in of if not least[each] <= times <= most[each]), None):
                what = f"from {least[wrong]} to {most[wrong]}"
                yield f"task {wrong[1]} was {how} {times} times, by the log {what} times"


def gangs_commit_whole(p: Primary, books: Books) -> Iterator[Violation]:
    """2: a gang's transaction leaves nothing unplaced; one evicted member of a strict gang takes all with it.

    One of a gang with a minimum leaves as many placed; evictions leave as many of a strict one, or none.
    """
    for job_id, book in books.jobs.items():
        job, where = p.jobs.get(job_id), f"gang {job_id}"
        if job is None or job.gang is Gang.NO:
            continue
        optional, least, known = any(group.optional for group in job.groups), job.gang_min, book.version is not None
        # Without its submission the facts only give changes of the count; the current count is its end.
        start = 0 if known else job.unplaced - book.unplaced
        left = max(book.left[1] + start, -(book.left[0] + start)) if book.left is not None else 0
        if left and not optional and not least:
            yield Violation(2, f"a transaction placed some of its tasks and left {left} unplaced", where)
        if known and not optional and book.fewest is not None and book.fewest < least:
            what = f"a transaction left {book.fewest} of its tasks placed, of at least {least}"
            yield Violation(2, what, where)
        torn = [placed for placed in book.torn if placed and (not least or placed < least)]
        if known and torn and job.gang is Gang.STRICT:
            yield Violation(2, f"a transaction evicted some of its tasks and left {max(torn)} placed", where)


def victims_are_lower(p: Primary, books: Books) -> Iterator[Violation]:
    """5: victims of jobs submitted before the log, or ended before, have strictly lower precedence by their records."""

    def precedence(job_id: str) -> int | None:
        known, job = books.jobs[job_id].precedence, p.jobs.get(job_id)
        return known if known is not None or job is None else job.precedence

    for version, placement, victim, evictor, group in books.undecided:
        low, high, job = precedence(victim), precedence(evictor), p.jobs.get(victim)
        if group is not None and (job is None or (job.groups[group : group + 1] and job.groups[group].optional)):
            low = None if job is None else 0
        if low is not None and high is not None and low >= high:
            what = f"precedence {low} of job {victim} gave way to {high} of {evictor} (version {version})"
            yield Violation(5, what, f"placement {placement}")


def queues_are_in_order(p: Primary, books: Books) -> Iterator[Violation]:
    """4: arrivals rise with the versions in which jobs arrived."""
    earliest = 0
    for job_id, arrival in sorted(p.arrivals.items(), key=lambda each: each[1]):
        book = books.jobs.get(job_id)
        if book is not None and book.version is not None:
            if book.arrived[1] < earliest:
                yield Violation(4, f"its arrival {arrival} is after that of jobs that came later", f"job {job_id}")
            earliest = max(earliest, book.arrived[0])


def settings_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """6: members, limits of kinds, pools, trees and the published epoch are those that the log names last."""
    said, has = dict(books.settings), _settings_of(p)
    said["meta jobs"], said["meta incarnations"] = books.submissions, books.incarnation
    said["pools field next"] = max(books.pools, default=0) + 1
    if not books.complete or p.counters["floor"] > 0:  # a restored cell has its counters set ahead
        for name in ("meta jobs", "meta incarnations", "pools field next"):
            said[name] = max(said[name], has[name])
    if any(damage.key == "pools" for damage in p.damaged):
        said, has = ({at: each for at, each in some.items() if at[:4] != "pool"} for some in (said, has))
    if "pools of the epoch" not in said:
        has.pop("pools of the epoch", None)
    for where in said.keys() | (has.keys() if books.complete else ()):
        known, now = said.get(where), has.get(where)
        if known != now:
            # Another incarnation at the next reading is another violation.
            place = f"{where} ({now})" if where.startswith("member") else where
            yield Violation(6, f"is {now}, by the log {known}", place)


def _settings_of(p: Primary) -> dict[str, Any]:
    """Return what the records have of the values that `Books.settings` has, without those that are not set."""
    has: dict[str, Any] = {f"member {name}": incarnation for name, incarnation in p.members.items()}
    has |= {f"meta {name}": p.counters[name] for name in ("jobs", "incarnations")}
    has |= {f"kind {kind}": limits for kind, limits in p.limits.items() if limits != Limits((None,) * p.size)}
    for name, data in p.pools.items():
        if name[0] == "p":
            has[pool_place(int(name[1:]))] = unpack_pool(data).name, digest(data)
    if p.pools.get("trees"):
        has["pool trees"] = digest(p.pools["trees"])
    has["pools"], has["pools field next"] = int(p.pools.get("version", b"0")) or None, int(p.pools.get("next", b"1"))
    if p.epoch is not None and p.epoch_totals is not None:
        has["epoch"], has["pools of the epoch"] = tuple(p.epoch), p.epoch_totals[0]
    return has


def answers_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """6: a scheduler's stored answer has the outcomes that the log has of the version with the answer's tag."""
    versions = {change.tag: change.version for change in p.changes}
    oldest = max(min(versions.values(), default=p.version + 1), books.start)
    for member, (tag, outcomes) in p.answers.items():
        said, version = books.commits.get(member), versions.get(tag, 0)
        if said is None or max(said.version, version) < oldest:
            continue
        if version < said.version:
            what = f"its last call is that of tag {tag!r}, and it committed in version {said.version}"
            yield Violation(6, what, f"schedulers {member}")
        elif what := _unlike_facts(outcomes, said if version == said.version else CommitBook(version=version)):
            yield Violation(6, f"its last answer {outcomes!r} {what} (version {version})", f"schedulers {member}")


def _unlike_facts(outcomes: str, said: CommitBook) -> str:
    """Return how the outcomes of a call contradict its facts, "" when they do not."""
    parts = [part for part in outcomes.split(";") if part]
    pairs = [[tuple(map(int, pair.split(" "))) for pair in part.split(",")] for part in parts if part != "+"]
    verdicts = Counter(Verdict(verdict) for part in pairs for _, verdict in part)
    refused = Counter({v: n for v, n in verdicts.items() if v in CONFLICTS or v is Verdict.ABORTED})
    rejected = verdicts.total() - refused.total() - verdicts[Verdict.PLACED]
    if (refused, rejected) != (said.verdicts, said.rejected):
        return "has other refusals than the log"
    whole, placed = parts.count("+"), [sum(count for count, _ in part) for part in pairs]
    if sum(placed) > said.tasks or (sum(placed) < said.tasks and not whole):
        return f"has {sum(placed)} tasks placed, by the log {said.tasks}"
    if whole + sum(map(bool, placed)) != said.blocks:
        return f"has another number of transactions that placed tasks than the log, which has {said.blocks}"
    return ""


def constraints_hold(p: Primary, books: Books) -> Iterator[Violation]:
    """7: tasks are placed on machines that satisfy the constraints of their group."""
    satisfying: dict[str, frozenset[int]] = {}
    for claim, texts in _checkable(p, books):
        for text in texts:
            if text not in satisfying:
                satisfying[text] = _machines_with(p, text)
            if claim.machine not in satisfying[text]:
                what = f"was placed on machine {claim.machine} ({p.described[claim.machine][0]})"
                what = f"{what}, which does not satisfy {text} (version {claim.version})"
                yield Violation(7, what, f"job {claim.job} group {claim.group}")


def claims_with_constraints(p: Primary, books: Books) -> dict[str, int]:
    """Return the number of claims in the log for groups with constraints, and of those that can be checked."""
    return {"claims": sum(1 for _ in _demanding(p, books)), "checked": sum(1 for _ in _checkable(p, books))}


def _demanding(p: Primary, books: Books) -> Iterator[tuple[PlacedClaim, Sequence[str]]]:
    for claim in books.claims:
        job, submitted = p.jobs.get(claim.job), books.jobs[claim.job].version
        texts = () if job is None else constraints_of(job, claim.group)
        if texts and (submitted is None or claim.version > submitted):
            yield claim, texts


def _checkable(p: Primary, books: Books) -> Iterator[tuple[PlacedClaim, Sequence[str]]]:
    """Yield the claims that were decided on the present attributes of their machines."""
    for claim, texts in _demanding(p, books):
        if claim.machine in p.described and claim.since >= max(
            books.start - 1, books.machines[claim.machine].described
        ):
            yield claim, texts


def constraints_of(job: Job, group: int) -> Sequence[str]:
    """Return the constraints of a group that must hold."""
    groups = job.spec.get("groups")
    said = groups[group] if isinstance(groups, list) and group < len(groups) else None
    texts = said.get("constraints") if isinstance(said, Mapping) else None
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list | tuple) else ()


def _machines_with(p: Primary, text: str) -> frozenset[int]:
    """Return the machines that satisfy a constraint; none satisfies an invalid one."""
    from omega.cellstate.attributes import Attributes  # noqa: PLC0415 - most audits meet no constraint
    from omega.cellstate.constraints.evaluation import holds  # noqa: PLC0415 - as above

    indices, attributes = list(p.described), Attributes()
    attributes.resize(len(indices))
    attributes.learn(range(len(indices)), list(p.described.values()))
    try:
        found = holds(text, attributes)
    except BadInput:
        return frozenset()
    return frozenset(index for index, good in zip(indices, found.tolist(), strict=True) if good)


LOG_RULES_OF_MEMORY: tuple[LogRule, ...] = (
    machines_follow_from_log, placements_follow_from_log, jobs_follow_from_log, groups_follow_from_log,
    gangs_commit_whole, victims_are_lower, constraints_hold,
)  # a table # fmt: skip
"""Those rules about the log for which a cell in memory has the records."""
LOG_RULES = (
    *LOG_RULES_OF_MEMORY, changes_follow_from_log, messages_follow_from_log, queues_are_in_order,
    settings_follow_from_log, answers_follow_from_log,
)  # a table # fmt: skip
