"""How a job stands in its pool, and the pool: its share, what it holds, and which pools hold what it lacks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.cellstate.pools import Epoch, Leaf, Pools
from omega.cellstate.resources import format_amount
from omega.queries import units
from omega.queries.evictions import evictions_for, kept_by
from omega.queries.pool_shares import NORMAL, pools_json, satisfaction

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job

MOST_HOLDERS = 3
"""Pools above their fair share that are named."""
FIELDS = (
    "name", "parent", "tree", "mode", "ephemeral", "weight", "guarantee", "reclaim", "fair_share", "usage", "demand",
    "satisfaction", "least", "dominant_resource", "status", "fair_share_amounts", "usage_amounts",
)  # a table # fmt: skip
"""What is stated of the pool itself, as `pools_json` has it."""
_SMALL = 1e-9


class PoolsRead(NamedTuple):
    """What was read of the pools of a cell: the document of `pools_json`, and the published epoch."""

    document: Mapping[str, Any]
    epoch: Epoch | None


def standing(cell: "Cell", job: "Job", read: PoolsRead | None = None) -> dict[str, Any] | None:
    """Return how the pool of a job stands, as plain values; None when no pools are configured.

    `read`: what was read of the pools already; that takes long in a cell with many jobs.
    ``limits`` are those of the pool and its ancestors that leave no room for one more task of the job; ``holders`` the
    leaf pools of its tree that hold most beyond their fair share of a resource that the job needs.
    """
    pools = cell.pools.get()
    if not pools.configured:
        return None
    document = pools_json(cell) if read is None else read.document
    rows = {row["name"]: row for row in document["pools"]}
    lane = cell.schedulers.lanes([job.lane]).get(job.lane)
    name = pools.pool_of(lane[1].pool, lane[1].user) if lane else ""
    own = rows.get(name)
    if own is None:
        return None
    needs = {
        resource: amount
        for group in job.groups
        if group.ready
        for resource, amount in zip(cell.dimensions.names, group.need, strict=True)
        if amount
    }
    holders = _holders(pools, own, rows, needs)
    return {field: own[field] for field in FIELDS} | {
        "epoch": document["epoch"] and document["epoch"]["number"],
        "starvation_timeout": pools.preemption(name).starvation_timeout,
        "beyond": _beyond(cell, job, own),
        "limits": list(_limits(cell, pools, name, needs)),
        "holders": holders,
        "evictions": evictions_for(cell, job) if own["status"] != NORMAL and holders else None,
        "kept_by": kept_by(pools, name, [each["pool"] for each in holders]),
        "lacks_a_task": all(
            own["usage_amounts"][name] + more <= own["fair_share_amounts"][name] + _SMALL
            for name, more in needs.items()
        ),
    }


def _beyond(cell: "Cell", job: "Job", own: Mapping[str, Any]) -> dict[str, int]:
    """By how much a gang would lift its pool above its fair share, at least; empty for other jobs."""
    from omega.schedulers.limits import least_need

    if not (least := job.lacks):
        return {}
    beyond = {}
    for at, resource in enumerate(cell.dimensions.names):
        wanted = least_need(((group.need[at], group.unplaced) for group in job.groups), least)
        over = own["usage_amounts"][resource] + wanted - round(own["fair_share_amounts"][resource])
        if wanted and over > 0:
            beyond[resource] = over
    return beyond


def _limits(cell: "Cell", pools: Pools, name: str, needs: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    use = cell.pools.use()
    for pool in pools.chain(name):
        held = {"jobs": use[pool.name].jobs, "tasks": use[pool.name].tasks} | dict(
            zip(cell.dimensions.names, use[pool.name].amounts, strict=True)
        )
        for resource, limit in pool.upper.items():
            more = needs.get(resource, 0 if resource in cell.dimensions.names else 1)
            if more and held[resource] + more > limit:
                yield {"pool": pool.name, "resource": resource, "held": held[resource], "limit": limit}


def _holders(
    pools: Pools, own: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], needs: Mapping[str, int]
) -> list[dict[str, Any]]:
    holders = []
    for row in rows.values():
        if row["name"] == own["name"] or row["tree"] != own["tree"] or row["name"] in pools.children:
            continue
        over = {
            resource: round(row["usage_amounts"][resource] - row["fair_share_amounts"][resource])
            for resource in needs
            if row["usage"][resource] > row["fair_share"][resource] + _SMALL
        }
        if over:
            most = max(row["usage"][resource] - row["fair_share"][resource] for resource in over)
            holders.append((most, {"pool": row["name"], "over": over}))
    holders.sort(key=lambda each: -each[0])
    return [each for _, each in holders[:MOST_HOLDERS]]


def job_share(cell: "Cell", job: "Job", read: PoolsRead | None = None) -> dict[str, Any] | None:
    """Return the fair share of a job in its pool by the published epoch, and what it holds now, as plain values.

    ``above`` lists the jobs of the pool that held most beyond their own fair share of what the job needs. None for a
    job that the epoch does not have.
    """
    configured = read is None and cell.pools.epoch_mark().configured
    epoch = read.epoch if read is not None else cell.pools.epoch() if configured else None
    found = epoch and _leaf_of(epoch, job.id)
    if epoch is None or not found:
        return None
    tree, own, share = found
    totals, names = epoch.totals[tree], cell.dimensions.names
    needed = [d for d in range(len(names)) if any(group.need[d] for group in job.groups)]
    used = [sum(group.need[d] * group.placed for group in job.groups) for d in range(len(names))]
    parts = [amount / total if total else 0.0 for amount, total in zip(used, totals, strict=True)]
    demand = [amount / total if total else 0.0 for amount, total in zip(own.demand, totals, strict=True)]
    above = []
    for leaf, part in zip(epoch.leaves[tree], epoch.leaf_shares[tree], strict=True):
        if leaf.pool != own.pool:
            continue
        over = {d: leaf.usage[d] - part[d] * totals[d] for d in needed if leaf.usage[d] > part[d] * totals[d] + _SMALL}
        if over:
            most = max(amount / totals[d] if totals[d] else 0.0 for d, amount in over.items())
            above += [(most, each, over) for each in leaf.jobs if each != job.id]
    above = sorted(above, key=lambda each: -each[0])[:MOST_HOLDERS]
    jobs = cell.jobs.by_id([each for _, each, _ in above])
    dominant = max(needed, key=lambda d: share[d], default=None)
    return {
        "pool": own.pool,
        "epoch": epoch.number,
        "fair_share": dict(zip(names, share, strict=True)),
        "fair_share_amounts": {name: part * total for name, part, total in zip(names, share, totals, strict=True)},
        "usage_amounts": dict(zip(names, used, strict=True)),
        "satisfaction": satisfaction(share, demand, parts),
        "dominant_resource": None if dominant is None else names[dominant],
        "above": [
            {"job": each, "name": jobs[each].name, "over": {names[d]: round(amount) for d, amount in over.items()}}
            for _, each, over in above
            if each in jobs
        ],
    }


def _leaf_of(epoch: Epoch, job: str) -> tuple[str, Leaf, Sequence[float]] | None:
    """Return tree, leaf and share of a job in an epoch."""
    for tree, leaves in epoch.leaves.items():
        for leaf, share in zip(leaves, epoch.leaf_shares[tree], strict=True):
            if job in leaf.jobs:
                return tree, leaf, share
    return None


def share_sentences(stands: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a job stands among the jobs of its pool, for people."""
    at = stands["dominant_resource"]
    if at is None:
        return
    used, fair = (units.amount(at, round(stands[field][at])) for field in ("usage_amounts", "fair_share_amounts"))
    ratio = stands["satisfaction"]
    text = f" (satisfaction {ratio:.2f})" if isinstance(ratio, float) else ""
    yield f"holds {at} {used} of its own fair share {fair} in pool {stands['pool']}{text}"
    if stands["above"] and isinstance(ratio, float) and ratio < 1:
        who = ", ".join(f"{each['name']} ({_rounded(each['over'])})" for each in stands["above"])
        yield f"above their own fair share in pool {stands['pool']}: {who}"


def sentences(stands: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a pool stands, for people."""
    dominant = stands["dominant_resource"]
    at = dominant or next(iter(stands["usage"]), "")
    used, fair = (units.amount(at, round(stands[field][at])) for field in ("usage_amounts", "fair_share_amounts"))
    kind = "ephemeral pool" if stands["ephemeral"] else "pool"
    guarantee = stands["guarantee"].get(at)
    more = f", guaranteed {format_amount(at, guarantee)}" if guarantee else ""
    yield f"{kind} {stands['name']}: holds {at} {used} of its fair share {fair}{more} ({stands['status']})"
    if stands["beyond"]:
        yield f"its gang exceeds what is left of the share by {_text(stands['beyond'])}: it waits for free room"
        return
    if stands["status"] != NORMAL and stands["holders"]:
        who = ", ".join(f"{each['pool']} ({_rounded(each['over'])})" for each in stands["holders"])
        yield f"above their fair share: {who}"
        if stands["reclaim"] == "never":
            yield "reclaim is never: it waits until their tasks end"
            return
        if stands["reclaim"] == "guarantee":
            yield "reclaim is guarantee: it evicts only up to its guarantee, else it waits until their tasks end"
        if stands["evictions"]:
            planned = stands["evictions"]
            whose = ", ".join(f"{count:,} of {name}" for name, count in planned["pools"].items())
            yield f"its scheduler evicts tasks in {planned['after_seconds']:g} s, if nothing changes: {whose}"
        else:
            rules = "; ".join(
                f"{name}: {', '.join(f'{each} {_value(value)}' for each, value in settings.items())}"
                for name, settings in stands["kept_by"].items()
            )
            yield "no eviction is possible now" + (f", by these settings or others: {rules}" if rules else "")
            if not stands["lacks_a_task"]:
                yield "it lacks less than one task: it takes one only from a pool that keeps its share in full"


def _value(value: object) -> str:
    """Return a setting as in a file of pools."""
    if isinstance(value, Mapping):
        return _text(value)
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _text(amounts: Mapping[str, int]) -> str:
    return " ".join(f"{name} {format_amount(name, amount)}" for name, amount in amounts.items())


def _rounded(amounts: Mapping[str, int]) -> str:
    """Return amounts that follow from fair shares, which are no whole units."""
    return ", ".join(f"{name} {units.amount(name, amount)}" for name, amount in amounts.items())
