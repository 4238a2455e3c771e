"""The machines of a cell by shape: what a question about their sizes needs, from the sums that the store keeps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omega.cellstate.model import MachineState
from omega.cellstate.resources import SLOTS, UNBOUNDED, Resources

if TYPE_CHECKING:
    from omega.cellstate.pages import CellSums, Shape

HOLDING = (MachineState.UP, MachineState.DRAINED, MachineState.UNFIT)
"""States in which a machine has what it runs."""
STATES = ("up", "drained", "down", "offline", "unfit", "over")


class Fleet:
    """Machines as numbers of each shape; there are few shapes, however many machines."""

    def __init__(self, sums: "CellSums") -> None:
        """Use sums that were read."""
        self.sums = sums
        self._up: Mapping[Shape, int] = {
            shape: count for shape, count in sums.shapes.items() if shape.state is MachineState.UP
        }

    @property
    def up(self) -> int:
        """The number of machines that are up."""
        return sum(self._up.values())

    @property
    def total(self) -> int:
        """The number of machines that are not gone."""
        return sum(self.sums.shapes.values())

    @property
    def some_offline(self) -> bool:
        """Whether a machine is offline."""
        return any(shape.state is MachineState.OFFLINE for shape in self.sums.shapes)

    @property
    def all_simulated(self) -> bool:
        """Whether every machine that is up is simulated."""
        return all(shape.simulated for shape in self._up)

    def largest(self, resource: int) -> int:
        """Return the largest capacity of a machine that is up in a resource, 0 without machines."""
        return max((shape.capacity[resource] for shape in self._up), default=0)

    def holds(self, need: Resources) -> bool:
        """Return whether a machine that is up has the capacity for a task."""
        return any(all(map(int.__ge__, shape.capacity, need)) for shape in self._up)

    def away(self, need: Resources, *, commands: bool) -> bool:
        """Return whether a machine that takes no tasks at present has the capacity for a task."""
        return any(
            shape not in self._up and all(map(int.__ge__, shape.capacity, need)) and not (commands and shape.simulated)
            for shape in self.sums.shapes
        )

    def largest_lack(self, need: Resources, names: Sequence[str]) -> str | None:
        """The name of a resource of which no machine that is up has enough; ``together`` when only jointly."""
        lacks = (name for i, name in enumerate(names) if need[i] > self.largest(i))
        return next(lacks, None if self.holds(need) else "together")

    def room(self, need: Resources) -> int:
        """Return how many tasks the machines that are up would hold if nothing else ran, one kind of task alone."""
        return sum(count * _most(shape.capacity, need) for shape, count in self._up.items())

    def room_at_most(self, need: Resources) -> int:
        """Return an upper bound of the tasks that the machines hold beside those that are placed, by their sums alone.

        A machine that holds more than it has would make the sum of what is free too small.
        """
        most = self.room(need)
        if self.sums.over:
            return most
        there = [(shape.capacity, n) for shape, n in self.sums.shapes.items() if shape.state in HOLDING]
        free = [sum(has[d] * n for has, n in there) - held for d, held in enumerate(self.sums.held)]
        return min((most, *(amount // wants for amount, wants in zip(free, need, strict=True) if wants)))

    def states(self) -> dict[str, int]:
        """Return how many machines there are, in each state, and how many hold more than their capacity."""
        counts = dict.fromkeys(STATES, 0)
        for shape, count in self.sums.shapes.items():
            counts[shape.state.name.lower()] += count
        return {"total": self.total} | counts | {"over": self.sums.over}

    def utilisation(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the share in use of machines that hold tasks, by resource; others offer nothing."""
        there = [
            [amount * count for amount in shape.capacity]
            for shape, count in self.sums.shapes.items()
            if shape.state in HOLDING
        ]
        capacity = [sum(column) for column in zip([0] * len(names), *there, strict=True)]
        return shares(names, capacity, self.sums.held)


def _most(capacity: Resources, need: Resources) -> int:
    fit = [has // wants for has, wants in zip(capacity, need, strict=True) if wants]
    return min(fit) if fit else UNBOUNDED


def shares(names: Sequence[str], capacity: Iterable[int], allocated: Iterable[int]) -> dict[str, dict[str, Any]]:
    """Return what is allocated of a capacity, and the fraction, by resource."""
    return {
        name: {
            "allocated": used,
            "capacity": has,
            "fraction": used / has if has and not (name == SLOTS and has >= UNBOUNDED) else 0.0,
        }
        for name, has, used in zip(names, capacity, allocated, strict=True)
    }
