"""Pools in the twin: ``lua/pools.lua`` and ``lua/parts/pools.lua``."""

from collections.abc import Mapping
from dataclasses import replace

from cellstate.cell import EpochMark, Reply
from cellstate.demands import JobDemand
from cellstate.epoch_records import digest, pack_leaves, pack_shares
from cellstate.memory.publish import MemoryPublish
from cellstate.memory.words import MANY, Group, JobRow
from cellstate.model import Gang, JobState, check_author
from cellstate.pool_records import PoolUse, change
from cellstate.pool_rules import check as check_pools
from cellstate.pools import JOBS, TASKS, Epoch, Pools
from cellstate.refusals import jobs_in_pool, pools_overtaken
from cellstate.transaction import Position


class PoolBook:
    """Limits and use of a pool that carries limits: jobs with placed tasks, placed tasks, each resource."""

    __slots__ = ("held", "limit", "number")

    def __init__(self, number: int, limit: list[int | None]) -> None:
        """Create without use."""
        self.number, self.limit, self.held = number, limit, [0] * len(limit)


class MemoryPools(MemoryPublish):
    """The pools of a cell, and the use of those that carry limits."""

    _pools = Pools()
    _next_pool = 1
    _epoch: Epoch | None = None
    _books: Mapping[int, PoolBook] = {}
    _chains: dict[str, list[PoolBook]] = {}  # noqa: RUF012 - replaced, never changed, before anything is put in

    def pools(self) -> Pools:
        """See Cell.pools."""
        return self._pools

    def set_pools(self, pools: Pools, check: int, at_ms: int, by: str) -> Pools:
        """See Cell.set_pools."""
        check_author(by)
        check_pools(pools, self.dimensions.names)
        before = self._pools
        if check != before.version:
            raise pools_overtaken(self.name, check, before.version)
        changed = change(before, pools, self._next_pool, self.dimensions.names)
        if not changed.facts:
            return before
        occupied = {each.pool or each.user for each in self.lane_names}
        for name in sorted(before.leaves - pools.leaves):
            if name in occupied:
                raise jobs_in_pool(self.name, name)
        self.unfold()
        self.open()
        self._next_pool = int(changed.rows["next"])
        names = (JOBS, TASKS, *self.dimensions.names)
        self._books = {
            pool.number: PoolBook(pool.number, [pool.limits.get(name) for name in names])
            for pool in changed.pools.pools if pool.limits
        }  # fmt: skip
        self.pools_state = bool(changed.pools.pools) + bool(changed.limits)
        self._pools = Pools(changed.pools.pools, changed.pools.trees, self.version + 1)
        self._chains = {}
        for j in self.J.values():
            for g in j.groups:
                self.book_in_pools(g, g.placed)
            if j.placed:
                self.count_in_pools(j, 1)
        for line in changed.facts:
            self.fact(*line.split(" "))
        self.wakes |= {name for name, member in self.schedulers.items() if member.lives}
        self.announce(at_ms, by)
        return self._pools

    def pool_use(self) -> dict[str, PoolUse]:
        """See Cell.pool_use."""
        named = {pool.number: pool.name for pool in self._pools.pools}
        return {
            named[number]: PoolUse(book.held[0], book.held[1], tuple(book.held[2:]), tuple(book.limit))
            for number, book in sorted(self._books.items())
        }

    def demands(self, since: Position) -> tuple[Reply, list[JobDemand]]:
        """See Cell.demands."""
        self.unfold()
        full, rows = self.delta(since)
        found = [demand for j in self.J.values() if not j.complete and (demand := _demand(j)) is not None]
        return Reply(self.latest(), full, rows), sorted(found, key=lambda each: each.order)

    def epoch(self) -> Epoch | None:
        """See Cell.epoch."""
        return self._epoch

    def epoch_mark(self) -> EpochMark:
        """See Cell.epoch_mark; the time now is that of the last epoch."""
        epoch = self._epoch
        known = (epoch.number, epoch.at_ms, epoch.published) if epoch else (0, 0, 0)
        return EpochMark(*known, self.version, self._pools.version, self._pools.configured, known[1])

    def publish_epoch(self, epoch: Epoch, period_ms: int, at_ms: int) -> int:
        """See Cell.publish_epoch."""
        before = self._epoch
        late = epoch.number != (before.number + 1 if before else 1)
        early = before is not None and 0 <= epoch.at_ms - before.at_ms < period_ms  # below 0: the clock was put back
        if late or early or epoch.pools_version != self._pools.version:
            return 0
        self.open()
        shares, leaves = pack_shares(epoch), pack_leaves(epoch)
        self.fact("epoch", epoch.number, epoch.version, digest(shares, leaves))
        self.announce(at_ms, check_author(epoch.by))
        self._epoch = replace(epoch, published=self.version)
        return self.version

    def chain_of(self, j: JobRow) -> list[PoolBook]:
        """Return the books of the pools with limits that bind a job, from its leaf upward."""
        lane = j.lane.lane
        leaf = lane.pool or lane.user
        found = self._chains.get(leaf)
        if found is None:
            name = leaf if leaf in self._pools.leaves else ""
            found = self._chains[leaf] = [self._books[pool.number] for pool in self._pools.chain(name)]
        return found

    def book_in_pools(self, g: Group, count: int) -> None:
        """Add tasks to the use of their job's pools, or subtract them."""
        if self._books:
            for book in self.chain_of(g.job):
                book.held[1] += count
                for d, need in enumerate(g.amounts, 2):
                    book.held[d] += need * count

    def count_in_pools(self, j: JobRow, count: int) -> None:
        """Add a job with placed tasks to its pools, or subtract it."""
        if self._books:
            for book in self.chain_of(j):
                book.held[0] += count

    def admits(self, j: JobRow, g: Group, vacated: Mapping[object, int], *, fresh: bool) -> int:
        """Return the number of tasks of a group that the limits of its job's pools still admit."""
        most = MANY
        for book in self.chain_of(j) if self._books else ():
            limit, held = book.limit, book.held
            if fresh and limit[0] is not None and held[0] - vacated.get(book.number, 0) >= limit[0]:
                return 0
            if limit[1] is not None:
                most = min(most, max(0, limit[1] - held[1]))
            for d, need in enumerate(g.amounts, 2):
                bound = limit[d]
                if bound is not None and need > 0:
                    most = min(most, max(0, (bound - held[d]) // need))
        return most

    def refuses_pool(self, pool: str) -> bool:
        """Return whether a pool accepts no jobs: pools are configured, and it is no leaf of them."""
        return bool(pool) and self._pools.configured and pool not in self._pools.leaves


def _demand(j: JobRow) -> JobDemand | None:
    lane, waits = j.lane.lane, j.state is not JobState.ACTIVE
    groups = tuple((g.amounts, g.unplaced + g.delayed, g.placed) for g in j.groups)
    if not any(placed or (unplaced and not waits) for _, unplaced, placed in groups):
        return None
    return JobDemand(j.id, lane.pool, lane.user, j.precedence, j.order, j.gang is not Gang.NO, waits, groups)
