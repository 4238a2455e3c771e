"""Who lost claims to whom, and which pools evicted tasks of which, from the entries of the log as they are read.

Events of conflicts name no winner. It is inferred as in the history of a job (`omega.queries.job_history`): the author
of the last change of the machine before the conflict, of those that place tasks or change the machine.
"""

from array import array
from collections import Counter, deque
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, NamedTuple

from omega.cellstate.events import Conflict, End, Join, LogEntry, MachineEvent, Place
from omega.cellstate.override import override
from omega.cellstate.transaction import Verdict
from omega.queries.mirror.codes import Codes
from omega.queries.mirror.named_records import Listener

UNKNOWN = "unknown"
MOST_CONFLICTS, MOST_EVICTIONS = 20_000, 20_000
"""The newest that are kept."""
MOST_LISTED = 50
"""Transactions, machines and versions that a row lists, the newest."""


class Won(NamedTuple):
    """The last change of a machine: author, version and word of the log."""

    by: str
    version: int
    word: str


class LostClaim(NamedTuple):
    """A lost claim."""

    version: int
    at_ms: int
    loser: str
    job: str
    machine: int
    coarse: bool
    won: Won | None


class Eviction(NamedTuple):
    """Tasks of a job that were evicted for another one, and the pools of both: "" for those not known then."""

    version: int
    at_ms: int
    tasks: int
    jobs: tuple[str, str]
    pools: tuple[str, str]


class Contests(Listener):
    """Conflicts and evictions of the newest versions; `pool_of` returns the pool of a job, "" where it is unknown."""

    def __init__(self, pool_of: Callable[[str], str]) -> None:
        """Begin with no entry."""
        self._pool_of = pool_of
        self.first = 0
        """The first version that was added; what was before is not known."""
        self._versions, self._changes = array("q"), array("i")
        """By machine: the version of the last change, 0 for none, and the number of its author and word."""
        self._names = Codes()
        self._conflicts: deque[LostClaim] = deque(maxlen=MOST_CONFLICTS)
        self._evictions: deque[Eviction] = deque(maxlen=MOST_EVICTIONS)

    @override
    def changed(self, entry: LogEntry, event: Place | Join | MachineEvent) -> None:
        machine, more = event.machine, event.machine + 1 - len(self._versions)
        if more > 0:
            self._versions.extend(repeat(0, more))
            self._changes.extend(repeat(0, more))
        self._versions[machine], self._changes[machine] = entry.version, self._names.of(f"{event.word} {entry.by}")

    @override
    def conflicted(self, entry: LogEntry, event: Conflict) -> None:
        coarse, won = event.verdict is Verdict.MOVED, self._last(event.machine)
        self._conflicts.append(LostClaim(entry.version, entry.at_ms, entry.by, event.job, event.machine, coarse, won))

    def _last(self, machine: int) -> Won | None:
        if machine >= len(self._versions) or not self._versions[machine]:
            return None
        word, _, by = self._names.texts[self._changes[machine]].partition(" ")
        return Won(by, self._versions[machine], word)

    @override
    def evicted(self, entry: LogEntry, event: End) -> None:
        if winner := event.winner:
            pools = self._pool_of(event.job), self._pool_of(winner)
            self._evictions.append(Eviction(entry.version, entry.at_ms, event.size, (event.job, winner), pools))

    def cut_after(self, version: int) -> None:
        """Drop what is of versions that the store lost."""
        for machine, changed in enumerate(self._versions):
            if changed > version:
                self._versions[machine] = 0
        for kept in (self._conflicts, self._evictions):
            left: list[Any] = [each for each in kept if each.version <= version]
            kept.clear()
            kept.extend(left)

    def rows(self, since_ms: int, names: Callable[[int], str]) -> list[dict[str, Any]]:
        """Return a row for each pair of a loser and a winner since a time, the most conflicts first."""
        found: dict[tuple[str, str], list[LostClaim]] = {}
        for each in self._conflicts:
            if each.at_ms >= since_ms:
                winner = each.won.by if each.won is not None else UNKNOWN
                found.setdefault((each.loser, winner), []).append(each)
        rows = [_row(loser, winner, listed, names) for (loser, winner), listed in found.items()]
        return sorted(rows, key=lambda row: (-row["count"], row["loser"], row["winner"]))

    def flows(self, since_ms: int) -> list[dict[str, Any]]:
        """Return a row for each pair of pools between which tasks were evicted since a time."""
        found: dict[tuple[str, str], list[Eviction]] = {}
        for each in self._evictions:
            if each.at_ms >= since_ms:  # the first entries are read before the jobs
                loser, winner = (pool or self._pool_of(job) for pool, job in zip(each.pools, each.jobs, strict=True))
                found.setdefault((loser, winner), []).append(each)
        rows = [
            {
                "from": loser or None,
                "to": winner or None,
                "tasks": sum(each.tasks for each in listed),
                "versions": list(dict.fromkeys(each.version for each in reversed(listed)))[:MOST_LISTED],
            }
            for (loser, winner), listed in found.items()
        ]
        return sorted(rows, key=lambda row: -row["tasks"])


def _row(loser: str, winner: str, listed: list[LostClaim], names: Callable[[int], str]) -> dict[str, Any]:
    machines = Counter(each.machine for each in listed)
    coarse = sum(each.coarse for each in listed)
    return {
        "loser": loser,
        "winner": winner,
        "count": len(listed),
        "fine": len(listed) - coarse,
        "coarse": coarse,
        "machines": [
            {"machine": names(machine) or str(machine), "index": machine, "count": count}
            for machine, count in machines.most_common(MOST_LISTED)
        ],
        "transactions": [_transaction(each, names) for each in listed[: -MOST_LISTED - 1 : -1]],
    }


def _transaction(each: LostClaim, names: Callable[[int], str]) -> Mapping[str, Any]:
    won = each.won
    return {
        "version": each.version,
        "at_ms": each.at_ms,
        "job": each.job,
        "machine": names(each.machine) or str(each.machine),
        "verdict": "moved" if each.coarse else "full",
        "winner": None if won is None else {"by": won.by, "version": won.version, "kind": won.word},
    }
