"""Reads of what has no entry in the log: figures of schedulers, sums, limits, pools, the state of the server.

Sums, limits and pools are read again only when the version of the cell moved: a question about all lanes costs the
store time in a cell of many users.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from omega.cellstate.model import MachineState
from omega.cellstate.pools import Epoch, Pools
from omega.queries.machines import unfit_reasons

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.replies import EpochMark
    from omega.queries.mirror.held_cell import HeldCell


def read_figures(cell: "Cell", held: "HeldCell", lock: AbstractContextManager[bool], *, moved: bool) -> set[str]:
    """Read the figures of a cell into what is held of it; return the topics that changed.

    `moved`: whether the cell has another version, or another history, than at the last call.
    """
    changed = set[str]()
    if moved or held.held_sums is None:
        changed |= _read_moved(cell, held, lock)
    members, figures, cuts, refuses = (
        cell.schedulers.members(),
        cell.schedulers.figures(),
        cell.cuts(),
        cell.refuses_writes(),
    )
    if (members, figures) != (held.held_members, held.held_figures):
        changed |= {"schedulers", "cell"}
    if (cuts, refuses) != (held.held_cuts, held.refuses):
        changed.add("cell")
    with lock:
        held.held_members, held.held_figures, held.held_cuts, held.refuses = members, figures, cuts, refuses
    return changed


def _read_moved(cell: "Cell", held: "HeldCell", lock: AbstractContextManager[bool]) -> set[str]:
    sums, kinds, depths, mark = cell.sums(), cell.pools.kinds(), cell.schedulers.queue_depths(), cell.pools.epoch_mark()
    pools = _pools(cell, held, mark)
    epoch = _epoch(cell, held, mark)
    use = cell.pools.use() if pools.limited else {}
    counters = cell.counters()
    unfit = unfit_reasons(cell.executors, some=any(shape.state is MachineState.UNFIT for shape in sums.shapes))
    changed = (pools, epoch, use) != (held.held_pools, held.held_epoch, held.held_pool_use)
    with lock:
        held.held_sums, held.held_kinds, held.held_depths, held.held_counters = sums, kinds, depths, counters
        held.held_unfit = unfit
        held.held_pools, held.held_epoch, held.held_pool_use, held.mark = pools, epoch, use, mark
        held.snapshot.pools, held.snapshot.resources = pools, held.dimensions.names
    return {"pools"} if changed else set()


def _pools(cell: "Cell", held: "HeldCell", mark: "EpochMark") -> Pools:
    """Return the pools; those of a version are read once."""
    known = held.held_pools
    return known if held.mark is not None and known.version == mark.pools_version else cell.pools.get()


def _epoch(cell: "Cell", held: "HeldCell", mark: "EpochMark") -> Epoch | None:
    """Return the published epoch; that of a number and of the version that published it is read once."""
    before, known = held.mark, held.held_epoch
    same = before is not None and (before.number, before.published) == (mark.number, mark.published)
    if not mark.number:
        return None
    return known if same and known is not None else cell.pools.epoch()
