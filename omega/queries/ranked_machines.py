"""The machines that most want attention, chosen from the columns of a snapshot: what ``omega top`` shows."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from omega.cellstate.model import Machine, MachineState
from omega.queries.fleet import HOLDING, shares
from omega.queries.machines import unfit_reasons
from omega.queries.overview import FULL, TROUBLE, RankedMachines

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Machines
    from omega.cellstate.snapshot import Snapshot

OVER = 1
"""The trouble of a machine that holds more than it has, whatever its state."""
_OF_STATE = np.array([TROUBLE.get(state.name.lower(), TROUBLE["up"]) for state in sorted(MachineState)])


def ranked(cell: "Cell", snapshot: "Snapshot", most: int) -> RankedMachines:
    """Rank the machines of a snapshot; names and attributes are read for the first `most` alone."""
    size, rows = snapshot.dimensions, snapshot.rows
    rows = rows[:, rows[2] != MachineState.GONE]
    state, capacity, used = rows[2], rows[4 : 4 + size], rows[4 + size :]
    over, fullness = (used > capacity).any(axis=0), _fullness(capacity, used)
    full = (state == MachineState.UP) & ~over & (fullness >= FULL)
    trouble = np.where(over, OVER, np.where(full, TROUBLE["full"], _OF_STATE[state]))
    order = np.lexsort((rows[0], -fullness, trouble))[:most]
    there = np.isin(state, HOLDING)
    sums = [[int(amount) for amount in amounts[:, there].sum(axis=1)] for amounts in (capacity, used)]
    counts = Counter({each.name.lower(): int((state == each).sum()) for each in MachineState})
    counts |= Counter({"full": int(full.sum()), "over": int(over.sum())})
    first = _machines(cell.machines, rows[:, order].T.tolist(), size)
    why = unfit_reasons(cell.executors, some=bool(counts["unfit"]))
    return RankedMachines(rows.shape[1], counts, shares(cell.dimensions.names, *sums), first, why)


def _fullness(capacity: Any, used: Any) -> Any:
    """Return the largest share in use of any resource of each machine, as `overview.fullness` does."""
    if not capacity.size:
        return np.zeros(capacity.shape[1])
    parts = np.where(capacity > 0, used / np.maximum(capacity, 1), (used > 0).astype(float))
    return parts.max(axis=0)


def _machines(machines: "Machines", rows: list[list[int]], size: int) -> list[Machine]:
    described = machines.described([row[0] for row in rows])
    return [
        Machine(
            index, name, number, MachineState(state), executor, tuple(amounts[:size]), tuple(amounts[size:]),
            dict(attributes),
        )
        for (index, number, state, executor, *amounts), (name, attributes) in zip(rows, described, strict=True)
    ]  # fmt: skip
