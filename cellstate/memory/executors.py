"""Executors of the twin: ``lua/register_executor.lua``, ``lua/online.lua`` and ``lua/deregister_executor.lua``."""

from collections.abc import Sequence

from cellstate.cell import AgentRecord, Membership
from cellstate.errors import Duplicate
from cellstate.executors import ExecutorRecord, is_agent, number_of, portions
from cellstate.memory.machines import MemoryMachines
from cellstate.memory.publish import Agent
from cellstate.memory.reads import MemoryReads
from cellstate.memory.words import MachineRow
from cellstate.model import MachineState, check_executor, check_nonce
from cellstate.transaction import How

CHUNK = 1_000
"""Machines brought up in one call."""


class MemoryExecutors(MemoryMachines, MemoryReads):
    """Names and leases of executors. Only MemoryCell.expire ends a lease."""

    def begin_to_serve(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register the name for this nonce as a new incarnation."""
        self.open()
        self.incarnations += 1
        self.agents_known[executor] = Agent(self.incarnations, nonce, lease_ms)
        self.serving.add(self.executors.setdefault(executor, number_of(executor, len(self.executors))))
        self.fact("enlist", executor, self.incarnations)
        self.announce(at_ms, executor)
        return Membership(executor, self.incarnations)

    def register_executor(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """See Cell.register_executor."""
        check_executor(executor)
        check_nonce(nonce)
        known = self.agents_known.get(executor)
        if known and known.nonce == nonce:
            known.lives = True
            membership = Membership(executor, known.incarnation)
        elif known and known.lives:
            raise Duplicate(f"executor {executor}: another one lives under this name; stop it, or choose another name")
        else:
            membership = self.begin_to_serve(executor, nonce, lease_ms, at_ms)
        offline = [m for m in self._machines_of(executor) if m.state is MachineState.OFFLINE]
        for start in range(0, len(offline), CHUNK):
            self.open()
            for m in offline[start : start + CHUNK]:
                self.set_state(m, MachineState.UP)
            self.transactions, self.freed = self.transactions + 1, True
            self.publish(at_ms, executor)
        return membership

    def _machines_of(self, executor: str) -> list[MachineRow]:
        number = self.executors.get(executor)
        return [m for m in self.M.values() if m.executor == number]

    def deregister_executor(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        """See Cell.deregister_executor."""
        member, incarnation = membership
        known = self.agents_known.get(member)
        if known is None or known.incarnation != incarnation or (reaped and known.lives):
            return False
        self.unfold()
        self.lost_at = at_ms
        self.open()
        del self.agents_known[member]
        self.serving.discard(self.executors.get(member, 0))
        self.fact("lapse" if reaped else "leave", member, incarnation)
        if is_agent(member):
            m = self.M.get(self.indices.get(member.partition("/")[2], -1))
            if m and m.executor == self.executors.get(member):
                self._give_up([m], MachineState.OFFLINE if reaped else MachineState.GONE, "agent")
        self.publish(at_ms, by)
        mine = [] if is_agent(member) else self._machines_of(member)
        for portion in portions([m.index for m in mine], [len(m.runs) for m in mine]):
            self.open()
            if self._give_up([self.M[index] for index in portion], MachineState.OFFLINE, "executor"):
                self.publish(at_ms, by)
        return True

    def _give_up(self, machines: Sequence[MachineRow], to: MachineState, reason: str) -> bool:
        """Requeue the tasks of these machines; return whether anything changed."""
        start = len(self._trail)
        for m in machines:
            state = m.state if to is MachineState.OFFLINE and m.state is not MachineState.UP else to
            if m.state is not state:
                self.set_state(m, state)
            for placement in [run for run in m.runs if run > 0]:
                self.end_tasks(m, placement, None, How.LOST, reason, self.stamp)
            for placement in [-run for run in m.runs]:
                self.acknowledge(m, placement, None)
                self._trail.append(m.index)
        changed = len(self._trail) > start
        self.transactions += changed
        return changed

    def executor_records(self) -> dict[str, ExecutorRecord]:
        """See Cell.executor_records."""
        return {
            name: ExecutorRecord(self.executors[name], agent.incarnation, agent.lives, agent.lease_ms)
            for name, agent in sorted(self.agents_known.items())
        }

    def agents(self) -> dict[str, AgentRecord]:
        """See Cell.agents."""
        return {
            name.partition("/")[2]: AgentRecord(*record[1:])
            for name, record in self.executor_records().items()
            if is_agent(name)
        }
