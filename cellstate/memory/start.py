"""Whether placed tasks may start in the twin: ``lua/start.lua``."""

from collections.abc import Sequence

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.ranges import span_count, span_split
from omega.cellstate.memory.records import MachineRow
from omega.cellstate.packing import packed


def may_start(ledger: Ledger, asked: Sequence[tuple[int, int]]) -> list[str]:
    """Return for (machine, placement) pairs: ``go``, ``wait`` or ``gone`` (semantics 2)."""
    ledger.unfold()
    return [_may_start(ledger, ledger.M.get(machine), placement) for machine, placement in asked]


def _may_start(ledger: Ledger, m: MachineRow | None, placement: int) -> str:
    if m is None or placement < 0 or placement not in m.runs:
        return "gone"
    g, tasks = m.runs[placement]
    if m.leaving:
        held = sum(packed(other.amounts) * span_count(part) for other, part in m.runs.values())
        if (packed(m.capacity) + ledger.guards - held) & ledger.guards != ledger.guards:
            return "wait"
    elsewhere = (ledger.M[index].runs[run][1] for run, index in g.runs.items() if run < 0)
    return "wait" if any(span_split(tasks, leaving)[0] for leaving in elsewhere) else "go"
