"""Pools in the twin: ``lua/pools.lua`` and ``lua/parts/pools.lua``."""

from collections.abc import Mapping
from dataclasses import replace

from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import lane_of
from omega.cellstate.logged_settings import pools_text
from omega.cellstate.memory.delta import delta, latest
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.publish import announce
from omega.cellstate.memory.records import MANY, UNASSIGNED, GroupRow, JobRow, PoolRow
from omega.cellstate.model import JobSpec, JobState, check_author, jobs_in_pool, pools_overtaken
from omega.cellstate.pools import JOBS, TASKS, Epoch, Pools
from omega.cellstate.pools.lending import Lent, bounds, keepers, lenders, lending_trees
from omega.cellstate.pools.records import ALL, PoolUse, change, epoch_digest, moved, pack_leaves, pack_shares
from omega.cellstate.pools.rules import check as check_pools
from omega.cellstate.replies import EpochMark, Reply, Submitted
from omega.cellstate.transaction import Position


def set_pools(ledger: Ledger, pools: Pools, check: int | None, at_ms: int, by: str) -> Pools:
    """Replace the pools of the cell; returns them with their numbers and their version."""
    check_author(by)
    check_pools(pools, ledger.dimensions.names)
    before = ledger.pool_settings
    if check not in (None, before.version):
        raise pools_overtaken(ledger.name, check or 0, before.version)
    totals = ledger.last_epoch.totals if ledger.last_epoch is not None else {}
    changed = change(before, pools, ledger.next_pool, ledger.dimensions.names, totals)
    if not changed.facts:
        return before
    occupied = {each.pool or each.user for each in ledger.lane_names}
    for name in sorted(before.leaves - pools.leaves):
        if name in occupied:
            raise jobs_in_pool(ledger.name, name)
    ledger.unfold()
    ledger.open()
    ledger.next_pool = int(changed.rows["next"])
    names = (JOBS, TASKS, *ledger.dimensions.names)
    ledger.pool_books = {
        pool.number: PoolRow(pool.number, [pool.upper.get(name) for name in names])
        for pool in changed.pools.pools if pool.upper
    }  # fmt: skip
    ledger.lenders, ledger.lent_chains = lenders(changed.pools, totals, ledger.dimensions.names), {}
    ledger.pools_state = changed.state
    ledger.pool_settings = Pools(changed.pools.pools, changed.pools.trees, ledger.version + 1)
    ledger.pool_chains = {}
    for j in ledger.J.values():
        for g in j.groups:
            book_in_pools(ledger, g, g.placed)
        if j.placed:
            count_in_pools(ledger, j, 1)
    for line in changed.facts:
        ledger.fact(*line.split(" "))
    moves = moved(before, changed.pools)
    if ALL in moves or occupied & set(moves):
        for m in ledger.M.values():
            m.tree = UNASSIGNED
    ledger.wakes |= {name for name, member in ledger.schedulers.items() if member.lives}
    announce(ledger, at_ms, by, settings=pools_text(changed.pools))
    return ledger.pool_settings


def pool_use(ledger: Ledger) -> dict[str, PoolUse]:
    """Return the use of pools that carry limits, by name."""
    named = {pool.number: pool.name for pool in ledger.pool_settings.pools}
    return {
        named[number]: PoolUse(book.held[0], book.held[1], tuple(book.held[2:]), tuple(book.limit))
        for number, book in sorted(ledger.pool_books.items())
    }


def demands_of(ledger: Ledger, since: Position) -> tuple[Reply, list[JobDemand]]:
    """Return what all live jobs hold and want, and machines changed since a position: both at one version."""
    ledger.unfold()
    full, rows = delta(ledger, since)
    demands = [demand for j in ledger.J.values() if not j.complete and (demand := _demand(j)) is not None]
    return Reply(latest(ledger), full, rows), sorted(demands, key=lambda each: each.order)


def epoch_mark(ledger: Ledger) -> EpochMark:
    """Return number, time and versions of the last epoch, to detect a new or a due one.

    The time now is that of the last epoch.
    """
    epoch = ledger.last_epoch
    at_ms, pools = epoch.at_ms if epoch else 0, ledger.pool_settings
    return EpochMark(
        number=epoch.number if epoch else 0, at_ms=at_ms, read=epoch.version if epoch else 0,
        published=epoch.published if epoch else 0,
        version=ledger.version, pools_version=pools.version, configured=pools.configured, now_ms=at_ms,
    )  # fmt: skip


def next_epoch(ledger: Ledger) -> int:
    """Return the number of the next epoch."""
    return ledger.last_epoch.number + 1 if ledger.last_epoch else 1


def publish_epoch(ledger: Ledger, epoch: Epoch, period_ms: int, at_ms: int) -> int:
    """Publish an epoch: the first of its number wins; returns the cell's version then, 0 when it is not taken."""
    before = ledger.last_epoch
    late = epoch.number != (before.number + 1 if before else 1)
    early = before is not None and 0 <= epoch.at_ms - before.at_ms < period_ms  # below 0: the clock was put back
    if late or early or epoch.pools_version != ledger.pool_settings.version:
        return 0
    ledger.open()
    shares, leaves = pack_shares(epoch), pack_leaves(epoch)
    ledger.fact("epoch", epoch.number, epoch.version, epoch_digest(shares, leaves))
    announce(ledger, at_ms, check_author(epoch.by))
    ledger.last_epoch = replace(epoch, published=ledger.version)
    pools, names = ledger.pool_settings, ledger.dimensions.names
    for tree in lending_trees(pools):
        ledger.lenders[f"t{pools.trees.index(tree)}"].bound = bounds(pools, tree, epoch.totals.get(tree.name), names)
    return ledger.version


def chain_of(ledger: Ledger, j: JobRow) -> list[PoolRow]:
    """Return the books of the pools with limits that bind a job, from its leaf upward."""
    lane = j.lane.lane
    leaf = lane.pool or lane.user
    chain = ledger.pool_chains.get(leaf)
    if chain is None:
        name = leaf if leaf in ledger.pool_settings.leaves else ""
        chain = ledger.pool_chains[leaf] = [ledger.pool_books[pool.number] for pool in ledger.pool_settings.chain(name)]
    return chain


def lent_to(ledger: Ledger, j: JobRow) -> Lent | None:
    """Return the pools that lend in part above a job, and their tree; None in a tree without any."""
    lane, pools = j.lane.lane, ledger.pool_settings
    leaf = lane.pool or lane.user
    if leaf not in ledger.lent_chains:
        name = leaf if leaf in pools.leaves else ""
        tree = ledger.lenders.get(f"t{pools.trees.index(pools.tree_of(name))}")
        above = [ledger.lenders[f"k{pools.by_name[each].number}"] for each in keepers(pools, name)]
        ledger.lent_chains[leaf] = None if tree is None else Lent(above, tree)
    return ledger.lent_chains[leaf]


def tree_of(ledger: Ledger, j: JobRow) -> int | None:
    """Return the number of the tree on whose machines alone a job runs; None when it runs on any."""
    pools = ledger.pool_settings
    if not pools.divided:
        return None
    leaf = j.lane.lane.pool or j.lane.lane.user
    return pools.tree_number(leaf if leaf in pools.leaves else "")


def is_bounded(ledger: Ledger, j: JobRow) -> bool:
    """Return whether limits of pools, what pools do not lend, or trees may bind a job."""
    if ledger.pool_settings.divided:
        return True
    return bool(ledger.pool_books and chain_of(ledger, j)) or bool(ledger.lenders and lent_to(ledger, j))


def book_in_pools(ledger: Ledger, g: GroupRow, count: int) -> None:
    """Add tasks to the use of their job's pools, or subtract them."""
    if ledger.lenders and (lent := lent_to(ledger, g.job)):
        lent.occupy(need * count for need in g.amounts)
    if ledger.pool_books:
        for book in chain_of(ledger, g.job):
            book.held[1] += count
            for d, need in enumerate(g.amounts, 2):
                book.held[d] += need * count


def count_in_pools(ledger: Ledger, j: JobRow, count: int) -> None:
    """Add a job with placed tasks to its pools, or subtract it."""
    if ledger.pool_books:
        for book in chain_of(ledger, j):
            book.held[0] += count


def admits(ledger: Ledger, j: JobRow, g: GroupRow, vacated: Mapping[object, int], *, fresh: bool) -> int:
    """Return the number of tasks of a group that the limits of its job's pools still admit."""
    lent = lent_to(ledger, j) if ledger.lenders else None
    admitted = lent.admits(g.amounts) if lent is not None else None
    most = MANY if admitted is None else admitted
    for book in chain_of(ledger, j) if ledger.pool_books else ():
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


def refused_pool(ledger: Ledger, spec: JobSpec) -> Submitted | None:
    """Return why a job may not enter its pool: it is no leaf of the configured pools, or does not admit the user."""
    lane, pools = lane_of(spec.kind, spec.precedence, spec.spec), ledger.pool_settings
    if lane.pool and lane.pool not in pools.leaves:
        return Submitted(spec.id, "pool", lane.pool)
    leaf = lane.pool or lane.user
    if pools.closed_to(leaf if leaf in pools.leaves else "", lane.user) is not None:
        return Submitted(spec.id, "user", leaf)
    return None


def _demand(j: JobRow) -> JobDemand | None:
    waits = j.state is not JobState.ACTIVE
    groups = tuple((g.amounts, 0 if g.copies else g.unplaced + g.delayed, g.placed) for g in j.groups)
    if not any(placed or (unplaced and not waits) for _, unplaced, placed in groups):
        return None
    optional = tuple(at for at, g in enumerate(j.groups) if g.optional)
    return JobDemand(
        j.id, j.lane.lane, j.order, j.whole, waits, groups, j.commands, j.spec, optional, least=j.gang_min
    )  # fmt: skip
