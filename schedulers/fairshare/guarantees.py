"""Strong guarantees of pools as shares, inferred and adjusted (§2), and weights inferred from them (§8).

Volumes of integral guarantees (§3) are resource·seconds that a pool accumulates at its flow and spends as share.
"""

from dataclasses import dataclass, replace

import numpy as np

from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.tree import Tree

NEGLIGIBLE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Guarantees:
    """Guarantees of pools, by pool number.

    `strong` (pools, resources): share, adjusted; `flow`, `burst` (pools,): largest component of the integral
    guarantee's flow and burst as a share; `total_flow` (pools,): flow of the pool and all pools below it; `errors`:
    what is overcommitted, for people.
    """

    strong: Floats
    flow: Floats
    burst: Floats
    total_flow: Floats
    errors: tuple[str, ...] = ()


def guarantees(tree: Tree, limits: Floats) -> Guarantees:
    """Return the guarantees of all pools, given their limits as shares (pools, resources)."""
    amounts = inferred(tree)
    strong = tree.share(amounts)
    strong[0] = strong[tree.subpools[0]].sum(0)
    flow = np.array([_ratio(tree, number, "flow") for number in range(len(strong))])
    burst = np.array([_ratio(tree, number, "burst") for number in range(len(strong))])
    total_flow = flow.copy()
    for number in reversed(tree.downward[1:]):
        total_flow[tree.parents[number]] += total_flow[number]
    given = _uncommitted(tree, Guarantees(strong=strong, flow=flow, burst=burst, total_flow=total_flow), amounts)
    _, lonely = _priority(tree, strong)
    alone = tuple(f"priority of the guarantee of {name!r} is ignored: no pool above it donates" for name in lonely)
    return replace(given, strong=_adjusted(tree, given.strong, limits), errors=given.errors + alone)


def _ratio(tree: Tree, number: int, kind: str) -> float:
    integral = tree.pool(number).integral
    if integral.kind == "none":
        return 0.0
    return float(tree.share(tree.vector(getattr(integral, kind))).max(initial=0.0))


def inferred(tree: Tree) -> Floats:
    """Return the guarantees as amounts (pools, resources), with the components that were not stated (§2).

    A missing component is the parent's times the child's part of the parent's main resource; below other
    pools than the root these are scaled down together to what the stated ones leave. The root's is the total.
    """
    main = tree.resources.index(tree.options.main_resource) if tree.options.main_resource in tree.resources else 0
    quanta = np.array([tree.quanta.get(name, 1.0) for name in tree.resources])
    amounts = np.zeros((len(tree.numbers), len(tree.resources)))
    amounts[0] = tree.capacity
    for parent in tree.downward:
        children = tree.subpools[parent]
        if not children:
            continue
        stated = np.array([[name in tree.pool(child).guarantee for name in tree.resources] for child in children])
        stated[:, main] = True
        given = tree.table([tree.pool(child).guarantee for child in children])
        whole = amounts[parent, main]
        part = given[:, main] / whole if whole > 0 else np.zeros(len(children))
        implied = np.where(stated, 0.0, amounts[parent] * part[:, None])
        if parent:
            left = np.maximum(amounts[parent] - given.sum(0), 0.0)
            wanted = implied.sum(0)
            implied *= np.where(wanted > left, left / np.where(wanted > 0, wanted, 1.0), 1.0)
        cut = np.floor(implied / quanta + NEGLIGIBLE) * quanta
        amounts[children] = np.where(stated, given, cut)
    return amounts


def _uncommitted(tree: Tree, given: Guarantees, amounts: Floats) -> Guarantees:
    """Report overcommitted guarantees; scale the root's and all bursts down where bursts do not fit."""
    errors = []
    for parent in tree.downward:
        children = tree.subpools[parent]
        bound = tree.capacity if parent == 0 else amounts[parent]
        over = amounts[children].sum(0) > bound * (1 + NEGLIGIBLE) if children else np.zeros(0, bool)
        if over.any():
            names = ", ".join(name for name, high in zip(tree.resources, over, strict=True) if high)
            errors.append(f"guarantees of the pools below {tree.pool(parent).name!r} exceed its own: {names}")
    room = tree.capacity > 0
    top = amounts[tree.subpools[0]].sum(0)[room] / tree.capacity[room]
    if (top + given.flow.sum() > 1 + NEGLIGIBLE).any():
        errors.append("guarantees and resource flows together exceed the tree's machines")
    if (top + given.burst.sum() > 1 + NEGLIGIBLE).any():
        errors.append("guarantees and bursts together exceed the tree's machines")
        bursting = np.array([tree.pool(number).integral.kind == "burst" for number in range(len(given.burst))])
        factor = min(1.0, 1.0 / float((given.strong[0] + given.burst[bursting].sum()).max()))
        strong = given.strong.copy()
        strong[0] *= factor
        given = replace(given, strong=strong, burst=np.where(bursting, given.burst * factor, given.burst))
    return replace(given, errors=tuple(errors))


def _adjusted(tree: Tree, strong: Floats, limits: Floats) -> Floats:
    """Cut guarantees by limits, then scale the children of each pool by one factor that fits all components.

    Priority guarantees are fitted first, the others share what these leave.
    """
    first, _ = _priority(tree, strong)
    tiers = (first, strong - first)
    strong = strong.copy()
    for parent in tree.downward:
        strong[parent] = np.minimum(strong[parent], limits[parent])
        children, left, fits = tree.subpools[parent], strong[parent], True
        for tier in tiers if children else ():
            wanted = tier[children].sum(0)
            over = wanted > left + NEGLIGIBLE**1.5
            if not fits:
                tier[children] = 0.0
            elif over.any():
                tier[children] *= float((left[over] / wanted[over]).min())
                fits = False
            left = np.maximum(left - wanted, 0.0)
        strong[children] = tiers[0][children] + tiers[1][children]
    return strong


def _priority(tree: Tree, strong: Floats) -> tuple[Floats, tuple[str, ...]]:
    """Return the part of each guarantee that is fitted first, and the priority pools that have no donor above them.

    The whole guarantee of a priority pool below a donor counts up to the donor, which has none itself.
    """
    donated, alone = {0: tree.state(0).guarantee_donor}, []
    for number in tree.downward[1:]:
        above = int(tree.parents[number])
        state = tree.state(above)
        donated[number] = state.guarantee_donor or (donated[above] and not state.priority_guarantee)
        if tree.state(number).priority_guarantee and not donated[number]:
            alone.append(tree.pool(number).name)
    first = np.zeros_like(strong)
    for number in reversed(tree.downward):
        state = tree.state(number)
        if state.priority_guarantee and donated[number]:
            first[number] = strong[number]
        elif state.guarantee_donor:
            first[number] = 0.0
        else:
            first[number] = first[tree.subpools[number]].sum(0)
    return first, tuple(alone)


def counted_on(tree: Tree, given: Guarantees, weights: tuple[Floats, Floats], root: Floats) -> tuple[Floats, Floats]:
    """Return what each pool and each job can count on of the `root`'s share: (pools, resources), (jobs, resources).

    Each child takes its guarantee and flow, in the order given, as far as its parent's share goes; children, jobs
    included, divide the rest by weight.
    """
    pools, jobs = weights
    heavy = np.zeros(len(pools))
    np.add.at(heavy, tree.parents[1:], pools[1:])
    np.add.at(heavy, tree.pool_of, jobs * tree.counts)
    heavy = np.where(heavy > 0, heavy, 1.0)
    share, rest = np.zeros_like(given.strong), np.zeros_like(given.strong)
    share[0] = root
    for number in tree.downward:
        left = share[number].copy()
        children = tree.subpools[number]
        for child in children:
            share[child] = np.minimum(given.strong[child] + given.total_flow[child], left)
            left = left - share[child]
        rest[number] = left / heavy[number]
        if children:
            share[children] += rest[number] * pools[children][:, None]
    return share, rest[tree.pool_of] * jobs[:, None]


def weights(tree: Tree, given: Guarantees) -> tuple[Floats, Floats]:
    """Return the weights of pools and jobs: stated, else inferred from guarantees (`weight_multiplier`), else 1.

    Those of pools are multiplied by the decay of what they used before.
    """
    pools = np.array([1.0, *(pool.weight or 1.0 for pool in tree.pools)])
    jobs = np.array([job.weight or 1.0 for job in tree.jobs], dtype=float)
    multiplier = tree.options.weight_multiplier
    if multiplier is not None:
        held = given.strong.max(1) + given.total_flow
        for number, pool in enumerate(tree.pools, 1):
            whole = held[tree.parents[number]]
            if pool.weight is None and held[number] > NEGLIGIBLE and whole > NEGLIGIBLE:
                pools[number] = multiplier * held[number] / whole
    return pools * np.array([1.0, *(tree.state(number).decay for number in range(1, len(pools)))]), jobs


def volumes(tree: Tree, given: Guarantees, seconds: float | None) -> Floats:
    """Return the volumes after `seconds` since the update before: (pools, resources), in amount·seconds.

    Without an update before (None) they stay as they are. A pool gains its flow and pays the largest component
    of the integral share it had, the same for all resources; what passes its capacity overflows, and pools that
    distribute free volume share it out among their children by flow.
    """
    held = tree.table([tree.state(number).volume for number in range(len(tree.numbers))])
    if seconds is None or not tree.capacity.any():
        return held
    kinds = [tree.pool(number).integral.kind != "none" for number in range(len(held))]
    integral = np.array(kinds)
    last = np.array([tree.state(number).last_share for number in range(len(held))])
    capacity = tree.capacity * given.flow[:, None] * tree.options.saturation_period
    gained = tree.capacity * (seconds * (given.flow - last))[:, None]
    free = np.maximum(capacity - held, 0.0)
    kept = np.maximum(np.minimum(gained, free), -held)
    after = held + np.where(integral[:, None], kept, 0.0)
    # Not what is left of the grown volume: a small gain would be lost in the digits of a large volume.
    overflow = np.where(integral[:, None], np.maximum(gained - free, 0.0), 0.0)
    takes = np.array([tree.pool(number).integral.can_accept_free_volume for number in range(len(held))])
    room = np.where((integral & takes)[:, None], np.maximum(capacity - after, 0.0), 0.0)
    outside = [not integral[tree.path(number)[1:]].any() for number in range(len(held))]
    for number in reversed(tree.downward):
        children = tree.subpools[number]
        if children and outside[number] and not integral[number]:
            left = overflow[children].sum(0) - room[children].sum(0)
            overflow[number] = np.maximum(left, 0.0)
            room[number] = np.maximum(-left, 0.0) if takes[number] else 0.0
    _distribute(tree, below=given.total_flow, overflow=overflow, room=room, after=after)
    return after


def _distribute(tree: Tree, *, below: Floats, overflow: Floats, room: Floats, after: Floats) -> None:
    """Hand what overflowed down the tree, to where there is room, by the flow of each child's subtree.

    Pools below a pool with an integral guarantee take no part. The root hands out nothing, whatever the options say.
    """
    received = np.zeros_like(after)
    waiting = [0]
    while waiting:
        number = waiting.pop()
        if tree.pool(number).integral.kind != "none":
            after[number] += received[number]
            continue
        waiting += tree.subpools[number]
        own = tree.pool(number).integral.distributes_free_volume
        if number == 0 or not (tree.options.distribute_free_volume if own is None else own):
            continue
        children = tree.subpools[number]
        free = received[number] + overflow[children].sum(0)
        for column in range(after.shape[1]):
            received[children, column] = _filled(float(free[column]), room[children, column], below[children])


def _filled(free: float, room: Floats, weight: Floats) -> Floats:
    """Split `free` in proportion to `weight`, each at most its `room`: water filling."""
    taken = np.zeros(len(room))
    able = np.flatnonzero((room > 0) & (weight > 0))
    order = able[np.argsort(room[able] / weight[able], kind="stable")]
    left, weights = free, float(weight[order].sum())
    for index in order:
        taken[index] = min(room[index], left * weight[index] / weights)
        left -= taken[index]
        weights -= weight[index]
    return taken
