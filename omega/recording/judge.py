"""Check 1 of a recording: its transactions judged again, on a cell in memory.

Each recorded transaction is given to it in the state that the cell had then. It must get the same verdicts and the
same placements. What is no transaction (ends of tasks, machines, jobs) is applied as the log states it. Where a
fact has the number and the amounts of a machine, that cell's must be equal: so the state is compared at every version
that changes one. Transactions that the log does not have in full are applied, counted by reason and not judged.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate.events import (
    Aborted,
    Awaited,
    Conflict,
    End,
    Event,
    Fact,
    Fail,
    JobEvent,
    Join,
    Limit,
    LogEntry,
    MachineEvent,
    Outcome,
    Place,
    Release,
    Resize,
    SpanEvent,
    Stop,
    Submit,
    events_in,
)
from omega.cellstate.logged_settings import read_pools
from omega.cellstate.memory.commit import decide
from omega.cellstate.model import JobState
from omega.cellstate.ranges import span_read
from omega.cellstate.resources import Dimensions
from omega.recording.history import readable_facts
from omega.recording.recording import Segment
from omega.recording.restored import NOBODY, Restored
from omega.recording.transactions import Part, parts_of, transaction_of

MOST_NAMED = 5
_STOPS = frozenset({"speculate", "unneeded", "promote", "restore", "reset"})
"""Facts that the judgement does not follow: it ends there."""


@dataclass(kw_only=True)
class Judgement:
    """Result of judging again. `differences`: the first ones; `left_out`: transactions not judged, by reason."""

    transactions: int = 0
    judged: int = 0
    versions: int = 0
    compared: int = 0
    """Numbers and amounts of machines that were compared."""
    left_out: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    differences: list[str] = field(default_factory=list)
    stopped: str = ""
    """Why the judgement ended before the recording; empty when it did not."""

    @property
    def ok(self) -> bool:
        """Whether all that was judged is equal."""
        return not self.wrong

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "ok": self.ok, "transactions": self.transactions, "judged": self.judged, "versions": self.versions,
            "machines_compared": self.compared, "left_out": dict(self.left_out), "verdicts": dict(self.verdicts),
            "wrong": self.wrong, "differences": self.differences, "stopped": self.stopped,
        }  # fmt: skip

    def differ(self, version: int, what: str) -> None:
        """Note a difference."""
        self.wrong += 1
        if len(self.differences) < MOST_NAMED:
            self.differences.append(f"version {version}: {what}")


def judge(segment: Segment, dimensions: Dimensions) -> Judgement:
    """Judge the transactions of a segment again."""
    judgement = Judgement()
    try:
        judging = _Judging(Restored(segment, dimensions), judgement)
    except (ValueError, KeyError, IndexError) as error:
        judgement.differ(int(segment.picture["version"]), f"the picture contradicts itself: {error}")
        return judgement
    if any(pool.kept for pool in judging.restored.cell.pool_settings.pools):
        judgement.stopped = "pools that lend in part are judged by shares that the log does not have"
        return judgement
    for entry in segment.entries:
        facts = readable_facts(entry)
        if found := next((fact.event.word for fact in facts if fact.event.word in _STOPS), None):
            judgement.stopped = f"version {entry.version} has the fact {found!r}, which is not judged"
            break
        try:
            judging.take(entry, facts)
        except (KeyError, ValueError, IndexError) as error:
            judgement.differ(entry.version, f"does not follow from the state: {error!r}")
            judgement.stopped = f"version {entry.version} does not follow from the state before it"
            break
        judgement.versions += 1
    return judgement


class _Judging:
    """Applies the entries of a log to the cell, and compares."""

    def __init__(self, restored: Restored, judgement: Judgement) -> None:
        self.restored, self.judgement = restored, judgement
        self.cell, self.version = restored.cell, 0
        self.executors: dict[str, int] = {}

    def take(self, entry: LogEntry, facts: Sequence[Fact]) -> None:
        cell = self.cell
        self.version = entry.version
        cell.open()
        settings: Mapping[str, Any] = json.loads(entry.settings) if entry.settings else {}
        if (pools := read_pools(settings, 0)) is not None:
            self.restored.cell.pools.set(pools, None, 0, NOBODY)
            cell.open()
        if entry.basis:
            for part in parts_of(facts):
                self._transaction(part)
        else:
            cell.stamp += 1
            for fact in facts:
                self._apply(fact.event, settings, cell.stamp)
        cell.version = entry.version

    # Transactions

    def _transaction(self, part: Part) -> None:
        judgement, cell = self.judgement, self.cell
        judgement.transactions += 1
        why = part.unclear or ("jobs without a record" if part.job in self.restored.guessed else "")
        if why:
            judgement.left_out[why] += 1
            cell.stamp += 1
            for event in part.facts:
                self._apply(event, {}, cell.stamp)
            return
        before = len(cell.facts_now)
        transaction = transaction_of(part, self._seen)
        decide(cell, transaction)
        own = events_in("\n".join(cell.facts_now[before:]))
        judgement.judged += 1
        recorded, again = _essence(part.facts), _essence(own)
        for event in part.facts:
            if isinstance(event, Place | Conflict | Aborted):
                judgement.verdicts[_verdict(event)] += 1
            self._compare(event)
        if recorded != again:
            lacks, more = _difference(recorded, again)
            judgement.differ(self.version, f"job {part.job}: recorded {lacks or 'nothing'}, judged {more or 'nothing'}")

    def _seen(self, machine: int) -> int:
        m = self.cell.M[machine]
        return m.number if m.stamp < self.cell.base else m.before

    # What is not judged

    def _apply(self, event: Event, settings: Mapping[str, Any], stamp: int) -> None:
        restored, jobs = self.restored, self.cell.J
        match event:
            case Place():
                restored.place(event, stamp)
            case End():
                restored.end(event, stamp)
                self._compare(event)
            case Join() | MachineEvent():
                restored.machine(event, settings.get("attributes", {}))
                self._compare(event)
            case Submit():
                restored.submit(event)
            case Fail():
                restored.drop(event.job, event.group, span_read(event.tasks))
            case SpanEvent(word="requeue"):
                restored.requeue(jobs[event.job].groups[event.group], span_read(event.tasks))
            case Outcome(word="late"):
                restored.drop(event.job, event.group, span_read(event.tasks))
            case Resize():
                restored.resize(event)
            case Limit():
                restored.limit(event.kind, [event.jobs, event.lowest, event.highest, *event.resources])
            case Stop():
                restored.stop(event.job, JobState.STOPPED if event.word == "stop" else JobState.ABANDONED)
            case JobEvent(word="update"):
                restored.update(event.job)
            case JobEvent(word="hold" | "release" | "gate" | "pass" | "awaited" | "met"):
                self._wait(event)

    def _wait(self, event: JobEvent) -> None:
        """Hold a job back, or set it free when nothing holds it any more."""
        j = self.cell.J[event.waiting if isinstance(event, Awaited) else event.job]
        match event:
            case Awaited():
                j.waits = [*j.waits, event.job]
            case JobEvent(word="hold" | "gate"):
                j.waits = [*j.waits, "*" if event.word == "hold" else "!"]
            case Release(word="met"):
                j.waits = [each for each in j.waits if each != event.other]
            case Release() if event.other:
                j.waits = ()  # the last job that it waited for ended
            case _:
                j.waits = [each for each in j.waits if each != "!" and (each != "*" or event.word == "pass")]
        if j.state <= JobState.HELD:
            j.state = JobState.HELD if j.waits else JobState.ACTIVE

    def _compare(self, event: Event) -> None:
        """Compare number and amounts of the machine of a fact that has them."""
        if not isinstance(event, End | MachineEvent):
            return
        if isinstance(event, End) and event.word == "evicted" and ":" in event[-1]:
            return  # the room that it frees is taken in the same transaction
        self.judgement.compared += 1
        m, used = self.cell.M[event.machine], self.restored.used(event.machine)
        if (m.number, used) != (event.number, event.amounts):
            name = m.name
            self.judgement.differ(
                self.version,
                f"machine {name}: recorded number {event.number}, {list(event.amounts)}; twin {m.number}, {list(used)}",
            )


def _verdict(event: Place | Conflict | Aborted) -> str:
    if isinstance(event, Conflict):
        return event.verdict.name.lower()
    return "placed" if isinstance(event, Place) else "aborted"


def _essence(facts: Sequence[Event]) -> Counter[tuple[str, ...]]:
    """Return what must be equal: placements, evictions, rejected and aborted claims, in any order."""
    found: Counter[tuple[str, ...]] = Counter()
    for event in facts:
        if isinstance(event, Conflict):
            found[(*event[:4], *event[5:])] += event.lacking
        elif isinstance(event, Aborted):
            for each in event.claims:
                found["aborted", event.job, str(each.machine), str(each.group)] += each.tasks
        elif event.word in ("place", "evicted", "fail", "drop"):
            found[event] += 1
    return found


def _difference(recorded: Counter[tuple[str, ...]], again: Counter[tuple[str, ...]]) -> tuple[str, str]:
    lacks, more = recorded - again, again - recorded
    first, second = ("; ".join(" ".join(words) for words in list(each)[:2]) for each in (lacks, more))
    return first, second
