"""Machines of the twin join, change and leave; ``lua/join.lua`` and ``lua/machine.lua``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from omega.cellstate.errors import Refused
from omega.cellstate.executors import number_of
from omega.cellstate.logged_settings import attributes_text
from omega.cellstate.memory.delta import describe
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.publish import publish
from omega.cellstate.memory.ranges import span_count, span_tail
from omega.cellstate.memory.records import UNASSIGNED, MachineRow, allocated
from omega.cellstate.memory.tasks import acknowledge, end_tasks, evict_gangs
from omega.cellstate.memory.trees import assign_trees
from omega.cellstate.model import (
    MachineSettings,
    MachineSpec,
    MachineState,
    busy,
    check_author,
    check_state,
    excess,
    merged,
)
from omega.cellstate.packing import packed_need
from omega.cellstate.resources import BIG, MOST_TOGETHER, Resources
from omega.cellstate.tasks import EndKind


def join(ledger: Ledger, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
    """Add machines, or bring them back; returns their indices."""
    check_author(executor)
    checked = set[Resources]()
    for machine in machines:
        capacity = tuple(machine.capacity)
        if capacity not in checked:
            ledger.check(f"machine {machine.name}", capacity)
            checked.add(capacity)
    if not machines:
        return []
    owner = ledger.executors.get(executor) or number_of(executor, len(ledger.executors))
    state = own_state(ledger, owner)
    machines = [_as_set(ledger, machine) for machine in machines]
    ledger.unfold()
    known = dict.fromkeys(machine.name for machine in machines if machine.name in ledger.indices)
    for row in (ledger.M[ledger.indices[name]] for name in known):
        if row.executor != owner and row.runs:
            raise busy(row.name)
    check_sum(ledger, {machine.name: machine.capacity for machine in machines})
    ledger.open()
    ledger.executors[executor] = owner
    start, indices, changed = len(ledger.trail), list[int](), list[MachineRow]()
    nothing = (0,) * len(ledger.dimensions)
    for machine in machines:
        m = ledger.M.get(ledger.indices.get(machine.name, -1))
        as_asked = tuple(machine.capacity), dict(machine.attributes)
        after = m.state if m and m.state in (MachineState.DRAINED, MachineState.DOWN) else state
        if m and m.state is MachineState.GONE:
            m.number = max(m.number, ledger.transactions)
        elif m and (m.state, m.executor, m.capacity, m.attributes) == (after, owner, *as_asked):
            indices.append(m.index)
            continue
        elif not m:
            ledger.free.append(ledger.guards)
            ledger.numbers.append(ledger.transactions)
            m = MachineRow(len(ledger.M), machine.name, ledger.transactions, ledger.free, ledger.numbers)
            m.capacity = nothing
            ledger.M[m.index] = m
            ledger.indices[m.name] = m.index
        ledger.touch(m, ledger.stamp)
        if machine.name in known and m.attributes != dict(machine.attributes):
            ledger.restate(m)
            m.tree = UNASSIGNED
        m.state, m.executor, m.attributes = after, owner, dict(machine.attributes)
        if after is not MachineState.DRAINED:
            ledger.drains.pop(m.index, None)
        equip(m, machine.capacity)
        changed.append(m)
        ledger.fact("join", m.index, m.name, m.number, ",".join(map(str, m.capacity)))
        if after is not MachineState.UP:
            fact_of_state(ledger, m)
        indices.append(m.index)
    describe(ledger, changed)
    if len(ledger.trail) > start:
        ledger.transactions, ledger.freed = ledger.transactions + 1, True
        named = ((machine.name, machine.attributes) for machine in machines if machine.attributes)
        publish(ledger, at_ms, executor, settings=attributes_text(named))
    assign_trees(ledger, at_ms, executor)
    return indices


def _as_set(ledger: Ledger, machine: MachineSpec) -> MachineSpec:
    """Return a machine that joins as it says, except for what operators set of it."""
    settings = ledger.operator.get(ledger.indices.get(machine.name, -1))
    if settings is None:
        return machine
    capacity, attributes = settings.applied(tuple(machine.capacity), machine.attributes)
    return MachineSpec(machine.name, capacity, attributes)


def check_sum(ledger: Ledger, capacities: Mapping[str, Resources]) -> None:
    """Refuse machines with a sum beyond the exact range (lua/parts/sums.lua)."""
    if all(max(capacity) <= BIG for capacity in set(map(tuple, capacities.values()))):
        return
    have = {m.name: m.capacity for m in ledger.M.values() if m.state is not MachineState.GONE} | dict(capacities)
    used = {m.name: allocated(m.capacity, m.free) for m in ledger.M.values() if m.state is not MachineState.GONE}
    for d, resource in enumerate(ledger.dimensions.names):
        if sum(max(amounts[d], used.get(name, amounts)[d]) for name, amounts in have.items()) > MOST_TOGETHER:
            raise excess(ledger.name, resource)


def equip(m: MachineRow, capacity: Resources) -> None:
    """Change a machine's capacity; allocated amounts stay."""
    m.free += packed_need(tuple(capacity)) - packed_need(m.capacity)
    m.capacity = tuple(capacity)


def set_state(ledger: Ledger, m: MachineRow, state: MachineState) -> None:
    """Change a machine's state, in a call that has begun."""
    ledger.touch(m, ledger.stamp)
    m.state = state
    if state is not MachineState.DRAINED:
        ledger.drains.pop(m.index, None)
    describe(ledger, [m])
    fact_of_state(ledger, m)


def own_state(ledger: Ledger, executor: int) -> MachineState:
    """Return the state of a machine of this executor that no operator set otherwise."""
    if executor not in ledger.serving:
        return MachineState.OFFLINE
    return MachineState.UNFIT if ledger.unfit.get(executor) else MachineState.UP


def fact_of_state(ledger: Ledger, m: MachineRow) -> None:
    """Write the fact of a machine's present state."""
    ledger.fact("machine", m.index, "state", int(m.state), m.number, m.capacity, m.free)


def machine_at(ledger: Ledger, index: int) -> MachineRow:
    """Return a machine of the cell; raises Refused for another."""
    m = ledger.M.get(index)
    if m is None or m.state is MachineState.GONE:
        raise Refused(f"machine {index}: not in cell {ledger.name}; see omega machine list")
    return m


def set_machine_state(ledger: Ledger, index: int, state: MachineState, at_ms: int, by: str) -> int:
    """Change a machine's state; returns the number of requeued tasks."""
    check_author(by)
    check_state(state)
    ledger.unfold()
    m = ledger.M.get(index)
    serves = m is not None and m.executor in ledger.serving
    if state is MachineState.UP and m is not None:
        state = own_state(ledger, m.executor)
    if m and m.state is state:
        return 0
    m = machine_at(ledger, index)
    ledger.open()
    ledger.lost_at = at_ms
    count = 0
    set_state(ledger, m, state)
    if state is MachineState.GONE:
        ledger.operator.pop(index, None)
    if state in (MachineState.DOWN, MachineState.GONE):
        how, reason = (EndKind.EVICTED, "down") if serves else (EndKind.LOST, "-")
        for placement in [run for run in m.runs if run > 0]:
            count += end_tasks(ledger, m, placement, None, how, reason, ledger.stamp)
        count += evict_gangs(ledger, reason, ledger.stamp)
        for placement in [] if serves else [-run for run in m.runs]:
            acknowledge(ledger, m, placement, None)
    ledger.transactions, ledger.freed = ledger.transactions + 1, True
    publish(ledger, at_ms, by)
    return count


def set_machine_attributes(ledger: Ledger, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
    """Change attributes of a machine; None removes one."""
    check_author(by)
    m = machine_at(ledger, index)
    after = merged(m.attributes, changes)
    settings = ledger.operator.get(index, MachineSettings())
    ledger.operator[index] = replace(settings, attributes={**settings.attributes, **changes})
    if after == m.attributes:
        return
    ledger.open()
    ledger.touch(m, ledger.stamp)
    ledger.restate(m)
    m.attributes, m.tree = after, UNASSIGNED
    ledger.transactions, ledger.freed = ledger.transactions + 1, True
    ledger.fact("machine", index, "attributes", len(after), m.number, m.capacity, m.free)
    publish(ledger, at_ms, by, settings=attributes_text([(m.name, after)]))
    assign_trees(ledger, at_ms, by)


def needed(m: MachineRow, capacity: Resources, evict: Sequence[tuple[int, int]]) -> dict[int, int] | None:
    """Return the number of tasks to evict from each named run, in order, so that the rest fits.

    None when all of them are not enough.
    """
    used, counts = list(allocated(m.capacity, m.free)), dict[int, int]()

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
    ledger: Ledger, index: int, capacity: Sequence[int | None], at_ms: int, by: str,
    evict: Sequence[tuple[int, int]] = (),
) -> int:  # fmt: skip
    """Change a machine's capacity, with the evictions it needs; Refused when it would be over."""
    check_author(by)
    ledger.unfold()
    ledger.check(f"machine {index}", [amount or 0 for amount in capacity])
    m = machine_at(ledger, index)
    after = tuple(has if amount is None else amount for amount, has in zip(capacity, m.capacity, strict=True))
    counts = needed(m, after, evict)
    if counts is None:
        raise Refused(f"machine {index}: holds more than the new capacity; name evictions or drain it first")
    same = not counts and m.capacity == after
    if not same:
        check_sum(ledger, {m.name: after})
    settings = ledger.operator.get(index, MachineSettings((None,) * len(after)))
    amounts = settings.amounts or (None,) * len(after)
    ledger.operator[index] = replace(
        settings, amounts=tuple(old if new is None else new for old, new in zip(amounts, capacity, strict=True))
    )
    if same:
        return 0
    ledger.open()
    ledger.lost_at = at_ms
    count = 0
    ledger.touch(m, ledger.stamp)
    equip(m, after)
    describe(ledger, [m])
    ledger.fact("machine", index, "capacity", ",".join(map(str, after)), m.number, m.capacity, m.free)
    for placement, n in counts.items():
        if placement in m.runs:
            part, _ = span_tail(m.runs[placement][1], n)
            count += end_tasks(ledger, m, placement, part, EndKind.EVICTED, "over", ledger.stamp)
            count += evict_gangs(ledger, "over", ledger.stamp)
    ledger.transactions, ledger.freed = ledger.transactions + 1, True
    publish(ledger, at_ms, by)
    return count
