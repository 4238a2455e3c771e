"""Recent errors, and since when machines are not up, read from the end of the log."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omega.cellstate.model import MachineState
from omega.queries.events import Event, events, extent, since_time

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Machine

LATELY_SECONDS = 900
MOST_VERSIONS = 1_000
"""Versions of the log that are read: some 0.05 s."""
MOST_SEARCHED = 10_000
"""Newest versions of the log that are searched for the begin of a state: some 0.2 s."""
WINDOW = 2_000
"""Versions read at once when the log is searched backwards."""
KINDS = ("failed", "lost", "evicted", "conflict")
NAMES = {"conflict": "conflicts"}


@dataclass(slots=True)
class Recently:
    """How many tasks failed, were lost or evicted, and how many claims conflicted, within `seconds`."""

    seconds: int = LATELY_SECONDS
    whole: bool = True
    """Whether the log was read as far back as that; a busy cell's has only the newest."""
    total: "Counter[str]" = field(default_factory=Counter)
    machines: "dict[int, Counter[str]]" = field(default_factory=dict)

    def add_event(self, event: Event) -> None:
        """Count an event."""
        if event.kind in KINDS and event.machine is not None:
            count = 1 if event.kind == "conflict" else event.count or 0
            self.total[event.kind] += count
            self.machines.setdefault(event.machine, Counter())[event.kind] += count

    def as_json(self, machine: int | None = None) -> dict[str, int]:
        """Return the counts by name, of one machine or of all."""
        counts = self.total if machine is None else self.machines.get(machine, Counter())
        return {NAMES.get(kind, kind): counts[kind] for kind in KINDS}


def recently(cell: "Cell", now_ms: int) -> Recently:
    """Read errors of the last quarter of an hour from the log."""
    kept = extent(cell)
    since = max(since_time(cell, now_ms - 1000 * LATELY_SECONDS, kept), kept.newest - MOST_VERSIONS)
    recent = Recently()
    for event in events(cell, since, kept.newest, KINDS):
        if event.at_ms >= now_ms - 1000 * LATELY_SECONDS:
            recent.add_event(event)
    first = cell.log.facts(since, 1) if kept.newest - since >= MOST_VERSIONS else []
    if first:
        recent.seconds, recent.whole = min(LATELY_SECONDS, max(0, now_ms - first[0].at_ms) // 1000), False
    return recent


def states_since(cell: "Cell", machines: "Sequence[Machine]") -> dict[int, int]:
    """Return since when machines that are not up have their state, by index: ms since 1970.

    A machine is missing when the change is older than the searched end of the log.
    """
    wanted = {machine.index: machine.state.name.lower() for machine in machines if machine.state is not MachineState.UP}
    kept, since = extent(cell), dict[int, int]()
    to, oldest = kept.newest, max(kept.first - 1, kept.newest - MOST_SEARCHED)
    while wanted and to > oldest:
        after = max(oldest, to - WINDOW)
        for event in reversed(list(events(cell, after, to, ("machine",)))):
            if event.machine in wanted and event.more.get("state") == wanted[event.machine]:
                since[event.machine] = event.at_ms
                del wanted[event.machine]
        to = after
    return since
