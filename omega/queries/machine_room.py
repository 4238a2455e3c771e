"""Free resources of the machines that are up, in numbers that explain why a job is pending.

A cell of few machines is read without numpy, whose import takes longer than the rest of `omega job list`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from omega.cellstate.model import MachineState
from omega.cellstate.override import override
from omega.cellstate.resources import Resources
from omega.queries.working_copy import latest

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Machines
    from omega.cellstate.model import Machine
    from omega.cellstate.snapshot import Snapshot

FEW_MACHINES = 500
"""Maximum number of machines that are read one by one."""
UNBOUNDED = 10**9
"""Tasks that need nothing fit a machine so many times."""


def sampled_room(machines: "Machines") -> "FewMachines":
    """Read `FEW_MACHINES` machines of a cell, evenly spread: what fits on these fits on all."""
    count = machines.count()
    return FewMachines(machines.at(range(0, count, max(1, count // FEW_MACHINES))))


class MachineRoom(Protocol):
    """Answers about the free resources of the machines that are up."""

    def room(self, need: Resources) -> int:
        """Return the number of tasks that fit into the free resources, one kind of task alone."""


def machine_room(cell: "Cell") -> MachineRoom:
    """Read the machines of a cell."""
    count = cell.machines.count()
    if count <= FEW_MACHINES:
        return FewMachines(cell.machines.at(range(count)))
    return ManyMachines(latest(cell), len(cell.dimensions))


class FewMachines(MachineRoom):
    """Machines as objects."""

    def __init__(self, machines: "Sequence[Machine]") -> None:
        self._up = [machine for machine in machines if machine.state is MachineState.UP]

    @override
    def room(self, need: Resources) -> int:
        total = 0
        for machine in self._up:
            free = [has - used for has, used in zip(machine.capacity, machine.allocated, strict=True)]
            fit = [has // wants for has, wants in zip(free, need, strict=True) if wants]
            total += max(0, min(fit) if fit else UNBOUNDED * (min(free) >= 0))
        return total


class ManyMachines(MachineRoom):
    """Machines as columns of a snapshot, `size` resources each."""

    def __init__(self, snapshot: "Snapshot", size: int) -> None:
        up = snapshot.rows[:, snapshot.rows[2] == MachineState.UP]
        self._free: Any = (up[4 : 4 + size] - up[4 + size :]).T

    @override
    def room(self, need: Resources) -> int:
        wants = [i for i, amount in enumerate(need) if amount]
        fit = self._free[:, wants] // [need[i] for i in wants]
        each = fit.min(axis=1) if wants else (self._free >= 0).all(axis=1) * UNBOUNDED
        return int(each.clip(min=0).sum())
