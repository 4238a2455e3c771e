"""A server that is full (semantics 13): what grows is refused with nothing written, what frees passes."""

from collections.abc import Iterator
from typing import Any

import pytest

from omega.cellstate.errors import StoreFull
from omega.cellstate.model import JobState, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.tasks import EndKind, TaskEnd
from tests.contract.conftest import Make, Member, RedisStand, job
from tests.contract.test_resend import everything

pytestmark = [pytest.mark.server, pytest.mark.parametrize("make", ["resp2", "resp3"], indirect=True)]


@pytest.fixture
def stand(make: Make) -> Iterator[RedisStand]:
    """A cell on a server that gets its memory back afterwards."""
    made = make()
    assert isinstance(made, RedisStand)
    made.cell.executors.register("e0", "n", 600_000, 0)
    made.cell.machines.join("e0", [MachineSpec(f"m{i}", (4, 8)) for i in range(3)], 0)
    yield made
    made.cell.client.config_set("maxmemory", 0)


def fill(stand: RedisStand) -> None:
    """From now on the server has less memory than it uses."""
    stand.cell.client.config_set("maxmemory-policy", "noeviction")
    stand.cell.client.config_set("maxmemory", 1)


def test_what_grows_is_refused_and_nothing_is_written(stand: RedisStand) -> None:
    cell = stand.cell
    member = Member(cell)
    cell.jobs.submit([job("a", count=4), job("wide", (9, 9)), job("high", precedence=9)], 0, "ada")
    member.place("a", (0, 3))
    fill(stand)
    before: Any = everything(cell)
    number = member.number
    for refused in (
        lambda: cell.jobs.submit([job("b")], 0, "ada"),
        lambda: member.place("a", (1, 1)),
        lambda: member.place("wide", (1, 1)),
        lambda: member.place("high", (0, 1), evict=((1, 1),)),
        lambda: cell.machines.join("e1", [MachineSpec("m9", (1, 1))], 0),
        lambda: cell.schedulers.register("batch/7", "n", 60_000, 0),
        lambda: cell.pools.set_limits("batch", Limits((1, 1)), 0, "ada"),
        lambda: cell.jobs.hold("a", 0, "ada"),
        lambda: cell.jobs.resize("a", {0: 9}, 0, "ada"),
        lambda: cell.jobs.update("a", [TaskGroup((1, 1), 1)], {"groups": [{}, {}]}, 0, "ada"),
    ):
        with pytest.raises(StoreFull):
            refused()
        member.number = number
    after = everything(cell)
    assert after[3:6] == before[3:6], "jobs, pending, kinds"
    assert after[2] == before[2], "runs"
    assert after[8] == before[8], "members"
    stand.cell.client.config_set("maxmemory", 0)
    assert member.place("a", (1, 1)).accepted, "its number is still free"


def test_what_frees_passes(stand: RedisStand) -> None:
    cell = stand.cell
    member = Member(cell)
    other = Member(cell, "service/0")
    cell.jobs.submit([job("a", count=4), job("b"), job("c", count=4)], 0, "ada")
    member.place("a", (0, 2), (1, 2))
    fill(stand)
    assert cell.jobs.resize("c", {0: 3}, 1, "ada").groups[0].total == 3
    assert cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0"), TaskEnd(0, 1, EndKind.STOPPED)], 1, "e0") == [1, 1]
    assert cell.executors.end([TaskEnd(0, 1, EndKind.LEFT)], 1, "e0") == [1]
    assert cell.jobs.stop("b", 1, "ada").state is JobState.STOPPED
    assert cell.machines.set_state(2, MachineState.DRAINED, 1, "ada") == 0
    assert cell.machines.set_state(1, MachineState.DOWN, 1, "ada") == 2
    assert cell.schedulers.renew(member.membership, 60_000, {"waits": 1}) == ["batch/0", "service/0"], (
        "leases are no growth"
    )
    assert cell.schedulers.deregister(other.membership, 1)
    assert [cell.jobs.retire(now) for now in (1, 10_000_000)] == [0, 1]
    found = cell.jobs.get("a")
    assert found is not None
    assert (found.groups[0].unplaced, found.groups[0].finished, found.groups[0].stopped) == (2, 1, 1)
    assert {m.allocated for m in cell.machines.all()} == {(0, 0)}
    assert member.seen(0) == 3
