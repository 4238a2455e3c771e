"""Agents of the twin: ``lua/register_agent.lua``, ``lua/renew_executor.lua`` and ``lua/tail.lua``."""

from collections.abc import Mapping

from omega.cellstate.errors import Duplicate, Fenced, Refused
from omega.cellstate.memory.executors import begin_to_serve, deregister_executor
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.port_values import runs_of
from omega.cellstate.model import MachineState, check_member, check_nonce
from omega.cellstate.replies import Heartbeat, Membership, executor_of

TAILS = 1_000


def register_agent(ledger: Ledger, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
    """Register an agent for its machine; Duplicate while another lives, Refused for a machine of another executor."""
    check_nonce(nonce)
    member = check_member(executor_of(agent))
    known = ledger.registered.get(member)
    if known and known.nonce == nonce:
        known.lives = True
        return Membership(member, known.incarnation)
    if known and known.lives:
        raise Duplicate(f"agent {agent}: another one lives under this name; choose another with --name, or stop it")
    if known:
        deregister_executor(ledger, Membership(member, known.incarnation), at_ms, member)
    ledger.unfold()
    m = ledger.M.get(ledger.indices.get(agent, -1))
    if m and (m.state is not MachineState.GONE or m.runs) and m.executor != ledger.executors.get(member):
        raise Refused(f"agent {agent}: the machine of this name has another executor; choose another with --name")
    return begin_to_serve(ledger, member, nonce, lease_ms, at_ms)


def renew_executor(ledger: Ledger, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
    """Renew an executor's lease and return its machine's runs; Fenced when the lease expired."""
    del lease_ms  # leases do not expire by themselves
    known = ledger.registered.get(membership.member)
    if known is None or not known.lives or known.incarnation != membership.incarnation:
        raise Fenced(f"{membership.member}: its lease lapsed; its tasks go elsewhere")
    m = None if machine is None else ledger.M.get(machine)
    return Heartbeat(len(ledger.registered), m.state if m else None, runs_of(ledger, [m.index]) if m else [])


def keep_tails(ledger: Ledger, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
    """Store the last output of tasks, by job, group, task and stream; its size is bounded, and it expires."""
    ledger.output.update(tails)
    for field in list(ledger.output)[: max(0, len(ledger.output) - TAILS)]:
        del ledger.output[field]
