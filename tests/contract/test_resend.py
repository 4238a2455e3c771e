"""Every script sent twice has the effect of once: a lost reply is answered by sending again (semantics 14)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from omega.cellstate.errors import Fenced
from omega.cellstate.model import BUCKETS, Gang, JobState, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.scripts import Script
from omega.cellstate.replies import CommitRequest, Reply
from omega.cellstate.shards import Worker
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Ask, Claim, Intake, Mode, Outcome, Position, Transaction, Verdict
from tests.contract.conftest import AnyCell, Make, Member, RedisStand, job


class Twice(RedisCell):
    """Loses the first reply of everything."""

    def _exchange(self, chosen: Script, full: list[str], arguments: Sequence[object]) -> Any:
        super()._exchange(chosen, full, arguments)
        return super()._exchange(chosen, full, arguments)

    def finish(self) -> Reply:
        self.resend()
        return super().finish()


def everything(cell: AnyCell) -> list[Any]:
    counters = {name: value for name, value in cell.counters().items() if value}
    rows = cell.sync(Position()).rows.tolist()
    return [
        cell.machines(), rows, cell.runs(range(9)), cell.jobs(), cell.pending(), cell.kinds(), cell.job_names(),
        cell.facts(most=10_000), cell.members(), cell.agents(), counters, cell.progress("a"), cell.durations("a"),
    ]  # fmt: skip


def history(cell: AnyCell, expire_lease: Callable[[str], None]) -> None:
    """A bit of everything that changes a cell."""
    if isinstance(cell, RedisCell):
        cell.store_ms = lambda: 100  # type: ignore[method-assign]
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec(f"m{i}", (4, 8)) for i in range(3)], 0)
    member = Member(cell)
    gang = job("gang", count=2, gang=Gang.STRICT)
    cell.submit([job("a", (2, 2), 6), gang, job("high", (3, 3), precedence=9), job("held")], 1, "ada")
    cell.set_limits("batch", Limits((20, None)), 2, "ada")
    member.place("a", (0, 2), (1, 1))
    first, second = Worker(0, cell.runs([0])[0].placement, 0), Worker(1, cell.runs([1])[0].placement, 2)
    for worker, phase, failed in ((first, "map", True), (second, "map", False), (first, "reduce", False)):
        cell.claim_directory("/data/a", "a", expire_ms=600_000)
        cell.claim_jobs(["a"], "here", expire_ms=600_000)
        cell.claim_shard("a", worker, 1, 1, 10**6)
        cell.end_shard("a", "a", worker, phase, 0, 20, failed_ms=0 if failed else None)
    member.place("gang", (1, 1), (2, 1), mode=Mode.GANG)
    member.place("high", (1, 1), evict=((2, 1), (3, 1)))
    cell.end([TaskEnd(0, 1, EndKind.FINISHED, "0"), TaskEnd(1, 2, EndKind.LEFT), TaskEnd(0, 9, EndKind.LOST)], 3, "e0")
    cell.end([TaskEnd(0, 1, EndKind.EVICTED, "1", "drain")], 3, "e0")
    cell.set_machine_state(2, MachineState.DRAINED, 4, "ada")
    cell.register_executor("e1", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (6, 8), {"rack": "r1"})], 5)
    cell.join("e1", [MachineSpec("m3", (1, 1))], 5)
    member.place("a", (0, 3))
    live = [run.placement for run in cell.runs([0]) if not run.leaving]
    cell.set_machine_capacity(0, (3, 8), 6, "ada", [(placement, 3) for placement in live])
    assert cell.machines()[0].allocated == (2, 2)
    cell.update("held", [TaskGroup((2, 2), 1)], {"groups": [{}, {"command": ["true"]}]}, 6, "ada")
    cell.settle("held", "fails", 6, "batch/0")
    cell.resize("held", {0: 0, 1: 1}, 6, "ada")
    cell.hold("held", 7, "ada")
    cell.stop("held", 7, "ada", JobState.ABANDONED)
    (left,) = (run.placement for run in cell.runs([0]) if not run.leaving)
    cell.end([TaskEnd(0, left, EndKind.LOST, "*", "x")], 7, "e0")
    cell.end([TaskEnd(0, left, EndKind.FINISHED, "*", "", "a")], 7, "e0")
    cell.stop("gang", 7, "ada")
    cell.housekeep(7, "batch/0")
    cell.stop("a", 7, "ada")
    cell.set_machine_state(1, MachineState.DOWN, 8, "ada")
    cell.set_machine_state(3, MachineState.GONE, 8, "ada")
    other = Member(cell, "service/0")
    cell.renew_scheduler(other.membership, 60_000, {"waits": 1})
    cell.deregister_scheduler(other.membership, 9)
    expire_lease("batch/0")
    cell.deregister_scheduler(member.membership, 10, reaped=True)
    cell.retire(5_000)
    agent(cell, expire_lease)


def agent(cell: AnyCell, expire_lease: Callable[[str], None]) -> None:
    """Two agents come; one leaves with a task on its machine, the other's lease runs out."""
    agents = [cell.register_agent(name, "n", 60_000, 11) for name in ("h1", "h2", "h3")]
    first, second = (cell.join(me.member, [MachineSpec(me.member[6:], (4, 8))], 11)[0] for me in agents[:2])
    cell.submit([job("c", count=4, kind="service")], 12, "ada")
    member = Member(cell, "service/1")
    member.place("c", (first, 2), (second, 2))
    cell.renew_executor(agents[0], 60_000, first)
    cell.keep_tails({("c", 0, 1, "stdout"): b"words"})
    cell.deregister_executor(agents[0], 13, "agent/h1", reaped=False)
    expire_lease("agent/h2")
    cell.deregister_executor(agents[1], 14, "service/1")
    expire_lease("service/1")
    cell.deregister_scheduler(member.membership, 15, reaped=True)


def test_sending_everything_twice_changes_nothing(make: Make) -> None:
    once = make()
    history(once.cell, once.expire_lease)
    twice = make()
    if isinstance(twice, RedisStand):
        cell = Twice.open(twice.connect(), twice.cell.name)
        twice.others.append(cell)
        history(cell, twice.expire_lease)
    else:
        history(twice.cell, twice.expire_lease)
    assert everything(twice.cell) == everything(once.cell)


def test_a_commit_sent_again_returns_the_first_outcome(cell: AnyCell, member: Member) -> None:
    cell.submit([job("a", (3, 3), 2)], 0, "ada")
    first = member.place("a", (0, 2))
    assert first.claims == ((1, Verdict.FULL),)
    version = member.position
    member.number -= 1
    assert member.place("a", (1, 1)) == first, "whatever it asks for the second time"
    assert member.position == version
    assert [run.machine for run in cell.runs([0, 1])] == [0]


def test_a_resent_commit_still_learns_what_is_new(cell: AnyCell, member: Member) -> None:
    cell.submit([job("a"), job("b")], 0, "ada")
    member.position = cell.sync(member.position).position
    claims = [Transaction("a", (Claim(0, 0, 1),))]
    asked = Intake("batch", (Ask(1, 0, 9),), 9, "1" * BUCKETS)
    cell.begin(CommitRequest(member.membership, 1, claims, member.position, 0, intake=asked))
    cell.resend()
    reply = cell.finish()
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m9", (1, 1))], 0)
    again = cell.commit(CommitRequest(member.membership, 1, claims, member.position, 0, intake=asked))
    assert (reply.outcomes, [each.job.id for each in reply.jobs]) == ([Outcome(((1, Verdict.PLACED),))], ["b"])
    assert (again.outcomes, [each.job.id for each in again.jobs]) == (reply.outcomes, ["b"])
    assert {row[0] for row in reply.rows.tolist()} == {0}
    assert {row[0] for row in again.rows.tolist()} == {0, 3}


def test_one_commit_is_in_flight_at_a_time(cell: AnyCell, member: Member) -> None:
    cell.submit([job("a", count=4)], 0, "ada")
    for number in (1, 2):
        cell.begin(CommitRequest(member.membership, number, [Transaction("a", (Claim(0, 0, 1),))], Position(), 0))
        assert cell.finish().outcomes[0].accepted
    for call in (cell.finish, cell.resend):
        with pytest.raises(RuntimeError, match="in flight"):
            call()
    cell.begin(CommitRequest(member.membership, 1, [], Position(), 0))
    with pytest.raises(Fenced):
        cell.finish()
    assert len(cell.runs([0])) == 2
