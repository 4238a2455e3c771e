"""What is due to the jobs of the cell's pools: their shares of the epoch, and room that suffices for their pool.

docs/shares-of-jobs.md. Amounts are in the cell's smallest units.
"""

from collections.abc import Sequence
from math import inf
from operator import add, mul, sub

from omega.cellstate.fairness import leaf_of
from omega.cellstate.lanes import Lanes
from omega.cellstate.pools import NOBODY
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.usage import Usage, times
from omega.schedulers.fairshare.standings import EpochShares, Standings
from omega.schedulers.fairshare.whole_tasks import JobShare, shares_of_jobs
from omega.schedulers.work import Work, fitting

LEAVES_SECONDS = 0.05
"""Time in seconds for which a job leaves room above its share to its siblings."""
MOST_AHEAD = 4
"""Siblings that come first to which a job leaves room one after the other."""
STARTING_SECONDS = 0.5
"""Age of an epoch in seconds up to which room is kept for what other jobs lacked at that epoch."""
UNNAMED_SECONDS = 2.0
"""Time in seconds after which a job does not wait longer for an epoch that names it."""
_SMALL = 1e-6


class JobsDue:
    """Follows the epoch and the snapshot. Without an epoch nothing bounds jobs."""

    def __init__(self) -> None:
        """Bound nothing yet."""
        self._shares: EpochShares | None = None
        self._snapshot: Snapshot | None = None
        self._jobs: dict[str, dict[str, JobShare]] = {}
        self._lower: dict[tuple[str, int], Sequence[int]] = {}
        """By leaf pool and precedence, what jobs of lower precedence want: until the next look at the snapshot."""
        self._lacking: list[str] | None = None
        """The leaf pools that lack something that they want: until the next look at the snapshot."""
        self._published: object = None
        self._now = self._since = 0.0
        self._plain = True

    def observe(self, shares: EpochShares | None, snapshot: Snapshot, now: float) -> None:
        """Record the shares in force, the snapshot and the time in seconds."""
        self._snapshot, self._now = snapshot, now
        self._lower.clear()
        self._lacking = None
        if shares is not self._shares:
            self._shares, self._jobs, self._since = shares, {}, now
            # The amounts of all machines bound a job of a tree of all machines and without limits.
            self._plain = shares is None or not (shares.pools.divided or shares.pools.limited)

    def is_late(self, snapshot: Snapshot, now: float) -> bool:
        """Return whether jobs have waited so long for an epoch that names them that they wait no longer."""
        if snapshot.epoch is not self._published:
            self._published, snapshot.unnamed_since = snapshot.epoch, None
        return snapshot.unnamed_since is not None and now > snapshot.unnamed_since + UNNAMED_SECONDS

    def due(self, work: Work) -> Sequence[int] | None:
        """Return how many tasks of each group of a job may take room at once; None: all that fit."""
        shares, snapshot = self._shares, self._snapshot
        if shares is None or snapshot is None:
            return None
        usage, leaf = snapshot.usage, leaf_of(*work.whose)
        if self._plain and usage.suffices(leaf):
            return None
        operators = shares.pools.operators_from
        if operators is not None and work.job.precedence >= operators:
            return None
        free, share = self._free(leaf), self._share(work, leaf)
        alone = share is not None and _lacks_room(work, free)
        fits = [] if alone else self._fits(work, leaf, free, snapshot)
        if fits == work.left:
            return None
        if share is not None:
            holds = _amounts(work, list(map(work.holds, range(len(work.left)))))
            own_room = fitting(work, [part - has + _SMALL for part, has in zip(share.amounts, holds, strict=True)])
            if not (share.ahead or share.rivals or any(share.starting)):
                # What other jobs of the pool held that want no more is for this one.
                own_room = max(own_room, fitting(work, self._rest(shares, leaf)), key=sum)
            return own_room
        if any(fitting(work, free)):
            if snapshot.unnamed_since is None:
                snapshot.unnamed_since = self._now
            elif self.is_late(snapshot, self._now):
                # Without its own share a job takes what its pool still lacks, then what no other pool lacks.
                rest = fitting(work, self._rest(shares, leaf))
                return rest if any(rest) else fitting(work, self._spare(leaf, free))
        return fits

    def _fits(self, work: Work, leaf: str, free: Sequence[float], snapshot: Snapshot) -> list[int]:
        """Return how many tasks of a job fit, by group, beside what else its pool wants."""
        usage, room = snapshot.usage, free
        # Tasks that were given room before, of this job too, hold it: they are no longer pending.
        wanted = map(sub, self._wanted(work, usage.wanted_by_leaf(leaf)), usage.claimed_by_leaf(leaf))
        before = list(map(sub, wanted, _amounts(work, work.left)))
        if work.admitted is not None:
            given = _amounts(work, work.admitted)
            room, before = list(map(add, free, given)), list(map(add, before, given))
        return fitting(work, [has - first if first > 0 else has for has, first in zip(room, before, strict=True)])

    def _rest(self, shares: EpochShares, leaf: str) -> list[float]:
        """Return what a leaf pool lacks of what is due to it."""
        held = [] if self._snapshot is None else self._snapshot.usage.of_leaf(leaf)
        return [part - has + _SMALL for part, has in zip(shares.due(leaf or NOBODY), held, strict=True)]

    def spare(self, work: Work, members: int) -> list[int]:
        """Return how many tasks of each group of a job fit beside what other pools want of what is due to them.

        While others lack something, each of so many schedulers takes its part of what the pool lacks itself, or of the
        rest, and at least one task: all of them see the same room. Of pools that lack parts of a task the first one by
        rank takes it.
        """
        leaf, shares, snapshot = leaf_of(*work.whose), self._shares, self._snapshot
        if shares is None or snapshot is None:
            return work.left
        free, own = self._free(leaf), self._lack(shares, snapshot.usage, leaf)
        task = work.need(next((group for group, left in enumerate(work.left) if left), 0)) if any(own) else None
        spare = self._spare(leaf, free, task)
        tasks = fitting(work, spare)
        if spare == free or not any(tasks) or work.least > 1:
            return tasks
        part = [(lack if any(own) else rest) / members for lack, rest in zip(own, spare, strict=True)]
        return list(map(min, tasks, [each + 1 for each in fitting(work, part)]))

    def _spare(self, leaf: str, free: Sequence[float], task: Resources | None = None) -> list[float]:
        """Return what is free beside what the other pools want of what is due to them, of it whole tasks if given."""
        shares, snapshot, spare = self._shares, self._snapshot, list(free)
        if shares is None or snapshot is None:
            return spare
        usage = snapshot.usage
        if self._lacking is None:
            self._lacking = [each for each in usage.wanted_by_leaves() if any(self._lack(shares, usage, each))]
        for each in self._lacking:
            if each != leaf:
                lacks = self._lack(shares, usage, each)
                if task is not None:
                    lacks = [lack // need * need if need else lack for lack, need in zip(lacks, task, strict=True)]
                spare = list(map(sub, spare, lacks))
        return spare

    @staticmethod
    def _lack(shares: EpochShares, usage: Usage, leaf: str) -> list[float]:
        """Return what a leaf pool wants of what it lacks of its share."""
        wanted = map(sub, usage.wanted_by_leaf(leaf), usage.claimed_by_leaf(leaf))
        lacks = map(sub, shares.due(leaf or NOBODY), usage.of_leaf(leaf))
        return [max(0.0, min(wants, lack)) for wants, lack in zip(wanted, lacks, strict=True)]

    def ample(self) -> Sequence[int] | None:
        """Return what all jobs may hold while no pool wants more than what remains; None: that is not known."""
        if self._snapshot is None or not self._plain:
            return None
        usage = self._snapshot.usage
        return [has - wants for has, wants in zip(usage.capacity, usage.most_wanted(), strict=True)]

    def beyond(self, work: Work) -> float:
        """Return how long (seconds) room stays free before a job takes more of it than is due; infinite for never."""
        share = self._share(work, leaf_of(*work.whose))
        if share is None:
            return inf
        if self._now < self._since + STARTING_SECONDS and any(share.starting):
            free = self._free(leaf_of(*work.whose))
            need = next((work.need(group) for group, left in enumerate(work.left) if left), ())
            if any(has < more + kept for has, more, kept in zip(free, need, share.starting, strict=False) if more):
                return inf
        return LEAVES_SECONDS * min(MOST_AHEAD, share.ahead + share.rivals)

    def _share(self, work: Work, leaf: str) -> JobShare | None:
        """Return the share of a job of a leaf pool; None for one that the epoch does not name."""
        if self._shares is None:
            return None
        jobs = self._jobs.get(leaf)
        if jobs is None:
            jobs = self._jobs[leaf] = shares_of_jobs(self._shares, leaf or NOBODY)
        return jobs.get(work.job.id)

    def _wanted(self, work: Work, wanted: Sequence[int]) -> Sequence[int]:
        """Return what the pending tasks of a job's pool want, without those of lower precedence."""
        if self._snapshot is None:
            return wanted
        leaf, precedence = leaf_of(*work.whose), work.job.precedence
        lower = self._lower.get((leaf, precedence))
        if lower is None:
            lower = self._lower[leaf, precedence] = _lower(self._snapshot.lanes, leaf, precedence, len(wanted))
        return list(map(sub, wanted, lower)) if any(lower) else wanted

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


def _lacks_room(work: Work, free: Sequence[float]) -> bool:
    """Return whether a job has more unplaced tasks than fit, whatever else is to be counted; False where unknown."""
    if len(work.left) > 1:
        return False
    more = work.left[0] - (work.admitted[0] if work.admitted else 0)
    return any(has < more * amount for has, amount in zip(free, work.need(0), strict=True) if amount)


def _lower(lanes: Lanes, leaf: str, precedence: int, dimensions: int) -> Sequence[int]:
    """Return what the jobs of a leaf pool want that have a lower precedence."""
    lower = [0] * dimensions
    for number, state in lanes.states.items():
        lane = lanes.names.get(number) if state.account is not None else None
        if lane is not None and lane.precedence < precedence and leaf_of(lane.pool, lane.user) == leaf:
            lower = list(map(add, lower, state.wanted))
    return lower


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
