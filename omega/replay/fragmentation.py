"""Fragmentation: free resources on machines where a typical task does not fit."""

import numpy as np
from numpy.typing import NDArray

from omega.replay.columns import Columns
from omega.workload.workload import Microseconds

INSTANTS = 48
"""Fragmentation is measured at so many equally spaced instants."""
MOST_CLASSES = 32
"""Different requests of the workload that are tried: the most frequent ones."""


def task_classes(columns: Columns, most: int = MOST_CLASSES) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the most frequent requests of arriving tasks and the share of each among them (sum 1).

    Requests of residents when nothing arrives.
    """
    arriving = [each.job for each in columns.workload.arrivals] or [each.job for each in columns.records.jobs]
    counts: dict[tuple[int, ...], int] = {}
    for job in arriving:
        for group in job.groups:
            counts[group.need] = counts.get(group.need, 0) + group.count
    frequent = sorted(counts, key=lambda need: (-counts[need], need))[:most]
    shares = np.array([counts[need] for need in frequent], np.float64)
    needs = np.array(frequent, np.int64).reshape(-1, len(columns.workload.dimensions))
    return needs, shares / shares.sum() if len(shares) and shares.sum() else shares


def used_at(columns: Columns, instants: Microseconds) -> NDArray[np.int64]:
    """Return what tasks hold on each machine (instants × machines × dimensions) just after these instants, in order."""
    machines, dimensions = len(columns.machines.names), len(columns.workload.dimensions)
    changes = np.zeros((dimensions, len(instants) + 1, machines), np.int64)
    flat = changes.reshape(dimensions, -1)
    for block in columns.blocks():
        began = np.searchsorted(instants, block.started, "left") * machines + block.machine
        over = np.searchsorted(instants, block.until, "left") * machines + block.machine  # from then on it has ended
        for d in range(dimensions):
            np.add.at(flat[d], began, block.need[:, d])
            np.subtract.at(flat[d], over, block.need[:, d])
    return np.cumsum(changes, axis=1)[:, :-1].transpose(1, 2, 0)


def fragmentation(columns: Columns, instants: int = INSTANTS) -> dict[str, float]:
    """Return by dimension the expected share of the free amount that a task of the workload cannot use.

    As Weng et al. define it (Beware of Fragmentation, USENIX ATC 2023, §3): a task is drawn from the workload; what is
    free on machines where it does not fit, in any dimension, is a fragment for it. The share is that of all free
    amounts, over instants and machines. A machine that holds more than it has is free of nothing.
    A machine that is away has nothing free. 0 where nothing is free anywhere.
    """
    at = ((np.arange(instants) + 0.5) * columns.horizon / instants).astype(np.int64)
    free = np.maximum(columns.machines.capacity_at(at) - used_at(columns, at), 0)
    needs, shares = task_classes(columns)
    by_dimension = np.ascontiguousarray(free.reshape(-1, free.shape[2]).T)
    useless = np.zeros(by_dimension.shape[1])
    for need, share in zip(needs.tolist(), shares.tolist(), strict=True):
        unfit = np.zeros(len(useless), np.bool_)
        for amounts, amount in zip(by_dimension, need, strict=True):
            unfit |= amounts < amount
        useless += share * unfit
    total, lost = by_dimension.sum(axis=1).astype(np.float64), (by_dimension * useless).sum(axis=1)
    names = columns.workload.dimensions.names
    return {name: float(a / b) if b else 0.0 for name, a, b in zip(names, lost, total, strict=True)}
