"""The machines of a replay over time: which there are, and what each one has."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.workload.workload import MachineEvent, Microseconds, Workload

SECOND = 1_000_000


@dataclass(frozen=True, eq=False, slots=True)
class Machines:
    """Machines by their places, and each change of their capacity in order of time.

    The places are those of `TaskRecords.machine`: the machines of the workload, then those that joined later.
    """

    names: list[str]
    at: Microseconds
    """When a capacity changed (µs); 0 for the machines at the beginning."""
    place: NDArray[np.int64]
    """Which machine changed."""
    capacity: NDArray[np.int64]
    """What it has from then on, a column for each dimension; 0 while it is away."""

    @property
    def largest(self) -> NDArray[np.int64]:
        """Return the largest capacity of each machine at any time, a row for each."""
        most = np.zeros((len(self.names), self.capacity.shape[1]), np.int64)
        np.maximum.at(most, self.place, self.capacity)
        return most

    def changes(self) -> NDArray[np.int64]:
        """Return the capacities as differences to the one before of the same machine."""
        order = np.lexsort((np.arange(len(self.at)), self.place))
        sorted_capacity, sorted_place = self.capacity[order], self.place[order]
        before = np.zeros_like(sorted_capacity)
        same = sorted_place[1:] == sorted_place[:-1]
        before[1:][same] = sorted_capacity[:-1][same]
        differences = np.empty_like(sorted_capacity)
        differences[order] = sorted_capacity - before
        return differences

    def capacity_at(self, instants: Microseconds) -> NDArray[np.int64]:
        """Return capacities (instants × machines × dimensions) just after each of these instants, in order."""
        now = np.zeros((len(self.names), self.capacity.shape[1]), np.int64)
        found = np.empty((len(instants), *now.shape), np.int64)
        ends = np.searchsorted(self.at, instants, "right")
        done = 0
        for i, end in enumerate(ends):
            for change in range(done, end):
                now[self.place[change]] = self.capacity[change]
            found[i], done = now, end
        return found


def machines_of(workload: Workload, horizon: int) -> Machines:
    """Return the machines of a workload and their changes before `horizon` (µs)."""
    places = {machine.name: place for place, machine in enumerate(workload.machines)}
    at = [0] * len(places)
    place = list(range(len(places)))
    capacity = [machine.capacity for machine in workload.machines]
    nothing = (0,) * len(workload.dimensions)
    for event in workload.events:
        when = round(event.at_seconds * SECOND)
        if isinstance(event, MachineEvent) and when < horizon:
            at.append(when)
            place.append(places.setdefault(event.machine.name, len(places)))
            capacity.append(event.machine.capacity if event.up else nothing)
    table = np.array(capacity, np.int64).reshape(-1, len(nothing))
    return Machines(list(places), np.array(at, np.int64), np.array(place, np.int64), table)
