"""Which schedulers own which leaf pools, by the time that their decisions take. One object at the first in rank.

A leaf pool has one owner. One whose decisions fill its owners' time gets twice as many, and half as many again after a
while in which fewer would do. Of several leaf pools of a busy scheduler one goes to the least busy.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from omega.schedulers.sharing import MOST_LISTED, owner_of_leaf

BUSY = 0.7
"""The part of its time from which on a scheduler is busy."""
GROW_SECONDS, SHRINK_SECONDS = 3.0, 30.0
"""For how long owners are busy, or too many, before their number changes."""
UNEQUAL, UNEQUAL_SECONDS = 1.3, 10.0
"""The busiest scheduler gives a pool away once it has so many times as much to do as the mean, for so long."""
Loads = Mapping[str, Mapping[str, float]]
"""By scheduler and leaf pool: the part of the last seconds for which the scheduler decided its jobs."""


@dataclass(slots=True)
class Balance:
    """The owners of leaf pools; times are seconds."""

    owners: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _since: dict[tuple[str, str], float] = field(default_factory=dict)
    """Since when something has been the case: ``grow`` and ``shrink`` of leaf pools, ``move`` of all."""

    def step(self, now: float, members: Sequence[str], leaves: Collection[str], loads: Loads) -> bool:
        """Follow the live members, the leaf pools of the cell and what they cost; return whether owners changed."""
        before = dict(self.owners)
        total, busy = defaultdict[str, float](float), dict.fromkeys(members, 0.0)
        for member in members:
            for leaf, load in loads.get(member, {}).items():
                total[leaf] += load
                busy[member] += load
        self._place(members, leaves if len(leaves) <= MOST_LISTED else (), total)
        for leaf in sorted(self.owners, key=lambda each: (-total[each], each)):
            self._resize(now, leaf, members, total[leaf], busy)
        self._move(now, members, loads, busy)
        return self.owners != before

    def _place(self, members: Sequence[str], leaves: Collection[str], total: Mapping[str, float]) -> None:
        """Give every leaf pool a live owner: the heaviest first, to whom has least to do."""
        alive = {leaf: tuple(each for each in owners if each in members) for leaf, owners in self.owners.items()}
        self.owners = {
            leaf: owners
            for leaf, owners in alive.items()
            if owners and (leaf in leaves or total.get(leaf) or owners[1:])
        }
        for leaf in total:  # a pool that nobody configured
            if leaf not in leaves and 2 * total[leaf] >= BUSY:
                self.owners.setdefault(leaf, (owner_of_leaf(tuple(members), leaf),))
        work = dict.fromkeys(members, 0.0)
        for leaf, owners in self.owners.items():
            for each in owners:
                work[each] += total[leaf] / len(owners)
        pools = Counter(each for owners in self.owners.values() for each in owners)
        for leaf in sorted(set(leaves) - self.owners.keys(), key=lambda each: (-total[each], each)):
            owner = min(members, key=lambda each: (work[each], pools[each]))
            self.owners[leaf] = (owner,)
            work[owner] += total[leaf]
            pools[owner] += 1

    def _lasts(self, what: tuple[str, str], now: float, seconds: float, *, holds: bool) -> bool:
        """Return whether something has held for so long; its time then begins anew."""
        if not holds:
            self._since.pop(what, None)
            return False
        if now - self._since.setdefault(what, now) < seconds:
            return False
        del self._since[what]
        return True

    def _resize(self, now: float, leaf: str, members: Sequence[str], load: float, busy: dict[str, float]) -> None:
        """Double or halve the number of owners of a leaf pool."""
        owners = self.owners[leaf]
        filled = all(busy[each] >= BUSY for each in owners) and 2 * load >= sum(busy[each] for each in owners)
        if self._lasts(("grow", leaf), now, GROW_SECONDS, holds=filled and len(owners) < len(members)):
            others = sorted((each for each in members if each not in owners), key=lambda each: busy[each])
            self.owners[leaf] = grown = (*owners, *others[: len(owners)])
            for each in grown[len(owners) :]:
                busy[each] += load / len(grown)  # the next one grows elsewhere
        fewer = len(owners) // 2
        if self._lasts(("shrink", leaf), now, SHRINK_SECONDS, holds=fewer > 0 and 2 * load < BUSY * fewer):
            self.owners[leaf] = owners[:fewer]

    def _move(self, now: float, members: Sequence[str], loads: Loads, busy: Mapping[str, float]) -> None:
        """Give one leaf pool of the busiest scheduler to the least busy one."""
        busiest, idlest = max(members, key=lambda each: busy[each]), min(members, key=lambda each: busy[each])
        mean = sum(busy[each] for each in members) / len(members)
        gap = busy[busiest] - busy[idlest]
        own = [(load, leaf) for leaf, load in loads.get(busiest, {}).items() if self.owners.get(leaf) == (busiest,)]
        fitting = [each for each in own if 0 < each[0] < gap]
        unequal = 2 * busy[busiest] >= BUSY and busy[busiest] > UNEQUAL * mean and bool(fitting)
        if self._lasts(("move", ""), now, UNEQUAL_SECONDS, holds=unequal):
            _, leaf = min(fitting, key=lambda each: abs(each[0] - gap / 2))
            self.owners[leaf] = (idlest,)


def loads_of(decided: Iterable[tuple[str, int]], busy: float) -> dict[str, float]:
    """Divide the part of its time for which a scheduler decided by the jobs that it decided, by leaf pool."""
    counts = dict(decided)
    jobs = sum(counts.values())
    return {leaf: busy * count / jobs for leaf, count in counts.items() if count}
