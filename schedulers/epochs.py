"""Fair shares of all pools and jobs of a cell, computed from one version for an epoch (semantics 34). Pure functions.

Equal jobs of one task group in a fair-share pool are one leaf of the calculator, which counts as
often as there are jobs: each takes what it would by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.pools import ROOT, Epoch, Leaf, Pool, Pools, PoolShare, PoolTree
from omega.cellstate.resources import Resources
from omega.schedulers.fairshare.satisfaction import least_jobs
from omega.schedulers.fairshare.tree import Job, PoolState, Tree
from omega.schedulers.fairshare.update import Shares, fair_shares

PRECEDENCE_SPAN = 1 << 33
"""Factor of `Leaf.start`, which orders jobs by precedence, then by submission."""
CPU_QUANTUM = 10
"""Inferred guarantees are cut to hundredths of a CPU, in thousandths."""


def leaves_of(pools: Pools, jobs: Iterable[JobDemand]) -> dict[str, list[Leaf]]:
    """Return the leaves of each tree, by its name."""
    leaves_by_tree: dict[str, dict[object, Leaf]] = {tree.name: {} for tree in pools.trees}
    named = pools.by_name
    places: dict[Lane, tuple[str, bool, dict[object, Leaf]]] = {}
    for job in jobs:
        place = places.get(job.lane)
        if place is None:
            name = pools.pool_of(job.lane.pool, job.lane.user)
            fifo = name in named and named[name].fifo
            place = places[job.lane] = name, fifo, leaves_by_tree[pools.tree_of(name).name]
        name, fifo, below = place
        alone = fifo or job.gang or job.least or len(job.groups) > 1
        # Equal jobs of one group are found by what they were computed from: that is known without computing it.
        key: object = job.id if alone else (name, job.lane.precedence, job.waits, job.groups, job.most, job.weight)
        known = below.get(key)
        if known is not None:
            known.jobs.extend([job.id] * job.alike)
            continue
        demand, usage, pending = _amounts(job)
        least = min(1.0, job.least / max(1, pending + sum(placed for _, _, placed in job.groups))) if job.least else 0.0
        start = -job.lane.precedence * PRECEDENCE_SPAN + job.order
        below[key] = Leaf(
            name, demand, usage, job.gang, start=start, pending=pending, jobs=[job.id] * job.alike, most=job.most,
            weight=job.weight, least=least,
        )  # fmt: skip
    return {tree: list(leaves.values()) for tree, leaves in leaves_by_tree.items()}


def _amounts(job: JobDemand) -> tuple[Resources, Resources, int]:
    """Demand (usage included), usage and pending tasks of a job."""
    size = len(job.groups[0][0])
    demand, usage, pending = [0] * size, [0] * size, 0
    for need, unplaced, placed in job.groups:
        more = 0 if job.waits else unplaced
        pending += more
        for d, amount in enumerate(need):
            usage[d] += amount * placed
            demand[d] += amount * (placed + more)
    return tuple(demand), tuple(usage), pending


def compute(
    pools: Pools, leaves: Mapping[str, Sequence[Leaf]], totals: Mapping[str, Resources], resources: Sequence[str], *,
    before: Mapping[str, tuple[Sequence[float], float]] | None = None, seconds: float | None = None,
    decayed: Mapping[str, float] | None = None,
) -> dict[str, Shares]:  # fmt: skip
    """Compute the shares of all trees, by name. Amounts in the cell's smallest units, `resources` in its order.

    `before`: volume and last share of each pool with an integral guarantee, `seconds` ago; `decayed`: what pools used
    before, where it reduces their weights.
    """
    computed = {}
    for tree in pools.trees:
        given = _tree(
            pools, tree, leaves.get(tree.name, ()), totals=_named(resources, totals[tree.name]), before=before or {},
            decayed=decayed or {},
        )  # fmt: skip
        computed[tree.name] = fair_shares(given, seconds)
    return computed


def _tree(
    pools: Pools, tree: PoolTree, leaves: Sequence[Leaf], *, totals: Mapping[str, float],
    before: Mapping[str, tuple[Sequence[float], float]], decayed: Mapping[str, float],
) -> Tree:  # fmt: skip
    """Return the calculator's input: the settings themselves, but limits in force and on amounts only."""
    inside = [pool for pool in pools.pools if pools.tree_of(pool.name).name == tree.name]
    known = {pool.name for pool in inside}
    bounds = [{name: most for name, most in pool.upper.items() if name in totals} for pool in inside]
    elements = [
        replace(pool, limits=limits, borrowing={}) if pool.upper else pool
        for pool, limits in zip(inside, bounds, strict=True)
    ]
    # Ephemeral pools; a pool of that name may have pools below it since, then its old jobs are beside it.
    names = sorted({leaf.pool for leaf in leaves} - (known - {pool.parent for pool in inside}))
    shown = {name: name if name not in known else f"{name} (jobs)" for name in names}
    elements += [Pool(shown[name], tree.default_parent) for name in names]
    jobs = [
        Job(
            f" {leaf.jobs[0]}", shown.get(leaf.pool, leaf.pool), _named(totals, leaf.demand),
            usage=_named(totals, leaf.usage), limits=_named(totals, leaf.most) if leaf.most else {}, gang=leaf.gang,
            start_time=float(leaf.start), pending=leaf.pending, count=len(leaf.jobs), weight=leaf.weight,
            rank=leaf.start // PRECEDENCE_SPAN, least=leaf.least,
        )
        for leaf in leaves
    ]  # fmt: skip
    usage = {} if tree.usage_half_life is None else decayed
    states = {}
    for name in {*before, *usage}:
        volume, last = before.get(name, ((), 0.0))
        states[name] = PoolState(
            volume=dict(zip(totals, volume, strict=False)), last_share=last,
            decay=2.0 ** (-tree.usage_exponent * usage[name]) if name in usage else 1.0,
        )  # fmt: skip
    return Tree(totals, elements, jobs, tree, states=states, quanta={"cpu": CPU_QUANTUM})


def _named(resources: Iterable[str], amounts: Sequence[int]) -> dict[str, float]:
    return {name: float(amount) for name, amount in zip(resources, amounts, strict=True)}


def decayed_usage(previous: Epoch | None, pools: Pools, seconds: float | None) -> dict[str, float]:
    """Return what pools used before, the largest part of a resource, where the tree counts it with a half-life.

    What a pool held in the epoch before counts for the `seconds` since then.
    """
    lives = {tree.name: tree.usage_half_life for tree in pools.trees if tree.usage_half_life is not None}
    decayed: dict[str, float] = {}
    for name, share in (previous.pools if previous is not None and lives else {}).items():
        life = lives.get(share.tree)
        if life is not None and not name.endswith(f"/{ROOT}"):
            kept = 0.5 ** ((seconds or 0.0) / life)
            decayed[name] = share.decayed_usage * kept + max(share.usage, default=0.0) * (1.0 - kept)
    return decayed


def pool_shares(
    trees: Mapping[str, Shares], pools: Pools, decayed: Mapping[str, float] | None = None
) -> dict[str, PoolShare]:
    """Return the share of every pool by its name, and of each root under ``TREE/<Root>``."""
    shares: dict[str, PoolShare] = {}
    for tree, computed in trees.items():
        vectors = {
            "fair_share": computed.pools, "demand": computed.pool_demand, "usage": computed.pool_usage,
            "guarantee": computed.guaranteed, "integral": computed.integral, "limits": computed.limits,
            "promised": computed.promised_pools, "estimated": computed.estimated[0], "volume": computed.volume,
        }  # fmt: skip
        _, satisfaction, of_jobs = computed.satisfaction
        least = least_jobs(computed.tree, of_jobs).tolist()
        for name, number in computed.tree.numbers.items():
            job = least[number]
            key = f"{tree}/{ROOT}" if name == ROOT else name
            shares[key] = PoolShare(
                name=key, parent=computed.tree.pool(number).parent, tree=tree,
                weight=float(computed.weights[number]), satisfaction=float(satisfaction[number]),
                last_share=float(computed.integral[number].max(initial=0.0)),
                least_job=computed.tree.jobs[job].name[1:] if job >= 0 else "",
                least_satisfaction=float(of_jobs[job]) if job >= 0 else inf,
                ephemeral=name != ROOT and name not in pools.by_name, decayed_usage=(decayed or {}).get(name, 0.0),
                **{field: tuple(values[number].tolist()) for field, values in vectors.items()},
            )  # fmt: skip
    return shares


def leaf_shares(trees: Mapping[str, Shares]) -> dict[str, list[tuple[float, ...]]]:
    """Return the share of each job of every leaf, by tree."""
    return {tree: [tuple(share.tolist()) for share in computed.jobs] for tree, computed in trees.items()}


def epoch_of(
    pools: Pools, jobs: Iterable[JobDemand], totals: Mapping[str, Resources], resources: Sequence[str],
    previous: Epoch | None = None, *, version: int = 0, at_ms: int = 0, by: str = "",
) -> Epoch:  # fmt: skip
    """Compute the epoch after `previous` from what jobs hold and want at `version`; `at_ms` by the server's clock."""
    leaves = leaves_of(pools, jobs)
    before = volumes_of(previous, pools)
    seconds = None if previous is None else max(0, at_ms - previous.at_ms) / 1000
    decayed = decayed_usage(previous, pools, seconds)
    trees = compute(pools, leaves, totals, resources, before=before, seconds=seconds, decayed=decayed)
    return Epoch(
        number=1 if previous is None else previous.number + 1, version=version, pools_version=pools.version,
        at_ms=at_ms, by=by, totals=dict(totals), pools=pool_shares(trees, pools, decayed),
        leaf_shares=leaf_shares(trees), leaves=leaves, before=before, seconds=seconds,
    )  # fmt: skip


def volumes_of(previous: Epoch | None, pools: Pools) -> dict[str, tuple[tuple[float, ...], float]]:
    """Volume and last share of the pools with an integral guarantee, as an epoch left them."""
    if previous is None:
        return {}
    integral = (pool.name for pool in pools.pools if pool.integral.kind != "none")
    held = ((name, previous.pools.get(name)) for name in integral)
    return {name: (share.volume, share.last_share) for name, share in held if share is not None}


def recomputed(epoch: Epoch, pools: Pools, resources: Sequence[str]) -> dict[str, PoolShare]:
    """Compute the shares of a published epoch again, from the input that it names."""
    decayed = {name: share.decayed_usage for name, share in epoch.pools.items() if share.decayed_usage}
    trees = compute(
        pools, epoch.leaves, epoch.totals, resources, before=epoch.before, seconds=epoch.seconds, decayed=decayed
    )
    return pool_shares(trees, pools, decayed)
