"""Agents of the twin: ``lua/engage.lua``, ``lua/beat.lua``, ``lua/lapse.lua`` and ``lua/tail.lua``."""

from collections.abc import Mapping

from cellstate.cell import AgentRecord, Beat, Membership, executor_of
from cellstate.errors import Duplicate, Fenced, Refused
from cellstate.memory.machines import MemoryMachines
from cellstate.memory.publish import Agent
from cellstate.memory.reads import MemoryReads
from cellstate.memory.words import MachineRow
from cellstate.model import MachineState, check_member, check_nonce
from cellstate.transaction import How

TAILS = 1_000


class MemoryAgents(MemoryMachines, MemoryReads):
    """Leases of agents, and the last words of tasks. Leases never expire by themselves, see MemoryCell.expire."""

    def engage(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """See Cell.engage."""
        check_nonce(nonce)
        member = check_member(executor_of(agent))
        known = self.agents_known.get(member)
        if known and known.nonce == nonce:
            known.lives = True
            return Membership(member, known.incarnation)
        if known and known.lives:
            raise Duplicate(f"agent {agent}: another one lives under this name; choose another with --name, or stop it")
        if known:
            self.lapse(Membership(member, known.incarnation), at_ms, member)
        m = self.M.get(self.indices.get(agent, -1))
        if m and m.state is not MachineState.GONE and m.executor != self.executors.get(member):
            raise Refused(f"agent {agent}: the machine of this name has another executor; choose another with --name")
        self.open()
        self.incarnations += 1
        self.agents_known[member] = Agent(self.incarnations, nonce, lease_ms)
        self.fact("enlist", member, self.incarnations)
        self.announce(at_ms, member)
        return Membership(member, self.incarnations)

    def beat(self, membership: Membership, lease_ms: int, machine: int | None) -> Beat:
        """See Cell.beat."""
        known = self.agents_known.get(membership.member)
        if known is None or not known.lives or known.incarnation != membership.incarnation:
            raise Fenced(f"{membership.member}: its lease lapsed; its tasks go elsewhere")
        m = None if machine is None else self.M.get(machine)
        return Beat(len(self.agents_known), m.state if m else None, self.runs([m.index]) if m else [])

    def lapse(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        """See Cell.lapse."""
        member, incarnation = membership
        known = self.agents_known.get(member)
        if known is None or known.incarnation != incarnation or (reaped and known.lives):
            return False
        self.unfold()
        self.lost_at = at_ms
        m = self.M.get(self.indices.get(member.partition("/")[2], -1))
        self.open()
        del self.agents_known[member]
        self.fact("lapse" if reaped else "leave", member, incarnation)
        if m and m.executor == self.executors.get(member) and m.state is not MachineState.GONE:
            self._lose(m, reaped=reaped)
        self.publish(at_ms, by)
        return True

    def _lose(self, m: MachineRow, *, reaped: bool) -> None:
        start = len(self._trail)
        state = MachineState.DOWN if m.state is MachineState.UP else m.state
        state = state if reaped else MachineState.GONE
        if m.state is not state:
            self.touch(m, self.stamp)
            m.state = state
            self.describe(m)
            self.fact("machine", m.index, "state", int(state), m.number, m.capacity, m.free)
        for placement in [run for run in m.runs if run > 0]:
            self.end_tasks(m, placement, None, How.LOST, "agent", self.stamp)
        for placement in [-run for run in m.runs]:
            self.acknowledge(m, placement, None)
            self._trail.append(m.index)
        if len(self._trail) > start:
            self.transactions += 1

    def agents(self) -> dict[str, AgentRecord]:
        """See Cell.agents."""
        return {
            name.partition("/")[2]: AgentRecord(agent.incarnation, agent.lives, agent.lease_ms)
            for name, agent in sorted(self.agents_known.items())
        }

    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        """See Cell.keep_tails."""
        self.output.update(tails)
        for field in list(self.output)[: max(0, len(self.output) - TAILS)]:
            del self.output[field]

    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        """See Cell.tail."""
        return self.output.get((job, group, task, stream))
