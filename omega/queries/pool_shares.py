"""Pools of a cell for front ends: settings, shares, use, status; shares before and after a change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from omega.cellstate.pools import ROOT, Epoch, Pool, Pools, PoolShare, stated
from omega.cellstate.resources import Resources
from omega.pools.leaving import after_pools
from omega.queries.wording import listing

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Schedulers
    from omega.cellstate.job_demands import JobDemand
    from omega.cellstate.pools.records import PoolUse
    from omega.cellstate.snapshot import Snapshot
    from omega.schedulers.runnable import Runnable
    from omega.schedulers.work import Work

TOLERANCE = 1e-9
"""Fair shares that differ by less are equal."""
SHARING = ("shares", "epochs", "evictions")
"""Where settings of a pool count that only schedulers with the ordering ``fair-pools`` read."""
LAST = 1 << 40
"""The submission number of a job that is not submitted: behind all others of a FIFO pool."""
NORMAL, BELOW = "normal", "below fair share"
STARVING = ("starving", "aggressively starving")
"""Status of pools that may evict (docs/pool-rules.md, rule 9), as schedulers report it with their heartbeats."""


@dataclass(frozen=True, slots=True)
class Current:
    """The machines of a cell, what its live jobs hold and want, and what reduces that to what could run."""

    snapshot: "Snapshot"
    jobs: "list[JobDemand]"
    runnable: "Runnable"


def _read(cell: "Cell") -> Current:
    from omega.cellstate.array_snapshot import ArraySnapshot
    from omega.cellstate.transaction import Position
    from omega.schedulers.runnable import Runnable

    snapshot = ArraySnapshot(len(cell.dimensions))
    reply, jobs, _ = cell.pools.demands(Position())
    snapshot.apply(reply)
    return Current(snapshot, jobs, Runnable())


def _now(cell: "Cell", pools: Pools, previous: Epoch | None, current: Current | None = None) -> tuple[Epoch, list[str]]:
    """Return the shares of the cell as it is now, with some pools and the volumes of an epoch, and warnings."""
    from omega.schedulers.pool_machines import machine_warnings

    current = current or _read(cell)
    return _epoch(cell, pools, current, previous), machine_warnings(pools, current.snapshot)


def _epoch(cell: "Cell", pools: Pools, current: Current, previous: Epoch | None) -> Epoch:
    """Compute the epoch of these jobs at the time of the previous one."""
    from omega.schedulers.epochs import epoch_of
    from omega.schedulers.pool_machines import totals_of

    snapshot = current.snapshot
    jobs = current.runnable.of(current.jobs, pools, snapshot, cell)
    names, at_ms = cell.dimensions.names, previous.at_ms if previous else 0
    totals, version = totals_of(pools, snapshot, names), snapshot.position.version
    return epoch_of(pools, jobs, totals, names, previous, version=version, at_ms=at_ms)


def shares_with(cell: "Cell", pools: Pools, snapshot: "Snapshot", works: "Sequence[Work]") -> Epoch:
    """Compute the epoch that would follow the last one if these jobs wanted machines at its time, for a dry run.

    They hold and want what their records have: those of jobs that were planned before, what was planned for them; that
    of a stored job counts in place of what the store has.
    """
    from omega.cellstate.job_demands import JobDemand
    from omega.cellstate.lanes import lane_of
    from omega.schedulers.runnable import Runnable

    jobs = cell.pools.demands(snapshot.position).jobs
    if unknown := snapshot.lanes.unknown():
        snapshot.lanes.learn(cell.schedulers.lanes(unknown))
    known, planned = {each.id: each for each in jobs}, {work.id for work in works}
    jobs = [each for each in jobs if each.id not in planned]
    for last, work in enumerate(works, LAST):
        number = known[work.id].order if work.id in known else last
        groups = tuple((group.need, group.unplaced, group.placed) for group in work.job.groups)
        gang, job = bool(work.gang), work.job
        jobs.append(
            JobDemand(
                work.id, lane_of(job.kind, job.precedence, job.spec), number, gang=gang, waits=False, groups=groups,
                commands=job.commands, spec=job.spec, least=job.gang_min,
            )
        )  # fmt: skip
    return _epoch(cell, pools, Current(snapshot, jobs, Runnable()), cell.pools.epoch())


def machine_warnings_of(cell: "Cell") -> list[str]:
    """Return warnings about machines that belong to two trees of the cell, or to none."""
    pools = cell.pools.get()
    return _now(cell, pools, None)[1] if pools.divided else []


def order(pools: Pools, shares: Mapping[str, PoolShare]) -> Iterator[tuple[int, str]]:
    """Yield depth and name of every pool, ephemeral ones included, each after its parent, tree by tree."""
    below: dict[tuple[str, str], list[str]] = {}
    for name, share in shares.items():
        if not name.endswith(f"/{ROOT}"):
            parent = share.parent if share.parent != ROOT else ""
            below.setdefault((share.tree, parent), []).append(name)

    def walk(tree: str, parent: str, depth: int) -> Iterator[tuple[int, str]]:
        for name in below.get((tree, parent), ()):
            yield depth, name
            yield from walk(tree, name, depth + 1)

    for tree in pools.trees:
        yield from walk(tree.name, "", 0)


def pools_json(cell: "Cell", current: Current | None = None) -> dict[str, Any]:
    """Return all pools with their shares: fair shares of the published epoch, use and demand as they are now.

    Without a published epoch of these pools the fair shares are computed. `current` is read when it is not given.
    """
    pools, epoch = cell.pools.get(), cell.pools.epoch()
    published = epoch if epoch is not None and epoch.pools_version == pools.version else None
    now, warnings = _now(cell, pools, published, current)
    use, starving, least = cell.pools.use(), starving_pools(cell.schedulers.members()), _least(cell, now)
    rows = [
        row(pools, name, now, published, cell.dimensions.names, use.get(name), depth)
        | {"least": least.get(name)}
        | ({"status": starving[name]} if name in starving else {})
        for depth, name in order(pools, now.pools)
    ]
    return {
        "cell": cell.name,
        "version": pools.version,
        "epoch": None
        if published is None
        else {"number": published.number, "version": published.version, "at_ms": published.at_ms, "by": published.by},
        "trees": [
            {
                "name": tree.name,
                "machines": tree.machines,
                "totals": dict(zip(cell.dimensions.names, now.totals[tree.name], strict=True)),
            }
            for tree in pools.trees
        ],
        "pools": rows,
        "warnings": warnings,
    }


def _least(cell: "Cell", now: Epoch) -> dict[str, dict[str, Any]]:
    """Return the least satisfied job of each pool that has jobs: id, name and satisfaction."""
    ids = {share.least_job for share in now.pools.values() if share.least_job}
    jobs = cell.jobs.by_id(sorted(ids))
    return {
        name: {
            "job": share.least_job,
            "name": jobs[share.least_job].name,
            "satisfaction": finite(share.least_satisfaction),
        }
        for name, share in now.pools.items()
        if share.least_job in jobs
    }


def starving_pools(members: Mapping[str, tuple[int, bool, Mapping[str, Any]]]) -> dict[str, str]:
    """Return the pools that starve, as live schedulers report (`Cell.members`), and how."""
    starving: dict[str, str] = {}
    for _, alive, figures in members.values():
        for name, status in figures.get("starving", {}).items() if alive else ():
            starving[name] = max(starving.get(name, status), status, key=STARVING.index)
    return starving


def row(
    pools: Pools,
    name: str,
    now: Epoch,
    published: Epoch | None,
    resources: Sequence[str],
    use: "PoolUse | None" = None,
    depth: int = 0,
) -> dict[str, Any]:
    """Return one pool as plain values; shares are parts of the tree's totals, amounts in smallest units."""
    share = now.pools[name]
    known = published.pools.get(name) if published else None
    fair = known.fair_share if known else share.fair_share
    pool, totals = pools.by_name.get(name), now.totals[share.tree]
    dominant = max(range(len(resources)), key=lambda d: fair[d]) if any(fair) else None
    held = (
        None if use is None else {"jobs": use.jobs, "tasks": use.tasks} | dict(zip(resources, use.amounts, strict=True))
    )
    return {
        "name": name,
        "parent": share.parent,
        "tree": share.tree,
        "depth": depth,
        "ephemeral": share.ephemeral,
        "number": pool.number if pool else 0,
        "mode": pool.mode if pool else "fair_share",
        "weight": share.weight,
        "guarantee": dict(pool.guarantee) if pool else {},
        "limits": dict(pool.limits) if pool else {},
        "limited_use": held,
        "users": list(pool.users) if pool else [],
        "reclaim": pool.reclaim if pool else "fair-share",
        "demand": _named(resources, share.demand),
        "usage": _named(resources, share.usage),
        "fair_share": _named(resources, fair),
        "strong": _named(resources, share.guarantee),
        "integral": _named(resources, (known or share).integral),
        "demand_amounts": _amounts(resources, share.demand, totals),
        "usage_amounts": _amounts(resources, share.usage, totals),
        "fair_share_amounts": {name: share * total for name, share, total in zip(resources, fair, totals, strict=True)},
        "decayed_usage": (known or share).decayed_usage,
        "volume": _named(resources, (known or share).volume),
        "satisfaction": satisfaction(fair, share.demand, share.usage),
        "dominant_resource": None if dominant is None else resources[dominant],
        "status": status(pools, name, share, fair),
    }


def satisfaction(fair: Sequence[float], demand: Sequence[float], usage: Sequence[float]) -> float | str:
    """Return usage ÷ fair share as one number (docs/pool-rules.md, rule 8); ``infinite`` without a share."""
    import numpy as np

    from omega.schedulers.fairshare.satisfaction import local_satisfaction

    vectors = (np.array([each], dtype=float) for each in (fair, demand, usage))
    return finite(float(local_satisfaction(*vectors)[0]))


def finite(number: float) -> float | str:
    """Return a number, or ``infinite``, which JSON has no number for."""
    return number if isfinite(number) else "infinite"


def status(pools: Pools, name: str, share: PoolShare, fair: Sequence[float]) -> str:
    """Return whether a pool stands below its fair share, with its tolerance (docs/pool-rules.md, rule 9)."""
    import numpy as np

    from omega.schedulers.fairshare.satisfaction import is_below_fair_share

    tolerance = pools.preemption(name).starvation_tolerance or 0.0
    vectors = (np.array(fair), np.array(share.demand), np.array(share.usage))
    return BELOW if is_below_fair_share(*vectors, tolerance, job=False) else NORMAL


def not_in_effect(cell: "Cell", pools: Pools, name: str) -> str:
    """Return which settings of a pool are not in effect, and why; empty when all are."""
    from omega.pools.effects import without_effect

    own = without_effect(pools).get(f"pool {name}", [])
    return "; ".join([*([ignored] if (ignored := _ignored(cell.schedulers, pools.by_name.get(name))) else []), *own])


def _ignored(schedulers: "Schedulers", pool: Pool | None) -> str:
    """Return which settings of a pool no scheduler reads, and why; empty when all are read.

    Limits and borrowing hold for every scheduler; weights, guarantees and the other settings only for live schedulers
    that share by pools. A scheduler reports that with its heartbeat; before the first one it counts as sharing.
    """
    names = [each.name for each, _ in stated(pool) if each.counts in SHARING] if pool else []
    live = {member: figures for member, (_, alive, figures) in schedulers.members().items() if alive}
    ignore = sorted(member for member, figures in live.items() if not figures.get("uses_pools", True))
    if not names or (live and not ignore):
        return ""
    settings = ", ".join(names)
    if not live:
        return f"{settings}: not in effect while no scheduler is live"
    if len(ignore) == len(live):
        return f"{settings}: not in effect: no live scheduler has the ordering fair-pools"
    return f"{settings}: not in effect for {listing(ignore)}, which have another ordering than fair-pools"


def _named(resources: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    return dict(zip(resources, values, strict=False))


def _amounts(resources: Sequence[str], shares: Sequence[float], totals: Resources) -> dict[str, int]:
    return {name: round(share * total) for name, share, total in zip(resources, shares, totals, strict=True)}


def _settings(pools: Pools, name: str) -> Pool | None:
    """Return a pool as operators set it, without the number that the store gives it."""
    pool = pools.by_name.get(name)
    return None if pool is None else replace(pool, number=0)


def plan_json(cell: "Cell", wanted: Pools) -> dict[str, Any]:
    """Return the fair share of every pool now and with other pools, for the same jobs.

    `in_use`: leaf pools with live jobs that would be none, for which the store refuses the change. `leaving`: tasks, by
    pool, that would be on machines of another tree. `warnings`: settings without effect.
    """
    from omega.pools.effects import warnings

    pools, epoch = cell.pools.get(), cell.pools.epoch()
    current = _read(cell)
    before, after = (_now(cell, each, epoch, current)[0] for each in (pools, wanted))
    resources, rows = cell.dimensions.names, []
    depths = {name: depth for depth, name in order(wanted, after.pools)}
    gone = {name: depth for depth, name in order(pools, before.pools) if name not in depths}
    for name, depth in (*depths.items(), *gone.items()):
        was, now = before.pools.get(name), after.pools.get(name)
        shown, differs = now or was, _settings(pools, name) != _settings(wanted, name)
        change = "added" if was is None else "removed" if now is None else "changed" if differs else "same"
        rows.append(
            {
                "name": name,
                "depth": depth,
                "change": change,
                "before": None if was is None else _named(resources, was.fair_share),
                "after": None if now is None else _named(resources, now.fair_share),
                "usage": _named(resources, shown.usage) if shown else {},
                "demand": _named(resources, shown.demand) if shown else {},
            }
        )
    lost = sorted(pools.leaves - wanted.leaves)
    in_use = [name for name in lost if name in before.pools and any(before.pools[name].demand)]
    return {
        "cell": cell.name, "version": pools.version, "pools": rows, "in_use": in_use,
        "leaving": dict(sorted(after_pools(cell, pools, wanted).items())), "warnings": warnings(wanted),
    }  # fmt: skip


def wrong_epoch(cell: "Cell") -> list[tuple[str, str]]:
    """Compute the published epoch again from the input that it names; return (pool, what) for each that differs."""
    from omega.schedulers.epochs import recomputed

    epoch, pools = cell.pools.epoch(), cell.pools.get()
    if epoch is None or epoch.pools_version != pools.version:
        return []  # its pools were changed since
    again, differences = recomputed(epoch, pools, cell.dimensions.names), []
    for name in sorted(again.keys() | epoch.pools.keys()):
        published, computed = epoch.pools.get(name), again.get(name)
        if published is None or computed is None:
            differences.append((name, f"is in epoch {epoch.number} and its input does not give it, or conversely"))
        elif any(abs(a - b) > TOLERANCE for a, b in zip(published.fair_share, computed.fair_share, strict=True)):
            what = f"has the fair share {published.fair_share} in epoch {epoch.number}, computed {computed.fair_share}"
            differences.append((name, what))
    return differences
