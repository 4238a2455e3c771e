"""Check 1 of a recording: its transactions judged again, on the twin.

Each recorded transaction is given to the twin in the state that the cell had then. It must get the same verdicts and
the same placements. What is no transaction (ends of tasks, machines, jobs) is applied as the log states it. Where a
fact has the number and the amounts of a machine, the twin's must be equal: so the state is compared at every version
that changes one. Transactions that the log does not have in full are applied, counted by reason and not judged.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate.logged_facts import facts_in
from omega.cellstate.logged_settings import read_pools
from omega.cellstate.memory.commit import decide
from omega.cellstate.memory.log_entries import write
from omega.cellstate.memory.ranges import spans
from omega.cellstate.model import JobState
from omega.cellstate.replies import Fact, LogEntry
from omega.cellstate.resources import Dimensions
from omega.recording.recording import Segment
from omega.recording.restored import NOBODY, Restored
from omega.recording.transactions import ENDS, Part, parts_of, transaction_of

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
    if any(pool.kept for pool in judging.restored.ledger.pool_settings.pools):
        judgement.stopped = "pools that lend in part are judged by shares that the log does not have"
        return judgement
    for entry in segment.entries:
        facts = facts_in(entry)
        if found := next((fact.words[0] for fact in facts if fact.words[0] in _STOPS), None):
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
    """Applies the entries of a log to the twin, and compares."""

    def __init__(self, restored: Restored, judgement: Judgement) -> None:
        self.restored, self.judgement = restored, judgement
        self.ledger, self.version = restored.ledger, 0
        self.executors: dict[str, int] = {}

    def take(self, entry: LogEntry, facts: Sequence[Fact]) -> None:
        ledger = self.ledger
        self.version = entry.version
        ledger.open()
        settings: Mapping[str, Any] = json.loads(entry.settings) if entry.settings else {}
        if (pools := read_pools(settings, 0)) is not None:
            self.restored.cell.set_pools(pools, None, 0, NOBODY)
            ledger.open()
        if entry.basis:
            for part in parts_of(facts, self.restored.size):
                self._transaction(part)
        else:
            ledger.stamp += 1
            for fact in facts:
                self._apply(fact.words, settings, ledger.stamp)
        ledger.version = entry.version

    # Transactions

    def _transaction(self, part: Part) -> None:
        judgement, ledger = self.judgement, self.ledger
        judgement.transactions += 1
        why = part.unclear or ("jobs without a record" if part.job in self.restored.guessed else "")
        if why:
            judgement.left_out[why] += 1
            ledger.stamp += 1
            for words in part.facts:
                self._apply(words, {}, ledger.stamp)
            return
        before = len(ledger.facts_now)
        transaction = transaction_of(part, self._seen, self.restored.size)
        decide(ledger, transaction)
        own = [tuple(line.split(" ")) for line in write(ledger.facts_now[before:]).split("\n") if line]
        judgement.judged += 1
        recorded, again = _essence(part.facts), _essence(own)
        for words in part.facts:
            if words[0] in ("place", "conflict", "aborted"):
                judgement.verdicts[_verdict(words)] += 1
            self._compare(words)
        if recorded != again:
            lacks, more = _difference(recorded, again)
            judgement.differ(self.version, f"job {part.job}: recorded {lacks or 'nothing'}, judged {more or 'nothing'}")

    def _seen(self, machine: int) -> int:
        m = self.ledger.M[machine]
        return m.number if m.stamp < self.ledger.base else m.before

    # What is not judged

    def _apply(self, words: tuple[str, ...], settings: Mapping[str, Any], stamp: int) -> None:
        restored, jobs = self.restored, self.ledger.J
        word = words[0]
        if word == "place":
            restored.place(words, stamp)
        elif word in ENDS:
            restored.end(words, stamp)
            self._compare(words)
        elif word in ("join", "machine"):
            restored.machine(words, settings.get("attributes", {}), None)
            self._compare(words)
        elif word == "submit":
            restored.submit(words[1], words[2], words[3], int(words[4]), int(words[5]))
        elif word == "requeue":
            restored.requeue(jobs[words[1]].groups[int(words[2])], spans(words[3]))
        elif word == "fail":
            restored.drop(words[1], int(words[2]), spans(words[3]))
        elif word == "late":
            restored.drop(words[3], int(words[4]), spans(words[5]))
        elif word == "resize":
            group, total, change, stopped = map(int, words[2:6])
            restored.resize(words[1], group, total=total, change=change, stopped=stopped, taken=words[6:])
        elif word == "update":
            restored.update(words[1])
        elif word == "limit":
            restored.limit(words[1], [None if each == "-" else int(each) for each in words[2:]])
        elif word in ("stop", "abandon"):
            restored.stop(words[1], JobState.STOPPED if word == "stop" else JobState.ABANDONED)
        elif word in ("hold", "release", "gate", "pass", "awaited", "met"):
            self._wait(words)

    def _wait(self, words: tuple[str, ...]) -> None:
        """Hold a job back, or set it free when nothing holds it any more."""
        word = words[0]
        j = self.ledger.J[words[2] if word == "awaited" else words[1]]
        reason = {"hold": "*", "gate": "!", "awaited": words[1], "met": words[-1]}.get(word, "")
        if word in ("hold", "gate", "awaited"):
            j.waits.append(reason)
        elif word == "release" and len(words) > 2:
            j.waits.clear()  # the last job that it waited for ended
        elif word == "met":
            j.waits[:] = [each for each in j.waits if each != reason]
        else:
            j.waits[:] = [each for each in j.waits if each not in (("*", "!") if word == "release" else ("!",))]
        if j.state <= JobState.HELD:
            j.state = JobState.HELD if j.waits else JobState.ACTIVE

    def _compare(self, words: tuple[str, ...]) -> None:
        """Compare number and amounts of the machine of a fact that has them."""
        size = self.restored.size
        if words[0] in ENDS:
            machine, number, amounts = int(words[2]), int(words[6]), tuple(map(int, words[7 : 7 + size]))
            if words[0] == "evicted" and ":" in words[-1]:
                return  # the room that it frees is taken in the same transaction
        elif words[0] == "machine":
            machine, number, amounts = int(words[1]), int(words[4]), tuple(map(int, words[5 : 5 + size]))
        else:
            return
        self.judgement.compared += 1
        m, used = self.ledger.M[machine], self.restored.used(machine)
        if (m.number, used) != (number, amounts):
            name = m.name
            self.judgement.differ(
                self.version,
                f"machine {name}: recorded number {number}, {list(amounts)}; twin {m.number}, {list(used)}",
            )


def _verdict(words: tuple[str, ...]) -> str:
    if words[0] == "conflict":
        return "moved" if words[3] == "7" else "full"
    return "placed" if words[0] == "place" else "aborted"


def _essence(facts: Sequence[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    """Return what must be equal: placements, evictions, rejected and aborted claims, in any order."""
    found: Counter[tuple[str, ...]] = Counter()
    for words in facts:
        if words[0] in ("place", "evicted", "fail", "drop"):
            found[words] += 1
        elif words[0] == "conflict":
            found[(*words[:4], *words[5:])] += int(words[4])
        elif words[0] == "aborted":
            for each in words[2:]:
                machine, group, count = each.split(":")
                found["aborted", words[1], machine, group] += int(count)
    return found


def _difference(recorded: Counter[tuple[str, ...]], again: Counter[tuple[str, ...]]) -> tuple[str, str]:
    lacks, more = recorded - again, again - recorded
    first, second = ("; ".join(" ".join(words) for words in list(each)[:2]) for each in (lacks, more))
    return first, second
