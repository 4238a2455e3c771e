"""What a scheduler saw of pools from decision to decision: which stood below their shares, and what changed since."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from omega.cellstate.fairness import is_below
from omega.schedulers.fairshare.standings import BOUNDLESS, Situation, Standings

SETTLED_SECONDS = 5.0
"""How long a pool that was below its share keeps its tasks, and a task runs, before another pool or job evicts it."""


class _Shortage(NamedTuple):
    """A pool below its share: its use of what it lacked (infinite: of the rest), the time, and whether it lasts."""

    held: tuple[float, ...]
    at: float
    lasts: bool = True


class _Search(NamedTuple):
    """A search for victims in vain: how pools stood, when time alone may help, its time, the machines' changes then."""

    situation: Situation
    retry: float
    at: float
    changes: int


@dataclass(slots=True)
class PoolWatch:
    """The stand of pools as one scheduler saw it; times in seconds."""

    _shortages: dict[str, _Shortage] = field(default_factory=dict)
    _lacking: dict[str, dict[tuple[float, ...], float]] = field(default_factory=dict)
    """By pool and unit (a task, a gang): since when it fits under the share of the pool; infinite when it does not."""
    _searches: dict[tuple[str, Hashable], _Search] = field(default_factory=dict)
    """The last search in vain for a pool, by the shape of the job."""

    def rest(self) -> None:
        """Record that no pool with jobs of this scheduler is below its share."""
        if self._lacking:
            self._lacking = {}

    def look(self, standings: Standings) -> None:
        """Record the pools that stand below their shares now, and those that no longer do."""
        now = standings.snapshot.now
        for name, units in list(self._lacking.items()):
            for unit in units:
                self.follow(name, unit, standings)
            if min(units.values()) == inf:
                del self._lacking[name]
        for name in standings.below:
            used, due = standings.used(name), standings.shares.due(name)
            # A resource without a total has no share to lack.
            lacks = any(has < part < BOUNDLESS for has, part in zip(used, due, strict=True))
            wants = standings.wanted(name) if lacks else ()
            # As for evictions: below its share is a pool that is below it in each resource that its tasks need.
            if any(wants) and is_below(used, due, wants):
                amounts = zip(used, due, wants, strict=True)
                held = tuple(has if want and has < part < BOUNDLESS else inf for has, part, want in amounts)
                if min(held) < inf:
                    self._shortages[name] = _Shortage(held, now)
                    continue
            known = self._shortages.get(name)
            if known is not None and known.lasts:
                self._shortages[name] = _Shortage(known.held, now, lasts=False)
            elif known is not None and known.at + SETTLED_SECONDS <= now:
                del self._shortages[name]

    def follow(self, name: str, unit: Sequence[float], standings: Standings) -> None:
        """Record whether a unit fits under the share of a pool now, and from now on at each look."""
        since = self._lacking.get(name, {}).get(tuple(unit), inf)
        fits = standings.has_room(name, unit)
        self._lacking.setdefault(name, {})[tuple(unit)] = min(since, standings.snapshot.now) if fits else inf

    def lacking_since(self, name: str, unit: Sequence[float]) -> float:
        """Return since when a pool has lacked a unit that it follows; infinite when none fits under its share."""
        return self._lacking.get(name, {}).get(tuple(unit), inf)

    def gained(self, name: str, now: float) -> None:
        """Record that this scheduler evicted tasks for a pool, and that others of its jobs may do the same."""
        known = self._shortages.get(name)
        if known is not None:
            self._shortages[name] = known._replace(at=now)
        self._searches = {key: each for key, each in self._searches.items() if key[0] != name}

    def settled_at(self, name: str, standings: Standings) -> float:
        """Return when a pool may lose tasks to others: some time after it stood below the share that it has now."""
        known, due = self._shortages.get(name), standings.shares.due(name)
        if known is None or all(has >= part for has, part in zip(known.held, due, strict=True)):
            return 0.0
        return known.at + SETTLED_SECONDS

    def searched(self, name: str, shape: Hashable, standings: Standings, retry: float = inf) -> None:
        """Record that jobs of a shape found no victims for a pool; `retry`: when time alone may help."""
        snapshot = standings.snapshot
        self._searches[name, shape] = _Search(standings.situation(name), retry, snapshot.now, snapshot.changes)

    def vain_until(self, name: str, shape: Hashable, standings: Standings) -> float:
        """Return until when another search finds no victims: nothing changed since the last one that could help.

        0 when it may find some. Changes of machines alone count some time after the last search.
        """
        known, snapshot = self._searches.get((name, shape)), standings.snapshot
        if known is None or snapshot.now >= known.retry:
            return 0.0
        if snapshot.changes != known.changes and snapshot.now >= known.at + SETTLED_SECONDS:
            return 0.0
        return 0.0 if standings.improved(name, known.situation) else known.retry

    def stirs(self, name: str, standings: Standings) -> bool:
        """Whether jobs of a pool that may evict are to be tried again, by what changed since this was true last."""
        if self.vain_until(name, None, standings):
            return False
        self.searched(name, None, standings)
        return standings.any_above(name)
