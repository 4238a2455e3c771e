"""Agents: one name, one live agent; when it is gone its tasks go back to pending, once (semantics 2, 15, 17)."""

import pytest

from omega.cellstate.errors import BadInput, Duplicate, Fenced, Refused
from omega.cellstate.executors import ExecutorRecord
from omega.cellstate.model import MachineSettings, MachineSpec, MachineState
from omega.cellstate.replies import Membership
from omega.cellstate.tasks import Consumption, EndKind, TaskEnd, merged_consumption
from tests.contract.conftest import AnyCell, Member, Stand, job, requeue_lost

LEASE_MS = 60_000


@pytest.fixture(autouse=True)
def old_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has been up for longer than any lease."""
    monkeypatch.setattr("omega.cellstate.redis.calls.Connection.store_older_than", lambda *_: True)


def engage(cell: AnyCell, name: str = "h1", nonce: str = "n1") -> Membership:
    """An agent that has joined with a machine of (4, 8)."""
    me = cell.executors.register_agent(name, nonce, LEASE_MS, 0)
    cell.machines.join(me.member, [MachineSpec(name, (4, 8))], 0)
    return me


def index(cell: AnyCell, name: str = "h1") -> int:
    found = cell.machines.index_of(name)
    assert found is not None
    return found


def state(cell: AnyCell, name: str = "h1") -> MachineState | None:
    return {m.name: m.state for m in cell.machines.all()}.get(name)


def test_a_name_belongs_to_one_live_agent(stand: Stand, cell: AnyCell) -> None:
    first = engage(cell)
    assert cell.executors.register_agent("h1", "n1", LEASE_MS, 1) == first, (
        "sent again, or back after a crash, with its nonce"
    )
    with pytest.raises(Duplicate, match="agent h1: another one lives under this name"):
        cell.executors.register_agent("h1", "n2", LEASE_MS, 1)
    assert cell.executors.agents() == {"h1": ExecutorRecord(4, first.incarnation, True, LEASE_MS)}
    with pytest.raises(BadInput):
        cell.executors.register_agent("no such/name", "n1", LEASE_MS, 0)


def test_the_machine_of_another_executor_is_not_taken(cell: AnyCell) -> None:
    with pytest.raises(Refused, match="agent m0: the machine of this name has another executor"):
        cell.executors.register_agent("m0", "n1", LEASE_MS, 0)
    cell.machines.set_state(0, MachineState.GONE, 0, "ada")
    assert engage(cell, "m0").member == "agent/m0", "one that is gone is free"


def test_a_beat_tells_what_is_to_run(cell: AnyCell, member: Member) -> None:
    me = cell.executors.register_agent("h1", "n1", LEASE_MS, 0)
    assert cell.executors.renew(me, LEASE_MS, None) == (2, None, [], False)
    engage(cell)
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    member.place("a", (index(cell), 3))
    placement = cell.machines.runs([index(cell)])[0].placement
    cell.executors.end([TaskEnd(index(cell), placement, EndKind.EVICTED, "1", "drain")], 0, "ada")
    cell.machines.set_state(index(cell), MachineState.DRAINED, 0, "ada")
    agents, drained, runs, _ = cell.executors.renew(me, LEASE_MS, index(cell))
    assert (agents, drained) == (2, MachineState.DRAINED)
    assert [(run.job, run.tasks, run.leaving) for run in runs] == [("a", "0,2", False), ("a", "1", True)]


def test_a_lapsed_lease_is_not_revived_by_a_beat(stand: Stand, cell: AnyCell) -> None:
    me = engage(cell)
    for stranger in (Membership(me.member, me.incarnation + 1), Membership("agent/h2", me.incarnation)):
        with pytest.raises(Fenced):
            cell.executors.renew(stranger, LEASE_MS, 0)
    stand.expire_lease("agent/h1")
    with pytest.raises(Fenced, match="agent/h1: its lease lapsed"):
        cell.executors.renew(me, LEASE_MS, index(cell))
    assert not cell.executors.agents()["h1"].lives


def test_its_tasks_go_back_once(stand: Stand, cell: AnyCell, member: Member) -> None:
    me = engage(cell)
    cell.jobs.submit([job("a", count=3), job("b")], 0, "ada")
    member.place("a", (index(cell), 3))
    member.place("b", (0, 1))
    cell.executors.end([TaskEnd(index(cell), 1, EndKind.EVICTED, "2", "drain")], 0, "ada")
    assert not cell.executors.deregister(me, 1, "batch/0"), "its lease holds"
    stand.expire_lease("agent/h1")
    before = member.seen(index(cell))
    assert cell.executors.deregister(me, 1, "batch/0")
    assert not cell.executors.deregister(me, 1, "batch/1"), "somebody else noticed as well"
    assert state(cell) is MachineState.OFFLINE
    assert cell.machines.runs([index(cell)]) == [], "what was leaving is gone with the machine"
    assert (member.seen(index(cell)), cell.executors.agents()) == (before + 1, {})
    found = cell.jobs.get("a")
    assert found is not None
    assert (found.groups[0].waiting, found.groups[0].delayed) == ("2", 2)
    assert requeue_lost(cell) == 2
    assert cell.schedulers.pending() == {"batch": ["a"]}, "what runs elsewhere stays"
    lost = [(fact.by, fact.event[-1]) for fact in cell.log.facts() if fact.event[0] == "lost"]
    assert lost == [("batch/0", "agent")]
    assert ("lapse", "agent/h1", str(me.incarnation)) in [fact.event for fact in cell.log.facts()]


def test_a_drained_machine_stays_drained(stand: Stand, cell: AnyCell, member: Member) -> None:
    me = engage(cell)
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (index(cell), 2))
    cell.machines.set_state(index(cell), MachineState.DRAINED, 0, "ada")
    cell.executors.end([TaskEnd(index(cell), 1, EndKind.EVICTED, "*", "drain")], 0, "ada")
    stand.expire_lease("agent/h1")
    assert cell.executors.deregister(me, 1, "batch/0")
    assert state(cell) is MachineState.DRAINED
    assert cell.machines.runs([index(cell)]) == []


def test_the_machine_of_an_agent_that_leaves_stays_offline(cell: AnyCell, member: Member) -> None:
    me = engage(cell)
    cell.jobs.submit([job("a")], 0, "ada")
    member.place("a", (index(cell), 1))
    assert cell.executors.deregister(me, 1, me.member, reaped=False)
    assert state(cell) is MachineState.OFFLINE
    requeue_lost(cell)
    assert cell.schedulers.pending() == {"batch": ["a"]}
    assert engage(cell, nonce="n2").incarnation > me.incarnation
    assert state(cell) is MachineState.UP


@pytest.mark.parametrize("set_to", [MachineState.DRAINED, MachineState.DOWN])
def test_a_state_that_an_operator_set_outlives_the_agent(cell: AnyCell, set_to: MachineState) -> None:
    me = engage(cell)
    cell.machines.set_state(index(cell), set_to, 1, "ada")
    if set_to is MachineState.DRAINED:
        cell.machines.set_deadline(index(cell), 60_000)
    assert cell.executors.deregister(me, 2, me.member, reaped=False)
    assert state(cell) is set_to, "while its agent is away"
    engage(cell, nonce="n2")
    assert state(cell) is set_to, "and when it is back"
    assert bool(cell.machines.deadlines()) is (set_to is MachineState.DRAINED)


def test_amounts_and_attributes_that_an_operator_set_outlive_the_agent(cell: AnyCell) -> None:
    def come(nonce: str, size: tuple[int, int], **attributes: str) -> None:
        me = cell.executors.register_agent("h1", nonce, LEASE_MS, 0)
        cell.machines.join(me.member, [MachineSpec("h1", size, attributes)], 0)

    def now() -> tuple[tuple[int, ...], dict[str, str]]:
        machine = next(m for m in cell.machines.all() if m.name == "h1")
        return machine.capacity, dict(machine.attributes)

    come("n1", (4, 8), rack="r1", gpu="a100")
    cell.machines.set_capacity(index(cell), (3, None), 1, "ada")
    cell.machines.set_attributes(index(cell), {"rack": "r2", "gpu": None, "zone": "z"}, 1, "ada")
    assert cell.executors.deregister(
        Membership("agent/h1", cell.executors.agents()["h1"].incarnation), 2, "ada", reaped=False
    )
    come("n2", (9, 6), rack="r1", gpu="a100", arch="arm")
    assert now() == ((3, 6), {"rack": "r2", "zone": "z", "arch": "arm"}), "the agent counts what no operator set"
    cell.machines.set_capacity(index(cell), (None, 6), 1, "ada")
    cell.machines.set_attributes(index(cell), {"gpu": "h100"}, 1, "ada")
    come("n2", (9, 9), gpu="a100")
    assert now()[0] == (3, 6), "set to what it had anyway, which is set too"
    assert now()[1] == {"rack": "r2", "zone": "z", "gpu": "h100"}
    (settings,) = cell.machines.settings_of([index(cell)])
    assert settings == MachineSettings((3, 6), {"rack": "r2", "gpu": "h100", "zone": "z"})


def test_what_an_operator_set_goes_with_the_machine(cell: AnyCell) -> None:
    engage(cell)
    cell.machines.set_capacity(index(cell), (3, 3), 1, "ada")
    cell.machines.set_attributes(index(cell), {"rack": "r2"}, 1, "ada")
    cell.machines.set_state(index(cell), MachineState.GONE, 2, "ada")
    engage(cell)
    (machine,) = [m for m in cell.machines.all() if m.name == "h1"]
    assert (machine.capacity, dict(machine.attributes), machine.state) == ((4, 8), {}, MachineState.UP)
    assert cell.machines.settings_of([index(cell)]) == [MachineSettings()]


def test_an_agent_that_never_joined_lapses_too(stand: Stand, cell: AnyCell) -> None:
    me = cell.executors.register_agent("h1", "n1", LEASE_MS, 0)
    stand.expire_lease("agent/h1")
    assert cell.executors.deregister(me, 1, "batch/0")
    assert cell.executors.agents() == {}


def test_the_next_of_its_name_puts_back_what_was_left(stand: Stand, cell: AnyCell, member: Member) -> None:
    old = engage(cell)
    cell.jobs.submit([job("a")], 0, "ada")
    member.place("a", (index(cell), 1))
    stand.expire_lease("agent/h1")
    new = cell.executors.register_agent("h1", "n2", LEASE_MS, 1)
    assert new.incarnation > old.incarnation
    requeue_lost(cell)
    assert cell.schedulers.pending() == {"batch": ["a"]}
    assert state(cell) is MachineState.OFFLINE, "until it joins"
    with pytest.raises(Fenced):
        cell.executors.renew(old, LEASE_MS, index(cell))


def test_a_machine_that_found_another_executor_is_left_alone(stand: Stand, cell: AnyCell, member: Member) -> None:
    me = engage(cell)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("h1", (4, 8))], 1)
    stand.expire_lease("agent/h1")
    assert cell.executors.deregister(me, 1, "batch/0")
    assert state(cell) is MachineState.UP


def test_last_words(cell: AnyCell, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("redis.tasks", "memory.cell"):
        monkeypatch.setattr(f"omega.cellstate.{module}.TAILS", 3)
    cell.tasks.keep_tails({})
    cell.tasks.keep_tails({("a", 0, 7, "stdout"): b"one\n", ("a", 0, 7, "stderr"): b"\xff\x00 raw"})
    cell.tasks.keep_tails({("a", 0, 7, "stdout"): b"two\n", ("b", 1, 0, "stdout"): b""})
    assert cell.tasks.tail("a", 0, 7, "stdout") == b"two\n"
    assert cell.tasks.tail("a", 0, 7, "stderr") == b"\xff\x00 raw"
    assert cell.tasks.tail("b", 1, 0, "stdout") == b""
    cell.tasks.keep_tails({("c", 0, 0, "stdout"): b"three"})
    assert cell.tasks.tail("a", 0, 7, "stdout") is None, "the oldest gave way"
    assert cell.tasks.tail("c", 0, 0, "stdout") == b"three"


def test_what_tasks_used_is_read_by_job(cell: AnyCell) -> None:
    cell.tasks.keep_tails(
        {("a", 0, 1, "usage"): b"1 2 3 4", ("a", 1, 0, "usage"): b"1 1 1 9", ("a.b", 0, 1, "usage"): b"7 7 7 7"}
    )
    cell.tasks.keep_tails({("a", 0, 1, "stdout"): b"hi", ("a", 0, 1, "usage"): b"2 4 6 8"})
    assert merged_consumption(cell.tasks.measured("a")) == Consumption(tasks=3, cpu_ms=5, run_ms=7, peak_bytes=9)
    assert merged_consumption(cell.tasks.measured("b")) == Consumption()
