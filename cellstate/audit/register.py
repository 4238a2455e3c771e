"""The directories of a cell as the log's facts define them: names, members, limits, modify indices, the change list.

`replay` has the books of machines, jobs and placements; `directories` compares this register with the store's
directories.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from typing import NamedTuple

from omega.cellstate import ranges
from omega.cellstate.logged_settings import GangTerms, Terms, attributes_in, terms_in
from omega.cellstate.model import GroupStatus, JobState, MachineState
from omega.cellstate.pools.records import digest
from omega.cellstate.replies import Fact
from omega.cellstate.tasks import TaskLoss
from omega.cellstate.transaction import Verdict

# Accounts of machines, jobs, placements and needs, which a replay of the log keeps.

Amounts = tuple[Fraction, ...]
Need = tuple[int | Fraction, ...]
"""What tasks take; fractions where the log shows only what several of them took together."""
NONE: frozenset[int] = frozenset()
"""An empty set of one object, because a cell has many jobs."""


@dataclass(slots=True, kw_only=True)
class MachineBook:
    """A machine after its last fact; None where the remaining log has no information."""

    number: int | None = None
    version: int = 0
    block: int = 0
    amounts: tuple[int, ...] | None = None
    capacity: tuple[int, ...] | None = None
    state: int | None = None
    over: bool | None = False
    """Whether it may hold more than it has: it came back smaller and was not repaired since."""
    peak: tuple[int, ...] | None = None
    """The largest amounts after a placement while the capacity was not known."""
    awaited: list[tuple[int, ...]] = field(default_factory=list)
    """Amounts by evictions of a transaction, which state what the whole transaction leaves."""

    def rise(self, version: int, block: int) -> None:
        """Count a placement: its number rises once in a transaction, which is a block of facts."""
        if self.number is not None and (self.version, self.block) != (version, block):
            self.number += 1
        self.version, self.block = version, block

    def hold(self, amounts: tuple[int, ...] | None) -> None:
        """Note what it holds after a fact."""
        self.amounts = amounts
        if self.awaited:
            self.awaited = [each for each in self.awaited if amounts is not None and each != amounts]
        if amounts is not None and self.over is not False and self.capacity is not None:
            self.over = exceeds(amounts, self.capacity)


@dataclass(slots=True, kw_only=True)
class JobBook:
    """Counts of a job by its facts: absolute when its submission is in the log, otherwise relative."""

    known: bool = False
    precedence: int = 0
    open: bool = True
    """Whether tasks that are put back wait again; not once the job was stopped."""
    unplaced: int = 0
    placed: int = 0
    finished: int = 0
    failed: int = 0
    stopped: int = 0
    least: int | None = None
    """The fewest and the most tasks left unplaced after a transaction that placed some."""
    most: int | None = None
    fewest: int | None = None
    """The fewest tasks placed after a transaction that placed some and left others unplaced."""
    torn: frozenset[int] = NONE
    """Tasks left placed after each transaction that evicted some."""

    def take_back(self, how: str, count: int) -> None:
        """Take back what the fact before counted of tasks that ended in this way."""
        if how == "finished":
            self.finished -= count
        elif how == "failed":
            self.failed -= count
        elif how == "stopped" or not self.open:
            self.stopped -= count
        else:
            self.unplaced -= count


def counts_of(counted: JobBook | GroupStatus) -> tuple[int, ...]:
    """Return the tasks of a job or of a group that are unplaced, placed, finished, failed and stopped."""
    return counted.unplaced, counted.placed, counted.finished, counted.failed, counted.stopped


@dataclass(slots=True)
class PlacementBook:
    """What of a placement runs and what leaves. `gone`: what ended of one placed before the log begins."""

    owner: tuple[str, str, str]
    """Machine, job, group."""
    tasks: str | None
    leaving: str = ranges.EMPTY
    gone: str = ranges.EMPTY
    _: KW_ONLY
    placed: str | None = None
    """All its tasks; None of one placed before the log begins."""


class Needs:
    """What a task of each group takes: placements state it; ends show it where the amounts before are known."""

    def __init__(self) -> None:
        """Nothing is known."""
        self.known: dict[str, dict[str, Need]] = {}

    def forget(self, job: str) -> None:
        """Forget a job whose id is submitted again: the job of that id before was deleted."""
        self.known.pop(job, None)

    def state(self, job: str, group: str, need: Need) -> bool:
        """Note what a task takes; return whether it is what was known."""
        return self.known.setdefault(job, {}).setdefault(group, need) == need

    def learn(self, job: str, group: str, before: tuple[int, ...], after: tuple[int, ...], tasks: int) -> None:
        """Note what a task takes, as the end of some showed."""
        changes = [was - now for was, now in zip(before, after, strict=True)]
        whole = all(change % tasks == 0 for change in changes)  # whole numbers count five times as fast
        each = tuple(change // tasks if whole else Fraction(change, tasks) for change in changes)
        self.known.setdefault(job, {}).setdefault(group, each)

    def of(self, job: str, group: str, tasks: int) -> Need | None:
        """What so many tasks take together; None when the log does not show it."""
        need = self.known.get(job, {}).get(group)
        return None if need is None else tuple(amount * tasks for amount in need)


def exact(need: Need | None) -> Amounts | None:
    """Return a need for divisions."""
    return None if need is None else tuple(map(Fraction, need))


def changed_by(amounts: tuple[int, ...] | None, need: Need | None, sign: int) -> tuple[int, ...] | None:
    """Return amounts with a need added or, by the sign, taken off; None when one of them is not known."""
    if amounts is None or need is None:
        return None
    return tuple(int(amount + sign * each) for amount, each in zip(amounts, need, strict=True))


def exceeds(amounts: tuple[int, ...], capacity: tuple[int, ...]) -> bool:
    """Return whether any amount is above the capacity."""
    return any(amount > most for amount, most in zip(amounts, capacity, strict=True))


def canonical(text: str) -> str:
    """Return the same set with pieces ascending and joined where they touch; callers may end ``1,2,3``."""
    return ranges.add(ranges.EMPTY, text)


# Lost tasks by the facts of the log: which are delayed, queued again, failed, dropped, or reported late.

ENDS = ("finished", "failed", "retried", "lost", "evicted", "stopped")
Complaint = tuple[int, str, str]
"""Invariant, what is wrong, where."""


class LossBook:
    """Follows the facts about lost tasks; each job counts from its submission on."""

    def __init__(self) -> None:
        """Nothing is lost."""
        self.known: set[str] = set()
        """Live jobs that were submitted in this log."""
        self.delayed: dict[tuple[str, str], str | None] = {}
        """Delayed tasks by job and group; None after a resize, which may queue some again without a fact."""
        self.history: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
        """Ends of placements whose tasks are placed again, by job and group of `known`: how, tasks, placement."""
        self._lost: dict[int, tuple[tuple[str, ...], str]] = {}
        """Job and group, and tasks, of lost placements."""
        self._ended: tuple[str, ...] = ()
        """How, job, group and tasks of the end that was the fact before."""

    def enter(self, words: tuple[str, ...], first: int | None) -> Iterator[Complaint]:
        """Enter a fact; `first` is the first placement that the log has. Yields what contradicts earlier facts."""
        word, before = words[0], self._ended
        if word not in ("fail", "drop", "promote", "unneeded"):
            self._ended = ()
        if word == "submit":
            self.known.add(words[1])
        elif word in ("stop", "abandon"):
            self.known.discard(words[1])
        elif word == "resize":
            self.delayed[words[1], words[2]] = None
        elif word in ENDS:
            self._ended = (word, *words[3:6])
            if word in ("lost", "retried"):
                self._delay(words[3], words[4], words[5])
                _, already = self._lost.get(int(words[1]), ((), ranges.EMPTY))
                self._lost[int(words[1])] = words[3:5], ranges.add(already, words[5])
            if word in ("lost", "retried", "evicted") and words[3] in self.known:
                self.history.setdefault((words[3], words[4]), []).append((word, words[5], int(words[1])))
        elif word in ("fail", "drop"):
            yield from self._at_once(words, before)
        elif word == "promote":
            yield from self._promote(words, before)
        elif word == "late":
            yield from self._late(words, first)
        elif word == "requeue":
            yield from self._requeue(*words[1:])

    def miscounted(self, job: str, group: str, losses: Iterable[TaskLoss], proven: int) -> Iterator[str]:
        """Yield what is wrong with the numbers of losses and of retried failures of tasks.

        Placements up to `proven` may have reset both, however they ended.
        """
        least, most = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        for how, tasks, placement in self.history.get((job, group), ()):
            for first, last in ranges.spans(tasks):
                for task in range(first, last + 1):
                    if placement <= proven:
                        least["lost", task] = least["retried", task] = 0
                    most[how, task] += 1
                    least[how, task] += 1
        for loss in losses:
            for first, last in ranges.spans(loss.tasks):
                for how, times in (("lost", loss.times), ("retried", loss.retried.failures)):
                    of = [(how, task) for task in range(first, last + 1)]
                    wrong = next((each for each in of if not least[each] <= times <= most[each]), None)
                    if wrong:
                        what = f"from {least[wrong]} to {most[wrong]}"
                        yield f"task {wrong[1]} of group {group} was {how} {times} times, by the log {what} times"

    def _delay(self, job: str, group: str, tasks: str) -> None:
        known = self.delayed.get((job, group), ranges.EMPTY)
        if job in self.known and known is not None:
            self.delayed[job, group] = ranges.add(known, tasks)

    def _take(self, job: str, group: str, tasks: str) -> int:
        """Tasks are delayed no longer; returns how many of them were."""
        known = self.delayed.get((job, group), ranges.EMPTY)
        if known is None:
            return ranges.count(tasks)
        inside, self.delayed[job, group] = ranges.split(known, tasks)
        return ranges.count(inside)

    def _at_once(self, words: tuple[str, ...], ended: tuple[str, ...]) -> Iterator[Complaint]:
        """4: the end that makes tasks fail, or drops optional ones, is the fact before."""
        word, job, group, tasks, how = words  # of a promotion the how of its original's end
        if word == "drop" and ended and int(tasks) == ranges.count(ended[3]):
            tasks = ended[3]
        inside = ranges.split(ended[3], tasks)[0] if ended[:3] == (how, job, group) and tasks else ranges.EMPTY
        if ranges.count(inside) != ranges.count(tasks):
            yield 4, f"{word} of tasks {tasks} of group {group} follows no fact that they were {how}", f"job {job}"
        elif how in ("lost", "retried"):
            self._take(job, group, tasks)

    def _promote(self, words: tuple[str, ...], ended: tuple[str, ...]) -> Iterator[Complaint]:
        """4: a copy is promoted at once when its original ended; that is then neither delayed nor lost."""
        _, _, _, job, group, task, how = words
        yield from self._at_once(("promote", job, group, task, how), ended)
        losses = self.history.get((job, group), [])
        for at in reversed(range(len(losses)) if how in ("lost", "retried") else ()):
            what, tasks, placement = losses[at]
            inside, rest = ranges.split(tasks, task)
            if what == how and inside != ranges.EMPTY:  # of one run several tasks may have copies
                losses[at : at + 1] = [(how, rest, placement), ("evicted", task, placement)]
                return

    def _late(self, words: tuple[str, ...], first: int | None) -> Iterator[Complaint]:
        """5: tasks that ended late were lost before, of the same placement; the store does not keep its machine."""
        _, placement, _, job, group, tasks, _ = words
        owner, lost = self._lost.get(int(placement), ((job, group), ranges.EMPTY))
        inside, rest = ranges.split(lost, tasks)
        known = first is not None and int(placement) >= first
        if owner != (job, group) or (known and ranges.count(inside) != ranges.count(tasks)):
            what = f"tasks {tasks} of group {group} of {job} ended late; lost were {lost} of (job, group) {owner}"
            yield 5, what, f"placement {placement}"
        self._lost[int(placement)] = owner, rest
        self._take(job, group, tasks)

    def _requeue(self, job: str, group: str, tasks: str) -> Iterator[Complaint]:
        """4: what is queued again was delayed."""
        if self._take(job, group, tasks) != ranges.count(tasks) and job in self.known:
            yield 4, f"tasks {tasks} of group {group} are queued again and were not delayed", f"job {job}"


TOUCHED = 8_224
"""The longest change list (docs/scale.md, Limits and sizes)."""
_MACHINE_AT = {**dict.fromkeys(("place", "left", "promote", *ENDS), 2), "join": 1, "machine": 1}
_JOB_AT = dict.fromkeys(("place", "late", "promote", *ENDS), 3)
"""Position of the machine and of the job among a fact's words."""
_LENGTHS = {
    "submit": (6, 6), "awaited": (3, 3), "met": (3, 3), "hold": (2, 2), "gate": (3, 99), "pass": (2, 2),
    "release": (2, 3), "resize": (6, 8),
    "drop": (5, 5), "stop": (3, 4), "abandon": (3, 3), "done": (3, 3), "update": (2, 2), "updated": (2, 2),
    "stalled": (3, 99), "left": (6, 99), "conflict": (5, 7),
    "aborted": (3, 9_999), "rejected": (3, 3), "enlist": (3, 3), "leave": (3, 3), "lapse": (3, 3),
    "fit": (3, 3), "unfit": (4, 99),
    "pool": (4, 4), "trees": (2, 2), "epoch": (4, 4), "reset": (2, 2), "restore": (3, 3), "cut": (6, 6),
    "assert": (3, 99), "fail": (5, 5), "requeue": (4, 4), "speculate": (4, 4), "unneeded": (4, 4),
    "promote": (7, 7), "late": (7, 7), "attempt": (2, 2), "again": (2, 2),
}  # fmt: skip
"""Minimum and maximum number of a fact's words, without amounts of machines."""
_MAY_REPEAT = ("conflict", "aborted", "rejected", "awaited", "drop", "assert", "again")
"""Facts that may repeat in a version: two claims may have the same conflict; a job may wait for the end and for the
success of another; two placements of optional tasks may end in one call (totals reveal an extra fact)."""
_LENGTHS_WITH_AMOUNTS = {
    "place": (6, 6), **dict.fromkeys(ENDS, (8, 99)), "join": (4, 4), "machine": (5, 5), "limit": (5, 5),
}  # fmt: skip


_OF_NO_JOB = frozenset({"restore", "cut", "fit", "unfit", "left", "conflict", "aborted", "rejected", "assert"})
"""Facts that change nothing of a job in the register."""


class ChangedMachine(NamedTuple):
    """A changed machine after a version; None where the remaining log has no information."""

    number: int | None = None
    state: int | None = None
    executor: str | None = None
    capacity: tuple[int, ...] | None = None
    amounts: tuple[int, ...] | None = None


@dataclass(slots=True)
class MachineFacts:
    """A machine's name, the executor that brought it, its attributes and its tree; None where unknown."""

    name: str | None = None
    executor: str | None = None
    attributes: Mapping[str, str] | None = None
    tree: str | None = None
    """The number of its tree, "-" for none."""


@dataclass(slots=True)
class CommitFacts:
    """What the log has of one commit."""

    version: int
    _: KW_ONLY
    tasks: int = 0
    """Placed tasks."""
    blocks: int = 0
    """Transactions that placed some."""
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    """Claims that are moved, full or aborted, and how many were rejected otherwise."""
    rejected: int = 0
    placing: str = ""
    """The job whose transaction placed tasks last."""

    def enter(self, words: tuple[str, ...]) -> None:
        """Enter a fact of its version."""
        word, *rest = words
        if word == "place":
            self.tasks += ranges.count(rest[4])
            self.blocks += self.placing != rest[2]
            self.placing = rest[2]
        elif word == "again":
            self.placing = ""
        elif word == "conflict":
            self.verdicts[Verdict(int(rest[2]))] += 1
        elif word == "aborted":
            self.verdicts[Verdict.ABORTED] += len(rest) - 1
        elif word == "rejected":
            self.rejected += int(rest[1])


NOBODY: frozenset[str] = frozenset()
_BEGINS = frozenset({"attempt", "failed", "retried", "lost", "evicted", "stopped"})
"""Facts after which the first wait of their job is over."""


@dataclass(slots=True)
class JobFacts:
    """A job's facts beside its counts; None where the remaining log has no information."""

    submitted: tuple[str, str, int, int] | None = None
    """Name, kind, total and time (ms)."""
    submitter: str = ""
    order: int | None = None
    modified: frozenset[int] = NONE
    """Versions that may be its modify index."""
    surely: bool = False
    """Whether its modify index is certainly among them."""
    arrived: tuple[int, int] = (0, 0)
    """The earliest and the latest version that may have put it last into the queue."""
    _: KW_ONLY
    held: bool | None = None
    ended: tuple[int, int] | None = None
    """Its final state and the version in which it ended."""
    awaits: frozenset[str] = NOBODY
    """Jobs that it waits for."""
    waits_ever: frozenset[str] = NOBODY
    """Jobs that it waited for at its submission."""
    awaited: bool = False
    """Whether jobs waited for it at their submission."""
    gate: str | None = None
    """Why the gate of its scheduler holds it, "" for not; None where the log does not have it."""
    released: bool | None = None
    """Whether a person released it from its gate."""
    begun: bool = False
    """Whether an attempt placed nothing, or tasks were taken off a machine unfinished."""
    gang: GangTerms | None = None
    terms: tuple[Terms, ...] | None = None
    """What of its groups never changes; None where the log does not have it."""
    indices: int = 0
    """Indices of tasks that it was submitted with, without those of copies; of a job that was submitted in the log."""
    grown: dict[int, int] = field(default_factory=dict)
    """Indices that each group gave out since. A group that takes tasks over had none before."""
    totals: dict[int, int] = field(default_factory=dict)
    """Tasks of its groups after the last resize."""
    optional: frozenset[int] = NONE
    """Groups that tasks were dropped from."""
    update: str | None = None
    """The expected record of its update, "" for none."""

    def begin_update(self, fact: Fact) -> None:
        """Add the groups of an update."""
        self.update = "rolling"
        added = terms_in(fact.settings)[1].get(fact.words[1])
        self.terms = None if added is None or self.terms is None else (*self.terms, *added)


class Register:
    """The directories that follow from the facts."""

    def __init__(self, size: int, *, complete: bool, losses: LossBook | None = None) -> None:
        """Begin; `complete` when the log begins with the cell, which has `size` resources; `losses`: its lost tasks."""
        self.size, self.complete, self.losses = size, complete, losses or LossBook()
        self.submissions = self.incarnation = 0
        self.machines: dict[int, MachineFacts] = {}
        self.jobs: dict[str, JobFacts] = {}
        self.members: dict[str, int | None] = {}
        """Incarnations of schedulers and executors; None for one that left."""
        self.commits: dict[str, CommitFacts] = {}
        """The last commit of each scheduler."""
        self.limits: dict[str, tuple[str, ...]] = {}
        self.pools: dict[int, tuple[str, str]] = {}
        """Names and digests of pools by number; "-" for a removed one."""
        self.trees: str | None = None
        """The digest of the pool trees; None where the remaining log has no information."""
        self.pools_version: int | None = None
        self.epoch: tuple[int, int, str, int, str] | None = None
        """Number, version and digest of the last epoch, the version that published it, and by whom."""
        self.epoch_pools: int | None = None
        """The version of the pools then; None where the log does not have it."""
        self.touched: deque[tuple[int, dict[int, ChangedMachine]]] = deque(maxlen=TOUCHED)
        """Versions that have facts, and the machines that each of them changed."""
        self.wrong: list[tuple[int, str]] = []
        """(version, what) for contradictions among the facts."""
        self._machines_now: dict[int, ChangedMachine] = {}
        self._seen: set[tuple[str, ...]] = set()
        self._version = 0

    def enter(self, fact: Fact) -> None:
        """Enter a fact. Raises ValueError or IndexError for one that cannot be read."""
        self._check(fact)
        self._touch(fact)
        word, words = fact.words[0], fact.words
        if fact.basis is not None:
            if fact.by not in self.commits or self.commits[fact.by].version != fact.version:
                self.commits[fact.by] = CommitFacts(fact.version)
            self.commits[fact.by].enter(words)
        if word == "join":
            entry = self.machines.setdefault(int(words[1]), MachineFacts())
            entry.name, entry.executor, entry.tree = words[2], fact.by, None
            said = "attributes" in fact.settings  # entries of an older version do not have them
            entry.attributes = attributes_in(fact.settings).get(entry.name, {}) if said else None
        elif word == "machine":
            entry = self.machines.setdefault(int(words[1]), MachineFacts())
            if words[2] == "attributes":
                self._described(entry, fact)
            elif words[2] == "tree":
                entry.tree = words[3]
        elif word in ("enlist", "leave", "lapse"):
            self._member(fact)
        elif word == "limit":
            self.limits[words[1]] = words[2:]
        elif word == "reset":
            self.pools, self.trees, self.pools_version = {}, digest(b""), fact.version  # unreadable pools were replaced
        elif word in ("pool", "trees"):
            self._pool(fact)
        elif word == "epoch":
            self._epoch(fact)
        elif word not in _OF_NO_JOB:
            job = self._known(words[_JOB_AT.get(word, 1)], fact)
            (self._gate if word in ("gate", "pass") else self._job)(job, fact)

    def _described(self, entry: MachineFacts, fact: Fact) -> None:
        """Process a change of attributes: the fact has their number, the settings of its entry have them."""
        named = attributes_in(fact.settings)
        if len(named) != 1 or entry.name not in (None, *named) or int(fact.words[3]) != len(*named.values()):
            what = f"changes machine {fact.words[1]} to {fact.words[3]} attributes, beside it are {named}"
            self.wrong.append((fact.version, what))
        entry.attributes = next(iter(named.values()), None)

    def tree_of(self, machine: int) -> str | None:
        """Return the number of a machine's tree, "-" for none; None where the log does not have it."""
        return self.machines[machine].tree if machine in self.machines else None

    def _known(self, job_id: str, fact: Fact) -> JobFacts:
        """Return the facts of a job, which a log that is complete has from its submission on."""
        if self.complete and job_id not in self.jobs and fact.words[0] != "submit":
            self.wrong.append((fact.version, f"says {fact.words[0]} of job {job_id}, which was not submitted"))
        return self.jobs.setdefault(job_id, JobFacts())

    def _check(self, fact: Fact) -> None:
        """Raise ValueError for an unknown word or length; record a duplicate fact."""
        words = fact.words
        if fact.version != self._version:
            self._version = fact.version
            self._seen.clear()
        least, most = _LENGTHS.get(words[0], (0, 0))
        if words[0] in _LENGTHS_WITH_AMOUNTS:
            least, most = (length + self.size for length in _LENGTHS_WITH_AMOUNTS[words[0]])
        if not least <= len(words) <= most or "" in words:
            raise ValueError(words[0])
        if words[0] in _JOB_AT or words[0] == "left":
            ranges.spans(words[5])
        elif words[0] in ("fail", "requeue", "speculate", "unneeded"):
            ranges.spans(words[3])
        if words in self._seen and words[0] not in _MAY_REPEAT:
            self.wrong.append((fact.version, f"has the fact {' '.join(words)!r} twice"))
        self._seen.add(words)
        if words[0] == "machine" and words[2] not in ("state", "capacity", "attributes", "tree"):
            raise ValueError(words[2])

    def _touch(self, fact: Fact) -> None:
        words = fact.words
        if not self.touched or self.touched[-1][0] != fact.version:
            self.touched.append((fact.version, {}))
        at = _MACHINE_AT.get(words[0])
        if at is None:
            return
        index = int(words[at])
        was = self._machines_now.get(index, ChangedMachine())
        if words[0] == "join":
            was = ChangedMachine(None, int(MachineState.UP), fact.by, tuple(map(int, words[4:])))
        if words[0] == "machine" and words[2] == "state":
            was = was._replace(state=int(words[3]))
        elif words[0] == "machine" and words[2] == "capacity":
            was = was._replace(capacity=tuple(map(int, words[3].split(","))))
        self._machines_now[index] = self.touched[-1][1][index] = was

    def settle(self, version: int, books: Mapping[int, MachineBook]) -> None:
        """Note what the machines of a version have after it."""
        if not self.touched or self.touched[-1][0] != version:
            return
        now = self.touched[-1][1]
        for index in now:
            if book := books.get(index):
                now[index] = now[index]._replace(number=book.number, amounts=book.amounts)

    def forget(self, version: int) -> None:
        """Forget what the versions up to one changed: the change list does not have them either."""
        while self.touched and self.touched[0][0] <= version:
            self.touched.popleft()

    def _member(self, fact: Fact) -> None:
        word, name, number = fact.words
        incarnation = int(number)
        if word == "enlist":
            if self.incarnation and incarnation <= self.incarnation:
                self.wrong.append((fact.version, f"{name} got incarnation {incarnation} after {self.incarnation}"))
            self.incarnation = max(self.incarnation, incarnation)
            self.members[name] = incarnation
            return
        known = self.members.get(name, incarnation if not self.complete else None)
        if known != incarnation:
            self.wrong.append((fact.version, f"{name} left as incarnation {incarnation}, it had {known}"))
        self.members[name] = None

    def _pool(self, fact: Fact) -> None:
        self.pools_version = fact.version
        if fact.words[0] == "trees":
            self.trees = fact.words[1]
            return
        _, name, word, of_settings = fact.words
        number = int(word)
        before = self.pools.get(number, (name, ""))
        if before[0] != name or before[1] == "-":
            self.wrong.append((fact.version, f"gives pool {name} the number {number}, which was that of {before[0]}"))
        self.pools[number] = name, of_settings

    def _epoch(self, fact: Fact) -> None:
        number, version = int(fact.words[1]), int(fact.words[2])
        before = self.epoch[:2] if self.epoch else (number - 1, 0) if not self.complete else (0, 0)
        if number != before[0] + 1 or not before[1] <= version < fact.version:
            self.wrong.append((fact.version, f"publishes epoch {number} of version {version} after {before}"))
        self.epoch, self.epoch_pools = (number, version, fact.words[3], fact.version, fact.by), self.pools_version

    def _once(self, fact: Fact, state: str, *, again: bool) -> None:
        if again:
            self.wrong.append((fact.version, f"says again that {fact.words[1]} is {state}"))

    def _gate(self, job: JobFacts, fact: Fact) -> None:
        """Process the hold of a gate, or its end by the gate or by a person."""
        word, reason = fact.words[0], " ".join(fact.words[2:])
        changes = job.gate != reason or (word == "release" and job.held is not False)
        if not changes or (word == "gate" and job.released):
            self.wrong.append((fact.version, f"says {word} of job {fact.words[1]}, which changes nothing"))
        if word == "release":
            job.released = True if job.gate else job.released
        job.gate, job.arrived = reason, (job.arrived[0], fact.version)

    def _submit(self, fact: Fact) -> None:
        self.submissions += 1
        _, job_id, name, kind, _, total = fact.words
        job = self.jobs[job_id] = JobFacts((name, kind, int(total), fact.at_ms), fact.by, held=None)
        job.order, version = self.submissions if self.complete else None, fact.version
        job.modified, job.surely, job.arrived, job.update = frozenset({version}), True, (version, version), ""
        job.gate, job.released, job.indices, job.grown = "", False, int(total), {}
        gangs, groups = terms_in(fact.settings)
        job.gang, job.terms = gangs.get(job_id, (0, 0)), groups.get(job_id)

    def _job(self, job: JobFacts, fact: Fact) -> None:
        word, words, version = fact.words[0], fact.words, fact.version
        job.begun = job.begun or word in _BEGINS
        if word == "submit":
            self._submit(fact)
        elif word in ("hold", "update") or (word == "stop" and len(words) == 3):
            job.modified, job.surely = frozenset({version}), True
            if word == "update":
                job.begin_update(fact)
            elif word == "hold":
                self._once(fact, "held", again=job.held is True)
                job.held = True
        elif word == "awaited":
            waiting = self._known(words[2], fact)
            waiting.awaits |= {words[1]}
            waiting.waits_ever |= {words[1]}
            job.awaited = True
        elif word == "met":
            job.awaits -= {words[2]}
        elif word == "drop":
            group = int(words[2])
            job.optional |= {group}
            if group in job.totals:
                job.totals[group] -= int(words[3])
        elif word in ("release", "resize"):  # by a person, or else the modify index stays
            job.modified |= {version}
            job.arrived = job.arrived[0], version
            if word == "resize":
                job.totals[int(words[2])] = int(words[3])
                group, added, taken = int(words[2]), max(0, int(words[4])), words[7:]
                job.grown[group] = int(taken[0]) if taken else job.grown.get(group, 0) + added
            elif len(words) == 3:
                job.awaits = NOBODY
            else:
                self._gate(job, fact)
                job.held, job.modified, job.surely = False, frozenset({version}), True
        elif word in ("requeue", "evicted", "failed", "late", "speculate"):
            job.arrived = job.arrived[0], version
        elif word == "done":
            self._once(fact, "done", again=job.ended is not None)
            job.ended = int(JobState(int(words[2]))), version
        elif word in ("updated", "stalled"):
            job.update = "" if word == "updated" else " ".join((word, *words[2:]))
