"""Executors of the twin: ``lua/*_executor.lua``, ``register_agent.lua``, ``online.lua`` and ``tail.lua``."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple

from omega.cellstate.errors import Duplicate, Fenced, Refused
from omega.cellstate.executors import (
    ExecutorRecord,
    check_executor,
    check_member,
    check_nonce,
    is_agent,
    number_of,
    portions,
)
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.machines import own_state, set_state
from omega.cellstate.memory.port_values import runs_of
from omega.cellstate.memory.publish import announce, publish
from omega.cellstate.memory.records import ExecutorRow, MachineRow
from omega.cellstate.memory.tasks import acknowledge, end_tasks
from omega.cellstate.model import MachineState
from omega.cellstate.plain_text import plain_reason
from omega.cellstate.replies import Heartbeat, Membership, executor_of
from omega.cellstate.tasks import MOST_ASKED, EndKind, OutputPart, OutputRequest, TaskProgress

CHUNK = 1_000
"""Machines brought up in one call."""
TAILS = 1_000
"""Maximum number of outputs kept."""


def begin_to_serve(ledger: Ledger, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
    """Register the name for this nonce as a new incarnation."""
    ledger.open()
    ledger.incarnations += 1
    ledger.registered[executor] = ExecutorRow(ledger.incarnations, nonce, lease_ms)
    number = ledger.executors.setdefault(executor, number_of(executor, len(ledger.executors)))
    ledger.serving.add(number)
    ledger.unfit.pop(number, None)
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
    ledger.unfit.pop(ledger.executors.get(member, 0), None)
    ledger.fact("lapse" if reaped else "leave", member, incarnation)
    left = "" if reaped else " left"
    if is_agent(member):
        m = ledger.M.get(ledger.indices.get(member.partition("/")[2], -1))
        if m and m.executor == ledger.executors.get(member):
            give_up_machines(ledger, [m], f"agent{left}")
    publish(ledger, at_ms, by)
    mine = [] if is_agent(member) else machines_of_executor(ledger, member)
    for portion in portions([m.index for m in mine], [len(m.runs) for m in mine]):
        ledger.open()
        if give_up_machines(ledger, [ledger.M[index] for index in portion], f"executor{left}"):
            publish(ledger, at_ms, by)
    return True


def give_up_machines(ledger: Ledger, machines: Sequence[MachineRow], reason: str) -> bool:
    """Requeue the tasks of these machines; those that were up are offline. Return whether anything changed."""
    start = len(ledger.trail)
    for m in machines:
        if m.state in (MachineState.UP, MachineState.UNFIT):
            set_state(ledger, m, MachineState.OFFLINE)
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
        name: ExecutorRecord(
            ledger.executors[name], agent.incarnation, agent.lives, agent.lease_ms,
            ledger.unfit.get(ledger.executors[name], ""),
        )
        for name, agent in sorted(ledger.registered.items())
    }  # fmt: skip


def report_fitness(ledger: Ledger, membership: Membership, machines: Sequence[int], reason: str, at_ms: int) -> None:
    """Record that an executor cannot start tasks, or can again (no reason); Fenced when its lease lapsed."""
    member, incarnation = membership
    known = ledger.registered.get(member)
    if known is None or not known.lives or known.incarnation != incarnation:
        raise Fenced(f"executor {member}: its lease lapsed; its tasks go elsewhere")
    number = ledger.executors[member]
    said = plain_reason(reason)
    news = ledger.unfit.pop(number, "") != said
    if said:
        ledger.unfit[number] = said
    ledger.open()
    if news:
        ledger.fact("unfit" if said else "fit", member, incarnation, *said.split())
    state, changed = own_state(ledger, number), False
    for m in (ledger.M[index] for index in machines if index in ledger.M):
        if m.executor == number and m.state in (MachineState.UP, MachineState.UNFIT) and m.state is not state:
            set_state(ledger, m, state)
            changed = True
    if changed:
        ledger.transactions, ledger.freed = ledger.transactions + 1, True
    if news or changed:
        publish(ledger, at_ms, member)


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


def report_progress(ledger: Ledger, job_id: str, machine: int, tasks: Sequence[TaskProgress]) -> None:
    """Keep how far the tasks of a job on a machine have come; it expires."""
    ledger.progress.pop((job_id, machine), None)
    if tasks:
        ledger.progress[job_id, machine] = sorted(tasks)


def request_output(ledger: Ledger, executor: int, request: OutputRequest) -> bool:
    """Ask an agent for output of a task, by a message in its mailbox; False when it has too many."""
    mailbox = ledger.messages.setdefault(executor, [])
    if len(mailbox) >= MOST_ASKED:
        return False
    mailbox.append([("?", *astuple(request))])
    return True


def answer_output(ledger: Ledger, name: str, part: OutputPart) -> None:
    """Answer a request for output; it expires."""
    ledger.answers[name] = part


def keep_tails(ledger: Ledger, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
    """Store the last output of tasks, by job, group, task and stream; its size is bounded, and it expires."""
    ledger.output.update(tails)
    for field in list(ledger.output)[: max(0, len(ledger.output) - TAILS)]:
        del ledger.output[field]
