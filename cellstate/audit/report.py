"""The verification of a live cell, behind ``omega cell verify``.

It reads through the port alone and keeps its own books, independent of the store and its twin. Schedulers may commit
meanwhile: it checks the cell's state at one version (`reading`) and the log up to it (`replay`), and reports a
violation of the state only when further, independent readings show it too.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.audit.directories import DIRECTORIES
from omega.cellstate.audit.reading import CellState, Told, read
from omega.cellstate.audit.register import CommitFacts, JobBook, PlacementBook, canonical, counts_of, exceeds
from omega.cellstate.audit.replay import Replay
from omega.cellstate.audit.rules import RULES, Violation
from omega.cellstate.cuts import Cut, Cuts
from omega.cellstate.inspection import Damage, Inspection, Mail
from omega.cellstate.logged_settings import terms_of
from omega.cellstate.model import Gang, Job, JobState, MachineState
from omega.cellstate.ports import Audited
from omega.cellstate.tasks import DOWN_DUE
from omega.cellstate.transaction import CONFLICTS, Verdict

# Comparison of the replayed log with the cell (invariants 1 to 5), each rule a function.
#
# A book has a record's expected values after the last fact; a cell state at the same version has its actual values.

Comparison = Callable[[CellState, Replay], Iterator[Violation]]


def numbers_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """3: a machine's number is the one of its last fact, and no machine is without a fact."""
    for index, row in cell_state.rows.items():
        book = replay.machines.get(index)
        if book is None:
            if replay.complete:
                yield Violation(3, "never joined by the log", f"machine {index}")
        elif book.number is not None and book.number != row[1]:
            yield Violation(3, f"its number is {row[1]}, after its last fact it was {book.number}", f"machine {index}")
    for index in replay.machines.keys() - cell_state.rows.keys():
        yield Violation(3, "is in the log and not in the cell", f"machine {index}")


def records_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """1: a machine's amounts, capacity and state are those of its last facts."""
    for index, book in replay.machines.items():
        row = cell_state.rows.get(index)
        if row is None:
            continue
        capacity, amounts = cell_state.amounts(row)
        for word, known, now in (
            ("allocated", book.amounts, amounts),
            ("capacity", book.capacity, capacity),
            ("state", book.state, row[2]),
        ):
            if known is not None and known != now:
                yield Violation(1, f"its {word} is {now}, after its last fact it was {known}", f"machine {index}")


def needs_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """1: a task takes what the facts of its placements say."""
    stated = ((job_id, *each) for job_id, needs in replay.needs.known.items() for each in needs.items())
    for job_id, number, need in stated:
        job, group = cell_state.jobs.get(job_id), int(number)
        if job and group < len(job.groups) and job.groups[group].need != need:
            what = f"takes {list(job.groups[group].need)} a task, by the log {[int(amount) for amount in need]}"
            yield Violation(1, what, f"job {job_id} group {group}")


def nothing_is_over(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """1: no machine has more allocated than its capacity, unless it came back smaller and took nothing since."""
    for index, row in cell_state.rows.items():
        capacity, amounts = cell_state.amounts(row)
        book = replay.machines.get(index)
        if exceeds(amounts, capacity):
            # It may have come back smaller before the remaining log begins.
            trimmed = not replay.complete and (book is None or book.capacity is None)
            if not trimmed and (book is None or book.over is False):
                what = f"{list(amounts)} allocated of {list(capacity)}, and it did not come back smaller"
                yield Violation(1, what, f"machine {index}")
        if book is not None and book.peak is not None and exceeds(book.peak, capacity):
            what = f"placements left {list(book.peak)} allocated of {list(capacity)}"
            yield Violation(1, what, f"machine {index}")


def placements_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """5: running and leaving tasks are exactly those placed less those ended."""
    for placement, book in replay.placements.items():
        runs = cell_state.by_placement.get(placement, ())
        where = f"placement {placement}"
        if any((str(run.machine), run.job, str(run.group)) != book.owner for run in runs):
            yield Violation(5, f"is not on the machine, job and group {book.owner} of the log", where)
        live = [run.tasks for run in runs if not run.leaving]
        if book.tasks is None:
            for tasks in live:
                back = ranges.split(canonical(tasks), book.gone)[0]
                if back != ranges.EMPTY:
                    yield Violation(5, f"tasks {back} ended and run again under this id", where)
            continue
        leaving = [run.tasks for run in runs if run.leaving]
        for word, known, tasks_now in (("run", book.tasks, live), ("leave", book.leaving, leaving)):
            now = tasks_now[0] if tasks_now else ranges.EMPTY
            if now != known and canonical(now) != canonical(known):
                yield Violation(5, f"tasks {now} {word}, by the log {known}", where)
    first = replay.first_placement
    for placement in cell_state.by_placement.keys() - replay.placements.keys():
        if first is not None and placement >= first:
            yield Violation(5, "is on a machine and not in the log, or ended there", f"placement {placement}")
    if replay.last_placement is not None and replay.last_placement != cell_state.placements:
        what = f"the last id given out is {cell_state.placements}, in the log {replay.last_placement}"
        yield Violation(5, what, "placements")


def counts_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """4: the counts of a job submitted within the log follow from its facts."""
    for job_id, book in replay.jobs.items():
        if not book.known:
            continue
        expected = counts_of(book)
        job = cell_state.jobs.get(job_id)
        if job is None:
            if book.unplaced or book.placed:
                what = f"is not kept, with {book.unplaced} tasks unplaced and {book.placed} placed"
                yield Violation(4, what, f"job {job_id}")
            continue
        now = tuple(map(sum, zip(*map(counts_of, job.groups), strict=True)))
        if now != expected:
            what = f"unplaced, placed, finished, failed, stopped are {now}, by the log {expected}"
            yield Violation(4, what, f"job {job_id}")
        if book.precedence != job.precedence:
            yield Violation(4, f"its precedence is {job.precedence}, submitted {book.precedence}", f"job {job_id}")


def gangs_commit_whole(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """2: a gang's transaction leaves nothing unplaced; one evicted member of a strict gang takes all with it.

    One of a gang with a minimum leaves as many placed; evictions leave as many of a strict one, or none.
    """
    for job_id, book in replay.jobs.items():
        job = cell_state.jobs.get(job_id)
        if job is None or job.gang is Gang.NO:
            continue
        optional = any(group.optional for group in job.groups)
        left = 0 if optional or job.gang_min else _left_unplaced(job, book)
        if left:
            yield Violation(2, f"a transaction placed some of its tasks and left {left} unplaced", f"gang {job_id}")
        few, least = book.fewest, job.gang_min
        if book.known and not optional and few is not None and few < least:
            yield Violation(2, f"a transaction left {few} of its tasks placed, of at least {least}", f"gang {job_id}")
        torn = [placed for placed in book.torn if placed and (not least or placed < least)]
        if book.known and torn and job.gang is Gang.STRICT:
            what = f"a transaction evicted some of its tasks and left {max(torn)} placed"
            yield Violation(2, what, f"gang {job_id}")


def _left_unplaced(job: Job, book: JobBook) -> int:
    if book.least is None or book.most is None:
        return 0
    # Without its submission the facts only give changes of the count; the current count is its end.
    start = 0 if book.known else job.unplaced - book.unplaced
    return max(book.most + start, -(book.least + start))


def victims_are_lower(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """5: victims of jobs submitted before the log, or ended before, have strictly lower precedence by their records."""

    def precedence(job_id: str) -> int | None:
        book, job = replay.jobs.get(job_id), cell_state.jobs.get(job_id)
        if book is not None and book.known:
            return book.precedence
        return None if job is None else job.precedence

    for version, placement, victim, evictor, group in replay.undecided:
        low, high, job = precedence(victim), precedence(evictor), cell_state.jobs.get(victim)
        if group is not None and (job is None or (job.groups[group : group + 1] and job.groups[group].optional)):
            low = None if job is None else 0
        if low is not None and high is not None and low >= high:
            what = f"precedence {low} of job {victim} gave way to {high} of {evictor} (version {version})"
            yield Violation(5, what, f"placement {placement}")


def delays_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """4: the delayed tasks of a live job that was submitted in the log are those of its facts."""
    for job_id in replay.losses.known & cell_state.jobs.keys():
        for number, group in enumerate(cell_state.jobs[job_id].groups):
            expected = replay.losses.delayed.get((job_id, str(number)), ranges.EMPTY)
            now = ranges.EMPTY
            for loss in group.losses:
                if loss.due_ms:
                    now = ranges.add(now, loss.tasks)
            if expected is not None and now != expected:
                yield Violation(4, f"tasks {now} of group {number} are delayed, by the log {expected}", f"job {job_id}")


def sets_were_legal_when_decided(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """5: evictions between pools were legal on what their scheduler saw."""
    known = {name: job for name, job in cell_state.jobs.items() if name not in cell_state.bare}
    for what, where in replay.decisions.check(known):
        yield Violation(5, what, where)


def constraints_hold(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """7: tasks are placed on machines that satisfy the constraints of their group."""
    for what, where in replay.constraints.check(cell_state.jobs, cell_state.described):
        yield Violation(7, what, where)


COMPARISONS: tuple[Comparison, ...] = (
    numbers_follow_from_log, records_follow_from_log, needs_follow_from_log, nothing_is_over,
    placements_follow_from_log, counts_follow_from_log, gangs_commit_whole, victims_are_lower, delays_follow_from_log,
    sets_were_legal_when_decided, constraints_hold,
)  # a table # fmt: skip

# Values that have a second source, each compared with it: a record, the log, or the server's clock.
#
# Each function names what a value is derived from. Messages, answers and times of housekeeping are written once and
# read
# by other processes: a wrong one misleads them, and no count shows it.

Source = Callable[[Inspection, CellState, Replay], Iterator[Violation]]

LONGEST_MS, LONGEST_RETRY_MS = 300_000, 3_600_000
"""Maximum delay of a lost task, and of one that failed and is retried (semantics 26)."""
LONGEST_GRANT_MS = 86_400_000
"""Maximum time of a grant, if the health commands of its job do not take longer."""


def attributes_follow_from_log(inspection: Inspection, _: CellState, replay: Replay) -> Iterator[Violation]:
    """6: a machine's attributes are those that the entry of its last change has beside its facts."""
    for index, entry in replay.register.machines.items():
        now = dict(inspection.described.get(index, ("", ()))[1])
        if entry.attributes is not None and entry.attributes != now:
            what = f"has the attributes {now}, after its last fact {dict(entry.attributes)}"
            yield Violation(6, what, f"machine {index}")


def indices_follow_from_log(_: Inspection, cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """4: a job's groups gave out as many indices as tasks were submitted and added since."""
    for job in cell_state.jobs.values():
        entry = replay.register.jobs.get(job.id)
        given = sum(group.indices for group in job.groups if not group.copies)
        told = 0 if entry is None else entry.indices + sum(entry.grown.values())
        if entry is not None and entry.submitted is not None and given != told:
            yield Violation(4, f"has given out {given} indices, by the log {told}", f"job {job.id}")


def terms_follow_from_log(_: Inspection, cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """4: a gang is one as submitted; duration, budget and the kind of each group are as submitted, or as updated."""
    for job in cell_state.jobs.values():
        entry = replay.register.jobs.get(job.id)
        if entry is None or entry.terms is None:
            continue
        gang, terms = (int(job.gang), job.gang_min), tuple(map(terms_of, job.groups))
        if gang != entry.gang:
            what = f"its gang is {gang} (form, minimum), by the log {entry.gang}"
            yield Violation(4, what, f"job {job.id}")
        if terms != entry.terms:
            what = f"its groups have {terms} (duration, budget, optional), by the log {entry.terms}"
            yield Violation(4, what, f"job {job.id}")


# Housekeeping


def due_of(job: Job) -> float | None:
    """Return when housekeeping is to act on a job, by its record: 0 is at once, None: it may be left alone."""
    placed = any(group.placed for group in job.groups)
    ended = job.state not in (JobState.ACTIVE, JobState.HELD) and not placed and not job.unplaced
    if (job.state is JobState.STOPPED and placed) or (job.awaited and ended):
        return 0
    due = [loss.due_ms for group in job.groups for loss in group.losses if loss.due_ms]
    return (max if job.whole else min)(due) if due else None


def chores_follow_from_jobs(inspection: Inspection, cell_state: CellState, _: Replay) -> Iterator[Violation]:
    """4: housekeeping acts on a job when its record says so: stopped, awaited and ended, or with delayed tasks."""
    for job in cell_state.jobs.values():
        due, listed = due_of(job), inspection.chores.get(job.id)
        if due is not None and listed != due:
            what = f"housekeeping acts on it {_time(listed)}, by its record {_time(due)}"
            yield Violation(4, what, f"job {job.id}")
        elif due is None and listed is not None and listed > inspection.now_ms:
            what = f"housekeeping acts on it {_time(listed)}, and its record gives no reason"
            yield Violation(4, what, f"job {job.id}")
        retried = any(loss.retried.failures for group in job.groups for loss in group.losses)
        longest = LONGEST_RETRY_MS if retried else LONGEST_MS
        latest = max((loss.due_ms for group in job.groups for loss in group.losses), default=0)
        if latest > inspection.now_ms + longest:
            what = f"has lost tasks that are delayed until {latest} ms, at {inspection.now_ms} ms by the server's clock"
            yield Violation(4, what, f"job {job.id}")
    for job_id in inspection.chores.keys() - cell_state.jobs.keys():
        yield Violation(4, "is housekeeping's to act on, and is not kept", f"job {job_id}")


def _time(ms: float | None) -> str:
    return "at no time" if ms is None else "at once" if not ms else f"at {ms:.15g} ms"


# Messages


def messages_follow_from_placements(
    inspection: Inspection, cell_state: CellState, replay: Replay
) -> Iterator[Violation]:
    """6: a message starts the tasks of its placement for as long as their group says, or ends some of them."""
    for executor, mails in inspection.mailboxes.items():
        for mail in mails:
            for what in _unlike_placement(mail, cell_state, replay.placements.get(mail.placement)):
                yield Violation(6, f"has a message about placement {mail.placement} {what}", f"box:{executor}")
        starts = Counter(mail.placement for mail in mails if mail.job)
        for placement, count in starts.items():
            if count > 1:
                yield Violation(6, f"has {count} messages that start placement {placement}", f"box:{executor}")


def _unlike_placement(mail: Mail, cell_state: CellState, book: PlacementBook | None) -> Iterator[str]:
    runs = [run for run in cell_state.by_placement.get(mail.placement, ()) if run.machine == mail.machine]
    known = book.placed if book is not None else None
    tasks = canonical(mail.tasks)
    if known is None:
        running = canonical(",".join(run.tasks for run in runs)) if runs else ranges.EMPTY
        if mail.job and ranges.split(running, tasks)[1] != ranges.EMPTY:
            yield f"of tasks {mail.tasks}, and tasks {running} are on its machine"
    elif mail.job and tasks != canonical(known):
        yield f"of tasks {mail.tasks}, by the log {known}"
    elif ranges.split(canonical(known), tasks)[0] != tasks:
        yield f"that ends tasks {mail.tasks}, by the log {known} were placed"
    job = cell_state.jobs.get(mail.job) if any(run.job == mail.job for run in runs) else None
    for group in job.groups[int(mail.group) :][:1] if job is not None else ():
        if mail.duration_ms != group.duration_ms:
            yield f"of tasks that take {mail.duration_ms} ms, their group says {group.duration_ms} ms"


# Answers


def answers_follow_from_log(inspection: Inspection, cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """6: a scheduler's stored answer has the outcomes that the log has of the version with the answer's tag."""
    if inspection.version != cell_state.version:
        return  # it changed during the reading
    versions = {change.tag: change.version for change in inspection.changes}
    oldest = max(min(versions.values(), default=cell_state.version + 1), replay.start)
    for member, (tag, outcomes) in inspection.answers.items():
        said, version = replay.register.commits.get(member), versions.get(tag, 0)
        if said is None or max(said.version, version) < oldest:
            continue
        if version < said.version:
            what = f"its last call is that of tag {tag!r}, and it committed in version {said.version}"
            yield Violation(6, what, f"schedulers {member}")
            continue
        if version > said.version:
            said = CommitFacts(version)
        if what := _unlike_facts(outcomes, said):
            yield Violation(6, f"its last answer {outcomes!r} {what} (version {version})", f"schedulers {member}")


def _unlike_facts(outcomes: str, said: CommitFacts) -> str:
    """Return how the outcomes of a call contradict its facts, "" when they do not."""
    parts = [part for part in outcomes.split(";") if part not in ("+", "")]
    pairs = [[tuple(map(int, pair.split(" "))) for pair in part.split(",")] for part in parts]
    verdicts, rejected = Counter[Verdict](), 0
    for placed, verdict in (pair for part in pairs for pair in part):
        del placed
        if verdict in CONFLICTS or verdict == Verdict.ABORTED:
            verdicts[Verdict(verdict)] += 1
        elif verdict != Verdict.PLACED:
            rejected += 1
    if (verdicts, rejected) != (said.verdicts, said.rejected):
        return "has other refusals than the log"
    whole = [part for part in outcomes.split(";") if part == "+"]
    placed = sum(placed for part in pairs for placed, _ in part)
    if placed > said.tasks or (placed < said.tasks and not whole):
        return f"has {placed} tasks placed, by the log {said.tasks}"
    if len(whole) + sum(any(placed for placed, _ in part) for part in pairs) != said.blocks:
        return f"has another number of transactions that placed tasks than the log, which has {said.blocks}"
    return ""


# Health, updates


def health_is_of_placements(inspection: Inspection, cell_state: CellState, _: Replay) -> Iterator[Violation]:
    """6: what is kept of a task's health names its placement, once; grants end, as its checks do."""
    for job_id, tasks in inspection.health.items():
        where, job = f"health {job_id}", cell_state.jobs.get(job_id)
        if len({(placement, task) for _, placement, task, _ in tasks}) < len(tasks):
            yield Violation(6, "has a task twice", where)
        longest = LONGEST_GRANT_MS if job is None else _longest_grant(job)
        for machine, placement, task, until in tasks:
            runs = cell_state.by_placement.get(placement, ())
            there = 0 < placement <= cell_state.placements and machine in cell_state.rows
            if not there or any((run.machine, run.job) != (machine, job_id) for run in runs):
                what = f"has task {task} of placement {placement} on machine {machine}, which is not there"
                yield Violation(6, what, where)
            elif runs and job is not None and all(task >= job.groups[run.group].indices for run in runs):
                yield Violation(6, f"has task {task} of placement {placement}, which has no such task", where)
            if until > DOWN_DUE and until > inspection.now_ms + longest:
                what = (
                    f"grants the end of task {task} until {until} ms, at {inspection.now_ms} ms by the server's clock"
                )
                yield Violation(6, what, where)


def _longest_grant(job: Job) -> int:
    checks = [each["health"] for each in job.spec.get("groups", ()) if each.get("health")]
    words = ("grace", "interval", "timeout", "failures")
    return LONGEST_GRANT_MS + max(
        (grace + failures * (interval + timeout)
         for grace, interval, timeout, failures in ([each.get(word, 0) for word in words] for each in checks)),
        default=0,
    )  # fmt: skip


def updates_follow_from_log(inspection: Inspection, cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """6: the update of a job that is no longer kept began, by the log, and did not end."""
    for job_id in inspection.updates.keys() - cell_state.jobs.keys():
        entry = replay.register.jobs.get(job_id)
        began = not replay.complete if entry is None else entry.update != ""
        if not began:
            yield Violation(6, "is updated, by the log no job of that id is", f"job {job_id}")


SOURCES: tuple[Source, ...] = (
    attributes_follow_from_log, terms_follow_from_log, indices_follow_from_log, chores_follow_from_jobs,
    messages_follow_from_placements, answers_follow_from_log, health_is_of_placements, updates_follow_from_log,
)  # a table # fmt: skip

READINGS = 9
"""Maximum number of attempts at an exact reading before the cell counts as changing too fast."""
CONFIRMATIONS = 4
"""Readings that show a violation while the cell changes; two where nothing changed during the last one.

Directories are read key by key. A job that is placed and evicted all the time may by chance differ from its directory
entry, which was read a moment before, also twice in a row.
"""
CHUNK, FACTS = 250, 10_000
"""Versions of the log per read at most, and facts that a read should have at most: a version may place 5,000 tasks."""
MARGIN = 256
"""Number of versions skipped at the old end when the log is trimmed faster than its first chunk is read."""

ByPlace = dict[tuple[str, str], list[Violation]]
"""By rule and place."""


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

    def __init__(self, cell: Audited, told: Told = str, since: int = 0) -> None:
        """Begin with the oldest version in the log that is after `since`."""
        self.cell, self.told, self.since, self.margin = cell, told, since, 0
        self.chunk = 1
        self.unreadable: dict[tuple[str, str], str] = {}
        self.begin()

    def begin(self) -> None:
        """Restart, a margin after the oldest version once it was trimmed during the reading."""
        now = self.cell.changed_records(0, 0)
        oldest = now.first + self.margin if now.first > 1 else now.first
        first = min(max(oldest, self.since + 1), now.version + 1)
        self.at, self.floor = first - 1, self.cell.counters()["floor"]
        self.replay = Replay(len(self.cell.dimensions), first)

    def follow(self, to: int | None = None) -> bool:
        """Replay up to version `to`, or the newest; return False when facts were trimmed before they were read."""
        target = self.cell.changed_records(0, 0).version if to is None else to
        if target < self.at:
            return self.lose()
        while self.at < target:
            most = min(self.chunk, target - self.at)
            self.cell.unreadable.clear()
            facts = self.cell.facts(self.at, most)
            self.unreadable |= self.cell.unreadable
            if self.cell.changed_records(target, 0).first > self.at + 1:
                return self.lose()
            self.replay.feed([fact for fact in facts if fact.version <= target])
            self.replay.register.forget(self.floor)
            self.at += most
            self.chunk = max(1, min(CHUNK, self.chunk * FACTS // (len(facts) + FACTS // 2)))
            self.told(f"version {self.at:,} of {target:,} of the log")
        return True

    def lose(self) -> bool:
        """Restart with a larger margin."""
        self.margin = 2 * self.margin or MARGIN
        self.begin()
        return False


def verify(cell: Audited, told: Told = str, since: int = 0) -> Report:
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


def _verify(cell: Audited, told: Told, since: int) -> Report:
    if unusable := cell.unusable():
        wrong = tuple(Violation(6, what, f"{key} {name}".rstrip()) for key, name, what in unusable)
        return Report(dict.fromkeys(("machines", "tasks", "jobs", "facts"), 0), wrong, True, 0, 0)
    log = Log(cell, told, since)
    suspected, shown = ByPlace(), 0
    for _ in range(READINGS):
        looked = look(cell, log)
        if looked is None:
            continue
        cell_state, by_place, still = looked
        suspected = {key: each for key, each in by_place.items() if not shown or key in suspected}
        shown += 1
        if not suspected or shown >= (2 if still else CONFIRMATIONS):
            return _report(cell_state, log.replay, suspected, settled=True, cuts=cell.cuts())
    unread = CellState(len(cell.dimensions), version=log.at)
    return _report(unread, log.replay, {}, settled=False, cuts=cell.cuts())


def look(cell: Audited, log: Log) -> tuple[CellState, ByPlace, bool] | None:
    """Read the cell once and check it; True with it if nothing changed. None when it changes too fast to be read."""
    # The log is trimmed at its old end, so that end is read before the cell.
    if not log.follow():
        return None
    cell.unreadable.clear()
    log.told("indexes")
    inspection = cell.inspect()
    cell_state = read(cell, log.told)
    if cell_state is None or not log.follow(cell_state.version):
        return None
    log.told("rules")
    machines = log.replay.constraints.machines(cell_state.jobs)
    cell_state.described = dict(zip(machines, cell.described(machines), strict=True))
    damaged = cell_state.set_aside()
    if inspection is not None:
        inspection.damaged += damaged
        inspection.damaged += [Damage(*place, what) for place, what in (cell.unreadable | log.unreadable).items()]
    still = inspection is None or inspection.version == cell_state.version
    return cell_state, check(cell_state, log.replay, inspection), still


def check(cell_state: CellState, replay: Replay, inspection: Inspection | None) -> ByPlace:
    """Apply every rule to a cell, its directories and the log up to its version; return violations by rule, place."""
    by_place: ByPlace = {}
    for rule in RULES:
        _apply(by_place, rule.__name__, rule(cell_state))
    for comparison in COMPARISONS:
        _apply(by_place, comparison.__name__, comparison(cell_state, replay))
    if inspection is None:
        return by_place
    for directory in DIRECTORIES:
        _apply(by_place, directory.__name__, directory(inspection, cell_state, replay.register))
    for source in SOURCES:
        _apply(by_place, source.__name__, source(inspection, cell_state, replay))
    return by_place


def _apply(by_place: ByPlace, rule: str, violations: Iterator[Violation]) -> None:
    """Add a rule's violations; a record that the rule cannot interpret is a violation as well."""
    try:
        for violation in violations:
            by_place.setdefault((rule, violation.where), []).append(violation)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        what = f"the rule {rule} meets a record that it cannot read: {error}"
        by_place.setdefault((rule, "cell"), []).append(Violation(6, what, "cell"))


def _report(cell_state: CellState, replay: Replay, by_place: ByPlace, *, settled: bool, cuts: Cuts) -> Report:
    gone = int(MachineState.GONE)
    checked = {
        "machines": sum(row[2] != gone for row in cell_state.rows.values()),
        "tasks": sum(group.total for job in cell_state.jobs.values() for group in job.groups),
        "jobs": len(cell_state.jobs),
        "facts": replay.facts,
    }
    distinct = {violation for violations in by_place.values() for violation in violations} | set(replay.violations)
    in_order = sorted(distinct, key=lambda v: (v.invariant, v.where, v.what))
    evictions = {"sets": replay.decisions.number, "checked": replay.decisions.checked}
    constraints = {"claims": replay.constraints.number, "checked": replay.constraints.checked}
    version = cell_state.version
    return Report(checked, tuple(in_order), settled, version, replay.start, evictions, constraints, tuple(cuts.kept))
