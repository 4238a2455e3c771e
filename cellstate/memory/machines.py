"""Machines of the twin join, change and leave; ``lua/join.lua`` and ``lua/machine.lua``."""

from collections.abc import Mapping, Sequence

from cellstate.errors import Refused
from cellstate.executors import number_of
from cellstate.memory.ranges import span_count, span_tail
from cellstate.memory.tasks import MemoryTasks
from cellstate.memory.words import MachineRow
from cellstate.model import MachineSpec, MachineState, check_author, check_state, merged
from cellstate.packing import packed
from cellstate.refusals import busy, excess
from cellstate.resources import BIG, MOST_TOGETHER, Resources
from cellstate.transaction import How


class MemoryMachines(MemoryTasks):
    """Join and change machines."""

    def join(self, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
        """See Cell.join."""
        check_author(executor)
        for machine in machines:
            self.check(f"machine {machine.name}", machine.capacity)
        if not machines:
            return []
        owner = self.executors.get(executor) or number_of(executor, len(self.executors))
        state = MachineState.UP if owner in self.serving else MachineState.OFFLINE
        self.unfold()
        for machine in machines:
            m = self.M.get(self.indices.get(machine.name, -1))
            if m and m.executor != owner and m.runs:
                raise busy(machine.name)
        self.check_sum({machine.name: machine.capacity for machine in machines})
        self.open()
        self.executors[executor] = owner
        start, found = len(self._trail), []
        known = {machine.name for machine in machines if machine.name in self.indices}
        for machine in machines:
            m = self.M.get(self.indices.get(machine.name, -1))
            if m and m.state is MachineState.GONE:
                m.number = max(m.number, self.transactions)
            elif m and (m.state, m.executor, m.capacity, m.attributes) == (
                state,
                owner,
                tuple(machine.capacity),
                dict(machine.attributes),
            ):
                found.append(m.index)
                continue
            elif not m:
                self.free.append(self.guards)
                self.numbers.append(self.transactions)
                m = MachineRow(len(self.M), machine.name, self.transactions, self.free, self.numbers)
                m.capacity = (0,) * len(self.dimensions)
                self.M[m.index] = m
                self.indices[m.name] = m.index
            self.touch(m, self.stamp)
            if machine.name in known and m.attributes != dict(machine.attributes):
                self.restate(m)
            m.state, m.executor, m.attributes = state, owner, dict(machine.attributes)
            self.equip(m, machine.capacity)
            self.describe(m)
            self.fact("join", m.index, m.name, m.number, *m.capacity)
            if state is MachineState.OFFLINE:
                self.fact_of_state(m)
            found.append(m.index)
        if len(self._trail) > start:
            self.transactions, self.freed = self.transactions + 1, True
            self.publish(at_ms, executor)
        return found

    def check_sum(self, capacities: Mapping[str, Resources]) -> None:
        """Refuse machines with a sum beyond the exact range (lua/parts/sums.lua)."""
        if all(max(capacity) <= BIG for capacity in capacities.values()):
            return
        have = {m.name: m.capacity for m in self.M.values() if m.state is not MachineState.GONE} | dict(capacities)
        used = {m.name: self.used(m.capacity, m.free) for m in self.M.values() if m.state is not MachineState.GONE}
        for d, resource in enumerate(self.dimensions.names):
            if sum(max(amounts[d], used.get(name, amounts)[d]) for name, amounts in have.items()) > MOST_TOGETHER:
                raise excess(self.name, resource)

    def equip(self, m: MachineRow, capacity: Resources) -> None:
        """Change a machine's capacity; allocated amounts stay."""
        m.free += packed(capacity) - packed(m.capacity)
        m.capacity = tuple(capacity)

    def set_state(self, m: MachineRow, state: MachineState) -> None:
        """Change a machine's state, in a call that has begun."""
        self.touch(m, self.stamp)
        m.state = state
        self.describe(m)
        self.fact_of_state(m)

    def fact_of_state(self, m: MachineRow) -> None:
        """Write the fact of a machine's present state."""
        self.fact("machine", m.index, "state", int(m.state), m.number, m.capacity, m.free)

    def _machine(self, index: int) -> MachineRow:
        m = self.M.get(index)
        if m is None or m.state is MachineState.GONE:
            raise Refused(f"machine {index}: not in cell {self.name}; see omega machine list")
        return m

    def set_machine_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        """See Cell.set_machine_state."""
        check_author(by)
        check_state(state)
        self.unfold()
        m = self.M.get(index)
        serves = m is not None and m.executor in self.serving
        if state is MachineState.UP and not serves:
            state = MachineState.OFFLINE
        if m and m.state is state:
            return 0
        m = self._machine(index)
        self.open()
        self.lost_at = at_ms
        count = 0
        self.set_state(m, state)
        if state in (MachineState.DOWN, MachineState.GONE):
            how, reason = (How.EVICTED, "down") if serves else (How.LOST, "-")
            for placement in [run for run in m.runs if run > 0]:
                count += self.end_tasks(m, placement, None, how, reason, self.stamp)
            count += self.evict_gangs(reason, self.stamp)
            for placement in [] if serves else [-run for run in m.runs]:
                self.acknowledge(m, placement, None)
        self.transactions, self.freed = self.transactions + 1, True
        self.publish(at_ms, by)
        return count

    def set_machine_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        """See Cell.set_machine_attributes."""
        check_author(by)
        m = self._machine(index)
        after = merged(m.attributes, changes)
        if after == m.attributes:
            return
        self.open()
        self.touch(m, self.stamp)
        self.restate(m)
        m.attributes = after
        self.transactions, self.freed = self.transactions + 1, True
        self.fact("machine", index, "attributes", len(after), m.number, m.capacity, m.free)
        self.publish(at_ms, by)

    def needed(self, m: MachineRow, capacity: Resources, evict: Sequence[tuple[int, int]]) -> dict[int, int] | None:
        """Return the number of tasks to evict from each named run, in order, so that the rest fits.

        None when all of them are not enough.
        """
        used, counts = list(self.used(m.capacity, m.free)), dict[int, int]()

        def exceeds() -> bool:
            return any(held > has for held, has in zip(used, capacity, strict=True))

        for placement, wanted in evict:
            run = m.runs.get(placement) if placement > 0 else None
            if run:
                n = counts.get(placement, 0)
                most = min(n + wanted, span_count(run[1]))
                while n < most and exceeds():
                    used = [held - need for held, need in zip(used, run[0].amounts, strict=True)]
                    n += 1
                    counts[placement] = n
        return None if exceeds() else counts

    def set_machine_capacity(
        self, index: int, capacity: Resources, at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        """See Cell.set_machine_capacity."""
        check_author(by)
        self.unfold()
        self.check(f"machine {index}", capacity)
        m = self._machine(index)
        counts = self.needed(m, capacity, evict)
        if counts is None:
            raise Refused(f"machine {index}: holds more than the new capacity; name evictions or drain it first")
        if not counts and m.capacity == tuple(capacity):
            return 0
        self.check_sum({m.name: capacity})
        self.open()
        count = 0
        self.touch(m, self.stamp)
        self.equip(m, capacity)
        self.describe(m)
        self.fact("machine", index, "capacity", ",".join(map(str, capacity)), m.number, m.capacity, m.free)
        for placement, n in counts.items():
            if placement in m.runs:
                part, _ = span_tail(m.runs[placement][1], n)
                count += self.end_tasks(m, placement, part, How.EVICTED, "over", self.stamp)
                count += self.evict_gangs("over", self.stamp)
        self.transactions, self.freed = self.transactions + 1, True
        self.publish(at_ms, by)
        return count
