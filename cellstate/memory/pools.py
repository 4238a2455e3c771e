"""Limits, pools and fair shares of a cell in memory: ``lua/limit.lua``, ``pools.lua``, ``epoch.lua``."""

from collections.abc import Mapping
from dataclasses import replace

from omega.cellstate import rules
from omega.cellstate.errors import BadInput
from omega.cellstate.job_demands import Demands, JobDemand, asked_by_leaves
from omega.cellstate.lanes import Lane, lane_of
from omega.cellstate.logged_settings import pools_text
from omega.cellstate.memory.state import EVERY_RANK, UNASSIGNED, Book, GroupRow, JobRow, State
from omega.cellstate.model import (
    JobSpec,
    JobState,
    Limits,
    check_author,
    check_word,
    jobs_in_pool,
    pools_overtaken,
)
from omega.cellstate.pools import JOBS, TASKS, Epoch, Pools
from omega.cellstate.pools.lending import Lent, bounds, keepers, lenders, lending_trees
from omega.cellstate.pools.records import ALL, change, epoch_digest, moved, pack_leaves, pack_shares
from omega.cellstate.pools.rules import check as check_pools
from omega.cellstate.replies import Reply
from omega.cellstate.transaction import Position

# What binds a job


def _leaf_of(c: State, lane: Lane) -> str:
    """Return the leaf pool of a lane's jobs by its name; "" for one that no settings name."""
    leaf = lane.pool or lane.user
    return leaf if leaf in c.pool_settings.leaves else ""


def chain_of(c: State, j: JobRow) -> list[Book]:
    """Return the books of the pools with limits that bind a job, from its leaf upward."""
    if not c.pool_books:
        return []
    leaf = j.lane.leaf
    chain = c.pool_chains.get(leaf)
    if chain is None:
        above = c.pool_settings.chain(_leaf_of(c, j.lane.lane))
        chain = c.pool_chains[leaf] = [c.pool_books[pool.number] for pool in above]
    return chain


def lent_to(c: State, j: JobRow) -> Lent | None:
    """Return the pools that lend in part above a job, and their tree; None in a tree without any."""
    if not c.lenders:
        return None
    pools, leaf = c.pool_settings, j.lane.leaf
    if leaf not in c.lent_chains:
        name = _leaf_of(c, j.lane.lane)
        tree = c.lenders.get(f"t{pools.trees.index(pools.tree_of(name))}")
        above = [c.lenders[f"k{pools.by_name[each].number}"] for each in keepers(pools, name)]
        c.lent_chains[leaf] = None if tree is None else Lent(above, tree)
    return c.lent_chains[leaf]


def tree_of(c: State, j: JobRow) -> int | None:
    """Return the number of the tree on whose machines alone a job runs; None when it runs on any."""
    pools = c.pool_settings
    return pools.tree_number(_leaf_of(c, j.lane.lane)) if pools.divided else None


def is_bounded(c: State, j: JobRow) -> bool:
    """Return whether limits of pools, what pools do not lend, or trees may bind a job."""
    return c.pool_settings.divided or bool(chain_of(c, j)) or lent_to(c, j) is not None


def book_in_pools(c: State, g: GroupRow, count: int) -> None:
    """Add tasks to the use of their job's pools, or subtract them."""
    if c.lenders and (lent := lent_to(c, g.job)):
        lent.occupy(need * count for need in g.amounts)
    for each in chain_of(c, g.job) if c.pool_books else ():
        each.tasks += count
        each.used += g.need * count


def count_in_pools(c: State, j: JobRow, count: int) -> None:
    """Add a job with placed tasks to its pools, or subtract it."""
    for each in chain_of(c, j) if c.pool_books else ():
        each.jobs += count


def admitted(c: State, j: JobRow, g: GroupRow, vacated: Mapping[Book, int], *, fresh: bool) -> int:
    """Return the number of tasks that the limits of the job's kind and of its pools still admit (semantics 9).

    `vacated`: the jobs that lose all tasks to this transaction, which is the first to place tasks of a `fresh` job.
    """
    lent = lent_to(c, j)
    most = None if lent is None else lent.admits(g.amounts)
    most = rules.MANY if most is None else most
    lowest, highest = j.kind.precedence
    if not lowest <= j.precedence <= highest:
        return 0
    for each in (j.kind, *chain_of(c, j)):
        jobs, *others = each.limit
        if fresh and jobs is not None and each.jobs - vacated.get(each, 0) >= jobs:
            return 0
        if not each.unrestricted:
            most = rules.admits(others, (each.tasks, *c.spread(each.used)), (1, *g.amounts), most)
    return most


def refused_pool(c: State, spec: JobSpec) -> tuple[str, str, int] | None:
    """Return why a job may not enter its pool: it is no leaf of the configured pools, or does not admit the user."""
    lane, pools = lane_of(spec.kind, spec.precedence, spec.spec), c.pool_settings
    if lane.pool and lane.pool not in pools.leaves:
        return "pool", lane.pool, 0
    if pools.closed_to(_leaf_of(c, lane), lane.user) is not None:
        return "user", lane.pool or lane.user, 0
    return None


# Settings


def set_limits(c: State, kind: str, limits: Limits, at_ms: int, by: str) -> None:
    """Set the limits on all jobs of a kind together."""
    check_author(by)
    check_word("kind", kind)
    if len(limits.resources) != len(c.dimensions):
        names = ", ".join(c.dimensions.names)
        raise BadInput(f"kind {kind}: {len(limits.resources)} limits; want one for each of {names}")
    k = c.kind(kind)
    if k.limits == limits:
        return
    c.open()
    k.restrict((limits.jobs, None, *limits.resources), limits.precedence)
    bounds_of_kind = (None, None) if limits.precedence == EVERY_RANK else limits.precedence
    words = ["-" if each is None else str(each) for each in (limits.jobs, *bounds_of_kind, *limits.resources)]
    c.fact("limit", kind, *words[:3], ",".join(words[3:]))
    c.wake(kind)
    c.announce(at_ms, by)


def replace_pools(c: State, pools: Pools, check: int | None, at_ms: int, by: str) -> Pools:
    """Replace the pools of the cell; returns them with their numbers and their version."""
    check_author(by)
    resources = c.dimensions.names
    check_pools(pools, resources)
    before = c.pool_settings
    if check not in (None, before.version):
        raise pools_overtaken(c.name, check or 0, before.version)
    totals = c.last_epoch.totals if c.last_epoch is not None else {}
    changed = change(before, pools, c.next_pool, resources, totals)
    if not changed.facts:
        return before
    occupied = {each.pool or each.user for each in c.lane_names}
    for name in sorted(before.leaves - pools.leaves):
        if name in occupied:
            raise jobs_in_pool(c.name, name)
    c.unfold()
    c.open()
    c.next_pool = int(changed.rows["next"])
    c.pool_books = {
        pool.number: Book(pool.name, [pool.upper.get(name) for name in (JOBS, TASKS, *resources)])
        for pool in changed.pools.pools if pool.upper
    }  # fmt: skip
    c.lenders, c.lent_chains = lenders(changed.pools, totals, resources), {}
    c.pools_state, c.pool_chains = changed.state, {}
    c.pool_settings = Pools(changed.pools.pools, changed.pools.trees, c.version + 1)
    for j in c.J.values():
        for g in j.groups:
            book_in_pools(c, g, g.placed)
        if j.placed:
            count_in_pools(c, j, 1)
    for line in changed.facts:
        c.fact(line)
    moves = moved(before, changed.pools)
    if ALL in moves or occupied & set(moves):
        for m in c.M.values():
            m.tree = UNASSIGNED
    for name, member in c.scheduler_members.items():
        if member.lives:
            c.wakes.setdefault(name, "1")
    c.announce(at_ms, by, settings=pools_text(changed.pools))
    return c.pool_settings


# Fair shares


def demands(c: State, since: Position) -> Demands:
    """Return what all live jobs hold and want, and machines changed since a position: both at one version."""
    c.unfold()
    full, rows = c.delta(since)
    found = [demand for j in c.J.values() if not j.complete and (demand := _demand(j)) is not None]
    asked = asked_by_leaves((row.lane, c.spread(row.held), c.spread(row.wanted)) for row in c.L.values())
    return Demands(Reply(c.position, full, rows), sorted(found, key=lambda each: each.order), asked)


def _demand(j: JobRow) -> JobDemand | None:
    waits = j.state is not JobState.ACTIVE
    groups = tuple((g.amounts, 0 if g.copies else g.unplaced + g.delayed, g.placed) for g in j.groups)
    if not any(placed or (unplaced and not waits) for _, unplaced, placed in groups):
        return None
    optional = tuple(at for at, g in enumerate(j.groups) if g.optional)
    return JobDemand(
        j.id, j.lane.lane, j.order, j.whole, waits, groups, j.commands, j.spec, optional, least=j.gang_min
    )  # fmt: skip


def next_epoch(c: State) -> int:
    """Return the number of the next epoch."""
    return c.last_epoch.number + 1 if c.last_epoch else 1


def publish_epoch(c: State, epoch: Epoch, period_ms: int, at_ms: int) -> int:
    """Publish an epoch: the first of its number wins; returns the cell's version then, 0 when it is not taken."""
    before = c.last_epoch
    late = epoch.number != next_epoch(c)
    early = before is not None and 0 <= epoch.at_ms - before.at_ms < period_ms  # below 0: the clock was put back
    if late or early or epoch.pools_version != c.pool_settings.version:
        return 0
    c.open()
    c.fact("epoch", epoch.number, epoch.version, epoch_digest(pack_shares(epoch), pack_leaves(epoch)))
    c.announce(at_ms, check_author(epoch.by))
    c.last_epoch = replace(epoch, published=c.version)
    pools, names = c.pool_settings, c.dimensions.names
    for tree in lending_trees(pools):
        c.lenders[f"t{pools.trees.index(tree)}"].bound = bounds(pools, tree, epoch.totals.get(tree.name), names)
    return c.version
