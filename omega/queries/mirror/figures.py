"""Reads of what has no entry in the log: figures of schedulers, sums, limits, pools, the state of the server."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from omega.cellstate.pools import Epoch

if TYPE_CHECKING:
    from omega.cellstate.ports import Queries
    from omega.queries.mirror.held_cell import HeldCell


def read_figures(cell: "Queries", held: "HeldCell", lock: AbstractContextManager[bool]) -> set[str]:
    """Read the figures of a cell into what is held of it; return the topics that changed."""
    changed = set[str]()
    members, figures, sums, kinds = cell.members(), cell.figures(), cell.sums(), cell.kinds()
    counters, cuts, refuses, mark = cell.counters(), cell.cuts(), cell.refuses_writes(), cell.epoch_mark()
    pools, epoch = cell.pools(), _epoch(cell, held, mark.number)
    use = cell.pool_use() if pools.limited else {}
    depths, lanes = cell.queue_depths(), cell.lanes()
    if (members, figures) != (held.held_members, held.held_figures):
        changed |= {"schedulers", "cell"}
    if (cuts, refuses) != (held.held_cuts, held.refuses):
        changed.add("cell")
    if (pools, epoch, use) != (held.held_pools, held.held_epoch, held.held_pool_use):
        changed.add("pools")
    with lock:
        held.held_members, held.held_figures, held.held_sums, held.held_kinds = members, figures, sums, kinds
        held.held_counters, held.held_cuts, held.refuses, held.mark = counters, cuts, refuses, mark
        held.held_pools, held.held_epoch, held.held_pool_use = pools, epoch, use
        held.held_depths, held.held_lanes = depths, lanes
        held.snapshot.pools, held.snapshot.resources = pools, held.dimensions.names
    return changed


def _epoch(cell: "Queries", held: "HeldCell", number: int) -> Epoch | None:
    """Return the published epoch; that of a number is read once."""
    known = held.held_epoch
    if not number:
        return None
    return known if known is not None and known.number == number else cell.epoch()
