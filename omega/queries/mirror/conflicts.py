"""Who lost claims to whom, and which pools evicted tasks of which, from the facts of the log as they are read.

Events of conflicts name no winner. It is inferred as in the history of a job (`omega.queries.job_history`): the author
of the last change of the machine before the conflict, of those that place tasks or change the machine.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from omega.cellstate.digest.history import job_of, winner_of
from omega.cellstate.replies import Fact
from omega.cellstate.transaction import Verdict

UNKNOWN = "unknown"
MOST_CONFLICTS, MOST_EVICTIONS = 20_000, 20_000
"""The newest that are kept."""
MOST_LISTED = 50
"""Versions, and machines, that a row lists, the newest."""
_CHANGES = frozenset({"place", "machine", "join"})
WORDS = frozenset({*_CHANGES, "conflict", "evicted"})
"""Facts that count here."""


class Won(NamedTuple):
    """The last change of a machine: author, version, word and job."""

    by: str
    version: int
    word: str
    job: str | None


class Conflict(NamedTuple):
    """A lost claim."""

    version: int
    at_ms: int
    loser: str
    job: str
    machine: int
    coarse: bool
    winner: Won | None


class Eviction(NamedTuple):
    """Tasks of a pool that were evicted for a job of another pool."""

    version: int
    at_ms: int
    loser: str
    winner: str
    tasks: int


class Contests:
    """Conflicts and evictions of the newest versions; `pool_of` returns the pool of a job, "" where it is unknown."""

    def __init__(self, width: int, pool_of: Callable[[str], str]) -> None:
        """Begin, in a cell of `width` resources."""
        self._width, self._pool_of = width, pool_of
        self._last: dict[int, Won] = {}
        self._conflicts: deque[Conflict] = deque(maxlen=MOST_CONFLICTS)
        self._evictions: deque[Eviction] = deque(maxlen=MOST_EVICTIONS)

    def add(self, facts: Iterable[Fact]) -> None:
        """Add facts, in the order of the log."""
        for fact in facts:
            words = fact.words
            match words[0]:
                case "place":
                    self._last[int(words[2])] = Won(fact.by, fact.version, "place", words[3])
                case "machine" | "join":
                    self._last[int(words[1])] = Won(fact.by, fact.version, words[0], job_of(words))
                case "conflict":
                    coarse = int(words[3]) == Verdict.MOVED
                    machine = int(words[2])
                    won = self._last.get(machine)
                    self._conflicts.append(Conflict(fact.version, fact.at_ms, fact.by, words[1], machine, coarse, won))
                case "evicted":
                    self._evicted(fact)

    def _evicted(self, fact: Fact) -> None:
        from omega.cellstate.ranges import count

        winner = winner_of(" ".join(fact.words[7 + self._width :]))
        if winner:
            loser = self._pool_of(fact.words[3])
            tasks = count(fact.words[5])
            self._evictions.append(Eviction(fact.version, fact.at_ms, loser, self._pool_of(winner), tasks))

    def cut_after(self, version: int) -> None:
        """Drop what is of versions that the store lost."""
        self._last = {machine: won for machine, won in self._last.items() if won.version <= version}
        for kept in (self._conflicts, self._evictions):
            left: list[Any] = [each for each in kept if each.version <= version]
            kept.clear()
            kept.extend(left)

    def rows(self, since_ms: int, names: Callable[[int], str]) -> list[dict[str, Any]]:
        """Return a row for each pair of a loser and a winner since a time, the most conflicts first."""
        found: dict[tuple[str, str], list[Conflict]] = {}
        for each in self._conflicts:
            if each.at_ms >= since_ms:
                winner = each.winner.by if each.winner is not None else UNKNOWN
                found.setdefault((each.loser, winner), []).append(each)
        rows = [_row(loser, winner, listed, names) for (loser, winner), listed in found.items()]
        return sorted(rows, key=lambda row: (-row["count"], row["loser"], row["winner"]))

    def flows(self, since_ms: int) -> list[dict[str, Any]]:
        """Return a row for each pair of pools between which tasks were evicted since a time."""
        found: dict[tuple[str, str], list[Eviction]] = {}
        for each in self._evictions:
            if each.at_ms >= since_ms:
                found.setdefault((each.loser, each.winner), []).append(each)
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


def _row(loser: str, winner: str, listed: list[Conflict], names: Callable[[int], str]) -> dict[str, Any]:
    machines = Counter(each.machine for each in listed)
    coarse = sum(each.coarse for each in listed)
    return {
        "loser": loser,
        "winner": winner,
        "count": len(listed),
        "fine": len(listed) - coarse,
        "coarse": coarse,
        "machines": [
            {"machine": names(machine), "index": machine, "count": count}
            for machine, count in machines.most_common(MOST_LISTED)
        ],
        "transactions": [_transaction(each, names) for each in list(reversed(listed))[:MOST_LISTED]],
    }


def _transaction(each: Conflict, names: Callable[[int], str]) -> Mapping[str, Any]:
    won = each.winner
    return {
        "version": each.version,
        "at_ms": each.at_ms,
        "job": each.job,
        "machine": names(each.machine),
        "coarse": each.coarse,
        "winner": None if won is None else {"by": won.by, "version": won.version, "kind": won.word, "job": won.job},
    }
