"""The newest entries of the log, as they are stored: facts are read from them when they are asked for."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from omega.cellstate.events import Fact, LogEntry, facts_in
from omega.queries.event_list import Missing

MOST_ENTRIES = 20_000
MOST_LETTERS = 4 << 20
"""Letters of facts that are kept, some 50,000 events: an entry may have the facts of a thousand jobs."""
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
        while len(self) > MOST_ENTRIES or (len(self) > 1 and self._letters > MOST_LETTERS):
            self._letters -= len(self._entries[self._start].facts)
            self._start += 1
        if self._start > MOST_ENTRIES // 10 or self._letters > MOST_LETTERS // 2:
            del self._entries[: self._start], self._versions[: self._start]
            self._start = 0

    def add_before(self, entries: Sequence[LogEntry]) -> bool:
        """Add entries with versions below the first; return whether there is room for more."""
        self._entries[self._start : self._start] = entries
        self._versions[self._start : self._start] = [entry.version for entry in entries]
        self._letters += sum(len(entry.facts) for entry in entries)
        return len(self) < MOST_ENTRIES // 2 and self._letters < MOST_LETTERS // 2

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

    def facts(self, since: int, most: int, kinds: Collection[str] | None = None) -> list[Fact]:
        """Return the facts as `RedisLog.facts` does, of the entries that are kept."""
        return [fact for entry in self.after(since, most) for fact in facts_of(entry, kinds)]


def facts_of(entry: LogEntry, kinds: Collection[str] | None = None) -> list[Fact]:
    """Return the facts of an entry (None: of all kinds); none of one that cannot be read."""
    if kinds is not None and not any(kind in entry.facts for kind in kinds):
        return []  # most entries, without dividing them into lines
    try:
        return facts_in(entry, kinds)
    except ValueError:
        return []
