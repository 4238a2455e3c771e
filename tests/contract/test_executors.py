"""Executors: without a live one a machine takes nothing; while it lives its tasks leave before they start elsewhere."""

from collections.abc import Iterator, Sequence

import pytest

from omega.cellstate.errors import BadInput, Duplicate, Fenced, Refused, StoreError
from omega.cellstate.executors import portions
from omega.cellstate.model import MachineSpec, MachineState, TaskGroup
from omega.cellstate.replies import Membership
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Member, RedisStand, Stand, job

LEASE_MS = 600_000


@pytest.fixture(autouse=True)
def old_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has been up for longer than any lease."""
    monkeypatch.setattr("omega.cellstate.redis.calls.Connection.store_older_than", lambda *_: True)


def states(cell: AnyCell) -> list[str]:
    return [machine.state.name.lower() for machine in cell.machines.all()]


def test_a_machine_without_a_live_executor_takes_nothing(stand: Stand) -> None:
    """Semantics 31."""
    cell = stand.cell
    cell.machines.join("e0", [MachineSpec(f"m{i}", (4, 8)) for i in range(3)], 0)
    assert states(cell) == ["offline"] * 3
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member = Member(cell)
    assert member.place("a", (0, 1)).claims == ((0, Verdict.DOWN),)
    assert cell.machines.set_state(0, MachineState.UP, 0, "ada") == 0, "nobody is there"
    assert states(cell) == ["offline"] * 3
    cell.machines.set_state(1, MachineState.DRAINED, 0, "ada")
    cell.machines.set_state(2, MachineState.DOWN, 0, "ada")
    me = cell.executors.register("e0", "n", LEASE_MS, 1)
    assert cell.executors.register("e0", "n", LEASE_MS, 1) == me, "sent again"
    assert states(cell) == ["up", "drained", "down"], "what a person set stays"
    assert member.place("a", (0, 1)).accepted
    with pytest.raises(BadInput, match="executors enter and leave it"):
        cell.machines.set_state(0, MachineState.OFFLINE, 0, "ada")
    assert verify(cell).ok


def test_the_machines_of_an_executor_that_is_gone_are_offline_and_their_tasks_pending(
    stand: Stand, cell: AnyCell, member: Member
) -> None:
    cell.jobs.submit([job("a", count=9)], 0, "ada")
    member.place("a", (0, 3), (1, 2), (2, 1))
    cell.executors.end([TaskEnd(1, 2, EndKind.EVICTED, "3", "drain")], 0, "ada")
    cell.machines.set_state(2, MachineState.GONE, 0, "ada")
    (record,) = cell.executors.records().values()
    me = Membership("e0", record.incarnation)
    with pytest.raises(Duplicate, match="executor e0: another one lives"):
        cell.executors.register("e0", "other", LEASE_MS, 1)
    assert not cell.executors.deregister(me, 1, "batch/0"), "its lease holds"
    stand.expire_lease("e0")
    with pytest.raises(Fenced):
        cell.executors.renew(me, LEASE_MS, None)
    assert cell.executors.deregister(me, 1, "batch/0")
    assert not cell.executors.deregister(me, 1, "batch/1"), "somebody else noticed as well"
    assert states(cell) == ["offline", "offline"]
    assert cell.machines.runs([0, 1, 2]) == [], "what was leaving is gone with it, on a removed machine too"
    found = cell.jobs.get("a")
    assert found is not None
    assert (found.unplaced, found.groups[0].placed) == (9, 0), "lost tasks are pending again, after their delay"
    assert cell.executors.records() == {}
    assert verify(cell).ok


def test_a_successor_goes_on_with_the_tasks_of_one_that_died(stand: Stand, cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 2))
    stand.expire_lease("e0")
    new = cell.executors.register("e0", "second", LEASE_MS, 1)
    assert cell.executors.records()["e0"].incarnation == new.incarnation
    assert [run.tasks for run in cell.machines.runs([0])] == ["0-1"]
    assert states(cell) == ["up"] * 3


@pytest.mark.parametrize("state", [MachineState.DOWN, MachineState.GONE])
def test_tasks_of_a_live_executor_leave_a_machine_that_goes(
    stand: Stand, cell: AnyCell, member: Member, state: MachineState
) -> None:
    """Semantics 23: a second copy starts only when the first one has ended."""
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 2))
    cell.executors.receive(1)
    assert cell.machines.set_state(0, state, 1, "ada") == 2
    assert cell.machines.set_state(0, state, 1, "ada") == 0, "sent again"
    assert [(run.tasks, run.leaving) for run in cell.machines.runs([0])] == [("0-1", True)]
    assert cell.executors.receive(1) == ["- 1 0 0-1"]
    assert [fact.event[-1] for fact in cell.log.facts() if fact.event[0] == "evicted"] == ["down"]
    member.place("a", (1, 2))
    second = cell.machines.runs([1])[0].placement
    assert cell.executors.may_start([(1, second)]) == ["wait"]
    assert verify(cell).ok
    if state is MachineState.DOWN:
        cell.machines.set_state(0, MachineState.UP, 1, "ada")
        cell.jobs.submit([job("big", (4, 8))], 1, "ada")
        member.place("big", (0, 1))
        assert cell.executors.may_start([(0, cell.machines.runs([0])[-1].placement)]) == ["wait"], (
            "never more than the machine has"
        )
    else:
        with pytest.raises(Refused, match="tasks of its last executor"):
            cell.machines.join("e1", [MachineSpec("m0", (4, 8))], 1)
        with pytest.raises(Refused, match="another executor"):
            cell.executors.register_agent("m0", "n", LEASE_MS, 1)
    cell.executors.end([TaskEnd(0, 1, EndKind.LEFT)], 2, "e0")
    assert cell.executors.may_start([(1, second)]) == ["go"]


def test_a_command_runs_where_commands_are_run_and_nowhere_else(cell: AnyCell, member: Member) -> None:
    """Semantics 31: nothing finishes that did not run."""
    runs = {"command": ["false"]}

    def submit(name: str, **extra: object) -> None:
        spec = job(name, spec=extra)
        cell.jobs.submit([type(spec)(name, name, "batch", (TaskGroup((1, 1), 1, 5, runs),), spec=extra)], 0, "ada")

    submit("real")
    submit("played", simulate=True)
    cell.jobs.submit([job("plain")], 0, "ada")
    assert member.place("real", (0, 1)).claims == ((0, Verdict.DOWN),)
    assert member.place("played", (0, 1)).accepted
    assert member.place("plain", (0, 1)).accepted
    cell.executors.register_agent("h1", "n", LEASE_MS, 0)
    (index,) = cell.machines.join("agent/h1", [MachineSpec("h1", (4, 8))], 0)
    assert member.place("real", (index, 1)).accepted
    found = {each.id: each.commands for each in cell.jobs.all()}
    assert found == {"real": True, "played": False, "plain": False}
    cell.jobs.submit([job("later", count=2)], 0, "ada")
    cell.jobs.update("later", [TaskGroup((1, 1), 0)], {"groups": [{}, runs]}, 1, "ada")
    assert member.place("later", (0, 1)).claims == ((0, Verdict.DOWN),), "an update gave it a command"
    assert verify(cell).ok


def test_giving_up_machines_that_was_interrupted_is_continued(
    stand: Stand, cell: AnyCell, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its calls nobody takes the name, and no machine comes up."""
    if not isinstance(stand, RedisStand):
        pytest.skip("the twin does it in one call")
    cell.jobs.submit([job("a", count=9)], 0, "ada")
    member.place("a", (0, 3), (1, 3), (2, 3))
    stand.expire_lease("e0")
    gone = Membership("e0", cell.executors.records()["e0"].incarnation)

    def first_only(machines: Sequence[int], runs: Sequence[int]) -> Iterator[list[int]]:
        yield [machines[0]]
        raise StoreError("the process that did it ended")

    with monkeypatch.context() as dying:
        dying.setattr("omega.cellstate.redis.executors.portions", first_only)
        with pytest.raises(StoreError):
            cell.executors.deregister(gone, 1, "batch/0")
    assert states(cell) == ["offline", "up", "up"]
    assert verify(cell).ok
    cell.machines.join("e0", [MachineSpec("m9", (4, 8))], 1)
    assert cell.machines.set_state(0, MachineState.UP, 1, "ada") == 0
    assert states(cell) == ["offline", "up", "up", "offline"]
    new = stand.other().executors.register("e0", "second", LEASE_MS, 2)
    assert new.incarnation > gone.incarnation
    assert (states(cell), cell.machines.runs([0, 1, 2])) == (["up"] * 4, [])
    assert not cell.executors.deregister(gone, 3, "batch/1")
    assert verify(cell).ok


def test_machines_are_given_up_only_after_that_was_begun(stand: Stand, member: Member) -> None:
    """A late call of a process that believes that it began."""
    if not isinstance(stand, RedisStand):
        pytest.skip("the twin does it in one call")
    cell = stand.cell
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 2))
    stand.expire_lease("e0")
    gone = Membership("e0", cell.executors.records()["e0"].incarnation)
    own = gone._asdict() | {"name": "-", "reaped": 1, "now": 1}

    def step(word: str, *machines: str) -> int:
        values = cell.values(1, "batch/0") | own | {"step": word}
        return int(cell.run("deregister_executor", values, machines, member="e0", extra=cell.hints())[1])

    version = cell.counters()["version"]
    assert (step("part", "0"), step("end")) == (0, 0)
    assert cell.counters()["version"] == version
    assert (step("begin"), step("begin")) == (1, 1)
    assert (step("part", "0"), step("end"), step("end")) == (1, 1, 0)
    assert cell.machines.runs([0]) == []
    assert verify(cell).ok


def test_machines_are_given_up_in_portions_of_bounded_size() -> None:
    assert list(portions([1, 2, 3, 4, 5], [3, 0, 9, 2, 2], most=4)) == [[1, 2], [3], [4, 5]]
    assert list(portions([], [])) == []


def test_a_machine_that_was_drained_meanwhile_is_not_brought_up(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reading of the machines and the call that brings them up."""
    if not isinstance(stand, RedisStand):
        pytest.skip("the twin does it in one call")
    cell = stand.cell
    cell.machines.join("e0", [MachineSpec("m0", (4, 8)), MachineSpec("m1", (4, 8))], 0)
    cell.machines.join("e1", [MachineSpec("m2", (4, 8))], 0)
    monkeypatch.setattr(cell.executors, "machines_of", lambda _: [(index, MachineState.OFFLINE) for index in range(3)])
    cell.machines.set_state(0, MachineState.DRAINED, 0, "ada")
    cell.executors.register("e0", "n", LEASE_MS, 1)
    assert states(cell) == ["drained", "up", "offline"]


def test_an_executor_marks_its_own_machines_alone(server: RedisStand) -> None:
    cell = server.cell
    first, second = (cell.executors.register_agent(name, "n", LEASE_MS, 0) for name in ("h", "i"))
    for name in ("h", "i"):
        cell.machines.join(f"agent/{name}", [MachineSpec(name, (4, 8))], 0)
    cell.executors.report_fitness(first, [0, 1], "full", 1)
    assert states(cell) == ["unfit", "up"]
    cell.executors.report_fitness(second, [0, 1], "full", 2)
    cell.executors.report_fitness(second, [0, 1], "", 3)
    assert states(cell) == ["unfit", "up"]


def test_a_machine_whose_executor_cannot_start_tasks_takes_none_and_keeps_what_it_has(server: RedisStand) -> None:
    cell = server.cell
    lease = cell.executors.register_agent("h", "n", LEASE_MS, 0)
    cell.machines.join("agent/h", [MachineSpec("h", (4, 8))], 0)
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member = Member(cell)
    assert member.place("a", (0, 1)).placed == 1
    cell.executors.report_fitness(lease, [0], "No space left on device", 1)
    cell.executors.report_fitness(lease, [0], "No space left on device", 2)
    assert states(cell) == ["unfit"]
    assert cell.executors.agents()["h"].unfit == "No space left on device"
    told = [fact.event for fact in cell.log.facts() if fact.event[0] in ("unfit", "fit")]
    assert told == [("unfit", "agent/h", str(lease.incarnation), "No", "space", "left", "on", "device")]
    assert member.place("a", (0, 1)).claims == ((0, Verdict.DOWN),)
    (run,) = cell.machines.runs([0])
    cell.machines.set_state(0, MachineState.DRAINED, 3, "ada")
    assert (states(cell), cell.executors.agents()["h"].unfit) == (["drained"], "No space left on device")
    cell.machines.set_state(0, MachineState.UP, 4, "ada")
    cell.machines.join("agent/h", [MachineSpec("h", (4, 8))], 4)
    assert states(cell) == ["unfit"], "the mark is the machine's own"
    with pytest.raises(BadInput, match="unfit"):
        cell.machines.set_state(0, MachineState.UNFIT, 5, "ada")
    assert cell.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED)], 6, "agent/h") == [1]
    cell.executors.report_fitness(lease, [0], "", 7)
    assert (states(cell), cell.executors.agents()["h"].unfit) == (["up"], "")
    assert [fact.event[:2] for fact in cell.log.facts() if fact.event[0] == "fit"] == [("fit", "agent/h")]
    assert member.place("a", (0, 1)).placed == 1
    cell.executors.report_fitness(lease, [0], "again", 8)
    assert cell.executors.deregister(lease, 9, "agent/h", reaped=False)
    assert states(cell) == ["offline"]
    with pytest.raises(Fenced):
        cell.executors.report_fitness(lease, [0], "late", 10)
    cell.executors.register_agent("h", "n2", LEASE_MS, 11)
    cell.machines.join("agent/h", [MachineSpec("h", (4, 8))], 11)
    assert states(cell) == ["up"]
    assert verify(cell).violations == ()
