"""The limits of a job type and of pools as they concern one job (semantics 9); commit.lua validates the claims."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from omega.cellstate import rules
from omega.cellstate.model import Job
from omega.cellstate.pools import JOBS, TASKS, Pool, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.replies import KindUse
from omega.cellstate.resources import Resources, format_amount

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

Room = list[int | None]
"""What limits leave: jobs with running tasks, running tasks, amounts by resource; None without a limit."""


def room_below(limits: Sequence[int | None], use: Sequence[int]) -> Room:
    """Return what limits leave of some use."""
    return [None if limit is None else limit - held for limit, held in zip(limits, use, strict=True)]


def room_of_kind(use: KindUse) -> Room:
    """Return what the limits of a job type leave; they count no tasks."""
    return room_below((use.limits.jobs, None, *use.limits.resources), (use.jobs, 0, *use.used))


def admitted(rooms: Sequence[Room], needs: Sequence[Resources], tasks: Sequence[int], *, fresh: bool) -> list[int]:
    """Return how many of the tasks of each group all of the rooms admit, one group after the other.

    `needs` are what a task of each group needs; `fresh`: the job has no running task.
    """
    rooms, admits = [list(room) for room in rooms], list(tasks)
    if fresh and any(room[0] is not None and room[0] <= 0 for room in rooms):
        return [0] * len(admits)
    for group, need in enumerate(needs):
        unit = (1, *need)
        for room in rooms:
            admits[group] = rules.admits(room[1:], (0,) * len(unit), unit, admits[group])
        for room in rooms:
            _deduct(room, unit, admits[group])
    return admits


def occupy(rooms: Sequence[Room], needs: Sequence[Resources], tasks: Sequence[int], *, fresh: bool) -> None:
    """Deduct tasks by group from the rooms."""
    for room in rooms:
        if fresh and room[0] is not None:
            room[0] -= 1
        for need, count in zip(needs, tasks, strict=True):
            _deduct(room, (1, *need), count)


def _deduct(room: Room, unit: tuple[int, ...], count: int) -> None:
    room[1:] = [left if left is None else left - amount * count for left, amount in zip(room[1:], unit, strict=True)]


class ReachedLimit(NamedTuple):
    """A limit that excludes every task of a job: whose it is, of which resource, ``tasks`` or ``jobs``, and amounts.

    `needed` is what the smallest task needs, of a gang the tasks together that it places together.
    """

    owner: str
    resource: str
    used: int
    limit: int
    needed: int
    gang: bool

    @property
    def short(self) -> int:
        """The amount by which the limit is too low."""
        return self.used + self.needed - self.limit

    @property
    def never(self) -> bool:
        """Whether the task would not fit if nothing else were in use."""
        return self.needed > self.limit

    @property
    def text(self) -> str:
        """``pool web, memory: 3Gi of at most 4Gi in use, a task needs 2Gi; 1Gi short``."""
        used, limit, needed, short = (
            format_amount(self.resource, amount) for amount in (self.used, self.limit, self.needed, self.short)
        )
        who = "a job" if self.resource == JOBS else "the gang" if self.gang else "a task"
        if self.never:
            return f"{self.owner}, {self.resource}: {who} needs {needed}, and the limit is {limit}"
        return f"{self.owner}, {self.resource}: {used} of at most {limit} in use, {who} needs {needed}; {short} short"

    def as_json(self) -> dict[str, Any]:
        """Return the limit as plain values, amounts in smallest units."""
        return {"of": self.owner, "resource": self.resource, "used": self.used, "limit": self.limit,
                "needed": self.needed, "short": self.short}  # fmt: skip


def precedence_excluded(job: Job, use: KindUse) -> str:
    """Return the text for a precedence that the job type does not allow; empty when it does."""
    low, high = use.limits.precedence
    within = low <= job.precedence <= high
    return "" if within else f"precedence {job.precedence} is not within {low} to {high} of kind {job.kind}"


class Limited(NamedTuple):
    """The limits of a job type or a pool and what is in use, by resource, ``tasks`` and ``jobs``; None: no limit."""

    owner: str
    limits: Mapping[str, int | None]
    used: Mapping[str, int]


def limited_by_kind(job: Job, use: KindUse, names: Sequence[str]) -> Limited:
    """Return the limits of a job's type; `names` are the cell's resources."""
    limits = {JOBS: use.limits.jobs, **dict(zip(names, use.limits.resources, strict=True))}
    return Limited(f"kind {job.kind}", limits, {JOBS: use.jobs, **dict(zip(names, use.used, strict=True))})


def limited_by_pools(job: Job, pools: Pools, use: Mapping[str, PoolUse], names: Sequence[str]) -> list[Limited]:
    """Return the limits in force of the job's pool and its ancestors, from the pool upward."""
    leaf = pools.pool_of(str(job.spec.get("pool") or ""), str(job.spec.get("user") or ""))
    held = [(pool, use[pool.name]) for pool in pools.chain(leaf) if pool.name in use]
    return [
        Limited(
            f"pool {pool.name}", pool.upper,
            {JOBS: has.jobs, TASKS: has.tasks, **dict(zip(names, has.amounts, strict=True))},
        )
        for pool, has in held
    ]  # fmt: skip


def limit_reached(
    job: Job, left: Sequence[int], limits: Sequence[Limited], names: Sequence[str]
) -> ReachedLimit | None:  # fmt: skip
    """Return the first limit that excludes every task of a job, first one that would with nothing else in use.

    `left` counts the unplaced tasks of each group, those of other groups are not considered where it is 0.
    """
    reached = [found for each in limits if (found := _reached(each, job, left, names)) is not None]
    return next((each for each in reached if each.never), reached[0] if reached else None)


def never_admitted(
    job: Job, left: Sequence[int], limits: Sequence[Limited], names: Sequence[str]
) -> dict[int, ReachedLimit]:  # fmt: skip
    """Return the groups with unplaced tasks that a limit excludes whatever is in use, each with that limit.

    The groups of a gang are excluded together.
    """
    found: dict[int, ReachedLimit] = {}
    gang = job.lacks > 0
    for at, count in enumerate(left):
        alone = [one if gang or group == at else 0 for group, one in enumerate(left)]
        reached = limit_reached(job, alone, limits, names) if count and limits else None
        if reached is not None and reached.never:
            found[at] = reached
    return found


def admitted_now(job: Job, left: Sequence[int], limits: Sequence[Limited], names: Sequence[str]) -> list[int]:
    """Return how many unplaced tasks of each group the limits admit now, groups in order."""
    order = (JOBS, TASKS, *names)
    rooms = [
        room_below([each.limits.get(of) for of in order], [each.used.get(of, 0) for of in order]) for each in limits
    ]
    fresh = not any(group.placed for group in job.groups)
    return admitted(rooms, [group.need for group in job.groups], left, fresh=fresh)


def _reached(limited: Limited, job: Job, left: Sequence[int], names: Sequence[str]) -> ReachedLimit | None:
    together = job.lacks
    fresh = not any(group.placed for group in job.groups)
    found = list[ReachedLimit]()
    for name, limit in limited.limits.items():
        if limit is None:
            continue
        if name == JOBS:
            needs = [(1, 1)] if fresh else []
        elif name == TASKS:
            needs = [(1, count) for count in left if count]
        else:
            d = names.index(name)
            needs = [(group.need[d], count) for group, count in zip(job.groups, left, strict=True) if count]
        if not needs:
            continue
        least = least_need(needs, together if together and name != JOBS else 1)
        if 0 < least > limit - limited.used[name]:
            found.append(ReachedLimit(limited.owner, name, limited.used[name], limit, least, together > 0))
    return next((each for each in found if each.never), found[0] if found else None)


def least_need(needs: Iterable[tuple[int, int]], tasks: int) -> int:
    """Return what so many of the smallest tasks need together; `needs`: what a task needs, and how many there are."""
    total = 0
    for need, count in sorted(needs):
        taken = min(count, tasks)
        total, tasks = total + need * taken, tasks - taken
    return total


class LimitedUse:
    """The limits of job types and pools, and their use, as the claims of a dry run change it.

    It admits what the store would (`admitted` of commit.lua), without what pools do not lend.
    """

    def __init__(
        self, kinds: Mapping[str, KindUse], pools: Pools, pool_use: Mapping[str, PoolUse], dimensions: int
    ) -> None:
        """Begin with the use that the store counts: of kinds that have limits, and of pools that carry some."""
        self._kinds, self._pools, self.pool_use = dict(kinds), pools, dict(pool_use)
        self._dimensions, self._evicted = dimensions, Counter[str]()

    @classmethod
    def of(cls, cell: "Cell") -> Self:
        """Read the limits of a cell."""
        pools = cell.pools.get()
        return cls(cell.pools.limited_kinds(), pools, cell.pools.use() if pools.limited else {}, len(cell.dimensions))

    def copy(self) -> Self:
        """Return what `restore` takes to undo later changes."""
        other = copy(self)
        other.restore(self)
        return other

    def restore(self, other: Self) -> None:
        """Take over the use of another one of the same cell."""
        self._kinds, self.pool_use = dict(other._kinds), dict(other.pool_use)
        self._evicted = Counter(other._evicted)

    def __bool__(self) -> bool:
        """Whether there are any limits."""
        return bool(self._kinds or self.pool_use)

    def of_kind(self, kind: str) -> KindUse:
        """Return the limits of a job type, and its use."""
        return self._kinds.get(kind) or KindUse.none(self._dimensions)

    def bind(self, job: Job) -> bool:
        """Return whether any limit concerns a job."""
        return job.kind in self._kinds or any(pool.name in self.pool_use for pool in self._chain(job))

    def admits(self, job: Job, need: Resources, tasks: int, *, fresh: bool) -> int:
        """Return how many of some equal tasks of a job all limits admit; `fresh`: the job has no running task."""
        kind, rooms = self._kinds.get(job.kind), list[Room]()
        if kind is not None:
            if precedence_excluded(job, kind):
                return 0
            rooms.append(room_of_kind(kind))
        held = [self.pool_use[pool.name] for pool in self._chain(job) if pool.name in self.pool_use]
        rooms += [room_below(each.limits, (each.jobs, each.tasks, *each.amounts)) for each in held]
        return admitted(rooms, [need], [tasks], fresh=fresh)[0]

    def place(self, job: Job, need: Resources, tasks: int, *, fresh: bool) -> None:
        """Count placed tasks of a job; `fresh`: they are its first."""
        self._count(job, need, tasks, int(fresh))

    def evict(self, job: Job, need: Resources, tasks: int) -> None:
        """Count evicted tasks of a job, as the store has it."""
        self._evicted[job.id] += tasks
        self._count(job, need, -tasks, -int(self._evicted[job.id] == job.placed))

    def _count(self, job: Job, need: Resources, tasks: int, jobs: int) -> None:
        amounts = [amount * tasks for amount in need]
        if (kind := self._kinds.get(job.kind)) is not None:
            used = tuple(map(add, kind.used, amounts))
            self._kinds[job.kind] = kind._replace(jobs=kind.jobs + jobs, used=used)
        for pool in self._chain(job):
            if (use := self.pool_use.get(pool.name)) is not None:
                held = tuple(map(add, use.amounts, amounts))
                self.pool_use[pool.name] = replace(use, jobs=use.jobs + jobs, tasks=use.tasks + tasks, amounts=held)

    def _chain(self, job: Job) -> Sequence[Pool]:
        pool, user = str(job.spec.get("pool") or ""), str(job.spec.get("user") or "")
        return self._pools.chain(self._pools.pool_of(pool, user)) if self.pool_use else ()
