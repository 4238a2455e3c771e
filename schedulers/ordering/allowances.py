"""What a leaf pool may take now: what it lacks of its share, and room that no pool below its share wants.

docs/pool-rules.md. Amounts are in the cell's smallest units. Use and demand of all pools come with each snapshot, so
every scheduler finds the same without asking another one.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import add, mul, sub

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.fairness import leaf_of
from omega.cellstate.pools import NOBODY
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.usage import Usage, times
from omega.schedulers.fairshare.standings import EpochShares, Standings
from omega.schedulers.policies import PlaceIn, only_one
from omega.schedulers.work import Work, fitting

KEPT_SECONDS = 1.0
"""Time in seconds for which room is kept for pools below their shares; then jobs of other pools may take it, too."""
MORE = 2
"""How many times as much room as the jobs without a turn were to have begins turns anew."""
_SMALL = 1e-6


Floats = NDArray[np.float64]


class Lacks:
    """What the leaf pools lack of their shares, one line each, as of the last look at the snapshot."""

    def __init__(self, size: int) -> None:
        """Create without lines, for so many resources."""
        self._lines: dict[str, int] = {}
        self._trees: dict[str, int] = {}
        """The number of each tree."""
        self._tree = np.zeros(0, dtype=np.int64)
        self._lack, self._wants = np.zeros((0, size)), np.zeros((0, size))
        self._bare = np.zeros(0, dtype=np.bool_)
        """The pools that hold nothing: a whole task of theirs is kept."""
        self._whole: dict[Resources, tuple[Floats, Floats]] = {}
        """By the need of a task: what pools lack in whole tasks, and the sum of each tree."""

    def put(self, leaf: str, tree: str, lack: Sequence[float], wants: Sequence[float], *, bare: bool) -> None:
        """Set what a leaf pool lacks and wants."""
        line = self._lines.setdefault(leaf, len(self._lines))
        if line == len(self._bare):
            more = max(16, line)
            self._lack, self._wants = (np.vstack([each, np.zeros((more, each.shape[1]))])
                                       for each in (self._lack, self._wants))  # fmt: skip
            self._bare, self._tree = (np.append(each, np.zeros(more, each.dtype)) for each in (self._bare, self._tree))
        self._lack[line], self._wants[line], self._bare[line] = lack, wants, bare
        self._tree[line] = self._trees.setdefault(tree, len(self._trees))
        self._whole.clear()

    def _in_tasks(self, need: Resources) -> tuple[Floats, Floats]:
        """Return what each leaf pool lacks in whole tasks of this need, and the sums of the trees."""
        known = self._whole.get(need)
        if known is None:
            amounts, lack = np.array(need, dtype=float), self._lack
            if self._bare.any():
                first = (self._bare & lack.any(axis=1))[:, None]
                lack = np.where(first, np.maximum(lack, np.minimum(self._wants, amounts)), lack)
            whole = np.where(amounts > 0, lack // np.maximum(amounts, 1.0) * amounts, lack)
            sums = np.zeros((max(1, len(self._trees)), len(need)))
            np.add.at(sums, self._tree, whole)
            known = self._whole[need] = whole, sums
        return known

    def of_others(self, leaf: str, tree: str, need: Resources) -> list[float]:
        """Return what the other leaf pools of a tree lack together."""
        whole, sums = self._in_tasks(need)
        line, number = self._lines.get(leaf), self._trees.get(tree)
        if number is None:
            return [0.0] * len(need)
        together: list[float] = sums[number].tolist()
        return together if line is None else list(map(sub, together, whole[line].tolist()))

    def lacking(self, need: Resources) -> Iterator[str]:
        """Yield the leaf pools that lack a task."""
        lacks: list[bool] = np.any(self._in_tasks(need)[0], axis=1).tolist()
        return (leaf for leaf, line in self._lines.items() if lacks[line])


class Allowances:
    """Follows shares and the snapshot. Without shares nothing bounds a pool."""

    def __init__(self) -> None:
        """Bound nothing yet."""
        self.place_in: PlaceIn = only_one
        self._shares: EpochShares | None = None
        self._snapshot: Snapshot | None = None
        self._plain = True
        self._vain: dict[str, Resources] = {}
        """Leaf pools that left room which was kept for them, and what they held then or the least since."""
        self._parts: dict[str, tuple[int, int]] = {}
        """By leaf pool: the jobs that have not had a turn, and the tasks for them."""
        self._wanted: list[int] = []
        """What all jobs want, at the last look at the snapshot."""
        self._lacks: Lacks | None = None
        self._moved = set[str]()
        """Leaf pools whose line in it is to be made anew."""

    def observe(self, shares: EpochShares | None, snapshot: Snapshot) -> None:
        """Record the shares in force and the snapshot."""
        usage = snapshot.usage
        self._moved |= usage.moved_leaves()
        if shares is not self._shares or snapshot is not self._snapshot:
            self._shares, self._snapshot = shares, snapshot
            # The amounts of all machines bound a job of a tree of all machines and without limits.
            self._plain = shares is None or not (shares.pools.divided or shares.pools.limited)
            self._lacks = None
        self._wanted = list(usage.wanted())
        self._follow_vain(usage)

    def _follow_vain(self, usage: Usage) -> None:
        for leaf, least in list(self._vain.items()):
            held = usage.of_leaf(leaf)
            if any(has > was for has, was in zip(held, least, strict=True)):
                del self._vain[leaf]
                self._moved.add(leaf)
            else:
                self._vain[leaf] = held

    def suffices(self) -> bool:
        """Return whether what no job holds is enough for all that jobs want."""
        if self._snapshot is None or not self._plain:
            return False
        usage = self._snapshot.usage
        free = zip(usage.capacity, usage.held(), self._wanted, strict=True)
        return all(has - held >= wants for has, held, wants in free)

    def ample(self) -> Sequence[int] | None:
        """Return what all jobs may hold while nothing is short; None: that is not known."""
        if self._snapshot is None or not self._plain:
            return None
        return list(map(sub, self._snapshot.usage.capacity, self._wanted))

    def due(self, work: Work, waiting: Callable[[], int]) -> Sequence[int] | None:
        """Return how many tasks of each group of a job may take room, those that it was given included; None: all.

        Of so many jobs of a leaf pool that wait each gets a part: then the one that holds least is next.
        """
        shares, snapshot = self._shares, self._snapshot
        if shares is None or snapshot is None or self.suffices():
            return None
        operators = shares.pools.operators_from
        if operators is not None and work.job.precedence >= operators:
            return None
        leaf = leaf_of(*work.whose)
        need = next((work.need(group) for group, left in enumerate(work.left) if left), ())
        room = self._room(shares, snapshot, leaf, need)
        room = self._part(leaf, room, need, waiting, whole=work.least > 0)
        if work.admitted is not None:
            room = list(map(add, room, _amounts(work, work.admitted)))
        due = fitting(work, room)
        return None if due == work.left else due

    def _part(
        self, leaf: str, room: list[float], need: Resources, waiting: Callable[[], int], *, whole: bool
    ) -> list[float]:
        """Return a job's part of the room of a leaf pool: the same for each of so many that wait, in turn.

        A job that is placed as a whole has a turn, too, without a bound.
        """
        if all(has >= wants for has, wants in zip(room, self._wants(leaf), strict=True)):
            return room
        fits = min([int(has // amount) for has, amount in zip(room, need, strict=True) if amount], default=0)
        if fits <= 1:
            return room
        turns, left = self._parts.get(leaf, (0, 0))
        jobs = waiting()
        if turns < 1 or fits > MORE * left + 1:
            turns = jobs
        tasks = -(-fits // min(turns, jobs))
        self._parts[leaf] = turns - 1, fits - tasks
        if whole:
            return room
        return [min(has, tasks * amount) if amount else has for has, amount in zip(room, need, strict=True)]

    def _wants(self, leaf: str) -> Sequence[int]:
        """Return what the jobs of a leaf pool want, without what this scheduler claims for them now."""
        if self._snapshot is None:
            return ()
        usage = self._snapshot.usage
        return list(map(sub, usage.wanted_by_leaf(leaf), usage.claimed_by_leaf(leaf)))

    def _room(self, shares: EpochShares, snapshot: Snapshot, leaf: str, need: Resources) -> list[float]:
        """Return the amounts that a leaf pool may take now: its part of them, where it has several owners."""
        free, lacks = self._free(leaf), self._lack(shares, snapshot, leaf, need)
        kept = self._known(shares, snapshot).of_others(leaf, _tree(shares, leaf), need)
        room = [max(lack, has - keep) for has, lack, keep in zip(free, lacks, kept, strict=True)]
        owners = self.place_in(leaf)[1]
        if owners > 1:
            room = [max(has / owners, min(has, amount)) for has, amount in zip(room, need, strict=True)]
        return room

    def _known(self, shares: EpochShares, snapshot: Snapshot) -> Lacks:
        """Return what leaf pools lack, as at the last look at the snapshot."""
        lacks, moved = self._lacks, self._moved
        if lacks is None:
            lacks, moved = Lacks(snapshot.dimensions), set(snapshot.usage.wanted_by_leaves())
            self._lacks = lacks
        for leaf in moved:
            wants = self._wants(leaf)
            size = (0.0,) * len(wants)
            lack = size if leaf in self._vain else self._lack(shares, snapshot, leaf, size)
            bare = not any(snapshot.usage.of_leaf(leaf))
            lacks.put(leaf, _tree(shares, leaf), lack, wants, bare=bare)
        self._moved = set()
        return lacks

    def _lack(self, shares: EpochShares, snapshot: Snapshot, leaf: str, need: Sequence[float]) -> list[float]:
        """Return what a leaf pool wants of what it lacks of its share; one that holds nothing lacks a whole task."""
        held, wants = snapshot.usage.of_leaf(leaf), self._wants(leaf)
        lacks = map(sub, shares.due(leaf or NOBODY), held)
        lacking = [max(0.0, min(most, lack + _SMALL)) for most, lack in zip(wants, lacks, strict=True)]
        if any(held) or not any(lacking):
            return lacking
        return [max(lack, min(most, amount)) for lack, most, amount in zip(lacking, wants, need, strict=True)]

    def beyond(self, work: Work, stayed: float) -> bool:
        """Return whether a job takes more than is due of room that stayed free for so long (seconds).

        For pools that left such room although it was kept for them, none is kept until they start a task.
        """
        shares, snapshot = self._shares, self._snapshot
        if shares is None or snapshot is None or stayed < KEPT_SECONDS:
            return False
        need = next((work.need(group) for group, left in enumerate(work.left) if left), ())
        own = leaf_of(*work.whose)
        lacking = [leaf for leaf in self._known(shares, snapshot).lacking(need) if leaf != own]
        self._vain.update((leaf, snapshot.usage.of_leaf(leaf)) for leaf in lacking)
        self._moved.update(lacking)
        return True

    def _free(self, leaf: str) -> list[float]:
        """Return what is free on the machines of a leaf pool's tree, below the limits of the pool and those above."""
        shares, snapshot = self._shares, self._snapshot
        if shares is None or snapshot is None:
            return []
        usage = snapshot.usage
        if self._plain:
            return [has - held for has, held in zip(usage.capacity, usage.held(), strict=True)]
        standings, pools = Standings(shares, snapshot), shares.pools
        tree = pools.tree_of(shares.path(leaf)[-1]) if shares.path(leaf) else pools.trees[0]
        free = [float(total) for total in shares.epoch.totals[tree.name]]
        for each in usage.leaves():
            path = shares.path(each)
            if path and pools.tree_of(path[-1]) is tree:
                free = [has - held for has, held in zip(free, usage.of_leaf(each), strict=True)]
        for pool in pools.chain(leaf or NOBODY):
            used = standings.used(pool.name)
            for d, name in enumerate(snapshot.resources):
                if name in pool.upper:
                    free[d] = min(free[d], pool.upper[name] - used[d])
        return free


def _tree(shares: EpochShares, leaf: str) -> str:
    """Return the tree of a leaf pool: its pools alone may use the tree's machines."""
    return shares.family(shares.path(leaf)[-1])[0]


def _amounts(work: Work, tasks: Sequence[int]) -> Sequence[int]:
    """Return the amounts of so many tasks of each group of a job."""
    if len(tasks) == 1:
        return times(work.job.groups[0].need, tasks[0])
    needs = zip(*(group.need for group in work.job.groups), strict=True)
    return [sum(map(mul, tasks, amounts)) for amounts in needs]


def held_part(work: Work, capacity: Resources) -> float:
    """The largest part of a resource that a job holds or is given: of equal jobs the one with least comes first."""
    most = 0.0
    for group, admitted in enumerate(work.admitted or [0] * len(work.left)):
        tasks = work.holds(group) + admitted
        if tasks:
            parts = (amount / total for amount, total in zip(work.need(group), capacity, strict=True) if total)
            most += tasks * max(parts, default=0.0)
    return most
