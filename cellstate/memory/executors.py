"""Executors of the twin: ``lua/register_executor.lua``, ``lua/online.lua`` and ``lua/deregister_executor.lua``."""

from collections.abc import Sequence

from omega.cellstate.errors import Duplicate
from omega.cellstate.executors import ExecutorRecord, is_agent, number_of, portions
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.machines import set_state
from omega.cellstate.memory.publish import announce, publish
from omega.cellstate.memory.records import ExecutorRow, MachineRow
from omega.cellstate.memory.tasks import acknowledge, end_tasks
from omega.cellstate.model import MachineState, check_executor, check_nonce
from omega.cellstate.replies import Membership
from omega.cellstate.task_ends import EndKind

CHUNK = 1_000
"""Machines brought up in one call."""


def begin_to_serve(ledger: Ledger, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
    """Register the name for this nonce as a new incarnation."""
    ledger.open()
    ledger.incarnations += 1
    ledger.registered[executor] = ExecutorRow(ledger.incarnations, nonce, lease_ms)
    ledger.serving.add(ledger.executors.setdefault(executor, number_of(executor, len(ledger.executors))))
    ledger.fact("enlist", executor, ledger.incarnations)
    announce(ledger, at_ms, executor)
    return Membership(executor, ledger.incarnations)


def register_executor(ledger: Ledger, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
    """Register a simulated executor, and bring its offline machines up; Duplicate while another lives."""
    check_executor(executor)
    check_nonce(nonce)
    known = ledger.registered.get(executor)
    if known and known.nonce == nonce:
        known.lives = True
        membership = Membership(executor, known.incarnation)
    elif known and known.lives:
        raise Duplicate(f"executor {executor}: another one lives under this name; stop it, or choose another name")
    else:
        membership = begin_to_serve(ledger, executor, nonce, lease_ms, at_ms)
    offline = [m for m in machines_of_executor(ledger, executor) if m.state is MachineState.OFFLINE]
    for start in range(0, len(offline), CHUNK):
        ledger.open()
        for m in offline[start : start + CHUNK]:
            set_state(ledger, m, MachineState.UP)
        ledger.transactions, ledger.freed = ledger.transactions + 1, True
        publish(ledger, at_ms, executor)
    return membership


def machines_of_executor(ledger: Ledger, executor: str) -> list[MachineRow]:
    """Return the machines of an executor."""
    number = ledger.executors.get(executor)
    return [m for m in ledger.M.values() if m.executor == number]


def deregister_executor(ledger: Ledger, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
    """Requeue the tasks of an executor with an expired lease, or, not `reaped`, of one that leaves; idempotent."""
    member, incarnation = membership
    known = ledger.registered.get(member)
    if known is None or known.incarnation != incarnation or (reaped and known.lives):
        return False
    ledger.unfold()
    ledger.lost_at = at_ms
    ledger.open()
    del ledger.registered[member]
    ledger.serving.discard(ledger.executors.get(member, 0))
    ledger.fact("lapse" if reaped else "leave", member, incarnation)
    if is_agent(member):
        m = ledger.M.get(ledger.indices.get(member.partition("/")[2], -1))
        if m and m.executor == ledger.executors.get(member):
            give_up_machines(ledger, [m], MachineState.OFFLINE if reaped else MachineState.GONE, "agent")
    publish(ledger, at_ms, by)
    mine = [] if is_agent(member) else machines_of_executor(ledger, member)
    for portion in portions([m.index for m in mine], [len(m.runs) for m in mine]):
        ledger.open()
        if give_up_machines(ledger, [ledger.M[index] for index in portion], MachineState.OFFLINE, "executor"):
            publish(ledger, at_ms, by)
    return True


def give_up_machines(ledger: Ledger, machines: Sequence[MachineRow], to: MachineState, reason: str) -> bool:
    """Requeue the tasks of these machines; return whether anything changed."""
    start = len(ledger.trail)
    for m in machines:
        state = m.state if to is MachineState.OFFLINE and m.state is not MachineState.UP else to
        if m.state is not state:
            set_state(ledger, m, state)
        for placement in [run for run in m.runs if run > 0]:
            end_tasks(ledger, m, placement, None, EndKind.LOST, reason, ledger.stamp)
        for placement in [-run for run in m.runs]:
            acknowledge(ledger, m, placement, None)
            ledger.trail.append(m.index)
    changed = len(ledger.trail) > start
    ledger.transactions += changed
    return changed


def executor_records(ledger: Ledger) -> dict[str, ExecutorRecord]:
    """Return every live executor, agents (``agent/NAME``) included, by its name."""
    return {
        name: ExecutorRecord(ledger.executors[name], agent.incarnation, agent.lives, agent.lease_ms)
        for name, agent in sorted(ledger.registered.items())
    }
