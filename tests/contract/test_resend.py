"""Every script sent twice has the effect of once: a lost reply is answered by sending again (semantics 14)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from omega.cellstate.errors import Fenced
from omega.cellstate.model import BUCKETS, Gang, JobState, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.schedulers import RedisSchedulers
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

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.schedulers = TwiceCommitted(self, self.jobs)


class TwiceCommitted(RedisSchedulers):
    def finish(self) -> Reply:
        self.resend()
        return super().finish()


def everything(cell: AnyCell) -> list[Any]:
    counters = {name: value for name, value in cell.counters().items() if value}
    rows = cell.schedulers.sync(Position()).rows.tolist()
    return [
        cell.machines.all(), rows, cell.machines.runs(range(9)), cell.jobs.all(), cell.schedulers.pending(),
        cell.pools.kinds(), cell.jobs.names(), cell.log.facts(most=10_000), cell.schedulers.members(),
        cell.executors.agents(), counters, cell.shards.progress("a"), cell.shards.durations("a"),
    ]  # fmt: skip


def history(cell: AnyCell, expire_lease: Callable[[str], None]) -> None:
    """A bit of everything that changes a cell."""
    if isinstance(cell, RedisCell):
        cell.store_ms = lambda: 100  # type: ignore[method-assign]
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (4, 8)) for i in range(3)], 0)
    member = Member(cell)
    gang = job("gang", count=2, gang=Gang.STRICT)
    cell.jobs.submit([job("a", (2, 2), 6), gang, job("high", (3, 3), precedence=9), job("held")], 1, "ada")
    cell.pools.set_limits("batch", Limits((20, None)), 2, "ada")
    member.place("a", (0, 2), (1, 1))
    first, second = (
        Worker(0, cell.machines.runs([0])[0].placement, 0),
        Worker(1, cell.machines.runs([1])[0].placement, 2),
    )
    for worker, phase, failed in ((first, "map", True), (second, "map", False), (first, "reduce", False)):
        if isinstance(cell, RedisCell):
            cell.shards.claim_directory("/data/a", "a", expire_ms=600_000)
        cell.jobs.claim(["a"], "here", expire_ms=600_000)
        cell.shards.claim("a", worker, 1, 1, 10**6)
        cell.shards.end("a", "a", worker, phase, 0, 20, failed_ms=0 if failed else None)
    member.place("gang", (1, 1), (2, 1), mode=Mode.GANG)
    member.place("high", (1, 1), evict=((2, 1), (3, 1)))
    cell.executors.end(
        [TaskEnd(0, 1, EndKind.FINISHED, "0"), TaskEnd(1, 2, EndKind.LEFT), TaskEnd(0, 9, EndKind.LOST)], 3, "e0"
    )
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "1", "drain")], 3, "e0")
    cell.machines.set_state(2, MachineState.DRAINED, 4, "ada")
    cell.executors.register("e1", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (6, 8), {"rack": "r1"})], 5)
    cell.machines.join("e1", [MachineSpec("m3", (1, 1))], 5)
    member.place("a", (0, 3))
    live = [run.placement for run in cell.machines.runs([0]) if not run.leaving]
    cell.machines.set_capacity(0, (3, 8), 6, "ada", [(placement, 3) for placement in live])
    assert cell.machines.all()[0].allocated == (2, 2)
    cell.jobs.update("held", [TaskGroup((2, 2), 1)], {"groups": [{}, {"command": ["true"]}]}, 6, "ada")
    cell.jobs.settle("held", "fails", 6, "batch/0")
    cell.jobs.resize("held", {0: 0, 1: 1}, 6, "ada")
    cell.jobs.hold("held", 7, "ada")
    cell.jobs.stop("held", 7, "ada", JobState.ABANDONED)
    (left,) = (run.placement for run in cell.machines.runs([0]) if not run.leaving)
    cell.executors.end([TaskEnd(0, left, EndKind.LOST, "*", "x")], 7, "e0")
    cell.executors.end([TaskEnd(0, left, EndKind.FINISHED, "*", "", "a")], 7, "e0")
    cell.jobs.stop("gang", 7, "ada")
    cell.jobs.housekeep(7, "batch/0")
    cell.jobs.stop("a", 7, "ada")
    cell.machines.set_state(1, MachineState.DOWN, 8, "ada")
    cell.machines.set_state(3, MachineState.GONE, 8, "ada")
    other = Member(cell, "service/0")
    cell.schedulers.renew(other.membership, 60_000, {"waits": 1})
    cell.schedulers.deregister(other.membership, 9)
    expire_lease("batch/0")
    cell.schedulers.deregister(member.membership, 10, reaped=True)
    cell.jobs.retire(5_000)
    agent(cell, expire_lease)


def agent(cell: AnyCell, expire_lease: Callable[[str], None]) -> None:
    """Two agents come; one leaves with a task on its machine, the other's lease runs out."""
    agents = [cell.executors.register_agent(name, "n", 60_000, 11) for name in ("h1", "h2", "h3")]
    first, second = (cell.machines.join(me.member, [MachineSpec(me.member[6:], (4, 8))], 11)[0] for me in agents[:2])
    cell.jobs.submit([job("c", count=4, kind="service")], 12, "ada")
    member = Member(cell, "service/1")
    member.place("c", (first, 2), (second, 2))
    cell.executors.renew(agents[0], 60_000, first)
    cell.tasks.keep_tails({("c", 0, 1, "stdout"): b"words"})
    cell.executors.deregister(agents[0], 13, "agent/h1", reaped=False)
    expire_lease("agent/h2")
    cell.executors.deregister(agents[1], 14, "service/1")
    expire_lease("service/1")
    cell.schedulers.deregister(member.membership, 15, reaped=True)


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
    cell.jobs.submit([job("a", (3, 3), 2)], 0, "ada")
    first = member.place("a", (0, 2))
    assert first.claims == ((1, Verdict.FULL),)
    version = member.position
    member.number -= 1
    assert member.place("a", (1, 1)) == first, "whatever it asks for the second time"
    assert member.position == version
    assert [run.machine for run in cell.machines.runs([0, 1])] == [0]


def test_a_resent_commit_still_learns_what_is_new(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a"), job("b")], 0, "ada")
    member.position = cell.schedulers.sync(member.position).position
    claims = [Transaction("a", (Claim(0, 0, 1),))]
    asked = Intake("batch", (Ask(1, 0, 9),), 9, "1" * BUCKETS)
    cell.schedulers.begin(CommitRequest(member.membership, 1, claims, member.position, 0, intake=asked))
    cell.schedulers.resend()
    reply = cell.schedulers.finish()
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m9", (1, 1))], 0)
    again = cell.schedulers.commit(CommitRequest(member.membership, 1, claims, member.position, 0, intake=asked))
    assert (reply.outcomes, [each.job.id for each in reply.jobs]) == ([Outcome(((1, Verdict.PLACED),))], ["b"])
    assert (again.outcomes, [each.job.id for each in again.jobs]) == (reply.outcomes, ["b"])
    assert {row[0] for row in reply.rows.tolist()} == {0}
    assert {row[0] for row in again.rows.tolist()} == {0, 3}


def test_one_commit_is_in_flight_at_a_time(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=4)], 0, "ada")
    for number in (1, 2):
        cell.schedulers.begin(
            CommitRequest(member.membership, number, [Transaction("a", (Claim(0, 0, 1),))], Position(), 0)
        )
        assert cell.schedulers.finish().outcomes[0].accepted
    for call in (cell.schedulers.finish, cell.schedulers.resend):
        with pytest.raises(RuntimeError, match="in flight"):
            call()
    cell.schedulers.begin(CommitRequest(member.membership, 1, [], Position(), 0))
    with pytest.raises(Fenced):
        cell.schedulers.finish()
    assert len(cell.machines.runs([0])) == 2
