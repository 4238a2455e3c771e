"""Residents of a simulated cell: jobs that run when the simulation begins, on the machines of their trace."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang, MachineSpec
from omega.cellstate.resources import Resources
from omega.workload.workload import Arrival, Workload

Standing = list[tuple[int, list[int]]]
"""By group with running tasks: its number, and the machine of each of them."""


def standing(arrival: Arrival, machines: int) -> Standing:
    """Return where the running tasks of a resident stand; its waiting ones come last. Raises BadInput."""
    job, found = arrival.job, Standing()
    if len(arrival.machines) != len(job.groups):
        raise BadInput(f"workload: resident {job.name}: machines of {len(arrival.machines)} of its groups")
    for number, (group, where) in enumerate(zip(job.groups, arrival.machines, strict=True)):
        running = int((where >= 0).sum())
        if len(where) != group.count or (running and int(where.max()) >= machines):
            raise BadInput(
                f"workload: resident {job.name}, group {number}: want a machine below {machines} for each of its "
                f"{group.count} tasks, -1 for those that wait"
            )
        if running:
            found.append((number, where[:running].tolist()))
    if job.gang is not Gang.NO and sum(len(where) for _, where in found) < job.total:
        raise BadInput(f"workload: resident {job.name}: a gang runs as a whole, or waits as an arrival")
    return found


def waiting_last(arrival: Arrival) -> Arrival:
    """Return a resident with the waiting tasks of each group behind the others: the store places the first ones."""
    if not any((where[:-1] < 0).any() for where in arrival.machines):
        return arrival
    orders = [np.argsort(where < 0, kind="stable") for where in arrival.machines]
    spans = arrival.durations and tuple(each[order] for each, order in zip(arrival.durations, orders, strict=True))
    machines = tuple(each[order] for each, order in zip(arrival.machines, orders, strict=True))
    return replace(arrival, durations=spans, machines=machines)


def roomy(workload: Workload) -> list[MachineSpec]:
    """Return the machines, those with too little room for their residents as large as these ask for."""
    held = np.zeros((len(workload.machines), len(workload.dimensions)), dtype=np.int64)
    for arrival in workload.residents:
        for group, where in zip(arrival.job.groups, arrival.machines, strict=False):
            _add(held, where[where >= 0], group.need)
    capacity = np.array([machine.capacity for machine in workload.machines], dtype=np.int64)
    machines = list(workload.machines)
    for index in np.flatnonzero((held > capacity).any(axis=1)).tolist():
        most = np.maximum(held[index], capacity[index])
        machines[index] = replace(machines[index], capacity=tuple(most.tolist()))
    return machines


def _add(held: NDArray[np.int64], where: NDArray[np.int32], need: Resources) -> None:
    counts = np.bincount(where, minlength=len(held))
    held += counts[:, None] * np.array(need, dtype=np.int64)


def waiting(arrival: Arrival) -> Sequence[int]:
    """Return the number of waiting tasks of a resident by group; none where no machines are given."""
    return [int((where < 0).sum()) for where in arrival.machines]
