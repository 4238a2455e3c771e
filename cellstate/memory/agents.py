"""Agents of the twin: ``lua/register_agent.lua``, ``lua/renew_executor.lua`` and ``lua/tail.lua``."""

from collections.abc import Mapping

from cellstate.cell import Heartbeat, Membership, executor_of
from cellstate.errors import Duplicate, Fenced, Refused
from cellstate.memory.executors import MemoryExecutors
from cellstate.model import MachineState, check_member, check_nonce

TAILS = 1_000


class MemoryAgents(MemoryExecutors):
    """Leases of agents, and the last output of tasks. Only MemoryCell.expire ends a lease."""

    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """See Cell.register_agent."""
        check_nonce(nonce)
        member = check_member(executor_of(agent))
        known = self.agents_known.get(member)
        if known and known.nonce == nonce:
            known.lives = True
            return Membership(member, known.incarnation)
        if known and known.lives:
            raise Duplicate(f"agent {agent}: another one lives under this name; choose another with --name, or stop it")
        if known:
            self.deregister_executor(Membership(member, known.incarnation), at_ms, member)
        self.unfold()
        m = self.M.get(self.indices.get(agent, -1))
        if m and (m.state is not MachineState.GONE or m.runs) and m.executor != self.executors.get(member):
            raise Refused(f"agent {agent}: the machine of this name has another executor; choose another with --name")
        return self.begin_to_serve(member, nonce, lease_ms, at_ms)

    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        """See Cell.renew_executor."""
        known = self.agents_known.get(membership.member)
        if known is None or not known.lives or known.incarnation != membership.incarnation:
            raise Fenced(f"{membership.member}: its lease lapsed; its tasks go elsewhere")
        m = None if machine is None else self.M.get(machine)
        return Heartbeat(len(self.agents_known), m.state if m else None, self.runs([m.index]) if m else [])

    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        """See Cell.keep_tails."""
        self.output.update(tails)
        for field in list(self.output)[: max(0, len(self.output) - TAILS)]:
            del self.output[field]

    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        """See Cell.tail."""
        return self.output.get((job, group, task, stream))
