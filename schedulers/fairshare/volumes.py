"""Volumes of integral guarantees (§3): resource·seconds that a pool accumulates at its flow and spends as share."""

import numpy as np

from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.guarantees import Guarantees
from omega.schedulers.fairshare.tree import Tree


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
