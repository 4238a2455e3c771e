"""Housekeeping by any process of a cell: requeue tasks of lost executors, evict from drained machines, retire jobs."""

from omega.cellstate.model import MachineState
from omega.cellstate.ports import Housekeeping
from omega.cellstate.task_ends import EndKind, TaskEnd

MOST_RUNS = 1_000
"""Maximum number of runs evicted or stopped per call: about ten milliseconds of the server's time."""


MOST_CALLS = 10
"""Maximum number of calls of housekeeping between two heartbeats."""


def housekeep(cell: Housekeeping, at_ms: int, by: str, most: int = MOST_RUNS) -> bool:
    """Requeue tasks of lost agents, evict from drained machines, end stopped and abandoned jobs, delete old ones.

    It also assigns machines to pool trees, where the client that changed them died before.

    Every process calls it; concurrent calls take effect once (semantics 17). `at_ms` is the time in the log.
    Returns whether more work is due.
    """
    cell.reap_executors(at_ms, by)
    cell.retire(cell.store_ms())
    cell.assign_trees(at_ms, by)
    over = [machine for machine, left in cell.deadlines().items() if left <= 0]
    if over:
        states = {machine.index: machine.state for machine in cell.machines()}
        for machine in over:
            if states.get(machine) is MachineState.DRAINED:
                empty(cell, machine, at_ms, by)
            else:
                cell.set_deadline(machine, None)
    return all(cell.housekeep(at_ms, by, most).more for _ in range(MOST_CALLS))


def empty(cell: Housekeeping, machine: int, at_ms: int, by: str) -> int:
    """Evict the tasks of a machine because it is drained; return the number of tasks that are pending again."""
    runs = [run for run in cell.runs([machine]) if not run.leaving][:MOST_RUNS]
    endings = [TaskEnd(machine, run.placement, EndKind.EVICTED, "*", "drain") for run in runs]
    return sum(cell.end(endings, at_ms, by)) if endings else 0
