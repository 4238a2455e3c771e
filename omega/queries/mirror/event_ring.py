"""The newest entries of the log, as they are stored: facts are read from them when they are asked for."""

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence

from omega.cellstate.logged_facts import facts_in
from omega.cellstate.replies import Fact, LogEntry
from omega.queries.event_list import Missing

MOST_ENTRIES = 20_000
LEAST_ENTRIES = 10_000
"""Entries that are kept in any case, however large they are."""
MOST_LETTERS = 16 << 20
"""Letters of facts that are kept beyond the `LEAST_ENTRIES`; an entry may have the facts of a thousand jobs."""
MOST_MISSING = 64


class EventRing:
    """Entries by version, the newest; and the versions that are missing among them."""

    def __init__(self) -> None:
        self._entries: list[LogEntry] = []
        self._versions: list[int] = []
        self._start = 0
        self._letters = 0
        self.missing: list[Missing] = []
        self.whole = False
        """Whether the log of the cell begins in it: no entry was dropped."""

    def __len__(self) -> int:
        return len(self._entries) - self._start

    @property
    def first(self) -> int:
        """The oldest version, 0 when it is empty."""
        return self._versions[self._start] if len(self) else 0

    @property
    def last(self) -> int:
        """The newest version, 0 when it is empty."""
        return self._versions[-1] if len(self) else 0

    def add(self, entries: Sequence[LogEntry]) -> None:
        """Append entries with versions above the last."""
        self._entries += entries
        self._versions += [entry.version for entry in entries]
        self._letters += sum(len(entry.facts) for entry in entries)
        while len(self) > MOST_ENTRIES or (len(self) > LEAST_ENTRIES and self._letters > MOST_LETTERS):
            self._letters -= len(self._entries[self._start].facts)
            self._start += 1
        if self._start > MOST_ENTRIES // 2:
            del self._entries[: self._start], self._versions[: self._start]
            self._start = 0

    def add_before(self, entries: Sequence[LogEntry]) -> bool:
        """Add entries with versions below the first; return whether there is room for more."""
        self._entries[self._start : self._start] = entries
        self._versions[self._start : self._start] = [entry.version for entry in entries]
        self._letters += sum(len(entry.facts) for entry in entries)
        return len(self) < LEAST_ENTRIES and self._letters < MOST_LETTERS

    def cut_after(self, version: int) -> None:
        """Drop the entries above a version, which the store lost."""
        at = max(self._start, bisect_right(self._versions, version))
        if at < len(self._versions):
            self.miss(Missing("lost", version + 1, self._versions[-1]))
        self._letters -= sum(len(entry.facts) for entry in self._entries[at:])
        del self._entries[at:], self._versions[at:]

    def miss(self, missing: Missing) -> None:
        """Note versions that are not there."""
        self.missing = [*self.missing, missing][-MOST_MISSING:]

    def after(self, version: int, most: int | None = None) -> list[LogEntry]:
        """Return the first entries above a version."""
        at = max(self._start, bisect_right(self._versions, version))
        return self._entries[at:] if most is None else self._entries[at : at + most]

    def newest_first(self, before: int | None = None) -> Iterator[LogEntry]:
        """Yield the entries (below a version), the newest first."""
        at = len(self._versions) if before is None else max(self._start, bisect_right(self._versions, before - 1))
        return (self._entries[number] for number in range(at - 1, self._start - 1, -1))

    def facts(self, since: int, most: int, kinds: Container[str] | None = None) -> list[Fact]:
        """Return the facts as `Queries.facts` does, of the entries that are kept."""
        return [fact for entry in self.after(since, most) for fact in facts_of(entry, kinds)]


def facts_of(entry: LogEntry, kinds: Container[str] | None = None) -> list[Fact]:
    """Return the facts of an entry (None: of all kinds); none of one that cannot be read."""
    try:
        if kinds is None:
            return facts_in(entry)
        if not any(_word_of(line) in kinds for line in entry.facts.split("\n")):
            return []
        return [fact for fact in facts_in(entry) if fact.words[0] in kinds]
    except (ValueError, IndexError):
        return []


def _word_of(line: str) -> str:
    word = line.partition(" ")[0]
    return word[:-1] if word in ("places", "submits") else word


def named_in(entry: LogEntry) -> tuple[list[str], list[int]]:
    """Return the jobs and machines of which an entry says that they changed (as lua/changed_records.lua reads it)."""
    jobs, machines = list[str](), list[int]()
    for line in entry.facts.split("\n"):
        word, _, rest = line.partition(" ")
        if word in _OF_TASKS:
            _, machine, job, *_ = rest.split(" ", 3)
            jobs.append(job)
            machines.append(int(machine))
        elif word == "places":
            words = rest.split(" ")
            jobs.append(words[0])
            machines += [int(words[4]), *(int(other.partition(":")[0]) for other in words[6:])]
        elif word == "late":
            jobs.append(rest.split(" ", 3)[2])
        elif word in ("join", "machine"):
            machines.append(int(rest.partition(" ")[0]))
        elif word and word not in _OF_NO_RECORD:
            jobs.append(rest.partition(" ")[0])
    return jobs, machines


_OF_TASKS = frozenset({"place", "finished", "failed", "retried", "lost", "evicted", "stopped", "left", "promote"})
_OF_NO_RECORD = frozenset(
    {"aborted", "conflict", "rejected", "enlist", "leave", "lapse", "limit", "restore", "cut", "pool", "trees", "epoch",
     "reset", "assert"}
)  # fmt: skip
