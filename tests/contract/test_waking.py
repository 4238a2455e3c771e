"""Wake tokens and the mailboxes of executors (semantics 19)."""

from collections.abc import Callable

import pytest

from omega.cellstate.memory.tasks import MAILBOX_MOST
from omega.cellstate.model import Limits, MachineSpec, MachineState
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.records import each_message
from omega.cellstate.replies import MOST_AWAITED, Awaited, Waits, awaited_of
from omega.cellstate.tasks import EndKind, TaskEnd
from tests.contract.conftest import AnyCell, Member, MemoryStand, RedisStand, Stand, job, requeue_lost


@pytest.fixture
def members(cell: AnyCell) -> list[Member]:
    """Two batch schedulers and a service scheduler, known to the client that hands out tokens."""
    found = [Member(cell, name) for name in ("batch/0", "batch/1", "service/0")]
    cell.schedulers.members()
    return found


def tokens(cell: AnyCell) -> dict[str, str]:
    """The tokens that there are; takes them. A server looks only ten times a second whether a wait is over."""
    names = ["batch/0", "batch/1", "service/0"]
    if isinstance(cell, RedisCell):
        names = [name for name in names if cell.client.llen(f"{cell.prefix}wake:{name}")]
    return {name: token for name in names if (token := cell.schedulers.wait_for_work(name, 0.01))}


def woken(cell: AnyCell) -> list[str]:
    """Whose tokens there are; takes them."""
    return list(tokens(cell))


def test_work_wakes_its_kind_once(cell: AnyCell, members: list[Member]) -> None:
    assert woken(cell) == []
    cell.jobs.submit([job("a")], 0, "ada")
    cell.jobs.submit([job("b"), job("c")], 0, "ada")
    assert woken(cell) == ["batch/0", "batch/1"]
    assert woken(cell) == [], "one token however much work there is"
    cell.jobs.submit([job("s", kind="service")], 0, "ada")
    assert woken(cell) == ["service/0"]


def test_what_is_put_back_wakes(cell: AnyCell, members: list[Member]) -> None:
    cell.jobs.submit([job("a", count=3), job("s", (4, 4), kind="service", precedence=9)], 0, "ada")
    members[0].place("a", (0, 1), (1, 1), (2, 1))
    woken(cell)
    cell.executors.end([TaskEnd(1, 2, EndKind.LOST)], 0, "e0")
    assert woken(cell) == [], "a lost task waits first"
    requeue_lost(cell)
    assert woken(cell) == ["batch/0", "batch/1"]
    cell.executors.end([TaskEnd(2, 3, EndKind.EVICTED, "*", "drain")], 0, "e0")
    assert woken(cell) == ["batch/0", "batch/1"]
    members[2].place("s", (0, 1), evict=((1, 1),))
    assert woken(cell) == ["batch/0", "batch/1"], "those who have to place the victim again"


def test_another_limit_wakes(cell: AnyCell, members: list[Member]) -> None:
    cell.pools.set_limits("service", Limits((1, None)), 0, "ada")
    assert woken(cell) == ["service/0"]
    cell.pools.set_limits("service", Limits((1, None)), 0, "ada")
    assert woken(cell) == []


FREEING: dict[str, Callable[[AnyCell], object]] = {
    "a task ends": lambda cell: cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0")], 0, "e0"),
    "a run ends": lambda cell: cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 0, "e0"),
    "a task is evicted": lambda cell: cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "0", "drain")], 0, "e0"),
    "a machine joins": lambda cell: cell.machines.join("e0", [MachineSpec("new", (4, 8))], 0),
    "a machine comes up": lambda cell: cell.machines.set_state(2, MachineState.UP, 0, "ada"),
    "a machine is larger": lambda cell: cell.machines.set_capacity(1, (9, 9), 0, "ada"),
    "an attribute is set": lambda cell: cell.machines.set_attributes(1, {"rack": "r1"}, 0, "ada"),
    "a job has fewer tasks": lambda cell: cell.jobs.resize("a", {0: 1}, 0, "ada"),
}


@pytest.mark.parametrize("what", FREEING)
def test_freed_room_wakes_who_has_jobs_that_fit_nowhere(cell: AnyCell, members: list[Member], what: str) -> None:
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    members[0].place("a", (0, 2))
    cell.machines.set_state(2, MachineState.DRAINED, 0, "ada")
    woken(cell)
    cell.schedulers.set_blocked("service/0", Waits())
    FREEING[what](cell)
    assert "service/0" in woken(cell)
    cell.schedulers.set_blocked("service/0", None)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("newer", (4, 8))], 0)
    assert "service/0" not in woken(cell)


def test_a_machine_that_can_start_tasks_again_wakes_who_has_jobs_that_fit_nowhere(
    stored: RedisCell, members: list[Member]
) -> None:
    lease = stored.executors.register_agent("h", "n", 600_000, 0)
    (index,) = stored.machines.join("agent/h", [MachineSpec("h", (4, 8))], 0)
    stored.executors.report_fitness(lease, [index], "full", 1)
    stored.schedulers.set_blocked("service/0", Waits())
    woken(stored)
    stored.executors.report_fitness(lease, [index], "", 2)
    assert "service/0" in woken(stored)


def test_room_beside_an_eviction_wakes(cell: AnyCell, members: list[Member]) -> None:
    cell.jobs.submit([job("a", (4, 4)), job("s", kind="service", precedence=9)], 0, "ada")
    members[0].place("a", (0, 1))
    cell.schedulers.set_blocked("batch/1", Waits())
    cell.schedulers.set_blocked("service/9", Waits())
    woken(cell)
    members[2].place("s", (1, 1))
    assert woken(cell) == []
    cell.jobs.submit([job("t", (3, 3), kind="service", precedence=9)], 0, "ada")
    woken(cell)
    members[2].place("t", (0, 1), evict=((1, 1),))
    assert "batch/1" in woken(cell)


@pytest.mark.parametrize(
    ("awaited", "notified"),
    [
        ((), []), (("b", "aa"), []), (("a", "b"), ["service/0"]), (("b", "a"), ["service/0"]),
        (awaited_of(map(str, range(MOST_AWAITED + 1))), ["service/0"]),
    ],
)  # fmt: skip
def test_a_placement_notifies_who_waits_for_it(
    cell: AnyCell, members: list[Member], awaited: Awaited, notified: list[str]
) -> None:
    cell.jobs.submit([job("a", (1, 1)), job("c", (9, 9))], 0, "ada")
    woken(cell)
    cell.schedulers.set_blocked("service/0", Waits(awaited))
    members[0].place("c", (0, 1))
    assert woken(cell) == [], "it does not fit"
    members[0].place("a", (0, 1))
    assert woken(cell) == notified


@pytest.fixture
def owned(cell: AnyCell, members: list[Member]) -> AnyCell:
    """Three schedulers with blocked jobs; batch/1 decides the lane of a job with three tasks on machine 0."""
    cell.jobs.submit([job("a", (1, 1), count=3)], 0, "ada")
    (lane,) = (number for number, (_, lane) in cell.schedulers.lanes().items() if lane.kind == "batch")
    members[0].place("a", (0, 2), (1, 1))
    cell.schedulers.set_blocked("batch/0", Waits(least=(1, 1)))
    cell.schedulers.set_blocked("batch/1", Waits(least=(1, 1), lanes=(lane,)))
    cell.schedulers.set_blocked("service/0", Waits(least=(2, 2)))
    tokens(cell)
    return cell


ENDS = {"a task": TaskEnd(0, 1, EndKind.FINISHED, "0"), "a run": TaskEnd(1, 2, EndKind.FINISHED)}


@pytest.mark.parametrize("what", ENDS)
def test_room_that_tasks_left_is_told_to_the_owner_of_their_lane_alone(owned: AnyCell, what: str) -> None:
    owned.executors.end([ENDS[what]], 0, "e0")
    assert tokens(owned) == {"batch/1": "alone"}


@pytest.mark.parametrize("what", ENDS)
def test_all_are_told_of_room_while_its_owner_does_not_look(owned: AnyCell, what: str) -> None:
    owned.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "1")], 0, "e0")
    owned.executors.end([ENDS[what]], 0, "e0")
    assert tokens(owned) == {"batch/0": "1", "batch/1": "alone", "service/0": "1"}


@pytest.mark.parametrize("what", ENDS)
def test_all_are_told_of_room_whose_owner_left(stand: Stand, owned: AnyCell, what: str) -> None:
    stand.expire_lease("batch/1")
    owned.schedulers.members()
    owned.executors.end([ENDS[what]], 0, "e0")
    assert tokens(owned) == {"batch/0": "1", "service/0": "1"}


@pytest.mark.parametrize("what", ENDS)
def test_who_waits_for_more_than_room_is_told_of_every_end(owned: AnyCell, what: str) -> None:
    owned.schedulers.set_blocked("service/0", Waits())
    owned.executors.end([ENDS[what]], 0, "e0")
    assert tokens(owned) == {"batch/1": "alone", "service/0": "1"}


def test_all_are_told_of_changed_machines_and_of_room_of_a_lane_without_an_owner(owned: AnyCell) -> None:
    owned.machines.set_state(2, MachineState.DRAINED, 0, "ada")
    assert tokens(owned) == {"batch/0": "1", "batch/1": "1", "service/0": "1"}
    owned.schedulers.set_blocked("batch/1", None)
    owned.executors.end([ENDS["a task"]], 0, "e0")
    assert tokens(owned) == {"batch/0": "1", "service/0": "1"}


def test_room_is_handed_on_to_those_whom_it_may_help(stand: Stand, owned: AnyCell) -> None:
    assert owned.schedulers.hand_on("batch/1", [(1, 0), (0, 9)]) == []
    assert owned.schedulers.hand_on("batch/1", [(1, 0), (1, 2)]) == ["batch/0"]
    assert owned.schedulers.hand_on("batch/1", [(2, 2)]) == ["batch/0", "service/0"]
    assert tokens(owned) == {"batch/0": "1", "service/0": "1"}, "one token each"
    owned.schedulers.set_blocked("service/0", Waits())
    stand.expire_lease("batch/0")
    owned.schedulers.members()
    assert owned.schedulers.hand_on("batch/1", [(0, 0)]) == ["service/0"]


def test_the_dead_are_not_woken(stand: Stand, cell: AnyCell, members: list[Member]) -> None:
    stand.expire_lease("batch/0")
    cell.schedulers.members()
    cell.jobs.submit([job("a")], 0, "ada")
    assert woken(cell) == ["batch/1"]


def test_messages_come_in_order_and_once(cell: AnyCell) -> None:
    member = Member(cell)
    cell.jobs.submit([job("a", count=5)], 0, "ada")
    member.place("a", (0, 2), (1, 1))
    member.place("a", (2, 1))
    cell.executors.end([TaskEnd(0, 1, EndKind.STOPPED, "1"), TaskEnd(1, 2, EndKind.FINISHED)], 0, "e0")
    assert cell.executors.receive(1) == ["+ 1 0 a 0 0-1 0 0", "+ 2 1 a 0 2 0 0", "+ 3 2 a 0 3 0 0", "- 1 0 1"]
    assert cell.executors.receive(1) == []
    assert cell.executors.receive(7) == []


def test_messages_in_lines_are_the_same_messages(cell: AnyCell) -> None:
    member = Member(cell)
    cell.jobs.submit([job("a", count=5)], 0, "ada")
    member.place("a", (0, 2), (1, 1), (2, 1))
    cell.executors.end([TaskEnd(0, 1, EndKind.STOPPED, "1")], 0, "e0")
    lines = cell.executors.receive_lines(1)
    assert [message for line in lines for message in each_message(line)] == [
        "+ 1 0 a 0 0-1 0 0", "+ 2 1 a 0 2 0 0", "+ 3 2 a 0 3 0 0", "- 1 0 1"
    ]  # fmt: skip
    assert next(line.split(" ")[:8] for line in lines if line[0] == "+") == ["+", "a", "0", "0", "0", "1", "0", "0-1"]
    assert cell.executors.receive_lines(1) == []


def test_waiting_ends_without_a_token(cell: AnyCell) -> None:
    assert not cell.schedulers.wait_for_work("batch/0", 0.01)


@pytest.mark.parametrize("make", ["memory", "resp3"], indirect=True)
def test_a_mailbox_nobody_reads_is_dropped_with_a_mark(stand: Stand, cell: AnyCell) -> None:
    member = Member(cell)
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    if isinstance(stand, RedisStand):
        stand.cell.client.rpush(stand.key("box:1"), *["+"] * MAILBOX_MOST)
    elif isinstance(stand, MemoryStand):
        stand.cell.messages[1] = [["- 0 0 0"]] * MAILBOX_MOST
    member.place("a", (0, 1))
    member.place("a", (1, 1))
    assert cell.executors.receive(1) == ["!", "+ 2 1 a 0 1 0 0"]
