"""The pool trees of machines in the twin; ``lua/assign_trees.lua``."""

from omega.cellstate.executors import portions
from omega.cellstate.memory import pools as pool_rules
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.port_values import described_of
from omega.cellstate.memory.publish import publish
from omega.cellstate.memory.records import UNASSIGNED, MachineRow
from omega.cellstate.memory.tasks import end_tasks, evict_gangs
from omega.cellstate.pools import Pools
from omega.cellstate.pools.membership import trees_of
from omega.cellstate.tasks import EndKind


def assign_trees(ledger: Ledger, at_ms: int, by: str) -> int:
    """Assign the machines that are in no tree yet, and evict tasks of other trees; returns their number."""
    if not ledger.pool_settings.divided:
        return 0
    machines = [m for _, m in sorted(ledger.M.items()) if m.tree == UNASSIGNED]
    ledger.unfold()
    count, indices = 0, [m.index for m in machines]
    for portion in portions(indices, [len(m.runs) for m in machines]):
        count += _assign(ledger, [ledger.M[index] for index in portion], at_ms, by)
    return count


def set_pools(ledger: Ledger, pools: Pools, check: int | None, at_ms: int, by: str) -> Pools:
    """Replace the pools of the cell, and assign the machines that may be in another tree."""
    after = pool_rules.set_pools(ledger, pools, check, at_ms, by)
    assign_trees(ledger, at_ms, by)
    return after


def _assign(ledger: Ledger, machines: list[MachineRow], at_ms: int, by: str) -> int:
    ledger.open()
    count = 0
    for m, number in zip(machines, trees_of(ledger.pool_settings, [described_of(m) for m in machines]), strict=True):
        m.tree = number
        ledger.touch(m, ledger.stamp)
        word = "-" if number is None else number
        ledger.fact("machine", m.index, "tree", word, m.number, m.capacity, m.free)
    for m in machines:
        for placement, (g, _) in list(m.runs.items()):
            if placement > 0 and pool_rules.tree_of(ledger, g.job) != m.tree:
                count += end_tasks(ledger, m, placement, None, EndKind.EVICTED, "tree", ledger.stamp)
                count += evict_gangs(ledger, "tree", ledger.stamp)
    ledger.transactions, ledger.freed = ledger.transactions + 1, True
    publish(ledger, at_ms, by)
    return count
