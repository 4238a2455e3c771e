"""Sums over a cell in memory: what the store keeps (cellstate/pages.py), counted; ``lua/parts/totals.lua``."""

from collections import Counter
from collections.abc import Iterable

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.port_values import job_of, machine_of
from omega.cellstate.model import MachineState
from omega.cellstate.pages import DELAYED, CellSums, LaneSum, Shape, head_of, job_states, task_counts, totals_of
from omega.cellstate.resources import Resources


def sums(ledger: Ledger) -> CellSums:
    """Count all machines and jobs; those that were forgotten are in `forgotten`."""
    heads = [head_of(job_of(ledger, j, spec=False)) for j in ledger.J.values()]
    totals = Counter(totals_of(heads))
    totals.update(ledger.forgotten)
    there = [m for m in ledger.M.values() if m.state is not MachineState.GONE]
    machines = [machine_of(m) for m in there]
    placed = [job for job in heads if job.counts.placed]
    lanes = ledger.L.values()
    together = LaneSum(
        sum(1 for job in heads if job.counts.unplaced or job.counts.placed),
        len(placed),
        sum(job.counts.placed + job.copies[1] for job in placed),
        _together(ledger, (lane.wanted for lane in lanes)),
        _together(ledger, (lane.held for lane in lanes)),
    )
    pending = Counter(j.kind.name for j in ledger.J.values() if j.arrival)
    return CellSums(
        version=ledger.version,
        shapes=Counter(Shape(m.state, m.executor % 2 == 1, tuple(m.capacity)) for m in machines),
        over=sum(m.over for m in machines),
        jobs=job_states(totals, together),
        stored=len(heads),
        tasks=task_counts(totals, together.placed),
        delayed=totals[DELAYED],
        wanted=together.wanted,
        held=together.held,
        pending=dict(sorted(pending.items())),
    )


def _together(ledger: Ledger, amounts: Iterable[int]) -> Resources:
    """Return the sum of packed amounts."""
    nothing = (0,) * len(ledger.dimensions)
    return tuple(map(sum, zip(nothing, *map(ledger.spread, amounts), strict=True)))
