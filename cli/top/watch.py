"""Looking at a cell again and again: it follows as a scheduler does, by what changed, and reads little of the log."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cellstate.cell import PendingJob, Reply
from cellstate.model import BUCKETS, Machine, MachineState
from cellstate.transaction import Ask, Intake
from cellstate.view import View
from cli.event_words import sentences
from cli.top.picture import Happened, Member, Picture, Rank, Rates, Waiting, rank, states
from omega.queries.events import Event, event
from omega.queries.job_state import Room
from omega.queries.machines import utilisation
from omega.queries.names import Names
from omega.queries.schedulers import as_plain

if TYPE_CHECKING:
    from cellstate.redis import RedisCell

MOST_WAITING = 200
"""Pending jobs of each kind that are read: those that came first."""
MOST_VERSIONS = 1_000
"""Versions of the log read at a look; of a cell that changes faster only the newest are seen."""
MOST_HAPPENED = 200
HISTORY = 240
"""Looks that are remembered."""
LATELY_MS = 10_000
"""How far the first look reads back for its rates."""
ATTENTION = frozenset(
    (
        "conflict",
        "evicted",
        "lost",
        "failed",
        "abandon",
        "stop",
        "machine",
        "lapse",
        "enlist",
        "leave",
        "limit",
        "restore",
    )
)
"""Kinds of event that are shown."""

Figures = Mapping[str, Any]
FIGURES = ("busy_seconds", "seconds", "conflicts", "accepted")
"""Figures needed to compare a heartbeat with the one before."""


@dataclass(slots=True)
class _Past:
    """One scheduler's heartbeats: the figures of the last, how it did since the one before."""

    figures: Figures
    busyness: float | None = None
    conflict_fraction: float | None = None
    history: "deque[float]" = field(default_factory=lambda: deque(maxlen=HISTORY))

    def hear(self, now: Figures) -> None:
        """Take note of a heartbeat, if it is another one."""
        last = self.figures.get("seconds", 0.0)
        if not now.keys() >= set(FIGURES) or now["seconds"] == last:
            return
        before = self.figures if now["seconds"] > last else {}  # else it was started again
        self.figures = now
        busy, lasted, conflicts, accepted = (now[name] - before.get(name, 0) for name in FIGURES)
        self.busyness = min(1.0, busy / lasted) if lasted > 0 else 0.0
        self.conflict_fraction = conflicts / accepted if accepted > 0 else float(conflicts)
        self.history.append(self.busyness)


class Watch:
    """Follows one cell. One object serves one thread; everything it does is reading."""

    def __init__(self, cell: "RedisCell", store: str) -> None:
        """Watch a cell; `store` is what its store is called."""
        self.cell, self.store, self.names = cell, store, Names(cell)
        self._view = View(len(cell.dimensions))
        self._machines: dict[int, Machine] = {}
        self._ranks: dict[int, Rank] = {}
        self._members: dict[str, _Past] = {}
        self._seen: int | None = None
        self._looked_ms = 0
        self._happened: deque[Happened] = deque(maxlen=MOST_HAPPENED)
        self._past: dict[str, deque[float]] = {}

    def look(self, now_ms: int) -> Picture:
        """Return the cell as it is at `now_ms`. Raises StoreError, and Refused when the cell is gone."""
        self.cell.check_exists()
        depths = self.cell.queue_depths()
        pending = self._follow([kind for kind, depth in depths.items() if depth])
        known, uses = self.cell.members(), self.cell.kinds()
        ranks = sorted(self._ranks.values())
        machines = [self._machines[index] for _, _, index in ranks]
        room = Room.of(self._view, self.cell, uses, known)
        queue = [Waiting(each.arrival, each.job, room.reason(each.job)) for each in pending]
        rates = self._read_log(now_ms)
        self._remember(machines, rates)
        return Picture(
            self.cell.name, self.store, self.cell.dimensions, now_ms, self._view.position.version, machines,
            states(ranks, machines),
            [self._member(*each) for each in sorted(known.items())], sorted(queue, key=lambda each: each.arrival),
            depths, tuple(self._happened), rates, {name: tuple(values) for name, values in self._past.items()},
        )  # fmt: skip

    # Machines and pending jobs

    def _follow(self, kinds: list[str]) -> list[PendingJob]:
        """Bring the machines up to date; returns the first pending jobs of the kinds."""
        everywhere = "1" * BUCKETS
        found: list[PendingJob] = []
        self._apply(self.cell.sync(self._view.position))
        self._view.lanes.learn(self.cell.lanes(self._view.lanes.unknown()))
        for kind in kinds:
            lanes = sorted(self._view.lanes.of_kind(kind), key=lambda lane: -self._view.lanes.names[lane].precedence)
            asks = tuple(Ask(lane, 0, MOST_WAITING) for lane in lanes[:MOST_WAITING])
            reply = self.cell.sync(self._view.position, Intake(kind, asks, MOST_WAITING, everywhere))
            self._apply(reply)
            found += reply.jobs
        return found

    def _apply(self, reply: Reply) -> None:
        self._view.apply(reply)
        if reply.full:
            self._machines, self._ranks = {}, {}
        rows = {int(row[0]): row for row in reply.rows.tolist()}
        fresh = [
            index for index, row in rows.items()
            if index not in self._machines or self._machines[index].state != row[2]  # it may have joined again
        ]  # fmt: skip
        static = dict(zip(fresh, self.cell.described(fresh), strict=True))
        size = len(self.cell.dimensions)
        for index, (_, number, state, executor, *amounts) in rows.items():
            before = self._machines.pop(index, None)
            self._ranks.pop(index, None)
            if state == MachineState.GONE:
                continue
            name, attributes = (static[index][0], dict(static[index][1])) if index in static else _static(before)
            self._machines[index] = Machine(
                index, name, number, MachineState(state), executor, tuple(amounts[:size]), tuple(amounts[size:]),
                attributes,
            )  # fmt: skip
            self._ranks[index] = rank(self._machines[index])
        self.names.know({index: self._machines[index].name for index in fresh if index in self._machines})

    # Schedulers

    def _member(self, name: str, known: tuple[int, bool, dict[str, Any]]) -> Member:
        past = self._members.setdefault(name, _Past({}))
        past.hear(known[2])
        return Member(as_plain(name, *known), past.busyness, past.conflict_fraction, tuple(past.history))

    # The log

    def _read_log(self, now_ms: int) -> Rates:
        """Read the log since the last time and return the rates per second."""
        newest = self._view.position.version
        if self._seen is None or self._seen > newest:  # the first look, or the store went back in time
            since, seconds = max(0, newest - MOST_VERSIONS), LATELY_MS / 1000
        else:
            since, seconds = max(self._seen, newest - MOST_VERSIONS), max(now_ms - self._looked_ms, 1) / 1000
        facts = self.cell.facts(since, MOST_VERSIONS)
        found = [event(fact, self.cell.dimensions) for fact in facts]
        for same, said in sentences((each for each in found if each.kind in ATTENTION), self.names):
            self._happened.appendleft(Happened(tuple(same), said))
        if self._seen is None or self._seen > newest:
            found = [each for each in found if each.at_ms >= now_ms - LATELY_MS]
            share = 1.0
        else:
            share = (newest - self._seen) / max(newest - since, 1)
        self._seen, self._looked_ms = max(newest, facts[-1].version if facts else 0), now_ms
        return _rates(found, seconds / share if share else seconds)

    def _remember(self, machines: list[Machine], rates: Rates) -> None:
        use = utilisation(self.cell.dimensions.names, machines)
        now = {name: each["fraction"] for name, each in use.items()} | {"placed": rates.placed}
        for name, value in now.items():
            self._past.setdefault(name, deque(maxlen=HISTORY)).append(value)


def _static(machine: Machine | None) -> tuple[str, Mapping[str, str]]:
    return (machine.name, machine.attributes) if machine is not None else ("", {})


def _rates(events: list[Event], seconds: float) -> Rates:
    def tasks(*kinds: str) -> float:
        return sum(each.count or 0 for each in events if each.kind in kinds) / seconds

    conflicted = {(each.version, each.job) for each in events if each.kind == "conflict"}
    placed = {(each.version, each.job) for each in events if each.kind == "place"} - conflicted
    return Rates(tasks("place"), len(conflicted) / max(1, len(placed)), tasks("evicted", "lost"))
