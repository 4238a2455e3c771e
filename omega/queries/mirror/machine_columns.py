"""All machines of a cell in columns, for maps of thousands of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.model import MachineState

if TYPE_CHECKING:
    from omega.queries.mirror.held_cell import HeldCell

STATES = tuple(state.name.lower() for state in sorted(MachineState))


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineColumns:
    """Machines that are not gone, by index; all columns have one entry for each.

    `state` is the position in `STATES`; `over` marks those that hold more than they have. `fraction` is the share in
    use by resource. `attributes` are codes of values by attribute, whose texts `values` has; code 0 is none.
    """

    index: NDArray[np.int64]
    state: NDArray[np.int64]
    over: NDArray[np.bool_]
    tasks: NDArray[np.int32]
    number: NDArray[np.int64]
    fraction: Mapping[str, NDArray[np.float64]]
    attributes: Mapping[str, NDArray[np.int32]]
    values: Mapping[str, Sequence[str]]


def machine_columns(held: "HeldCell", counts: NDArray[np.int32], attributes: Sequence[str]) -> MachineColumns:
    """Return the columns of all machines, with some attributes."""
    snapshot, size = held.snapshot, len(held.dimensions)
    index = np.flatnonzero(snapshot.rows[2] != MachineState.GONE)
    rows: Any = snapshot.rows[:, index]
    capacity, used = rows[4 : 4 + size], rows[4 + size :]
    known = snapshot.attributes
    return MachineColumns(
        index=index,
        state=rows[2].copy(),
        over=(used > capacity).any(axis=0),
        tasks=counts[index],
        number=rows[1].copy(),
        fraction={
            name: np.where(capacity[d] > 0, used[d] / np.maximum(capacity[d], 1), used[d] > 0)
            for d, name in enumerate(held.dimensions.names)
        },
        attributes={name: known.codes(name)[index] for name in attributes},
        values={name: known.values(name) for name in attributes},
    )


def room_document(held: "HeldCell") -> dict[str, Any]:
    """Return what is free on machines that are up: together, most of each resource, and on the machine with most room.

    ``largest_task`` is what a task may need to fit somewhere: all that is free on ``machine``, of which the scarcest
    resource, as a part of the largest machine's, is the largest.
    """
    snapshot, names = held.snapshot, held.dimensions.names
    up = np.flatnonzero(snapshot.rows[2] == MachineState.UP)
    nothing = dict.fromkeys(names, 0)
    if not len(up):
        return {"free": nothing, "most": nothing, "largest_task": nothing, "machine": None}
    capacity = snapshot.capacity[:, up]
    free = capacity - snapshot.allocated[:, up]
    over = (free < 0).any(axis=0)
    free[:, over] = 0
    best = int((free / np.maximum(capacity.max(axis=1, keepdims=True), 1)).min(axis=0).argmax())
    return {
        "free": held.dimensions.numbers(free.sum(axis=1).tolist()),
        "most": held.dimensions.numbers(free.max(axis=1).tolist()),
        "largest_task": held.dimensions.numbers(free[:, best].tolist()),
        "machine": snapshot.attributes.name(int(up[best])) or None,
    }
