"""Convergence of pools to their fair shares, read from the log of a cell: times, overshoot, undone evictions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from omega.cellstate import ranges
from omega.cellstate.events import Assert, AssertedPool, End, Fact, Place

UNDONE_SECONDS = 5.0
"""An eviction is undone when within this time its victim is placed again, or the task in its room is evicted."""
TOLERANCE = 0.02


class _PlacedTasks(NamedTuple):
    """Tasks of a placement; `forced`: the transaction that started them evicted tasks."""

    pool: str
    tasks: int
    since: float
    forced: bool


@dataclass(slots=True, kw_only=True)
class Convergence:
    """Figures of the log from `begin_ms` on. Times in seconds from then; shares in tasks, which are all alike."""

    shares: Mapping[str, float]
    begin_ms: int
    evictions: int = 0
    undone: int = 0
    wasted_seconds: float = 0.0
    """Run time of evicted tasks, each × 1 task."""
    overshoot: float = 0.0
    """The most tasks that a pool held above its share after the beginning, of the pools that began below theirs."""
    undershoot: float = 0.0
    """The most tasks that a pool fell below its share, of the pools that began above theirs."""
    sets: int = 0
    """Transactions that asserted shares and evicted tasks."""
    not_improved: int = 0
    """Of these, those after which the largest usage ÷ share among their pools was not smaller than before."""
    held: dict[str, int] = field(default_factory=dict)
    outside: float | None = 0.0
    """The last time at which some pool was outside the tolerance; None while one is."""
    _above: set[str] = field(default_factory=set)
    _began: bool = False
    _running: dict[int, _PlacedTasks] = field(default_factory=dict)
    _evicted: dict[tuple[str, int, int], float] = field(default_factory=dict)
    _now: float = float("-inf")

    def follow(self, facts: Iterable[Fact], pool_of: Mapping[str, str]) -> None:
        """Read the log; `pool_of` names the pool of each job."""
        forced, version = "", -1
        for fact in facts:
            if fact.version != version:  # in between the room of evicted tasks is not taken yet
                version = fact.version
                self._pass(max(self._now, (fact.at_ms - self.begin_ms) / 1000))
            event = fact.event
            if isinstance(event, Assert):
                forced = event.job
                self._judge(event.pools)
            elif isinstance(event, Place):
                self._place(event, pool_of[event.job], forced=event.job == forced)
            elif isinstance(event, End):
                self._end(event)
        self._pass(self._now)

    def _pass(self, now: float) -> None:
        """Advance the time: evaluate the state until then."""
        if now >= 0 and not self._began:
            self._began = True
            self._above = {name for name, share in self.shares.items() if self.held.get(name, 0) > share}
        if self._began:
            self._look()
        self._now = now

    def _look(self) -> None:
        outside = False
        for name, share in self.shares.items():
            more = self.held.get(name, 0) - share
            outside = outside or abs(more) > max(1.0, TOLERANCE * share) + 1e-9
            if name in self._above:
                self.undershoot = max(self.undershoot, -more)
            else:
                self.overshoot = max(self.overshoot, more)
        if outside:
            self.outside = None
        elif self.outside is None:
            self.outside = self._now

    def _place(self, event: Place, pool: str, *, forced: bool) -> None:
        self._running[event.placement] = _PlacedTasks(pool, event.size, self._now, forced)
        self.held[pool] = self.held.get(pool, 0) + event.size
        for task in ranges.indices(event.tasks):
            at = self._evicted.pop((event.job, event.group, task), None)
            self.undone += at is not None and self._now - at < UNDONE_SECONDS

    def _end(self, event: End) -> None:
        known, count = self._running[event.placement], event.size
        self._running[event.placement] = known._replace(tasks=known.tasks - count)
        self.held[known.pool] -= count
        if event.word != "evicted":
            return
        ran = self._now - known.since
        self.wasted_seconds += ran * count
        self.evictions += count
        self.undone += count if known.forced and ran < UNDONE_SECONDS else 0
        for task in ranges.indices(event.tasks):
            self._evicted[event.job, event.group, task] = self._now

    def _judge(self, pools: Sequence[AssertedPool]) -> None:
        before, after = [], []
        for pool in pools:
            if pool.job:
                return  # within a pool its sum stays the same
            was, now, share = pool.before, pool.after, [inf if each is None else each for each in pool.share]
            moved = [d for d in range(len(share)) if was[d] != now[d]]
            before.append(max((_ratio(was[d], share[d]) for d in moved), default=0.0))
            after.append(max((_ratio(now[d], share[d]) for d in moved), default=0.0))
        if len(pools) > 1:
            self.sets += 1
            self.not_improved += not max(after) < max(before)


def _ratio(has: float, part: float) -> float:
    return has / part if part else (float("inf") if has else 0.0)
