"""Machines, executors, schedulers and pool trees of a cell in memory: how they join, change, lapse and leave."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omega.cellstate.errors import Duplicate, Fenced, Refused
from omega.cellstate.executors import check_executor, check_member, check_nonce, is_agent, number_of, portions
from omega.cellstate.logged_settings import attributes_text, scheduler_text
from omega.cellstate.memory.jobs import as_stored
from omega.cellstate.memory.pools import replace_pools, tree_of
from omega.cellstate.memory.state import UNASSIGNED, MachineRow, Member, State
from omega.cellstate.memory.tasks import acknowledge, end_all, end_tasks, evict_gangs, publish, state_words
from omega.cellstate.model import (
    Described,
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
from omega.cellstate.pools import Pools
from omega.cellstate.pools.membership import trees_of
from omega.cellstate.ranges import span_count, span_tail
from omega.cellstate.replies import Membership, executor_of
from omega.cellstate.resources import BIG, MOST_TOGETHER, Resources
from omega.cellstate.tasks import EndKind

CHUNK = 1_000
"""Machines brought up in one call."""

# Machines


def join(c: State, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
    """Add machines, or bring them back; returns their indices."""
    check_author(executor)
    for capacity, name in {tuple(machine.capacity): machine.name for machine in reversed(machines)}.items():
        c.check(f"machine {name}", capacity)
    if not machines:
        return []
    owner = c.executor_numbers.get(executor) or number_of(executor, len(c.executor_numbers))
    machines = [_as_set(c, machine) for machine in machines]
    c.unfold()
    known = dict.fromkeys(machine.name for machine in machines if machine.name in c.indices)
    for row in (c.M[c.indices[name]] for name in known):
        if row.executor != owner and row.runs:
            raise busy(row.name)
    _check_sum(c, {machine.name: machine.capacity for machine in machines})
    c.open()
    c.executor_numbers[executor] = owner
    start, indices, changed = len(c.trail), list[int](), list[MachineRow]()
    for machine in machines:
        m = c.M.get(c.indices.get(machine.name, -1))
        after = _own_state(c, owner)
        if m and m.state in (MachineState.DRAINED, MachineState.DOWN):
            after = m.state
        as_asked = after, owner, tuple(machine.capacity), dict(machine.attributes)
        if m and m.state is MachineState.GONE:
            m.number = max(m.number, c.transactions)
        elif m and (m.state, m.executor, m.capacity, m.attributes) == as_asked:
            indices.append(m.index)
            continue
        elif not m:
            m = new_machine(c, machine.name)
        c.touch(m, c.stamp)
        if machine.name in known and m.attributes != dict(machine.attributes):
            _describe_anew(c, m)
        m.state, m.executor, _, m.attributes = as_asked
        if after is not MachineState.DRAINED:
            c.drains.pop(m.index, None)
        equip(m, machine.capacity)
        changed.append(m)
        c.fact("join", m.index, m.name, m.number, ",".join(map(str, m.capacity)))
        if after is not MachineState.UP:
            c.fact("machine", m.index, "state", int(after), *state_words(m))
        indices.append(m.index)
    c.describe(changed)
    if len(c.trail) > start:
        named = ((machine.name, machine.attributes) for machine in machines if machine.attributes)
        _publish_change(c, at_ms, executor, settings=attributes_text(named))
    assign_trees(c, at_ms, executor)
    return indices


def new_machine(c: State, name: str) -> MachineRow:
    """Add a machine without capacity."""
    c.free.append(c.guards)
    c.numbers.append(c.transactions)
    m = MachineRow(len(c.M), name, c.transactions, c.free, c.numbers)
    m.capacity = (0,) * len(c.dimensions)
    c.M[m.index] = m
    c.indices[name] = m.index
    return m


def _publish_change(c: State, at_ms: int, by: str, settings: str = "") -> None:
    """Publish a call that changed machines: schedulers with blocked jobs look again."""
    c.transactions, c.freed = c.transactions + 1, True
    publish(c, at_ms, by, settings=settings)


def _describe_anew(c: State, m: MachineRow) -> None:
    """List a machine as drained before its present record: its attributes changed."""
    c.restated.append((c.version + 1, m.index))
    m.tree = UNASSIGNED


def _as_set(c: State, machine: MachineSpec) -> MachineSpec:
    """Return a machine that joins as it says, except for what operators set of it."""
    settings = c.operator.get(c.indices.get(machine.name, -1))
    if settings is None:
        return machine
    capacity, attributes = settings.applied(tuple(machine.capacity), machine.attributes)
    return MachineSpec(machine.name, capacity, attributes)


def _check_sum(c: State, capacities: Mapping[str, Resources]) -> None:
    """Refuse machines with a sum beyond the exact range (lua/parts/sums.lua)."""
    if all(max(capacity) <= BIG for capacity in set(map(tuple, capacities.values()))):
        return
    there = [m for m in c.M.values() if m.state is not MachineState.GONE]
    have = {m.name: m.capacity for m in there} | dict(capacities)
    used = {m.name: m.allocated for m in there}
    for d, resource in enumerate(c.dimensions.names):
        if sum(max(amounts[d], used.get(name, amounts)[d]) for name, amounts in have.items()) > MOST_TOGETHER:
            raise excess(c.name, resource)


def equip(m: MachineRow, capacity: Resources) -> None:
    """Change a machine's capacity; allocated amounts stay."""
    m.free += packed_need(tuple(capacity)) - packed_need(m.capacity)
    m.capacity = tuple(capacity)


def described_of(m: MachineRow) -> Described:
    """Return the name and attributes of a machine."""
    return m.name, tuple(sorted((name, str(value)) for name, value in m.attributes.items()))


def _set_state(c: State, m: MachineRow, state: MachineState) -> None:
    """Change a machine's state, in a call that has begun."""
    c.touch(m, c.stamp)
    m.state = state
    if state is not MachineState.DRAINED:
        c.drains.pop(m.index, None)
    c.describe([m])
    c.fact("machine", m.index, "state", int(state), *state_words(m))


def _own_state(c: State, executor: int) -> MachineState:
    """Return the state of a machine of this executor that no operator set otherwise."""
    return MachineState.UP if executor in c.serving else MachineState.OFFLINE


def _machine_at(c: State, index: int) -> MachineRow:
    """Return a machine of the cell; raises Refused for another."""
    m = c.M.get(index)
    if m is None or m.state is MachineState.GONE:
        raise Refused(f"machine {index}: not in cell {c.name}; see omega machine list")
    return m


def set_machine_state(c: State, index: int, state: MachineState, at_ms: int, by: str) -> int:
    """Change a machine's state; returns the number of requeued tasks."""
    check_author(by)
    check_state(state)
    c.unfold()
    m = c.M.get(index)
    serves = m is not None and m.executor in c.serving
    if state is MachineState.UP and m is not None:
        state = _own_state(c, m.executor)
    if m and m.state is state:
        return 0
    m = _machine_at(c, index)
    c.open()
    c.lost_at = at_ms
    count = 0
    _set_state(c, m, state)
    if state is MachineState.GONE:
        c.operator.pop(index, None)
    if state in (MachineState.DOWN, MachineState.GONE):
        how, reason = (EndKind.EVICTED, "down") if serves else (EndKind.LOST, "-")
        count = end_all(c, m, how, reason) + evict_gangs(c, reason, c.stamp)
        for placement in [] if serves else [-run for run in m.runs]:
            acknowledge(c, m, placement, None)
    _publish_change(c, at_ms, by)
    return count


def set_machine_attributes(c: State, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
    """Change attributes of a machine; None removes one."""
    check_author(by)
    m = _machine_at(c, index)
    after = merged(m.attributes, changes)
    settings = c.operator.get(index, MachineSettings())
    c.operator[index] = replace(settings, attributes={**settings.attributes, **changes})
    if after == m.attributes:
        return
    c.open()
    c.touch(m, c.stamp)
    _describe_anew(c, m)
    m.attributes = after
    c.fact("machine", index, "attributes", len(after), *state_words(m))
    _publish_change(c, at_ms, by, settings=attributes_text([(m.name, after)]))
    assign_trees(c, at_ms, by)


def _needed(m: MachineRow, capacity: Resources, evict: Sequence[tuple[int, int]]) -> dict[int, int] | None:
    """Return the number of tasks to evict from each named run, in order, so that the rest fits.

    None when all of them are not enough.
    """
    used, counts = m.allocated, dict[int, int]()

    def exceeds() -> bool:
        return any(held > has for held, has in zip(used, capacity, strict=True))

    for placement, wanted in evict:
        run = m.runs.get(placement) if placement > 0 else None
        if run:
            n = counts.get(placement, 0)
            most = min(n + wanted, span_count(run[1]))
            while n < most and exceeds():
                used = tuple(held - need for held, need in zip(used, run[0].amounts, strict=True))
                n += 1
                counts[placement] = n
    return None if exceeds() else counts


def set_machine_capacity(
    c: State, index: int, capacity: Sequence[int | None], at_ms: int, by: str,
    evict: Sequence[tuple[int, int]] = (),
) -> int:  # fmt: skip
    """Change a machine's capacity, with the evictions it needs; Refused when it would be over."""
    check_author(by)
    c.unfold()
    c.check(f"machine {index}", [amount or 0 for amount in capacity])
    m = _machine_at(c, index)
    after = tuple(has if amount is None else amount for amount, has in zip(capacity, m.capacity, strict=True))
    counts = _needed(m, after, evict)
    if counts is None:
        raise Refused(f"machine {index}: holds more than the new capacity; name evictions or drain it first")
    same = not counts and m.capacity == after
    if not same:
        _check_sum(c, {m.name: after})
    settings = c.operator.get(index, MachineSettings((None,) * len(after)))
    amounts = settings.amounts or (None,) * len(after)
    c.operator[index] = replace(
        settings, amounts=tuple(old if new is None else new for old, new in zip(amounts, capacity, strict=True))
    )
    if same:
        return 0
    c.open()
    c.lost_at = at_ms
    count = 0
    c.touch(m, c.stamp)
    equip(m, after)
    c.describe([m])
    c.fact("machine", index, "capacity", ",".join(map(str, after)), *state_words(m))
    for placement, n in counts.items():
        if placement in m.runs:
            part, _ = span_tail(m.runs[placement][1], n)
            count += end_tasks(c, m, placement, part, EndKind.EVICTED, "over", c.stamp)
            count += evict_gangs(c, "over", c.stamp)
    _publish_change(c, at_ms, by)
    return count


# Pool trees


def assign_trees(c: State, at_ms: int, by: str) -> int:
    """Assign the machines that are in no tree yet, and evict tasks of other trees; returns their number."""
    if not c.pool_settings.divided:
        return 0
    machines = [m for _, m in sorted(c.M.items()) if m.tree == UNASSIGNED]
    c.unfold()
    count, indices = 0, [m.index for m in machines]
    for portion in portions(indices, [len(m.runs) for m in machines]):
        count += _assign(c, [c.M[index] for index in portion], at_ms, by)
    return count


def _assign(c: State, machines: list[MachineRow], at_ms: int, by: str) -> int:
    c.open()
    count = 0
    for m, number in zip(machines, trees_of(c.pool_settings, [described_of(m) for m in machines]), strict=True):
        m.tree = number
        c.touch(m, c.stamp)
        c.fact("machine", m.index, "tree", "-" if number is None else number, *state_words(m))
    for m in machines:
        for placement, (g, _) in list(m.runs.items()):
            if placement > 0 and tree_of(c, g.job) != m.tree:
                count += end_tasks(c, m, placement, None, EndKind.EVICTED, "tree", c.stamp)
                count += evict_gangs(c, "tree", c.stamp)
    _publish_change(c, at_ms, by)
    return count


def set_pools(c: State, pools: Pools, check: int | None, at_ms: int, by: str) -> Pools:
    """Replace the pools of the cell, and assign the machines that may be in another tree."""
    after = replace_pools(c, pools, check, at_ms, by)
    assign_trees(c, at_ms, by)
    return after


# Executors


def executor_number(c: State, executor: str) -> int:
    """Return the number of an executor's mailbox; Refused when it never joined a machine."""
    if executor not in c.executor_numbers:
        raise Refused(f"executor {executor!r}: no machine of this cell belongs to it")
    return c.executor_numbers[executor]


def _machines_of(c: State, executor: str) -> list[MachineRow]:
    number = c.executor_numbers.get(executor)
    return [m for m in c.M.values() if m.executor == number]


def _begin_to_serve(c: State, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
    """Register the name for this nonce as a new incarnation."""
    c.open()
    number = c.executor_numbers.setdefault(executor, number_of(executor, len(c.executor_numbers)))
    c.serving.add(number)
    return _enlist(c, c.registered, executor, nonce, lease_ms, at_ms)


def _enlist(
    c: State, members: dict[str, Member], name: str, nonce: str, lease_ms: int, at_ms: int, settings: str = ""
) -> Membership:  # fmt: skip
    """Enter a member with a new incarnation, in a call that has begun."""
    c.incarnations += 1
    members[name] = Member(c.incarnations, nonce, lease_ms)
    c.fact("enlist", name, c.incarnations)
    c.announce(at_ms, name, settings=settings)
    return Membership(name, c.incarnations)


def _again(members: Mapping[str, Member], name: str, nonce: str) -> Membership | None:
    """Return the membership of who registers again with its nonce, after a lost reply."""
    known = members.get(name)
    if known is None or known.nonce != nonce:
        return None
    known.lives = True
    return Membership(name, known.incarnation)


def _member(members: Mapping[str, Member], membership: Membership, what: str) -> Member:
    """Return a member whose lease holds; raises Fenced with what happens otherwise."""
    known = members.get(membership.member)
    if known is None or not known.lives or known.incarnation != membership.incarnation:
        raise Fenced(what)
    return known


def register_executor(c: State, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
    """Register a simulated executor, and bring its offline machines up; Duplicate while another lives."""
    check_executor(executor)
    check_nonce(nonce)
    known, membership = c.registered.get(executor), _again(c.registered, executor, nonce)
    if membership is None and known and known.lives:
        raise Duplicate(f"executor {executor}: another one lives under this name; stop it, or choose another name")
    if membership is None:
        membership = _begin_to_serve(c, executor, nonce, lease_ms, at_ms)
    offline = [m for m in _machines_of(c, executor) if m.state is MachineState.OFFLINE]
    for start in range(0, len(offline), CHUNK):
        c.open()
        for m in offline[start : start + CHUNK]:
            _set_state(c, m, MachineState.UP)
        _publish_change(c, at_ms, executor)
    return membership


def register_agent(c: State, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
    """Register an agent for its machine; Duplicate while another lives, Refused for a machine of another executor."""
    check_nonce(nonce)
    member = check_member(executor_of(agent))
    if (membership := _again(c.registered, member, nonce)) is not None:
        return membership
    known = c.registered.get(member)
    if known and known.lives:
        raise Duplicate(f"agent {agent}: another one lives under this name; choose another with --name, or stop it")
    if known:
        deregister_executor(c, Membership(member, known.incarnation), at_ms, member)
    c.unfold()
    m = c.M.get(c.indices.get(agent, -1))
    if m and (m.state is not MachineState.GONE or m.runs) and m.executor != c.executor_numbers.get(member):
        raise Refused(f"agent {agent}: the machine of this name has another executor; choose another with --name")
    return _begin_to_serve(c, member, nonce, lease_ms, at_ms)


def deregister_executor(c: State, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
    """Requeue the tasks of an executor with an expired lease, or, not `reaped`, of one that leaves; idempotent."""
    member, incarnation = membership
    known = c.registered.get(member)
    if known is None or known.incarnation != incarnation or (reaped and known.lives):
        return False
    c.unfold()
    c.open()
    del c.registered[member]
    c.serving.discard(c.executor_numbers.get(member, 0))
    c.fact("lapse" if reaped else "leave", member, incarnation)
    left = "" if reaped else " left"
    if is_agent(member):
        m = c.M.get(c.indices.get(member.partition("/")[2], -1))
        if m and m.executor == c.executor_numbers.get(member):
            _give_up(c, [m], f"agent{left}", at_ms)
    publish(c, at_ms, by)
    mine = [] if is_agent(member) else _machines_of(c, member)
    for portion in portions([m.index for m in mine], [len(m.runs) for m in mine]):
        c.open()
        if _give_up(c, [c.M[index] for index in portion], f"executor{left}", at_ms):
            publish(c, at_ms, by)
    return True


def _give_up(c: State, machines: Sequence[MachineRow], reason: str, at_ms: int) -> bool:
    """Requeue the tasks of these machines; those that were up are offline. Return whether anything changed."""
    start, c.lost_at = len(c.trail), at_ms
    for m in machines:
        if m.state is MachineState.UP:
            _set_state(c, m, MachineState.OFFLINE)
        end_all(c, m, EndKind.LOST, reason)
        for placement in [-run for run in m.runs]:
            acknowledge(c, m, placement, None)
            c.trail.append(m.index)
    changed = len(c.trail) > start
    c.transactions += changed
    return changed


def renew(c: State, membership: Membership) -> None:
    """Renew an executor's lease; Fenced when it expired. Leases do not expire by themselves."""
    _member(c.registered, membership, f"{membership.member}: its lease lapsed; its tasks go elsewhere")


# Schedulers


def register_scheduler(
    c: State, member: str, nonce: str, lease_ms: int, at_ms: int, settings: Mapping[str, Any] | None = None
) -> Membership:
    """Register a scheduler's name; Duplicate when a live one has it. `settings`: of the scheduler, for the log."""
    check_nonce(nonce)
    if (membership := _again(c.scheduler_members, check_member(member), nonce)) is not None:
        return membership
    known = c.scheduler_members.get(member)
    if known and known.lives:
        raise Duplicate(f"scheduler {member}: another one runs under this name; choose another or stop it")
    c.open()
    return _enlist(c, c.scheduler_members, member, nonce, lease_ms, at_ms, scheduler_text(settings or {}))


def renew_scheduler(c: State, membership: Membership, lease_ms: int, figures: Mapping[str, Any]) -> list[str]:
    """Renew the lease and store `figures`; return the live members. Fenced when it expired."""
    del lease_ms  # leases do not expire by themselves
    _member(c.scheduler_members, membership, f"scheduler {membership.member}: its lease lapsed; register again")
    c.stats[membership.member] = as_stored(dict(figures))
    return sorted(name for name, member in c.scheduler_members.items() if member.lives)


def deregister_scheduler(c: State, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
    """Deregister, or remove a member with an expired lease."""
    name, incarnation = membership
    known = c.scheduler_members.get(name)
    if known is None or known.incarnation != incarnation or (reaped and known.lives):
        return False
    c.open()
    del c.scheduler_members[name]
    c.fact("lapse" if reaped else "leave", name, incarnation)
    c.announce(at_ms, name)
    return True
