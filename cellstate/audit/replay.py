"""Replay of the log's facts with independent bookkeeping (invariants 1 to 5).

Contradictions among facts are in `Replay.violations`; facts do not change, so these need no second reading. `books`
compares the books of machines, jobs and placements with a cell state. Where the log was trimmed, earlier events are
checked as far as they are known.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern

from omega.cellstate import ranges
from omega.cellstate.audit.decisions import Assertions, Decisions
from omega.cellstate.audit.register import (
    ENDS,
    JobBook,
    LossBook,
    MachineBook,
    Needs,
    PlacementBook,
    Register,
    canonical,
    changed_by,
    exact,
    exceeds,
)
from omega.cellstate.audit.rules import Violation
from omega.cellstate.constraints import All, Compare, Either, Expression, Has, Not, OneOf, Value, number_of
from omega.cellstate.errors import BadInput
from omega.cellstate.model import MACHINE, Described, Job, MachineState
from omega.cellstate.replies import Fact

# Placements against the constraints of their job (invariant 7).
#
# A claim is checked on the attributes that its machine had from the snapshot of the decision on: the present ones,
# where
# the log shows no change since. It has the versions of changes, and no values. The evaluation is written a second time
# here, for one machine; the parser is that of the schedulers. Best-effort constraints are no invariant. Not checked are
# jobs that are no longer kept, claims before the last KEPT ones, and machines with attributes that changed since.

KEPT = 100_000
"""Claims of the log that are kept: 20 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedClaim:
    """Tasks of a group that one claim placed on a machine, and the version of the snapshot that it was decided on."""

    version: int
    since: int
    machine: int
    job: str
    group: int


class ConstraintBook:
    """The claims of a log, and the versions at which machines joined or got other attributes."""

    def __init__(self, start: int) -> None:
        """Begin with the facts of version `start`."""
        self._start = start
        self.number = self.checked = 0
        """Claims of groups with constraints in the log, and those of them that could be checked."""
        self._claims: deque[PlacedClaim] = deque(maxlen=KEPT)
        self._described: dict[int, list[int]] = {}
        self._submitted: dict[str, int] = {}

    def enter(self, fact: Fact) -> None:
        """Enter a fact, in the order of the log."""
        word, words, version = fact.words[0], fact.words, fact.version
        if word == "place":
            since = version - 1 if fact.basis is None else fact.basis.since
            machine, group = int(words[2]), int(words[4])
            self._claims.append(PlacedClaim(version=version, since=since, machine=machine, job=words[3], group=group))
        elif word == "join" or (word == "machine" and words[2] == "attributes"):
            before = self._described.setdefault(int(words[1]), [])
            # Of the first join of a machine, in a log that begins with the cell, nothing is different before.
            before.append(0 if self._start <= 1 and not before else version)
        elif word == "submit":
            self._submitted[words[1]] = version

    def machines(self, jobs: Mapping[str, Job]) -> list[int]:
        """Return the machines with claims to be checked."""
        return sorted({claim.machine for claim, _ in self._demanding(jobs)})

    def _demanding(self, jobs: Mapping[str, Job]) -> Iterator[tuple[PlacedClaim, Sequence[str]]]:
        for claim in self._claims:
            job = jobs.get(claim.job)
            texts = () if job is None else constraints_of(job, claim.group)
            if texts and claim.version > self._submitted.get(claim.job, 0):
                yield claim, texts

    def _known(self, claim: PlacedClaim) -> bool:
        """Whether the present attributes of a machine are those that it had when a claim was decided."""
        changes = self._described.get(claim.machine, ())
        return claim.since >= self._start - 1 and all(version <= claim.since for version in changes)

    def check(self, jobs: Mapping[str, Job], described: Mapping[int, Described]) -> Iterator[tuple[str, str]]:
        """Check the claims of kept jobs; yields what is wrong, and the group of the job."""
        self.number = self.checked = 0
        for claim, texts in self._demanding(jobs):
            self.number += 1
            name, pairs = described.get(claim.machine, ("", ()))
            if not name or not self._known(claim):
                continue
            self.checked += 1
            attributes = {**dict(pairs), MACHINE: name}
            for text in texts:
                if not holds(text, attributes):
                    what = f"was placed on machine {claim.machine} ({name}), which does not satisfy {text}"
                    yield f"{what} (version {claim.version})", f"job {claim.job} group {claim.group}"


def constraints_of(job: Job, group: int) -> Sequence[str]:
    """Return the constraints of a group that must hold."""
    groups = job.spec.get("groups")
    said = groups[group] if isinstance(groups, list) and group < len(groups) else None
    texts = said.get("constraints") if isinstance(said, Mapping) else None
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list | tuple) else ()


def holds(text: str, attributes: Mapping[str, str]) -> bool:
    """Return whether a machine with these attributes satisfies a constraint; no machine satisfies an invalid one."""
    from omega.cellstate.constraints.grammar import parse  # noqa: PLC0415 - most audits meet no constraint

    try:
        return _is_true(parse(text), attributes)
    except BadInput:
        return False


def _is_true(expression: Expression, attributes: Mapping[str, str]) -> bool:
    match expression:
        case Has(attribute):
            return attribute in attributes
        case Not(part):
            return not _is_true(part, attributes)
        case All(parts):
            return all(_is_true(part, attributes) for part in parts)
        case Either(parts):
            return any(_is_true(part, attributes) for part in parts)
        case OneOf(attribute, values):
            return any(_compared(attributes.get(attribute), "==", value) for value in values)
        case Compare(attribute, operator, value):
            return _compared(attributes.get(attribute), operator, value)


def _compared(text: str | None, operator: str, value: Value) -> bool:
    """Compare an attribute, None where the machine has none, with a text or a number."""
    if text is None:
        return False
    if isinstance(value, str):
        return operator == "==" and text == value
    number = number_of(text)
    results = {
        "==": number == value,
        "<": number < value,
        "<=": number <= value,
        ">": number > value,
        ">=": number >= value,
    }
    return results[operator]


REASONS = ("over", "limit", "drain", "down", "fair-share", "gang", "tree", "unfit")
"""Reasons for evictions, beside ``precedence:JOB`` (invariant 5); a detail may follow a colon."""
FOR_JOBS = ("precedence", "fair-share")
"""Reasons of evictions in a transaction of the job that follows."""


class Replay:
    """Books that follow from the facts, version by version."""

    def __init__(self, size: int, start: int) -> None:
        """Begin with the facts of version `start` in a cell of `size` resources."""
        self.size, self.start, self.version, self.facts = size, start, start - 1, 0
        self.machines: dict[int, MachineBook] = {}
        self.jobs: dict[str, JobBook] = {}
        self.placements: dict[int, PlacementBook] = {}
        self.first_placement: int | None = 1 if self.complete else None
        self.last_placement: int | None = 0 if self.complete else None
        self.undecided: list[tuple[int, str, str, str, int | None]] = []
        """(version, placement, victim, evictor) with precedences that are not in the log."""
        self.violations: list[Violation] = []
        self.losses = LossBook()
        self.register = Register(size, complete=self.complete, losses=self.losses)
        self.decisions = Decisions(start)
        self.constraints = ConstraintBook(start)
        self.needs = Needs()
        self._block, self._actor = 0, ""
        self._placers: set[str] = set()
        self._victims: set[str] = set()
        # Tasks of each job that ended otherwise in the present block.
        self._ended = Counter[str]()
        self._evictors: dict[str, str] = {}
        # Machines that tasks were evicted from in the present block.
        self._emptied: dict[str, MachineBook] = {}
        self._assertions = Assertions(lambda what, where: self.say(5, what, where), self._is_emptied)
        # The eviction checked by the previous fact, and the numbers of undecided evictions and violations before it.
        self._unless_dropped: tuple[str, int, int] = "", 0, 0

    @property
    def complete(self) -> bool:
        """Whether the log is complete: it begins with the cell."""
        return self.start <= 1

    def feed(self, facts: list[Fact]) -> None:
        """Enter facts, in the order of the log."""
        for fact in facts:
            if fact.version != self.version:
                self._close_version()
                self.version = fact.version
            self.facts += 1
            try:
                self.register.enter(fact)
                for complaint in self.losses.enter(fact.words, self.first_placement):
                    self.say(*complaint)
                self._enter(fact.words)
                self.decisions.enter(fact)
                self.constraints.enter(fact)
            except (ValueError, IndexError, KeyError, TypeError):
                self.say(3, f"fact {' '.join(fact.words)!r} cannot be read", f"log {fact.version}")
        self._close_version()

    def _enter(self, words: tuple[str, ...]) -> None:
        match words[0]:
            case "place":
                self._place(words)
            case word if word in ENDS:
                self._end(words)
            case "left":
                self._leave(words)
            case "join":
                self._join(words)
            case "machine":
                self._change(words)
            case "restore" | "cut":
                self._go_ahead(words)
            case "assert":
                self._act(words[1])
                self._assertions.begin(words)
            case "again":
                if words[1] != self._actor:
                    self.say(3, f"has a transaction again, after one of {self._actor or 'no job'}", f"job {words[1]}")
                self._act("")
            case _:
                self._count(words)

    def say(self, invariant: int, what: str, where: str) -> None:
        """Record a violation, with the version of its facts."""
        self.violations.append(Violation(invariant, f"{what} (version {self.version})", where))

    # Transactions: facts of one job in a version form one block; "again" parts transactions that follow one another

    def _close_block(self) -> None:
        for job_id in self._placers:
            job = self.jobs[job_id]
            job.least = job.unplaced if job.least is None else min(job.least, job.unplaced)
            job.most = job.unplaced if job.most is None else max(job.most, job.unplaced)
            if job.unplaced > 0:
                job.fewest = job.placed if job.fewest is None else min(job.fewest, job.placed)
        for job_id in self._victims:
            job = self.jobs[job_id]
            job.torn |= {job.placed and job.placed + self._ended[job_id]}
        for evictor, placement in self._evictors.items():
            if evictor not in self._placers:
                self.say(5, f"evicted for {evictor}, which placed nothing", f"placement {placement}")
        for index, book in self._emptied.items():
            for amounts in book.awaited:
                self.say(
                    1,
                    f"{list(amounts)} allocated after an eviction, which its transaction does not leave",
                    f"machine {index}",
                )
            book.awaited = []
        self._placers, self._victims, self._evictors, self._emptied = set(), set(), {}, {}
        self._ended.clear()
        self._assertions.close()

    def _go_ahead(self, words: tuple[str, ...]) -> None:
        """5: after a restore or a cut, a cell assigns ids above all that were assigned in the lost versions."""
        word, *_, placements = words
        if self.last_placement is not None and int(placements) < self.last_placement:
            self.say(5, f"{word}: goes on with {placements} as the last id, after {self.last_placement}", "placements")
        self.last_placement = int(placements)

    def _close_version(self) -> None:
        self._close_block()
        self.register.settle(self.version, self.machines)
        self._block, self._actor = self._block + 1, ""

    def _act(self, actor: str) -> None:
        if actor != self._actor:
            self._close_block()
            self._block, self._actor = self._block + 1, actor

    # Machines

    def _machine(self, index: str) -> MachineBook:
        return self.machines.setdefault(int(index), MachineBook())

    def _number(self, book: MachineBook, index: str, number: int, *, jump: bool = False) -> None:
        """3: one more per transaction that changes the machine; one that was gone may come back higher."""
        if book.number is not None:
            step = number - book.number
            same = book.version == self.version and book.block == self._block
            if step != (0 if same else 1) and not (jump and step > 1):
                self.say(3, f"its number went from {book.number} to {number}", f"machine {index}")
        book.number, book.version, book.block = number, self.version, self._block

    def _join(self, words: tuple[str, ...]) -> None:
        self._act("")
        _, index, _, number, *capacity = words
        new = int(index) not in self.machines
        book = self._machine(index)
        gone = book.state == MachineState.GONE or (book.state is None and not self.complete)
        self._number(book, index, int(number), jump=gone)
        book.state, book.capacity, book.peak = int(MachineState.UP), tuple(map(int, capacity)), None
        if new and self.complete:
            book.amounts = (0,) * self.size
        book.over = None if book.amounts is None else exceeds(book.amounts, book.capacity)

    def _change(self, words: tuple[str, ...]) -> None:
        self._act("")
        _, index, action, change, number, *amounts = words
        book = self._machine(index)
        self._number(book, index, int(number))
        if action == "state":
            book.state = int(change)
        elif action == "capacity":
            book.capacity, book.over, book.peak = tuple(map(int, change.split(","))), False, None
        now = tuple(map(int, amounts))
        if book.amounts is not None and book.amounts != now:
            self.say(1, f"{list(now)} allocated at a change of it, {list(book.amounts)} before", f"machine {index}")
        book.hold(now)

    # Placements

    def _place(self, words: tuple[str, ...]) -> None:
        _, placement, index, job_id, group, tasks, *amounts = words
        self._act(job_id)
        name = int(placement)
        if self.last_placement is not None and name != self.last_placement + 1:
            self.say(5, f"its id came after {self.last_placement}; ids rise by one", f"placement {placement}")
        self.first_placement = name if self.first_placement is None else self.first_placement
        self.last_placement = name if self.last_placement is None else max(self.last_placement, name)
        self.placements[name] = PlacementBook((intern(index), job_id, group), tasks, placed=tasks)
        book, job, count = self._machine(index), self._owner(job_id), ranges.count(tasks)
        need = tuple(map(int, amounts))
        if not self.needs.state(job_id, group, need):
            self.say(1, f"takes {', '.join(amounts)} a task, others of its group do not", f"placement {placement}")
        book.rise(self.version, self._block)
        book.hold(changed_by(book.amounts, tuple(amount * count for amount in need), 1))
        if book.amounts is not None:
            if book.capacity is None:
                book.peak = book.amounts if book.peak is None else tuple(map(max, book.amounts, book.peak))
            elif exceeds(book.amounts, book.capacity):
                what = f"placement {placement} left {list(book.amounts)} allocated of {list(book.capacity)}"
                self.say(1, what, f"machine {index}")
        job.unplaced -= count
        job.placed += count
        self._placers.add(job_id)

    def _end(self, words: tuple[str, ...]) -> None:
        how, placement, index, job_id, group, tasks, number = words[:7]
        amounts = tuple(map(int, words[7 : 7 + self.size]))
        reason = " ".join(words[7 + self.size :])
        cause, _, evictor = reason.partition(":") if how == "evicted" else ("", "", "")
        evictor = evictor if cause in FOR_JOBS else ""
        self._act(evictor)
        book = self._machine(index)
        job, count = self._owner(job_id), ranges.count(tasks)
        self._number(book, index, int(number))
        self._give_up(book, words, amounts, count, in_transaction=bool(evictor))
        self._take_off(words)
        job.placed -= count
        if how == "finished":
            job.finished += count
        elif how == "failed":
            job.failed += count
        elif how == "stopped" or not job.open:
            job.stopped += count
        else:
            job.unplaced += count
        self._unless_dropped = "", 0, 0
        self._ended[job_id] += count * (how != "evicted")
        if how == "evicted":
            if cause == "fair-share" and evictor:
                self._victims.add(job_id)
                self._evictors[evictor] = placement
                freed = exact(self.needs.of(job_id, group, count))
                self._assertions.evicted(placement, job_id, evictor, count, freed)
            else:
                self._check_eviction(placement, job_id, evictor, reason=reason, group=int(group))

    def _give_up(
        self, book: MachineBook, words: tuple[str, ...], amounts: tuple[int, ...], count: int, *, in_transaction: bool
    ) -> None:
        """1: an end leaves what its tasks do not hold; an eviction of a transaction states what all of that leaves."""
        _, placement, index, job_id, group = words[:5]
        before = book.amounts
        left = changed_by(before, self.needs.of(job_id, group, count), -1)
        if in_transaction:
            book.hold(left)
            if left is not None and left != amounts:
                book.awaited.append(amounts)
                self._emptied[index] = book
            return
        if left is None and before is not None:
            self.needs.learn(job_id, group, before, amounts, count)
        elif left is not None and left != amounts:
            what = f"{list(amounts)} allocated after the end of placement {placement}, by the facts {list(left)}"
            self.say(1, what, f"machine {index}")
        book.hold(amounts)

    def _take_off(self, words: tuple[str, ...]) -> None:
        """5: tasks end once, on the machine of their placement."""
        how, placement, index, job_id, group, tasks = words[:6]
        book = self._placement(placement, (index, job_id, group))
        if book is None:
            return
        if book.tasks is None:
            if ranges.split(book.gone, tasks)[0] != ranges.EMPTY:
                self.say(5, f"tasks {tasks} ended before", f"placement {placement}")
            book.gone = canonical(f"{book.gone},{tasks}" if book.gone != ranges.EMPTY else tasks)
        elif book.tasks == tasks:
            book.tasks = ranges.EMPTY
        else:
            inside, book.tasks = ranges.split(book.tasks, tasks)
            if ranges.count(inside) != ranges.count(tasks):
                self.say(5, f"tasks {tasks} ended, of which only {inside} were placed", f"placement {placement}")
        if how in ("evicted", "stopped"):
            book.leaving = canonical(f"{book.leaving},{tasks}" if book.leaving != ranges.EMPTY else tasks)
        self._forget(placement, book)

    def _leave(self, words: tuple[str, ...]) -> None:
        self._act("")
        _, placement, index, job_id, group, tasks = words[:6]
        book = self._placement(placement, (index, job_id, group))
        if book is None:
            return
        inside, book.leaving = ranges.split(canonical(book.leaving), canonical(tasks))
        if book.tasks is not None and ranges.count(inside) != ranges.count(tasks):
            self.say(5, f"tasks {tasks} left, of which only {inside} were leaving", f"placement {placement}")
        self._forget(placement, book)

    def _placement(self, placement: str, owner: tuple[str, str, str]) -> PlacementBook | None:
        book = self.placements.get(int(placement))
        if book is None and (self.first_placement is None or int(placement) < self.first_placement):
            book = self.placements[int(placement)] = PlacementBook(owner, None)
        if book is None:
            self.say(5, "ends or leaves and is not placed (any more)", f"placement {placement}")
        elif book.owner != owner:
            what = f"was placed as (machine, job, group) {book.owner} and ends as {owner}"
            self.say(5, what, f"placement {placement}")
        return book

    def _forget(self, placement: str, book: PlacementBook) -> None:
        if book.tasks == book.leaving == ranges.EMPTY:
            del self.placements[int(placement)]

    def _check_eviction(self, placement: str, victim: str, evictor: str, *, reason: str, group: int) -> None:
        """5: every eviction has a reason; for precedence it is strictly lower than the evictor's.

        The precedence of an optional task is 0, whatever its job's: the fact that it is dropped follows at once, unless
        its job was stopped or abandoned; whether the group is optional is then read from the job's record.
        """
        where = f"placement {placement}"
        self._victims.add(victim)
        if not evictor:
            if reason.partition(":")[0] not in REASONS:
                self.say(5, f"evicted for {reason!r}; want precedence:JOB, {', '.join(REASONS)}", where)
            return
        self._evictors[evictor] = placement
        low, high = self._owner(victim), self._owner(evictor)
        before = len(self.undecided), len(self.violations)
        if not (low.known and high.known and low.open):
            self.undecided.append((self.version, placement, victim, evictor, None if low.open else group))
        elif low.precedence >= high.precedence:
            what = f"precedence {low.precedence} of job {victim} gave way to {high.precedence} of {evictor}"
            self.say(5, what, where)
        if high.precedence or not high.known:
            self._unless_dropped = victim, *before

    # Jobs

    def _is_emptied(self, job_id: str) -> bool:
        job = self._owner(job_id)
        return not (job.known and job.placed)

    def _owner(self, job_id: str) -> JobBook:
        return self.jobs.setdefault(job_id, JobBook())

    def _count(self, words: tuple[str, ...]) -> None:
        """4: counts of a job change without a fact about a machine."""
        match words:
            case "submit", job_id, _, _, precedence, unplaced:
                self.needs.forget(job_id)
                self.jobs[job_id] = JobBook(known=True, precedence=int(precedence), unplaced=int(unplaced))
            case (("stop" | "abandon"), job_id, count, *_):
                job = self._owner(job_id)
                job.open = False
                job.unplaced -= int(count)
                job.stopped += int(count)
            case "resize", job_id, _, _, added, dropped, *_:
                job = self._owner(job_id)
                job.unplaced += int(added)
                job.stopped -= int(dropped)
            case "drop", job_id, _, count, how:  # of optional tasks, which the fact before counted
                job = self._owner(job_id)
                victim, undecided, violations = self._unless_dropped
                if victim == job_id:
                    del self.undecided[undecided:], self.violations[violations:]
                job.take_back(how, int(count))
            case (("speculate" | "unneeded"), job_id, _, tasks):
                self._owner(job_id).unplaced += ranges.count(tasks) * (1 if words[0] == "speculate" else -1)
            case "promote", placement, index, job_id, group, _, how:  # of a copy; the fact before ended its original
                self._machine(index).rise(self.version, self._block)
                if copy := self._placement(placement, (index, job_id, str(int(group) + 1))):
                    copy.owner = index, job_id, group
                self._owner(job_id).take_back(how, 1)
            case "fail", job_id, _, tasks, *_:  # just lost or evicted, and not placed again
                job, number = self._owner(job_id), ranges.count(tasks)
                job.unplaced -= number
                job.failed += number
            case "late", _, _, job_id, _, tasks, how:  # declared lost, and had ended
                job, number = self._owner(job_id), ranges.count(tasks)
                job.unplaced -= number
                if how == "finished":
                    job.finished += number
                else:
                    job.failed += number
