"""Strong guarantees of pools as shares, inferred and adjusted (§2), and weights inferred from them (§8)."""

from dataclasses import dataclass, replace

import numpy as np

from schedulers.fairshare.curves import Floats
from schedulers.fairshare.tree import Tree

NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Guarantees:
    """What pools are promised, by pool number.

    `strong` (pools, resources): share, adjusted; `flow`, `burst` (pools,): largest component of the integral
    guarantee's flow and burst as a share; `errors`: what is overcommitted, for people.
    """

    strong: Floats
    flow: Floats
    burst: Floats
    errors: tuple[str, ...] = ()


def guarantees(tree: Tree, limits: Floats) -> Guarantees:
    """Return the guarantees of all pools, given their limits as shares (pools, resources)."""
    amounts = inferred(tree)
    strong = tree.share(amounts)
    strong[0] = strong[tree.subpools[0]].sum(0)
    flow = np.array([_ratio(tree, number, "flow") for number in range(len(strong))])
    burst = np.array([_ratio(tree, number, "burst") for number in range(len(strong))])
    found = _uncommitted(tree, Guarantees(strong, flow, burst), amounts)
    return replace(found, strong=_adjusted(tree, found.strong, limits))


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
    quanta = np.array([tree.options.quanta.get(name, 1.0) for name in tree.resources])
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


def _uncommitted(tree: Tree, found: Guarantees, amounts: Floats) -> Guarantees:
    """Report overcommitted guarantees; scale the root's and all bursts down where bursts do not fit."""
    errors = []
    for parent in tree.downward:
        children = tree.subpools[parent]
        bound = tree.capacity if parent == 0 else amounts[parent]
        over = amounts[children].sum(0) > bound * (1 + NEGLIGIBLE) if children else np.zeros(0, bool)
        if over.any():
            names = ", ".join(name for name, high in zip(tree.resources, over, strict=True) if high)
            errors.append(f"guarantees of the pools below {tree.pool(parent).name!r} exceed its own: {names}")
    top = found.strong[0]
    room = tree.capacity > 0
    if ((top + found.flow.sum())[room] > 1 + NEGLIGIBLE).any():
        errors.append("guarantees and resource flows together exceed the tree's machines")
    bursts = float(found.burst.sum())
    needed = (top + bursts)[room]
    if bursts > 0 and (needed > 1 + NEGLIGIBLE).any():
        errors.append("guarantees and bursts together exceed the tree's machines")
        factor = min(1.0, float((1.0 / needed[needed > 0]).min()))
        strong = found.strong.copy()
        strong[0] *= factor
        found = replace(found, strong=strong, burst=found.burst * factor)
    return replace(found, errors=tuple(errors))


def _adjusted(tree: Tree, strong: Floats, limits: Floats) -> Floats:
    """Cut guarantees by limits, then scale the children of each pool by one factor that fits all components."""
    strong = strong.copy()
    for parent in tree.downward:
        strong[parent] = np.minimum(strong[parent], limits[parent])
        children = tree.subpools[parent]
        if not children:
            continue
        wanted = strong[children].sum(0)
        over = wanted > strong[parent] + NEGLIGIBLE**1.5
        if over.any():
            strong[children] *= float((strong[parent][over] / wanted[over]).min())
    return strong


def weights(tree: Tree, strong: Floats, flow: Floats) -> tuple[Floats, Floats]:
    """Return the weights of pools and jobs: stated, else inferred from guarantees if the tree says so, else 1."""
    pools = np.array([1.0, *(pool.weight or 1.0 for pool in tree.pools)])
    jobs = np.array([job.weight or 1.0 for job in tree.jobs], dtype=float)
    multiplier = tree.options.weight_multiplier
    if multiplier is not None:
        below = flow.copy()
        for number in reversed(tree.downward[1:]):
            below[tree.parents[number]] += below[number]
        held = strong.max(1) + below
        for number, pool in enumerate(tree.pools, 1):
            whole = held[tree.parents[number]]
            if pool.weight is None and held[number] > NEGLIGIBLE and whole > NEGLIGIBLE:
                pools[number] = multiplier * held[number] / whole
    return pools, jobs
