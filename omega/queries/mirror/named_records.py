"""The machines and jobs that an entry of the log names, as lua/changed_records.lua reads it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.replies import LogEntry

_OF_TASKS = frozenset({"finished", "failed", "retried", "lost", "stopped", "left", "promote"})
_OF_NO_RECORD = frozenset(
    {"aborted", "rejected", "enlist", "leave", "lapse", "fit", "unfit", "limit", "restore", "cut", "pool", "trees",
     "epoch", "reset", "assert", ""}
)  # fmt: skip


class Listener:
    """Gets some lines of entries in the order of the log; this one drops them."""

    def changed(self, entry: LogEntry, word: str, machines: Sequence[int]) -> None:
        """Tasks were placed on machines, or one joined or was changed."""

    def conflicted(self, entry: LogEntry, words: Sequence[str]) -> None:
        """A claim was rejected; `words` without the first."""

    def evicted(self, entry: LogEntry, words: Sequence[str]) -> None:
        """Tasks were evicted; `words` without the first."""


@dataclass(slots=True)
class Named:
    """Jobs, each with the last version that names it, and machines; and how many tasks were placed."""

    jobs: dict[str, int] = field(default_factory=dict)
    machines: set[int] = field(default_factory=set)
    placed: int = 0

    def add(self, entries: Iterable[LogEntry], listener: Listener) -> bool:
        """Add what some entries name; return whether all could be read."""
        whole = True
        for entry in entries:
            try:
                for line in entry.facts.split("\n"):
                    self._add_line(entry, line, listener)
            except (ValueError, IndexError):
                whole = False
        return whole

    def _add_line(self, entry: LogEntry, line: str, listener: Listener) -> None:
        word, _, rest = line.partition(" ")
        if word == "places":
            words = rest.split(" ")
            others = [other.partition(":") for other in words[6:]]
            on = [int(words[4]), *(int(index) for index, _, _ in others)]
            self.jobs[words[0]] = entry.version
            self.machines.update(on)
            self.placed += ranges.count(words[5]) + sum(ranges.count(tasks) if tasks else 1 for *_, tasks in others)
            listener.changed(entry, "place", on)
        elif word == "place" or word in _OF_TASKS:
            _, machine, job, _, tasks, *_ = rest.split(" ", 5)
            self.jobs[job] = entry.version
            self.machines.add(int(machine))
            if word == "place":
                self.placed += ranges.count(tasks)
                listener.changed(entry, word, (int(machine),))
        elif word == "evicted":
            words = rest.split(" ")
            self.jobs[words[2]] = entry.version
            self.machines.add(int(words[1]))
            listener.evicted(entry, words)
        elif word == "conflict":
            listener.conflicted(entry, rest.split(" "))
        elif word == "late":
            self.jobs[rest.split(" ", 3)[2]] = entry.version
        elif word in ("join", "machine"):
            machine = rest.partition(" ")[0]
            self.machines.add(int(machine))
            listener.changed(entry, word, (int(machine),))
        elif word not in _OF_NO_RECORD:
            self.jobs[rest.partition(" ")[0]] = entry.version
