"""The log of a cell folded into books: what its machines, jobs, placements, members and settings are after the facts.

A fact that contradicts those before it is a violation; facts do not change, so these need no second reading. Where the
log was trimmed, None stands for what its remaining facts do not say. `verify` compares the books with the records:
what both have is under one name, so the fields of a book are named as those of a record are.
"""

from array import array
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from omega.cellstate import events as log, ranges
from omega.cellstate.events import Amounts, Event, Fact
from omega.cellstate.invariants import AssertedSet, Need, Violation, illegal
from omega.cellstate.logged_settings import GangTerms, Terms, attributes_in, terms_in
from omega.cellstate.model import MOST_PRECEDENCE, JobState, Limits, MachineState
from omega.cellstate.pools.records import digest
from omega.cellstate.primary import EpochMade, Owner, PlacementBook, Placements
from omega.cellstate.transaction import Verdict

TOUCHED, CLAIMS = 8_224, 100_000
"""The longest change list (docs/scale.md, Limits and sizes); claims that are kept for their constraints, 10 MB."""
UNKNOWN = -(1 << 62)
"""In a row of numbers: what the log does not say."""
REASONS = ("over", "limit", "drain", "down", "fair-share", "gang", "tree", "unfit")
"""Reasons for evictions, beside ``precedence:JOB`` (invariant 5); a detail may follow a colon."""
COUNTS = ("unplaced", "placed", "finished", "failed", "stopped")
_MAY_REPEAT = ("conflict", "aborted", "rejected", "awaited", "drop", "assert", "again")
"""Facts that may repeat in a version: two claims may have the same conflict; a job may wait for the end and for the
success of another; two placements of optional tasks may end in one call (totals reveal an extra fact)."""
_RETURNS = ("lost", "retried", "evicted")
NONE: frozenset[Any] = frozenset()
Shared = TypeVar("Shared", bound=Hashable)


@dataclass(slots=True, kw_only=True)
class MachineBook:
    """A machine after its last fact."""

    name: str | None = None
    executor: str | None = None
    attributes: Mapping[str, str] | None = None
    tree: str | None = None
    """The number of its tree, "-" for none."""
    number: int | None = None
    state: int | None = None
    capacity: Amounts | None = None
    allocated: Amounts | None = None
    over: bool | None = False
    """Whether it may hold more than it has: it came back smaller and was not repaired since."""
    peak: Amounts | None = None
    """The largest amounts after a placement while the capacity was not known."""
    described: int = 0
    """The version at which it joined or got other attributes last; 0 for at its first join."""
    block: int = -1
    """The block of facts that raised its number last."""
    awaited: tuple[Amounts, ...] = ()
    """Amounts by evictions of a transaction, which state what the whole transaction leaves."""

    def hold(self, amounts: Amounts | None) -> None:
        """Note what it holds after a fact."""
        self.allocated = amounts
        if self.awaited:
            self.awaited = tuple(each for each in self.awaited if amounts is not None and each != amounts)
        if amounts is not None and self.over is not False and self.capacity is not None:
            self.over = exceeds(amounts, self.capacity)


@dataclass(slots=True, kw_only=True)
class JobBook:
    """A job by its facts; its counts are absolute when its submission is in the log, otherwise relative."""

    version: int | None = None
    """That of its submission, with which the fields up to `counts` are known."""
    name: str | None = None
    kind: str | None = None
    precedence: int | None = None
    submitter: str | None = None
    submitted_ms: int | None = None
    indices: int = 0
    """Number of indices that its groups gave out."""
    begun: bool = False
    """Whether an attempt placed nothing, or tasks were taken off a machine unfinished."""
    waits: frozenset[str] = NONE
    """Jobs that it waits for."""
    waits_ever: frozenset[str] = NONE
    """Jobs that it waited for at its submission."""
    awaited: bool = False
    """Whether jobs waited for it at their submission."""
    unplaced: int = 0
    placed: int = 0
    finished: int = 0
    failed: int = 0
    stopped: int = 0
    order: int | None = None
    open: bool = True
    """Whether tasks that are put back wait again; not once the job was stopped."""
    left: tuple[int, int] | None = None
    """The fewest and the most tasks left unplaced after a transaction that placed some."""
    fewest: int | None = None
    """The fewest tasks placed after a transaction that placed some and left others unplaced."""
    torn: frozenset[int] = NONE
    """Tasks left placed after each transaction that evicted some."""
    modified: frozenset[int] = NONE
    """Versions that may be its modify index."""
    surely: bool = False
    """Whether its modify index is certainly among them."""
    arrived: tuple[int, int] = (0, 0)
    """The earliest and the latest version that may have put it last into the queue."""
    held: bool | None = None
    """Whether a person holds it."""
    gate: str | None = None
    """Why the gate of its scheduler holds it, "" for not."""
    released: bool | None = None
    """Whether a person released it from its gate."""
    state: JobState | None = None
    """Its final state, and the version in which it ended."""
    ended: int | None = None
    gang: GangTerms | None = None
    groups: tuple[Terms, ...] | None = None
    """What of its groups never changes."""
    update: str | None = None
    """The record of its update, "" for none."""

    @property
    def live(self) -> bool:
        """Whether its lost tasks are all known: it was submitted in this log, and not stopped since."""
        return self.version is not None and self.open

    @property
    def counts(self) -> tuple[int, ...]:
        """Its numbers of tasks, as in `COUNTS`."""
        return self.unplaced, self.placed, self.finished, self.failed, self.stopped

    def end(self, how: str, count: int) -> None:
        """Count tasks, below 0 fewer, that ended in this way."""
        name = how if how in COUNTS else "unplaced" if self.open else "stopped"
        setattr(self, name, getattr(self, name) + count)


@dataclass(slots=True)
class GroupBook:
    """A group of a job: what a task takes, and its lost tasks."""

    job: JobBook
    number: int = 0
    """Its place among all groups."""
    need: Need | None = None
    delayed: str | None = ranges.EMPTY
    """Its delayed tasks; None after a resize, which may queue some again without a fact."""
    returned: tuple[tuple[str, str, int], ...] = ()
    """How, tasks and placement of ends whose tasks are placed again, since the submission."""
    total: int | None = None
    """Tasks after the last resize."""
    grown: int = 0
    """Indices that it gave out since the submission; one that takes tasks over had none before."""
    dropped: bool = False
    """Whether tasks of it were dropped, which are optional ones."""


@dataclass(slots=True, kw_only=True)
class CommitBook:
    """What the log has of one commit: tasks placed, transactions that placed some, refused and rejected claims."""

    version: int
    tasks: int = 0
    blocks: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    rejected: int = 0
    placing: str = ""
    """The job whose transaction placed tasks last."""

    def enter(self, event: Event) -> None:
        """Enter a fact of its version."""
        match event:
            case log.Place():
                self.tasks += event.size
                self.blocks += self.placing != event.job
                self.placing = event.job
            case log.Conflict():
                self.verdicts[event.verdict] += 1
            case log.Aborted():
                self.verdicts[Verdict.ABORTED] += len(event.claims)
            case log.Rejected():
                self.rejected += event.number
            case log.TransactionEvent():
                self.placing = ""


@dataclass(slots=True, kw_only=True)
class PlacedClaim:
    """Tasks of a group that one claim placed on a machine, and the version of the snapshot that it was decided on."""

    version: int
    since: int
    machine: int
    job: str
    group: int


class Books:
    """The books of a cell of `size` resources after its facts from version `start` on."""

    def __init__(self, size: int, start: int) -> None:
        """Begin without facts."""
        self.size, self.start, self.version, self.facts = size, start, start - 1, 0
        self.machines: dict[int, MachineBook] = {}
        self.executors: dict[str, int] = {}
        """Numbers of executors in `touched`."""
        self.jobs: dict[str, JobBook] = {}
        self.groups: dict[Owner, GroupBook] = {}
        self.placements = Placements()
        self.first_placement: int | None = 1 if self.complete else None
        self.last_placement: int | None = 0 if self.complete else None
        self.settings: dict[str, Any] = {}
        """What members, limits, pools and the epoch are, by place; None: there is none."""
        self.commits: dict[str, CommitBook] = {}
        """The last commit of each scheduler."""
        self.pools: dict[int, tuple[str, str]] = {}
        """Names and digests of pools by number; "-" for a removed one."""
        self.epoch: EpochMade | None = None
        self.submissions = self.incarnation = 0
        self.touched: deque[tuple[int, array[int]]] = deque(maxlen=TOUCHED)
        """Versions that have facts, and a row of each machine that one changed, as in the change list."""
        self.claims: deque[PlacedClaim] = deque(maxlen=CLAIMS)
        self.undecided: list[tuple[int, int, str, str, int | None]] = []
        """(version, placement, victim, evictor, group) with precedences that are not in the log."""
        self.sets = self.checked_sets = 0
        """Transactions with an assertion, and those of them of which the log has all amounts."""
        self.violations: list[Violation] = []
        self._lost: dict[int, tuple[str, int, str]] = {}
        """Job, group and tasks of lost placements."""
        self._seen: set[Event] = set()
        self._changed: dict[int, None] = {}
        self._end: log.End | None = None
        """The end that was the fact before, or before the facts that follow from it."""
        # Facts of one job in a version form one block: a transaction; "again" parts those that follow one another.
        self._block, self._actor = 0, ""
        self._placers: set[str] = set()
        self._victims: set[str] = set()
        self._evictors: dict[str, int] = {}
        self._ended = Counter[str]()
        """Tasks of each job that ended otherwise than by an eviction."""
        self._emptied: dict[int, MachineBook] = {}
        """Machines that tasks were evicted from."""
        self._set: AssertedSet | None = None
        self._values: dict[Hashable, Any] = {}
        self._only, self._span = frozenset[int](), (0, 0)
        """The version, as the only one and as a span."""
        methods: dict[str, Callable[[Fact, Any, Event | None], None]] = {
            "place": self._place, **dict.fromkeys(log.ENDS, self._ends), "left": self._left, "late": self._late,
            "promote": self._promote, "fail": self._fail, "requeue": self._requeue, "drop": self._drop,
            "speculate": self._copy, "unneeded": self._copy, "submit": self._submit, "awaited": self._awaited,
            "met": self._released, "release": self._released, "hold": self._hold, "gate": self._gate,
            "pass": self._gate, "attempt": self._attempt, "resize": self._resize, "stop": self._stop,
            "abandon": self._stop, "done": self._done, "update": self._update, "updated": self._settled,
            "stalled": self._settled, "assert": self._assert, "again": self._again, "join": self._join,
            "machine": self._change, **dict.fromkeys(("enlist", "leave", "lapse"), self._member),
            "limit": self._limit, "pool": self._pool, "trees": self._pool, "reset": self._pool, "epoch": self._epoch,
            "restore": self._go_ahead, "cut": self._go_ahead,
        }  # fmt: skip
        self._methods = methods

    @property
    def complete(self) -> bool:
        """Whether the log is complete: it begins with the cell."""
        return self.start <= 1

    def _shared(self, value: Shared) -> Shared:
        """Return an equal value that was kept before: a hundred thousand jobs and machines have few different ones."""
        kept: Shared = self._values.setdefault(value, value)
        return kept

    def say(self, invariant: int, what: str, where: str) -> None:
        """Record a violation, with the version of its facts."""
        self.violations.append(Violation(invariant, f"{what} (version {self.version})", where))

    def feed(self, facts: Sequence[Fact]) -> None:
        """Enter facts of whole versions, in the order of the log."""
        for fact, after in zip(facts, [*facts[1:], None], strict=False):
            event = fact.event
            if fact.version != self.version:
                self._close_version()
                self.version = fact.version
                self._only, self._span = frozenset({fact.version}), (fact.version, fact.version)
            self.facts += 1
            if isinstance(event, log.NoFact):
                self._say_unreadable(event)
                continue
            if event in self._seen and event.word not in _MAY_REPEAT:
                self.say(3, f"has the fact {event.line!r} twice", f"log {fact.version}")
            self._seen.add(event)
            if fact.basis is not None:
                if fact.by not in self.commits or self.commits[fact.by].version != fact.version:
                    self.commits[fact.by] = CommitBook(version=fact.version)
                self.commits[fact.by].enter(event)
            if event.word not in ("fail", "drop", "promote", "unneeded"):
                self._end = event if isinstance(event, log.End) else None
            if method := self._methods.get(event.word):
                try:
                    method(fact, event, after.event if after is not None and after.version == fact.version else None)
                except (ValueError, TypeError):  # other settings or other numbers of amounts than belong to it
                    self._say_unreadable(event)
        self._close_version()

    def _say_unreadable(self, event: Event) -> None:
        self.say(3, f"fact {event.line!r} cannot be read", f"log {self.version}")

    def forget(self, version: int) -> None:
        """Forget what the versions up to one changed: the change list does not have them either."""
        while self.touched and self.touched[0][0] <= version:
            self.touched.popleft()

    # Transactions

    def _act(self, actor: str) -> None:
        if actor != self._actor:
            self._close_block()
            self._block, self._actor = self._block + 1, actor

    def _close_version(self) -> None:
        self._close_block()
        if self.facts and self._seen:
            rows = [number for index in self._changed for number in self._row(index)]
            try:
                self.touched.append((self.version, array("q", rows)))
            except OverflowError:  # amounts of facts that were reported
                self.touched.append((self.version, array("q", [max(UNKNOWN, min(-UNKNOWN, each)) for each in rows])))
        self._block, self._actor = self._block + 1, ""
        self._seen.clear()
        self._changed = {}

    def _row(self, index: int) -> list[int]:
        """Return a row of the change list; the executor by a number in `executors`."""
        book = self.machines[index]
        executor = UNKNOWN if book.executor is None else self.executors.setdefault(book.executor, len(self.executors))
        numbers = [UNKNOWN if each is None else each for each in (book.number, book.state)]
        amounts = [*(book.capacity or (UNKNOWN,) * self.size), *(book.allocated or (UNKNOWN,) * self.size)]
        return [index, *numbers, executor, *amounts]

    def _close_block(self) -> None:
        for job in map(self.jobs.__getitem__, self._placers):
            least, most = job.left or (job.unplaced, job.unplaced)
            job.left = self._shared((min(least, job.unplaced), max(most, job.unplaced)))
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
                what = f"{list(amounts)} allocated after an eviction, which its transaction does not leave"
                self.say(1, what, f"machine {index}")
            book.awaited = ()
        asserted, self._set = self._set, None
        if asserted is not None:
            books = {job: self.jobs[job] for job in asserted.sums}
            emptied = {job for job, book in books.items() if book.version is None or not book.placed}
            self.sets, self.checked_sets = self.sets + 1, self.checked_sets + asserted.known
            for what in illegal(asserted, emptied):
                self.say(5, what, f"job {asserted.asserted.job}")
        self._placers, self._victims, self._evictors, self._emptied = set(), set(), {}, {}
        self._ended.clear()

    def _again(self, _: Fact, event: log.TransactionEvent, __: Event | None) -> None:
        if event.job != self._actor:
            self.say(3, f"has a transaction again, after one of {self._actor or 'no job'}", f"job {event.job}")
        self._act("")

    def _assert(self, _: Fact, event: log.Assert, __: Event | None) -> None:
        self._act(event.job)
        self._set = AssertedSet(event)

    # Machines

    def _machine(self, index: int) -> MachineBook:
        self._changed[index] = None
        return self.machines.setdefault(index, MachineBook())

    def _number(self, book: MachineBook, index: int, number: int, *, jump: bool = False) -> None:
        """3: one more per transaction that changes the machine; one that was gone may come back higher."""
        if book.number is not None:
            step = number - book.number
            if step != (0 if book.block == self._block else 1) and not (jump and step > 1):
                self.say(3, f"its number went from {book.number} to {number}", f"machine {index}")
        book.number, book.block = number, self._block

    def _rise(self, book: MachineBook) -> None:
        if book.number is not None and book.block != self._block:
            book.number += 1
        book.block = self._block

    def _join(self, fact: Fact, event: log.Join, _: Event | None) -> None:
        self._act("")
        new = event.machine not in self.machines
        book = self._machine(event.machine)
        gone = book.state == MachineState.GONE or (book.state is None and not self.complete)
        self._number(book, event.machine, event.number, jump=gone)
        book.state, book.capacity, book.peak = int(MachineState.UP), self._shared(event.capacity), None
        if new and self.complete:
            book.allocated = self._shared((0,) * self.size)
        book.over = None if book.allocated is None else exceeds(book.allocated, book.capacity)
        book.name, book.executor, book.tree = event.name, fact.by, None
        book.attributes = attributes_in(fact.settings).get(event.name, {}) if "attributes" in fact.settings else None
        book.described = 0 if new and self.complete else fact.version

    def _change(self, fact: Fact, event: log.MachineEvent, _: Event | None) -> None:
        self._act("")
        book, where = self._machine(event.machine), f"machine {event.machine}"
        self._number(book, event.machine, event.number)
        match event.what:
            case "state":
                book.state = event.new_number
            case "capacity":
                book.capacity, book.over, book.peak = event.new_capacity, False, None
            case "tree":
                book.tree = event.value
            case "attributes":
                named = attributes_in(fact.settings)
                strange = book.name not in (None, *named) or event.new_number != len(next(iter(named.values()), ()))
                if len(named) != 1 or strange:
                    what = f"changes machine {event.machine} to {event.value} attributes, beside it are {named}"
                    self.say(3, what, f"log {fact.version}")
                book.attributes = next(iter(named.values()), None)
                book.described = fact.version
        if book.allocated is not None and book.allocated != event.amounts:
            what = f"{list(event.amounts)} allocated at a change of it, {list(book.allocated)} before"
            self.say(1, what, where)
        book.hold(event.amounts)

    # Placements

    def _place(self, fact: Fact, event: log.Place, _: Event | None) -> None:
        self._act(event.job)
        name, need, count, where = event.placement, event.need, event.size, f"placement {event.placement}"
        if self.last_placement is not None and name != self.last_placement + 1:
            self.say(5, f"its id came after {self.last_placement}; ids rise by one", where)
        self.first_placement = name if self.first_placement is None else self.first_placement
        self.last_placement = max(self.last_placement or 0, name)
        book, job, group = self._machine(event.machine), self._job(fact, event.job), self._group(event)
        self.placements.put(name, event.machine, group.number, event.tasks)
        group.need = self._shared(need) if group.need is None else group.need
        if group.need != need:
            self.say(1, f"takes {', '.join(map(str, need))} a task, others of its group do not", where)
        self._rise(book)
        book.hold(changed_by(book.allocated, need, count))
        if book.allocated is not None and book.capacity is None:
            book.peak = book.allocated if book.peak is None else tuple(map(max, book.allocated, book.peak))
        elif book.allocated is not None and book.capacity is not None and exceeds(book.allocated, book.capacity):
            what = f"placement {name} left {list(book.allocated)} allocated of {list(book.capacity)}"
            self.say(1, what, f"machine {event.machine}")
        job.unplaced -= count
        job.placed += count
        self._placers.add(event.job)
        since = fact.version - 1 if fact.basis is None else fact.basis.since
        placed = PlacedClaim(version=fact.version, since=since, machine=event.machine, job=event.job, group=event.group)
        self.claims.append(placed)

    def _ends(self, fact: Fact, event: log.End, after: Event | None) -> None:
        how, count, winner = event.word, event.size, event.winner
        self._act(winner)
        book, job, group = self._machine(event.machine), self._job(fact, event.job), self._group(event)
        self._number(book, event.machine, event.number)
        self._give_up(book, group, event)
        self._take_off(event)
        job.begun = job.begun or how != "finished"
        job.placed -= count
        job.end(how, count)
        self._ended[event.job] += count * (how != "evicted")
        if how in ("evicted", "failed"):
            self._arrive(job)
        if how in _RETURNS and job.live:
            group.returned += ((how, event.tasks, event.placement),)
        if how in ("lost", "retried"):
            if job.live and group.delayed is not None:
                group.delayed = ranges.add(group.delayed, event.tasks)
            already = self._lost.get(event.placement, ("", 0, ranges.EMPTY))[2]
            self._lost[event.placement] = event.job, event.group, ranges.add(already, event.tasks)
        if how == "evicted":
            self._victims.add(event.job)
            if winner:
                self._evictors[winner] = event.placement
            if winner and event.reason.startswith("fair-share:"):
                self._evict_for_share(event, group.need)
            else:
                self._check_eviction(fact, event, dropped=isinstance(after, log.Drop) and after.job == event.job)

    def _give_up(self, book: MachineBook, group: GroupBook, event: log.End) -> None:
        """1: an end leaves what its tasks do not hold; an eviction of a transaction states what all of that leaves."""
        before, amounts = book.allocated, event.amounts
        left = changed_by(before, group.need, -event.size)
        if event.winner:
            book.hold(left)
            if left is not None and left != amounts:
                book.awaited += (amounts,)
                self._emptied[event.machine] = book
            return
        if left is None and before is not None and group.need is None:
            changes = [Fraction(was - now, event.size) for was, now in zip(before, amounts, strict=True)]
            group.need = tuple(int(each) if each.denominator == 1 else each for each in changes)
        elif left is not None and left != amounts:
            what = f"{list(amounts)} allocated after the end of placement {event.placement}, by the facts {list(left)}"
            self.say(1, what, f"machine {event.machine}")
        book.hold(amounts)

    def _take_off(self, event: log.End) -> None:
        """5: tasks end once, on the machine of their placement."""
        tasks, where, book = event.tasks, f"placement {event.placement}", self._placement(event, event.group)
        if book is None:
            return
        if book.tasks is None:
            if ranges.split(book.gone, tasks)[0] != ranges.EMPTY:
                self.say(5, f"tasks {tasks} ended before", where)
            book.gone = _joined(book.gone, tasks)
        elif book.tasks == tasks:
            book.tasks = ranges.EMPTY
        else:
            inside, book.tasks = ranges.split(book.tasks, tasks)
            if ranges.count(inside) != event.size:
                self.say(5, f"tasks {tasks} ended, of which only {inside} were placed", where)
        if event.word in ("evicted", "stopped"):
            book.leaving = _joined(book.leaving, tasks)
        self._drop_ended(event.placement, book)

    def _left(self, _: Fact, event: log.Left, __: Event | None) -> None:
        self._act("")
        self._machine(event.machine)
        if (book := self._placement(event, event.group)) is None:
            return
        inside, book.leaving = ranges.split(canonical(book.leaving), canonical(event.tasks))
        if book.tasks is not None and ranges.count(inside) != event.size:
            what = f"tasks {event.tasks} left, of which only {inside} were leaving"
            self.say(5, what, f"placement {event.placement}")
        self._drop_ended(event.placement, book)

    def _placement(self, event: log.TaskEvent, group: int) -> PlacementBook | None:
        name, owner, where = event.placement, (event.machine, event.job, group), f"placement {event.placement}"
        book = self.placements.take(name)
        if book is None and (self.first_placement is None or name < self.first_placement):
            book = self.placements.books[name] = PlacementBook(owner=owner, tasks=None)
        if book is None:
            self.say(5, "ends or leaves and is not placed (any more)", where)
        elif book.owner != owner:
            self.say(5, f"was placed as (machine, job, group) {book.owner} and ends as {owner}", where)
        return book

    def _drop_ended(self, name: int, book: PlacementBook) -> None:
        if book.tasks == book.leaving == ranges.EMPTY:
            del self.placements.books[name]

    def _check_eviction(self, fact: Fact, event: log.End, *, dropped: bool) -> None:
        """5: every eviction has a reason; for precedence it is strictly lower than the evictor's.

        The precedence of an optional task is 0, whatever its job's: the fact that it is `dropped` follows at once,
        unless its job was stopped or abandoned; whether the group is optional is then read from the job's record.
        """
        where, winner = f"placement {event.placement}", event.winner
        if not winner:
            if log.reason_of(event).partition(":")[0] not in REASONS:
                self.say(5, f"evicted for {event.reason!r}; want precedence:JOB, {', '.join(REASONS)}", where)
            return
        victim, evictor = self.jobs[event.job], self.jobs.setdefault(winner, JobBook())
        low, high = victim.precedence, evictor.precedence
        if dropped and (high is None or high):
            return
        if low is None or high is None or not victim.open:
            group = None if victim.open else event.group
            self.undecided.append((fact.version, event.placement, event.job, winner, group))
        elif low >= high:
            self.say(5, f"precedence {low} of job {event.job} gave way to {high} of {winner}", where)

    def _evict_for_share(self, event: log.End, need: Need | None) -> None:
        asserted = self._set
        if asserted is None or asserted.asserted.job != event.winner:
            what = f"evicted for the share of {event.winner}, which asserted nothing"
            self.say(5, what, f"placement {event.placement}")
        elif need is None:
            asserted.known = False
            asserted.sums.setdefault(event.job, (0,) * self.size)
        else:
            asserted.units.setdefault(event.job, []).append(need)
            before = asserted.sums.get(event.job, (0,) * self.size)
            asserted.sums[event.job] = tuple(was + each * event.size for was, each in zip(before, need, strict=True))

    # Lost tasks

    def _take(self, group: GroupBook, tasks: str) -> int:
        """Tasks are delayed no longer; return how many of them were."""
        if group.delayed is None:
            return ranges.count(tasks)
        inside, group.delayed = ranges.split(group.delayed, tasks)
        return ranges.count(inside)

    def _at_once(self, event: log.Fail | log.Drop | log.Outcome) -> None:
        """4: the end that makes tasks fail, drops optional ones, or lets a copy go on is the fact before."""
        end, how = self._end, event.how
        same = end is not None and (end.word, end.job, end.group) == (how, event.job, event.group)
        tasks = event.tasks if not isinstance(event, log.Drop) else end.tasks if end is not None and same else ""
        if (
            end is None
            or not same
            or (isinstance(event, log.Drop) and event.number != end.size)
            or (ranges.count(ranges.split(end.tasks, tasks)[0]) != ranges.count(tasks))
        ):
            what = f"{event.word} of tasks {event[-2]} of group {event.group} follows no fact that they were {how}"
            self.say(4, what, f"job {event.job}")
        elif how in ("lost", "retried"):
            self._take(self._group(event), tasks)

    def _fail(self, fact: Fact, event: log.Fail, _: Event | None) -> None:
        job = self._job(fact, event.job)
        self._at_once(event)
        job.unplaced -= event.size
        job.failed += event.size

    def _drop(self, fact: Fact, event: log.Drop, _: Event | None) -> None:
        job, group = self._job(fact, event.job), self._group(event)
        self._at_once(event)
        group.dropped, group.total = True, None if group.total is None else group.total - event.number
        job.end(event.how, -event.number)

    def _promote(self, fact: Fact, event: log.Outcome, _: Event | None) -> None:
        """4: a copy is promoted at once when its original ended; that is then neither delayed nor lost."""
        job, group = self._job(fact, event.job), self._group(event)
        self._at_once(event)
        self._rise(self._machine(event.machine))
        if copy := self._placement(event, event.group + 1):
            copy.owner = event.machine, event.job, event.group
        job.end(event.how, -1)
        for at in reversed(range(len(group.returned)) if event.how in ("lost", "retried") else ()):
            how, tasks, placement = group.returned[at]
            inside, rest = ranges.split(tasks, event.tasks)
            if how == event.how and inside != ranges.EMPTY:  # of one run several tasks may have copies
                instead = (how, rest, placement), ("evicted", event.tasks, placement)
                group.returned = (*group.returned[:at], *instead, *group.returned[at + 1 :])
                return

    def _late(self, fact: Fact, event: log.Outcome, _: Event | None) -> None:
        """5: tasks that ended late were lost before, of the same placement; the store does not keep its machine."""
        job, name, tasks = self._job(fact, event.job), event.placement, event.tasks
        of_job, group, lost = self._lost.get(name, (event.job, event.group, ranges.EMPTY))
        inside, rest = ranges.split(lost, tasks)
        known = self.first_placement is not None and name >= self.first_placement
        if (of_job, group) != (event.job, event.group) or (known and ranges.count(inside) != event.size):
            where = f"{event.group} of {event.job}"
            what = f"tasks {tasks} of group {where} ended late; lost were {lost} of (job, group) {(of_job, group)}"
            self.say(5, what, f"placement {name}")
        self._lost[name] = of_job, group, rest
        self._take(self._group(event), tasks)
        self._arrive(job)
        job.unplaced -= event.size
        job.end("finished" if event.how == "finished" else "failed", event.size)

    def _requeue(self, fact: Fact, event: log.SpanEvent, _: Event | None) -> None:
        """4: what is queued again was delayed."""
        job = self._job(fact, event.job)
        self._arrive(job)
        if self._take(self._group(event), event.tasks) != event.size and job.live:
            what = f"tasks {event.tasks} of group {event.group} are queued again and were not delayed"
            self.say(4, what, f"job {event.job}")

    def _copy(self, fact: Fact, event: log.SpanEvent, _: Event | None) -> None:
        job = self._job(fact, event.job)
        job.unplaced += event.size if event.word == "speculate" else -event.size
        if event.word == "speculate":
            self._arrive(job)

    # Jobs

    def _job(self, fact: Fact, job_id: str) -> JobBook:
        """Return the book of a job, which a log that is complete has from its submission on."""
        if job_id not in self.jobs:
            if self.complete:
                what = f"says {fact.event.word} of job {job_id}, which was not submitted"
                self.say(3, what, f"log {fact.version}")
            self.jobs[job_id] = JobBook()
        return self.jobs[job_id]

    def _group(self, event: log.TaskEvent | log.SpanEvent | log.Drop | log.Resize) -> GroupBook:
        """Return the book of a group of the last job of its id."""
        owner, job = (event.job, event.group), self.jobs[event.job]
        if (group := self.groups.get(owner)) is None:
            group = self.groups[owner] = GroupBook(job, len(self.groups))
            self.placements.owners.append(owner)
        elif group.job is not job:
            group = self.groups[owner] = GroupBook(job, group.number)
        return group

    def _arrive(self, job: JobBook) -> None:
        """A fact of this version may have put a job into the queue."""
        job.arrived = job.arrived[0], self.version

    def _submit(self, fact: Fact, event: log.Submit, _: Event | None) -> None:
        self.submissions += 1
        gangs, groups = terms_in(fact.settings)
        self.jobs[event.job] = JobBook(
            version=fact.version, name=event.name, kind=self._shared(event.kind), precedence=event.precedence,
            submitter=fact.by, submitted_ms=fact.at_ms, indices=event.total, unplaced=event.total,
            order=self.submissions if self.complete else None, modified=self._only,
            surely=True, arrived=self._span, gate="", released=False, update="",
            gang=self._shared(gangs.get(event.job, (0, 0))), groups=self._shared(groups.get(event.job)),
        )  # fmt: skip

    def _modify(self, job: JobBook, version: int, *, surely: bool = True) -> None:
        """A person changed a job, or without `surely` perhaps not a person."""
        job.modified = frozenset({version}) if surely else job.modified | {version}
        job.surely = job.surely or surely

    def _hold(self, fact: Fact, event: log.JobEvent, _: Event | None) -> None:
        job = self._job(fact, event.job)
        if job.held:
            self.say(3, f"says again that {event.job} is held", f"log {fact.version}")
        job.held = True
        self._modify(job, fact.version)

    def _gate(self, fact: Fact, event: log.Said | log.JobEvent, _: Event | None) -> None:
        """Process the hold of a gate, or its end by the gate or by a person."""
        job, reason = self._job(fact, event.job), event.reason if isinstance(event, log.Said) else ""
        changes = job.gate != reason or (event.word == "release" and job.held is not False)
        if not changes or (event.word == "gate" and job.released):
            what = f"says {event.word} of job {event.job}, which changes nothing"
            self.say(3, what, f"log {fact.version}")
        job.released = True if event.word == "release" and job.gate else job.released
        job.gate = reason
        self._arrive(job)

    def _released(self, fact: Fact, event: log.Release, _: Event | None) -> None:
        job = self._job(fact, event.job)
        if event.word == "met":
            job.waits -= {event.other}
        elif event.other:
            job.waits = NONE
            self._arrive(job)
            self._modify(job, fact.version, surely=False)
        else:
            self._gate(fact, event, None)
            job.held = False
            self._modify(job, fact.version)

    def _awaited(self, fact: Fact, event: log.Awaited, _: Event | None) -> None:
        job, waiting = self._job(fact, event.job), self._job(fact, event.waiting)
        waiting.waits |= {event.job}
        waiting.waits_ever |= {event.job}
        job.awaited = True

    def _attempt(self, fact: Fact, event: log.JobEvent, _: Event | None) -> None:
        self._job(fact, event.job).begun = True

    def _resize(self, fact: Fact, event: log.Resize, _: Event | None) -> None:
        job, group = self._job(fact, event.job), self._group(event)
        self._modify(job, fact.version, surely=False)
        self._arrive(job)
        job.unplaced += event.added
        job.stopped -= event.stopped
        group.delayed, group.total = None, event.total
        if event.taken and not event.given:
            what = f"its group {event.group} takes tasks {event.taken} over and gave no index out"
            self.say(4, what, f"job {event.job}")
        before, group.grown = group.grown, event.given if event.taken else group.grown + max(0, event.added)
        job.indices += group.grown - before

    def _stop(self, fact: Fact, event: log.Stop, _: Event | None) -> None:
        job = self._job(fact, event.job)
        job.open = False
        if event.word == "abandon" and event.reason:
            self.say(3, f"is abandoned for {event.reason!r}; only a stop has a reason", f"job {event.job}")
        job.unplaced -= event.number
        job.stopped += event.number
        if event.word == "stop" and not event.reason:
            self._modify(job, fact.version)

    def _done(self, fact: Fact, event: log.Done, _: Event | None) -> None:
        job = self._job(fact, event.job)
        if job.ended is not None:
            self.say(3, f"says again that {event.job} is done", f"log {fact.version}")
        job.state, job.ended = event.state, fact.version

    def _update(self, fact: Fact, event: log.JobEvent, _: Event | None) -> None:
        job, added = self._job(fact, event.job), terms_in(fact.settings)[1].get(event.job)
        self._modify(job, fact.version)
        job.update = "rolling"
        job.groups = None if added is None or job.groups is None else (*job.groups, *added)

    def _settled(self, fact: Fact, event: log.Said | log.JobEvent, _: Event | None) -> None:
        self._job(fact, event.job).update = f"stalled {event.reason}" if isinstance(event, log.Said) else ""

    # Members and settings

    def _member(self, fact: Fact, event: log.Member, _: Event | None) -> None:
        name, incarnation, where = event.member, event.incarnation, f"log {fact.version}"
        if event.word == "enlist":
            if self.incarnation and incarnation <= self.incarnation:
                self.say(3, f"{name} got incarnation {incarnation} after {self.incarnation}", where)
            self.incarnation = max(self.incarnation, incarnation)
            self.settings[f"member {name}"] = incarnation
            return
        known = self.settings.get(f"member {name}", None if self.complete else incarnation)
        if known != incarnation:
            self.say(3, f"{name} left as incarnation {incarnation}, it had {known}", where)
        self.settings[f"member {name}"] = None

    def _limit(self, _: Fact, event: log.Limit, __: Event | None) -> None:
        band = event.lowest or 0, MOST_PRECEDENCE if event.highest is None else event.highest
        limits = Limits(event.resources, event.jobs, band)
        self.settings[f"kind {event.kind}"] = None if limits == Limits((None,) * self.size) else limits

    def _pool(self, fact: Fact, event: log.Pool | log.Trees | log.Reset, _: Event | None) -> None:
        self.settings["pools"] = fact.version
        match event:
            case log.Reset():  # unreadable pools were replaced
                self.settings |= dict.fromkeys((*map(pool_place, self.pools), "pool trees"))
                self.pools = {}
            case log.Trees():
                self.settings["pool trees"] = None if event.digest == digest(b"") else event.digest
            case log.Pool():
                name, said = self.pools.get(event.number, (event.name, ""))
                if name != event.name or said == "-":
                    what = f"gives pool {event.name} the number {event.number}, which was that of {name}"
                    self.say(3, what, f"log {fact.version}")
                self.pools[event.number] = now = event.name, event.digest
                self.settings[pool_place(event.number)] = None if event.digest == "-" else now

    def _epoch(self, fact: Fact, event: log.Epoch, _: Event | None) -> None:
        before = self.epoch[:2] if self.epoch else (0 if self.complete else event.number - 1, 0)
        if event.number != before[0] + 1 or not before[1] <= event.of_version < fact.version:
            what = f"publishes epoch {event.number} of version {event.of_version} after {before}"
            self.say(3, what, f"log {fact.version}")
        self.epoch = EpochMade(event.number, event.of_version, event.digest, fact.version, fact.by)
        self.settings["epoch"] = tuple(self.epoch)
        if "pools" in self.settings:
            self.settings["pools of the epoch"] = self.settings["pools"]

    def _go_ahead(self, fact: Fact, event: log.Restore | log.Cut, _: Event | None) -> None:
        """5: after a restore or a cut, a cell assigns ids above all that were assigned in the lost versions."""
        if self.last_placement is not None and event.placements < self.last_placement:
            what = f"{event.word}: goes on with {event.placements} as the last id, after {self.last_placement}"
            self.say(5, what, "placements")
        self.last_placement = event.placements
        for job in self.jobs.values() if isinstance(event, log.Restore) else ():
            self._arrive(job)  # indexes were written anew: those that were missing come last


def pool_place(number: int) -> str:
    """Return the place of the settings of a pool."""
    return f"pool number {number}"


def changed_by(amounts: Amounts | None, need: Need | None, count: int) -> Amounts | None:
    """Return amounts with so many needs added, below 0 taken off; None when one of them is not known."""
    if amounts is None or need is None:
        return None
    return tuple([int(amount + count * each) for amount, each in zip(amounts, need, strict=True)])


def exceeds(amounts: Iterable[int], capacity: Iterable[int]) -> bool:
    """Return whether any amount is above the capacity."""
    return any(amount > most for amount, most in zip(amounts, capacity, strict=True))


def canonical(text: str) -> str:
    """Return the same set with pieces ascending and joined where they touch; callers may end ``1,2,3``."""
    return ranges.add(ranges.EMPTY, text)


def _joined(text: str, tasks: str) -> str:
    return canonical(f"{text},{tasks}" if text != ranges.EMPTY else tasks)
