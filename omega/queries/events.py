"""The log of a cell as events: facts with their words named, read version by version."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from omega.cellstate import ranges
from omega.cellstate.cuts import Cut
from omega.cellstate.model import JobState, MachineState
from omega.cellstate.transaction import Verdict

if TYPE_CHECKING:
    from omega.cellstate.ports import Queries
    from omega.cellstate.replies import Fact
    from omega.cellstate.resources import Dimensions

CHUNK = 1_000
"""Versions read at once: a few milliseconds of the server's time."""
FEW = 4
"""Versions read to learn a time of the log."""
ENDINGS = ("finished", "failed", "retried", "lost", "evicted", "stopped")
NO_EVENTS = frozenset({"again", "aborted", "rejected"})
"""Facts that only recordings and the audit read."""
UNREADABLE = "unreadable"
"""The kind of an event with an unreadable fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact: version, time (ms, the author's clock), author, kind and details.

    `job` is an id and `machine` an index where the event has one; `count` is the number of tasks. Events of a commit
    have the version `since` on which it was decided, and when that decision began (ms, the server's clock).
    """

    version: int
    at_ms: int
    by: str
    kind: str
    job: str | None = None
    machine: int | None = None
    count: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    since: int | None = None
    began_ms: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the event as plain values; absent ones are left out."""
        document = {"version": self.version, "at_ms": self.at_ms, "by": self.by, "kind": self.kind}
        known = {name: getattr(self, name) for name in ("job", "machine", "count", "since", "began_ms")}
        return {**document, **{name: value for name, value in known.items() if value is not None}, **self.more}


class Extent(NamedTuple):
    """The extent of the log: its oldest version (one above the newest when it is empty), and the newest."""

    first: int
    newest: int


def extent(cell: "Queries") -> Extent:
    """Return the extent of the log now; older versions were trimmed."""
    now = cell.changed_records(0, 0)
    return Extent(now.first, now.version)


def events(cell: "Queries", after: int, to: int, kinds: Iterable[str] | None = None) -> Iterator[Event]:
    """Yield the events (None: of all kinds) of the versions above `after` up to `to`, oldest first."""
    words = None if kinds is None else log_words(kinds)
    while after < to:
        most = min(CHUNK, to - after)
        facts = [fact for fact in cell.facts(after, most, words) if fact.version <= to]
        yield from events_of(cell, facts)
        # Trimmed meanwhile: these are newer than requested, and must not be returned twice.
        after = max(after + most, facts[-1].version if facts else 0)


def log_words(kinds: Iterable[str]) -> frozenset[str]:
    """Return the words of the log for kinds of events."""
    return frozenset(_WORDS.get(kind, kind) for kind in kinds)


def events_of(cell: "Queries", facts: "Iterable[Fact]") -> Iterator[Event]:
    """Yield facts as events. That of a cut has what was reported later, too."""
    for fact in facts:
        word = fact.words[0]
        if word == "cut":
            yield _with_report(event(fact, cell.dimensions), cell)
        elif word not in NO_EVENTS:
            yield event(fact, cell.dimensions)


def _with_report(event: Event, cell: "Queries") -> Event:
    for cut in cell.cuts().kept:
        if cut.number == event.more.get("number"):
            return replace(event, more=cut.figures() | {"reporters": list(cut.by)})
    return event


def since_time(cell: "Queries", at_ms: int, kept: Extent) -> int:
    """Return a version at or before the first change after a time, given the clocks of the authors."""
    low, high = kept.first - 1, kept.newest
    while high - low > CHUNK // 4:
        middle = (low + high) // 2
        facts = cell.facts(middle, FEW) or cell.facts(middle, CHUNK // 4)
        if facts and facts[0].at_ms < at_ms:
            low = middle
        else:
            high = middle
    return low


def current_kind(kind: str) -> str:
    """Return the name of a kind that may be a former one, the word of the log: ``expire`` of ``lapse``."""
    return KINDS_BY_WORD.get(kind, kind)


def event(fact: "Fact", dimensions: "Dimensions") -> Event:
    """Name the words of a fact; one of an unknown kind, or that cannot be read, keeps them as they are."""
    word, *rest = fact.words
    kind = KINDS_BY_WORD.get(word, word)
    try:
        job, machine, count, more = _READERS.get(word, _unread)(rest, dimensions)
    except (ValueError, IndexError):
        kind, (job, machine, count, more) = UNREADABLE, _unread(fact.words, dimensions)
    since, began_ms = fact.basis[:2] if fact.basis else (None, None)
    return Event(
        version=fact.version, at_ms=fact.at_ms, by=fact.by, kind=kind, job=job, machine=machine, count=count, more=more,
        since=since, began_ms=began_ms,
    )  # fmt: skip


KINDS_BY_WORD = {"done": "ended", "enlist": "register", "leave": "deregister", "lapse": "expire"}
"""Kinds of events that the log stores under another word. The end of a job is finished or failed; see its state."""
_WORDS = {kind: word for word, kind in KINDS_BY_WORD.items()}

_Read = tuple[str | None, int | None, int | None, dict[str, Any]]
"""Job, machine, count and details of a fact."""
_Reader = Callable[[Sequence[str], "Dimensions"], _Read]
_NUMBERS = ("count", "group", "incarnation", "machine", "number", "of_version", "placement", "precedence", "seen")
_VALUES: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(_NUMBERS, int),
    "verdict": lambda word: Verdict(int(word)).name.lower(),
    "removed": lambda word: word == "-",
}


def _named(fields: str, more: str | None = None) -> _Reader:
    """Return a reader of facts with these words; with `more`, others may follow, the first under that name."""
    required = fields.split()
    names = required + (more or "").split()

    def read(words: Sequence[str], _: "Dimensions") -> _Read:
        if len(words) < len(required) or (more is None and len(words) > len(required)):
            raise ValueError(f"{len(words)} words instead of {fields!r}")
        values = {name: _VALUES.get(name, str)(word) for name, word in zip(names, words, strict=False)}
        if "tasks" in values:
            values["count"] = ranges.count(values["tasks"])
        return values.pop("job", None), values.pop("machine", None), values.pop("count", None), values

    return read


def _tasks(words: Sequence[str], dimensions: "Dimensions") -> _Read:
    rest = words[5:]
    reason = " ".join(rest[1 + len(dimensions) :])
    return _of_tasks(words, reason)


def _left(words: Sequence[str], _: "Dimensions") -> _Read:
    return _of_tasks(words, " ".join(words[5:]))


def _of_tasks(words: Sequence[str], reason: str) -> _Read:
    placement, machine, job, group, tasks = words[:5]
    more = {"placement": int(placement), "group": int(group), "tasks": tasks}
    if reason not in ("", "-"):
        more["reason"] = reason
    return job, int(machine), ranges.count(tasks), more


def _assert(words: Sequence[str], dimensions: "Dimensions") -> _Read:
    pools = []
    for text in words[1:]:
        leaves, *rest = text.split(";")
        held, left, share = (dict(zip(dimensions.names, each.split(","), strict=True)) for each in rest)
        amounts = {
            "held": {name: int(word) for name, word in held.items()},
            "left": {name: int(word) for name, word in left.items()},
            "share": {name: None if word == "-" else float(word) for name, word in share.items()},
        }
        job = {"job": leaves[1:]} if leaves[:1] in ("=", "+") else {}
        pools.append({"pools": [unquote(leaf) for leaf in leaves.split(",")[:-1]], **job, **amounts})
    return words[0], None, None, {"asserted": pools}


def _resize(words: Sequence[str], _: "Dimensions") -> _Read:
    job, group, total, waiting, stopped = words[:5]
    change = int(waiting) - int(stopped)
    return job, None, abs(change), {"group": int(group), "total": int(total), "change": change}


def _stalled(words: Sequence[str], _: "Dimensions") -> _Read:
    return words[0], None, None, {"reason": " ".join(words[1:])}


def _done(words: Sequence[str], _: "Dimensions") -> _Read:
    state = JobState(int(words[1]))
    return words[0], None, None, {} if state is JobState.DONE else {"state": state.name.lower()}


def _join(words: Sequence[str], dimensions: "Dimensions") -> _Read:
    capacity = dimensions.numbers([int(word) for word in words[3:]])
    return None, int(words[0]), None, {"name": words[1], "capacity": capacity}


def _machine(words: Sequence[str], dimensions: "Dimensions") -> _Read:
    index, what, value = words[:3]
    if what == "state":
        return None, int(index), None, {"state": MachineState(int(value)).name.lower()}
    if what == "attributes":
        return None, int(index), None, {"attributes": int(value)}
    if what == "tree":
        return None, int(index), None, {"tree": None if value == "-" else int(value)}
    return None, int(index), None, {"capacity": dimensions.numbers([int(word) for word in value.split(",")])}


def _unfit(words: Sequence[str], _: "Dimensions") -> _Read:
    return None, None, None, {"member": words[0], "incarnation": int(words[1]), "reason": " ".join(words[2:])}


def _cut(words: Sequence[str], _: "Dimensions") -> _Read:
    number, agreed, first_lost, seen, _last = map(int, words)
    cut = Cut(number=number, agreed=agreed, first_lost=first_lost, seen=seen, at_ms=0, version=0, by=())
    return None, None, None, cut.figures()


def _limit(words: Sequence[str], dimensions: "Dimensions") -> _Read:
    kind, jobs, lowest, highest, *amounts = [None if word == "-" else word for word in words]
    numbers = [None if amount is None else int(amount) for amount in amounts]
    more: dict[str, Any] = {"job_kind": kind, "jobs": jobs and int(jobs)}
    more["resources"] = dict(zip(dimensions.names, numbers, strict=True))
    more["precedence"] = [int(lowest), int(highest)] if lowest and highest else None
    return None, None, None, more


def _unread(words: Sequence[str], _: "Dimensions") -> _Read:
    return None, None, None, {"words": list(words)}


_READERS: Mapping[str, _Reader] = {
    "submit": _named("job name job_kind precedence count"),
    "attempt": _named("job"),
    "place": _tasks,
    "conflict": _named("job machine verdict count", "group seen"),
    "assert": _assert,
    **dict.fromkeys(ENDINGS, _tasks),
    "left": _left,
    "drop": _named("job group count how"),
    "fail": _named("job group tasks reason"),
    "requeue": _named("job group tasks"),
    "late": _named("placement machine job group tasks how"),
    "promote": _named("placement machine job group tasks how"),
    **dict.fromkeys(("speculate", "unneeded"), _named("job group tasks")),
    "gate": _stalled,
    **dict.fromkeys(("hold", "pass", "release", "awaited", "met", "update", "updated"), _named("job", "other")),
    "stalled": _stalled,
    "resize": _resize,
    **dict.fromkeys(("stop", "abandon"), _named("job count", "reason")),
    "done": _done,
    "join": _join,
    "machine": _machine,
    **dict.fromkeys(("enlist", "leave", "lapse"), _named("member incarnation", "")),
    "fit": _named("member incarnation"),
    "unfit": _unfit,
    "limit": _limit,
    "restore": _named("of_version", ""),
    "cut": _cut,
    "pool": _named("pool number removed", ""),
    "trees": _unread,
    "reset": _named("of"),
    "epoch": _named("number of_version", ""),
}
"""Readers of the facts of the log: one for each fact that is an event."""
KINDS = (*(KINDS_BY_WORD.get(word, word) for word in _READERS), UNREADABLE)
"""Every kind of event, as ``omega events --kind`` takes it."""
