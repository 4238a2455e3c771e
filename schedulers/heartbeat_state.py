"""What a scheduler reads of the cell and of its store at a heartbeat, for its metrics."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from omega.cellstate.cell import Cell
from omega.cellstate.cuts import NO_CUTS, Cuts
from omega.cellstate.refused_writes import StoreState

MACHINE_STATES = ("up", "drained", "down", "offline")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatState:
    """The cell and its store at a heartbeat.

    `renewed_at` is the time of the last renewal of the lease in seconds since 1970, 0 before the first one. `pending`
    has the jobs with unplaced tasks by kind, `machines` the machines by state, `tasks` the unplaced and the placed
    tasks, `cuts` what the store lost.
    """

    renewed_at: float = 0.0
    store: StoreState = field(default_factory=StoreState)
    pending: Mapping[str, int] = field(default_factory=dict)
    machines: Mapping[str, int] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    cuts: Cuts = NO_CUTS


def read_state(cell: Cell, renewed_at: float) -> HeartbeatState:
    """Read the state from sums that the store keeps: the cost does not depend on the size of the cell."""
    store, sums = cell.store_state(), cell.sums()
    machines = Counter(dict.fromkeys(MACHINE_STATES, 0))
    for shape, count in sums.shapes.items():
        machines[shape.state.name.lower()] += count
    tasks = {"pending": sums.tasks.unplaced, "running": sums.tasks.placed}
    return HeartbeatState(
        renewed_at=renewed_at, store=store, pending=sums.pending, machines=machines, tasks=tasks, cuts=cell.cuts()
    )
