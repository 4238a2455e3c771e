"""What any process of a cell does for all: give up tasks of executors that are gone, empty drained machines, retire."""

from cellstate.model import MachineState
from cellstate.redis import RedisCell
from cellstate.transaction import Ending, How

MOST_RUNS = 1_000
"""Runs evicted or stopped per call: some ten milliseconds of the server's time."""


MOST_CALLS = 10
"""Calls of housekeeping between two heartbeats."""


def housekeep(cell: RedisCell, at_ms: int, by: str, most: int = MOST_RUNS) -> bool:
    """Put back tasks of agents that are gone, empty drained machines, end stopped and abandoned jobs, forget old ones.

    Whoever notices does it; done by several at once it is done once (semantics 17). `at_ms` is for the log.
    Returns whether more is due at once.
    """
    cell.reap_executors(at_ms, by)
    cell.retire(cell.store_ms())
    over = [machine for machine, left in cell.deadlines().items() if left <= 0]
    if over:
        states = {machine.index: machine.state for machine in cell.machines()}
        for machine in over:
            if states.get(machine) is MachineState.DRAINED:
                empty(cell, machine, at_ms, by)
            else:
                cell.set_deadline(machine, None)
    return all(cell.housekeep(at_ms, by, most).more for _ in range(MOST_CALLS))


def empty(cell: RedisCell, machine: int, at_ms: int, by: str) -> int:
    """Evict what runs on a machine because it is drained; returns how many tasks go back to pending."""
    runs = [run for run in cell.runs([machine]) if not run.leaving][:MOST_RUNS]
    endings = [Ending(machine, run.placement, How.EVICTED, "*", "drain") for run in runs]
    return sum(cell.end(endings, at_ms, by)) if endings else 0
