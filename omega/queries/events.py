"""The log of a cell as events: facts with their words named, read version by version."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from omega.cellstate import events as log
from omega.cellstate.cuts import Cut
from omega.cellstate.model import JobState, MachineState
from omega.cellstate.transaction import Verdict

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.events import Fact
    from omega.cellstate.resources import Dimensions

CHUNK = 1_000
"""Versions read at once: a few milliseconds of the server's time."""
FEW = 4
"""Versions read to learn a time of the log."""
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


def extent(cell: "Cell") -> Extent:
    """Return the extent of the log now; older versions were trimmed."""
    now = cell.log.changed_records(0, 0)
    return Extent(now.first, now.version)


def events(cell: "Cell", after: int, to: int, kinds: Iterable[str] | None = None) -> Iterator[Event]:
    """Yield the events (None: of all kinds) of the versions above `after` up to `to`, oldest first."""
    words = None if kinds is None else log_words(kinds)
    while after < to:
        most = min(CHUNK, to - after)
        facts = [fact for fact in cell.log.facts(after, most, words) if fact.version <= to]
        yield from events_of(cell, facts)
        # Trimmed meanwhile: these are newer than requested, and must not be returned twice.
        after = max(after + most, facts[-1].version if facts else 0)


def log_words(kinds: Iterable[str]) -> frozenset[str]:
    """Return the words of the log for kinds of events."""
    return frozenset(_WORDS.get(kind, kind) for kind in kinds)


def events_of(cell: "Cell", facts: "Iterable[Fact]") -> Iterator[Event]:
    """Yield facts as events. That of a cut has what was reported later, too."""
    for fact in facts:
        if isinstance(fact.event, log.Cut):
            yield _with_report(event(fact, cell.dimensions), cell)
        elif not isinstance(fact.event, log.TransactionEvent):
            yield event(fact, cell.dimensions)


def _with_report(event: Event, cell: "Cell") -> Event:
    for cut in cell.cuts().kept:
        if cut.number == event.more.get("number"):
            return replace(event, more=cut.figures() | {"reporters": list(cut.by)})
    return event


def since_time(cell: "Cell", at_ms: int, kept: Extent) -> int:
    """Return a version at or before the first change after a time, given the clocks of the authors."""
    low, high = kept.first - 1, kept.newest
    while high - low > CHUNK // 4:
        middle = (low + high) // 2
        facts = cell.log.facts(middle, FEW) or cell.log.facts(middle, CHUNK // 4)
        if facts and facts[0].at_ms < at_ms:
            low = middle
        else:
            high = middle
    return low


def current_kind(kind: str) -> str:
    """Return the name of a kind that may be a former one, the word of the log: ``expire`` of ``lapse``."""
    return KINDS_BY_WORD.get(kind, kind)


_PLAIN = (
    "job", "machine", "placement", "group", "tasks", "name", "precedence", "how", "member", "incarnation", "reason",
    "other", "of", "of_version",
)  # fmt: skip
"""Fields that users see under the same name."""


def event(fact: "Fact", dimensions: "Dimensions") -> Event:
    """Name what a fact says; a line that is no fact keeps its words as they are."""
    said = fact.event
    kind = KINDS_BY_WORD.get(said.word, said.word)
    if isinstance(said, log.NoFact):
        kind, more = (UNREADABLE, list(said)) if said[0] in log.FORMS else (said[0], list(said[1:]))
        values: dict[str, Any] = {"words": more}
    else:
        values = _values(said, dimensions)
    since, began_ms = fact.basis[:2] if fact.basis else (None, None)
    job, machine, count = (values.pop(name, None) for name in ("job", "machine", "count"))
    return Event(
        version=fact.version, at_ms=fact.at_ms, by=fact.by, kind=kind, job=job, machine=machine, count=count,
        more=values, since=since, began_ms=began_ms,
    )  # fmt: skip


KINDS_BY_WORD = {"done": "ended", "enlist": "register", "leave": "deregister", "lapse": "expire"}
"""Kinds of events that the log stores under another word. The end of a job is finished or failed; see its state."""
_WORDS = {kind: word for word, kind in KINDS_BY_WORD.items()}

KINDS = (
    *(KINDS_BY_WORD.get(word, word) for word, form in log.FORMS.items() if not issubclass(form, log.TransactionEvent)),
    UNREADABLE,
)
"""Every kind of event, as ``omega events --kind`` takes it."""


def _values(said: log.Event, dimensions: "Dimensions") -> dict[str, Any]:
    """Return the fields of a fact under the names that users see."""
    values: dict[str, Any] = {name: getattr(said, name) for name in _PLAIN if name in said.fields}
    if isinstance(said, log.TaskEvent | log.SpanEvent):
        values |= {"count": said.size, "reason": log.reason_of(said)}
    values |= _of_job(said, dimensions) if isinstance(said, log.JobEvent) else _of_cell(said, dimensions)
    return {name: value for name, value in values.items() if value != ""}


def _of_job(said: log.JobEvent, dimensions: "Dimensions") -> dict[str, Any]:
    match said:
        case log.Submit():
            return {"job_kind": said.kind, "count": said.total}
        case log.Conflict():
            seen = {"seen": said.seen} if said.verdict is Verdict.MOVED else {}
            return {"verdict": said.verdict.name.lower(), "count": said.lacking, **seen}
        case log.Assert():
            return {"asserted": [_asserted(pool, dimensions) for pool in said.pools]}
        case log.Resize():
            change = said.added - said.stopped
            return {"count": abs(change), "total": said.total, "change": change}
        case log.Drop() | log.Stop():
            return {"count": said.number}
        case log.Done() if said.state is not JobState.DONE:
            return {"state": said.state.name.lower()}
        case log.Awaited():
            return {"other": said.waiting}
        case log.Fail():
            return {"how": ""}  # it is the reason
    return {}


def _of_cell(said: log.Event, dimensions: "Dimensions") -> dict[str, Any]:
    match said:
        case log.Join():
            return {"capacity": _named(said.capacity, dimensions)}
        case log.MachineEvent():
            return {said.what: _changed(said, dimensions)}
        case log.Limit():
            band = None if said.lowest is None or said.highest is None else [said.lowest, said.highest]
            resources = _named(said.resources, dimensions, None)
            return {"job_kind": said.kind, "jobs": said.jobs, "resources": resources, "precedence": band}
        case log.Pool():
            return {"name": "", "pool": said.name, "number": said.number, "removed": said.digest == "-"}
        case log.Trees():
            return {"words": [said.digest]}
        case log.Epoch():
            return {"number": said.number}
        case log.Cut():
            number, agreed, first_lost, seen, _ = map(int, said[1:])
            cut = Cut(number=number, agreed=agreed, first_lost=first_lost, seen=seen, at_ms=0, version=0, by=())
            return cut.figures()
    return {}


def _asserted(pool: log.AssertedPool, dimensions: "Dimensions") -> dict[str, Any]:
    amounts = {
        "held": _named(pool.before, dimensions),
        "left": _named(pool.after, dimensions),
        "share": _named(pool.share, dimensions, None),
    }
    leaves = [unquote(leaf) for leaf in pool.leaves.split(",")[:-1]]
    return {"pools": leaves, **({"job": pool.job} if pool.job else {}), **amounts}


def _named(amounts: Iterable[Any], dimensions: "Dimensions", missing: int | None = 0) -> dict[str, Any]:
    """Name amounts; a fact may be older than the last resources of the cell."""
    return dict(zip(dimensions.names, chain(amounts, repeat(missing)), strict=False))


def _changed(said: log.MachineEvent, dimensions: "Dimensions") -> Any:
    match said.what:
        case "state":
            return MachineState(said.new_number).name.lower()
        case "attributes":
            return said.new_number
        case "tree":
            return said.new_tree
    return _named(said.new_capacity, dimensions)
