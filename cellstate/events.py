"""The facts of the log: a class for each form, with its words, its fields in their order, and their types.

An entry of the log has a fact a line. Placements of one group share a line ``places``: their ids follow each other,
their need is the same, one without tasks has the task after the last one. ``submits`` is of a job whose name is its id.
`parse` reads every line; one of an unknown word, of a wrong number of words, or with a text where a number belongs is
a `NoFact`, so no reader fails at a damaged fact.

An event is the tuple of its words, which the log keeps as they are; its fields are converted when they are asked for.
"""

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, NewType, TypeAlias

from omega.cellstate import ranges
from omega.cellstate.model import JobState, MachineState
from omega.cellstate.transaction import Basis, Verdict

ENDS = ("finished", "failed", "retried", "lost", "evicted", "stopped")
Amounts: TypeAlias = tuple[int, ...]
Bounds: TypeAlias = tuple[int | None, ...]
"""Amounts, None where there is no limit."""
Text = NewType("Text", str)
"""All words that follow; with the default "" there may be none."""
Tasks = NewType("Tasks", str)
"""A set of task indices (cellstate/ranges.py)."""
How = NewType("How", str)
"""How tasks ended."""
What = NewType("What", str)
"""What of a machine changed; the next word is its value."""


class AssertedPool(NamedTuple):
    """A pool that a transaction named: its leaves, what it held before and holds after, its share; None: without.

    A job that loses tasks is "=JOB" and keeps at least its share of one resource, or "+JOB", and of all.
    """

    leaves: str
    before: Amounts
    after: Amounts
    share: tuple[float | None, ...]

    @property
    def job(self) -> str:
        """The id of the job, "" of a pool."""
        return self.leaves[1:] if self.leaves[0] in "=+" else ""

    @classmethod
    def read(cls, word: str) -> "AssertedPool":
        """Read a word of a fact. Raises ValueError."""
        leaves, before, after, share = word.split(";")
        held, left = (tuple(map(int, part.split(","))) for part in (before, after))
        return cls(leaves, held, left, tuple(None if each == "-" else float(each) for each in share.split(",")))


class AbortedClaim(NamedTuple):
    """A claim of a failed gang, and whether it would have evicted."""

    machine: int
    group: int
    tasks: int
    evicts: bool

    @classmethod
    def read(cls, word: str) -> "AbortedClaim":
        """Read a word of a fact. Raises ValueError."""
        machine, group, tasks = map(int, word.removesuffix("!").split(":"))
        return cls(machine, group, tasks, word.endswith("!"))


Pools: TypeAlias = tuple[AssertedPool, ...]
Claims: TypeAlias = tuple[AbortedClaim, ...]

_NUMBER, _SPAN = "-?[0-9]+", "[0-9]+(?:-[0-9]+)?"
_LIST, _SET, _BOUND = f"{_NUMBER}(?:,{_NUMBER})*", f"{_SPAN}(?:,{_SPAN})*", f"(?:-|{_NUMBER})"
_SHARE = "(?:-|[0-9]+(?:[.][0-9]+)?(?:e[-+][0-9]+)?)"


def _one_of(values: Iterable[int]) -> str:
    return "|".join(str(int(value)) for value in values)


def _many(pattern: str) -> str:
    return f"{pattern}(?: {pattern})*"


_TYPES: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: (_NUMBER, int),
    int | None: (_BOUND, lambda word: None if word == "-" else int(word)),
    Amounts: (_LIST, lambda word: tuple(map(int, word.split(",")))),
    Bounds: (f"{_BOUND}(?:,{_BOUND})*", lambda word: tuple(None if x == "-" else int(x) for x in word.split(","))),
    JobState: (_one_of(JobState), lambda word: JobState(int(word))),
    Verdict: (_one_of(Verdict), lambda word: Verdict(int(word))),
    str: ("[^ ]+", str), Tasks: (f"-|{_SET}", str), How: ("|".join(ENDS), str), Text: (_many("[^ ]+"), str),
    What: (
        f"state(?= (?:{_one_of(MachineState)}) )|attributes(?= [0-9]+ )|tree(?= {_BOUND} )|capacity(?= {_LIST} )", str,
    ),
    Pools: (_many(f"[^ ;]+;{_LIST};{_LIST};{_SHARE}(?:,{_SHARE})*"), AssertedPool.read),
    Claims: (_many("[0-9]+:[0-9]+:[0-9]+!?"), AbortedClaim.read),
}  # a table # fmt: skip
"""Pattern and reader of the word of each type of a field."""


class _Slotted(type):
    """Makes classes whose objects have their words and no dictionary."""

    def __new__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any], **options: str) -> "_Slotted":
        return super().__new__(cls, name, bases, {"__slots__": (), **names}, **options)


class Event(tuple[str, ...], metaclass=_Slotted):
    """What one fact says. The annotations of a class and its bases are its fields, those with a value may be missing.

    A class names the words of the log that have its form.
    """

    __slots__ = ()
    pattern: ClassVar[str] = "[^ ]+"
    """What a line of this form matches."""
    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, words: str = "") -> None:
        """Make the fields properties, and enter the class in the table."""
        for name, kind in cls.__annotations__.items():
            pattern, read = _TYPES[kind]
            missing, at = cls.__dict__.get(name), len(cls.fields) + 1
            cls.pattern += f"(?: (?:{pattern}))?" if missing is not None else f" (?:{pattern})"
            cls.fields += (name,)
            setattr(cls, name, _field(at, kind, read, missing))
        FORMS.update(dict.fromkeys(words.split(), cls))

    @property
    def word(self) -> str:
        """The word of the log."""
        return self[0]

    @property
    def line(self) -> str:
        """The fact as a line of its own."""
        return " ".join(self)


FORMS: dict[str, type[Event]] = {}
"""The form of each word."""


def _field(at: int, kind: object, read: Callable[[str], Any], missing: object) -> property:
    """Return the property of a field: the word at a place, or all from it on."""
    if kind in (Pools, Claims):
        return property(lambda event: tuple(map(read, event[at:])))
    if kind is Text:
        return property(lambda event: " ".join(event[at:]))
    if missing is not None:
        return property(lambda event: read(event[at]) if len(event) > at else missing)
    if read is str:
        return property(itemgetter(at))
    return property(lambda event: read(event[at]))


class NoFact(Event):
    """A line that is no fact. Its word is "", whatever it begins with."""

    @property
    def word(self) -> str:
        return ""


# Tasks


class TaskEvent(Event):
    """Tasks of a placement."""

    placement: int
    machine: int
    job: str
    group: int
    tasks: Tasks

    @property
    def size(self) -> int:
        """The number of tasks."""
        return ranges.count(self.tasks)


class Place(TaskEvent, words="place"):
    """Tasks were placed; `need` of one of them."""

    need: Amounts


class End(TaskEvent, words=" ".join(ENDS)):
    """Tasks ended or were taken off; with the number of their machine and what is allocated on it afterwards.

    The reason is "-" where there is none.
    """

    number: int
    amounts: Amounts
    reason: Text

    @property
    def winner(self) -> str:
        """The id of the job whose transaction evicted them, "" for none."""
        return winner_of(self.reason) if self.word == "evicted" else ""


class Left(TaskEvent, words="left"):
    """The processes of stopped or evicted tasks have ended; the reason tells how."""

    reason: Text = Text("")


class Outcome(TaskEvent, words="late promote"):
    """Lost tasks had ended like this; or the copy of a task, which ended like this, goes on as that task."""

    how: How


# Jobs


class JobEvent(Event, words="hold pass update updated attempt"):
    """Something happened to a job."""

    job: str


class Submit(JobEvent, words="submit"):
    """A job was submitted; `total` of its tasks, without copies."""

    name: str
    kind: str
    precedence: int
    total: int


class Awaited(JobEvent, words="awaited"):
    """Another job, just submitted, waits for this one."""

    waiting: str


class Release(JobEvent, words="release met"):
    """A person releases a job, or the end of another job does; ``met``: it waits for further ones."""

    other: str = ""


class Said(JobEvent, words="gate stalled"):
    """The gate of its scheduler holds a job, or its update came to a halt."""

    reason: Text


class Resize(JobEvent, words="resize"):
    """A group got another total: `added` to the tasks that wait, below 0 if they are fewer; running ones stopped.

    `taken` are the indices of the added tasks where the group takes them over, `given` how many it gave out then.
    """

    group: int
    total: int
    added: int
    stopped: int
    taken: Tasks = Tasks("")
    given: int = 0


class Drop(JobEvent, words="drop"):
    """Optional tasks ended like this and are no longer of the job."""

    group: int
    number: int
    how: How


class Stop(JobEvent, words="stop abandon"):
    """A job was stopped or given up with so many unplaced tasks; the reason is of one that its waiting ended."""

    number: int
    reason: str = ""


class Done(JobEvent, words="done"):
    """A job ended."""

    state: JobState


class SpanEvent(JobEvent, words="requeue speculate unneeded"):
    """Delayed tasks wait again; a task gets a copy that waits; copies that waited are not needed."""

    group: int
    tasks: Tasks

    @property
    def size(self) -> int:
        """The number of tasks."""
        return ranges.count(self.tasks)


class Fail(SpanEvent, words="fail"):
    """Tasks that ended like this are not placed again."""

    how: How


class Conflict(JobEvent, words="conflict"):
    """So many tasks of a claim met a conflict; `seen` is the number that a moved one saw."""

    machine: int
    verdict: Verdict
    lacking: int
    group: int
    seen: int = 0


class Assert(JobEvent, words="assert"):
    """The pools whose shares the evictions of a transaction rest on, that of its job first; then jobs with floors."""

    pools: Pools


# Transactions: what only recordings and the audit read


class TransactionEvent(Event, words="again"):
    """Another transaction of the job follows."""

    job: str


class Aborted(TransactionEvent, words="aborted"):
    """The claims of a failed gang."""

    claims: Claims


class Rejected(TransactionEvent, words="rejected"):
    """So many claims got another verdict."""

    number: int


# Machines, members, settings


class Join(Event, words="join"):
    """A machine joined, or came back."""

    machine: int
    name: str
    number: int
    capacity: Amounts


class MachineEvent(Event, words="machine"):
    """A machine has another state, capacity, attributes (their number) or tree; number and amounts afterwards."""

    machine: int
    what: What
    value: str
    number: int
    amounts: Amounts

    @property
    def new_number(self) -> int:
        """The state, or the number of attributes."""
        return int(self.value)

    @property
    def new_capacity(self) -> Amounts:
        """The capacity."""
        return tuple(map(int, self.value.split(",")))

    @property
    def new_tree(self) -> int | None:
        """The number of the tree, None for none."""
        return None if self.value == "-" else int(self.value)


class Member(Event, words="enlist leave lapse fit"):
    """A scheduler or agent registered, left, lost its lease, or is fit again."""

    member: str
    incarnation: int


class Unfit(Member, words="unfit"):
    """An agent cannot run tasks."""

    reason: Text


class Limit(Event, words="limit"):
    """The limits of a kind; None for none."""

    kind: str
    jobs: int | None
    lowest: int | None
    highest: int | None
    resources: Bounds


class Pool(Event, words="pool"):
    """A pool has other settings, of this digest; "-": it was removed."""

    name: str
    number: int
    digest: str


class Trees(Event, words="trees"):
    """The pool trees have other settings."""

    digest: str


class Reset(Event, words="reset"):
    """Something that could not be read was replaced by nothing."""

    of: str


class Epoch(Event, words="epoch"):
    """Shares of the cell at a version were published."""

    number: int
    of_version: int
    digest: str


class Restore(Event, words="restore"):
    """The cell was restored from a backup of a version; `placements` is the last id that counts as given out."""

    of_version: int
    placements: int


class Cut(Event, words="cut"):
    """The store lost versions (cellstate/cuts.py)."""

    number: int
    agreed: int
    first_lost: int
    seen: int
    placements: int


# Reading


class Fact(NamedTuple):
    """One fact of the log: version, time (ms, the client's clock), author, what it says, and of a commit its basis.

    `settings`: those of its entry (cellstate/logged_settings.py), empty where the entry has none.
    """

    version: int
    at_ms: int
    by: str
    event: Event
    basis: Basis | None = None
    settings: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One entry of the log as it is stored: version, time (ms, the client's clock), author, facts in lines.

    `basis` and `settings` are empty where the entry has none (`Basis.read`, cellstate/logged_settings.py).
    """

    version: int
    at_ms: int
    by: str
    facts: str
    basis: str = ""
    settings: str = ""


_PACKED = {"places": "place", "submits": "submit"}
"""Lines of several facts, or of one in short, by their word."""
_PLACES = re.compile(f"places [^ ]+ [0-9]+ {_LIST} [0-9]+ [0-9]+ {_SET}(?: [0-9]+(?::{_SET})?)*").fullmatch


class _Matchers(dict[str, tuple[type[Event], Callable[[str], object]]]):
    """By word: its form, and whether a line has it; made when a word is met first."""

    def __missing__(self, word: str) -> tuple[type[Event], Callable[[str], object]]:
        if word not in FORMS:
            return NoFact, str
        form = FORMS[word]
        self[word] = form, re.compile(form.pattern).fullmatch
        return self[word]


_MATCHERS = _Matchers()


def parse(line: str) -> list[Event]:
    """Return the facts in a line of the log: one, or one for each placement of a line ``places``."""
    words = line.split(" ")
    if words[0] in _PACKED:
        return _unpacked(line, words)
    form, matches = _MATCHERS[words[0]]
    return [form(words) if matches(line) else NoFact(words)]


def _unpacked(line: str, words: list[str]) -> list[Event]:
    if words[0] == "submits":
        (event,) = parse(" ".join(("submit", *words[1:2], *words[1:])))
        return [NoFact(words) if isinstance(event, NoFact) else event]
    if not _PLACES(line):
        return [NoFact(words)]
    _, job, group, need, first, machine, tasks, *others = words
    placement = int(first)
    facts: list[Event] = [Place(("place", first, machine, job, group, tasks, need))]
    for other in others:
        machine, _, listed = other.partition(":")
        tasks = listed or str(int(tasks.replace(",", "-").rpartition("-")[2]) + 1)
        placement += 1
        facts.append(Place(("place", str(placement), machine, job, group, tasks, need)))
    return facts


def events_in(text: str, words: Container[str] | None = None) -> list[Event]:
    """Return the facts in the lines of an entry (None: of all words). Most lines of a log are left out unread."""
    lines = text.split("\n") if text else []
    if words is not None:
        lines = [line for line in lines if word_of(line) in words]
    return [event for line in lines for event in parse(line)]


def word_of(line: str) -> str:
    """Return the word of the facts in a line."""
    word = line.partition(" ")[0]
    return _PACKED.get(word, word)


def facts_in(entry: LogEntry, words: Container[str] | None = None) -> list[Fact]:
    """Return the facts of an entry (None: of all words). Raises ValueError for one whose basis cannot be read."""
    basis = Basis.read(entry.basis) if entry.basis else None
    version, at_ms, by, settings = entry.version, entry.at_ms, entry.by, entry.settings
    return [Fact(version, at_ms, by, event, basis, settings) for event in events_in(entry.facts, words)]


_OF_JOBS, _OF_TASKS = (JobEvent, TaskEvent), (SpanEvent, TaskEvent)


def job_of(event: Event) -> str | None:
    """Return the id of the job that a fact is about; None for one of the whole cell, or only for recordings."""
    return event.job if isinstance(event, _OF_JOBS) else None


def tasks_of(event: Event) -> int:
    """Return the number of tasks of a fact; 0 of one without."""
    if isinstance(event, Conflict):
        return event.lacking
    return event.size if isinstance(event, _OF_TASKS) else 0


def reason_of(event: Event) -> str:
    """Return the reason of a fact about tasks; empty without one."""
    if isinstance(event, Fail):
        return event.how
    if isinstance(event, End | Left):
        return "" if event.reason == "-" else event.reason
    return ""


def winner_of(reason: str) -> str:
    """Return the id of the job that evicted tasks for this reason; "" for another reason."""
    cause, _, winner = reason.partition(":")
    return winner if cause in ("precedence", "fair-share") else ""
