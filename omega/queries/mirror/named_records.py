"""The machines and jobs that an entry of the log names, as lua/changed_records.lua reads it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from omega.cellstate.events import (
    Conflict,
    End,
    Event,
    JobEvent,
    Join,
    LogEntry,
    MachineEvent,
    NoFact,
    Place,
    TaskEvent,
    TransactionEvent,
    events_in,
)

_OF_MACHINES = (Join, MachineEvent)


class Listener:
    """Gets some lines of entries in the order of the log; this one drops them."""

    def changed(self, entry: LogEntry, event: Place | Join | MachineEvent) -> None:
        """Tasks were placed on a machine, or it joined or was changed."""

    def conflicted(self, entry: LogEntry, event: Conflict) -> None:
        """A claim was rejected."""

    def evicted(self, entry: LogEntry, event: End) -> None:
        """Tasks were evicted."""


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
            for event in events_in(entry.facts):
                whole = self._add(entry, event, listener) and whole
        return whole

    def _add(self, entry: LogEntry, event: Event, listener: Listener) -> bool:
        if isinstance(event, TaskEvent):
            self.jobs[event.job] = entry.version
            if event.word != "late":  # the store does not keep its machine
                self.machines.add(event.machine)
            if isinstance(event, Place):
                self.placed += event.size
                listener.changed(entry, event)
            elif isinstance(event, End) and event.word == "evicted":
                listener.evicted(entry, event)
        elif isinstance(event, Conflict):
            listener.conflicted(entry, event)
        elif isinstance(event, JobEvent):
            if event.word != "assert":
                self.jobs[event.job] = entry.version
        elif isinstance(event, TransactionEvent):
            if event.word == "again":
                self.jobs[event.job] = entry.version
        elif isinstance(event, _OF_MACHINES):
            self.machines.add(event.machine)
            listener.changed(entry, event)
        return not isinstance(event, NoFact)
