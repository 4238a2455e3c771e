"""Cell by any process of a cell: requeue tasks of lost executors, evict from drained machines, retire jobs."""

import time

from omega.cellstate.cell import Cell
from omega.cellstate.digest.step import digest
from omega.cellstate.errors import StoreFull
from omega.cellstate.model import MachineState
from omega.cellstate.tasks import EndKind, TaskEnd

MOST_RUNS = 1_000
"""Maximum number of runs evicted or stopped per call: about ten milliseconds of the server's time."""


MOST_CALLS = 10
"""Maximum number of calls of housekeeping between two heartbeats."""

DIGEST_SECONDS = 0.06
"""Processor time for the digest of the log between two heartbeats; after it no further step begins."""


def housekeep(cell: Cell, at_ms: int, by: str, most: int = MOST_RUNS) -> bool:
    """Requeue tasks of lost agents, evict from drained machines, end stopped and abandoned jobs, delete old ones.

    It also assigns machines to pool trees, where the client that changed them died before, and reads on in the log for
    the records that outlive it.

    Every process calls it; concurrent calls take effect once (semantics 17). `at_ms` is the time in the log.
    Returns whether more work is due.
    """
    cell.executors.reap(at_ms, by)
    cell.jobs.retire(cell.store_ms())
    cell.pools.assign_trees(at_ms, by)
    over = [machine for machine, left in cell.machines.deadlines().items() if left <= 0]
    if over:
        states = {machine.index: machine.state for machine in cell.machines.at(over)}
        for machine in over:
            if states.get(machine) is MachineState.DRAINED:
                empty(cell, machine, at_ms, by)
            else:
                cell.machines.set_deadline(machine, None)
    more = all(cell.jobs.housekeep(at_ms, by, most).more for _ in range(MOST_CALLS))
    return read_on(cell) or more


def read_on(cell: Cell) -> bool:
    """Add the next entries of the log to the records that outlive it; return whether there are more."""
    until, more = time.thread_time() + DIGEST_SECONDS, True
    try:
        while more and time.thread_time() < until:
            more = digest(cell, cell.store_ms())
    except StoreFull:
        return False  # nothing else of housekeeping needs memory
    return more


def empty(cell: Cell, machine: int, at_ms: int, by: str) -> int:
    """Evict the tasks of a machine because it is drained; return the number of tasks that are pending again."""
    runs = [run for run in cell.machines.runs([machine]) if not run.leaving][:MOST_RUNS]
    endings = [TaskEnd(machine, run.placement, EndKind.EVICTED, "*", "drain") for run in runs]
    return sum(cell.executors.end(endings, at_ms, by)) if endings else 0
