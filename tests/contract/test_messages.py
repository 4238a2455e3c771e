"""Messages to executors, and tokens that wake schedulers, survive lost replies (semantics 25)."""

from collections.abc import Callable
from typing import Any

import pytest
import redis

from omega.cellstate.errors import CellGone
from omega.cellstate.keys import RULES
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Transaction
from tests.contract.conftest import AnyCell, Member, Stand, job


def send(cell: AnyCell, member: Member, count: int) -> None:
    """Leave messages for the executor of machine 0."""
    name = f"j{member.number}"
    cell.jobs.submit([job(name, (0, 0), count)], 0, "ada")
    for _ in range(count):
        member.place(name, (0, 1))


def placements(messages: list[str]) -> list[int]:
    return [int(message.split(" ")[1]) for message in messages]


def test_each_message_is_read_once_and_in_order(cell: AnyCell, member: Member) -> None:
    send(cell, member, 5)
    assert [placements(cell.executors.receive(1, most=2)) for _ in range(4)] == [[1, 2], [3, 4], [5], []]
    send(cell, member, 1)
    cell.executors.end([TaskEnd(0, 6, EndKind.EVICTED, "*", "drain")], 0, "ada")
    assert placements(cell.executors.receive(1)) == [6, 6]
    assert cell.executors.receive(1) == cell.executors.receive(1) == []


@pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)
def test_a_reader_that_ended_before_it_acknowledged_loses_nothing(stand: Stand, cell: Any, member: Member) -> None:
    send(cell, member, 3)
    first = stand.other()
    assert placements(first.executors.receive(1, most=2)) == [1, 2]
    assert placements(cell.executors.receive(1)) == [1, 2, 3], "nobody acknowledged"
    send(cell, member, 1)
    assert placements(cell.executors.receive(1)) == [4]
    assert placements(first.executors.receive(1)) == [4], "what another reader acknowledged is not acknowledged twice"


@pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)
def test_a_late_acknowledgement_removes_nothing(cell: Any, member: Member) -> None:
    """The call sent again after its reply was lost; meanwhile messages came, or the mailbox was dropped."""
    send(cell, member, 2)
    assert len(cell.executors.receive(1)) == 2
    read = cell.executors._read[1]
    assert cell.executors.receive(1) == []
    send(cell, member, 2)
    for _ in range(2):
        cell.executors._read[1] = read
        assert placements(cell.executors.receive(1)) == [3, 4]


@pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)
def test_no_message_of_a_cell_with_other_rules_is_read(cell: Any, member: Member) -> None:
    send(cell, member, 1)
    cell.client.hset(f"{cell.prefix}meta", "rules", RULES + 1)
    with pytest.raises(CellGone, match="use the newer Omega"):
        cell.executors.receive(1)
    cell.client.hset(f"{cell.prefix}meta", "rules", RULES)
    assert placements(cell.executors.receive(1)) == [1]


def test_the_messages_of_a_call_stand_in_one_entry(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (0, 0), 1), job("b", (0, 0), 2)], 0, "ada")
    member.transact(Transaction("a", (Claim(0, 0, 1),)), Transaction("b", (Claim(0, 0, 2),)))
    send(cell, member, 1)
    assert [placements(cell.executors.receive(1, most=1)) for _ in range(3)] == [[1, 2], [3], []]


class Losing:
    """Loses every second reply of the commands named: the server acted, the connection broke."""

    def __init__(self, client: "redis.Redis", *commands: str) -> None:
        self.lost = 0
        losing, pool = self, client.connection_pool
        pool.disconnect()

        class Connection(pool.connection_class):  # type: ignore[name-defined,misc]
            sent = ""

            def send_command(self, *words: Any, **options: Any) -> Any:
                result = super().send_command(*words, **options)  # it may connect first, with commands of its own
                self.sent = str(words[0]).upper()
                return result

            def send_packed_command(self, command: Any, *arguments: Any, **options: Any) -> Any:
                self.sent = "PIPELINE" if b"LRANGE" in b"".join(command) else ""
                return super().send_packed_command(command, *arguments, **options)

            def read_response(self, *arguments: Any, **options: Any) -> Any:
                reply = super().read_response(*arguments, **options)
                if self.sent not in commands:
                    return reply
                losing.turn = not losing.turn
                if losing.turn:
                    return reply
                losing.lost += 1
                self.disconnect()
                raise redis.ConnectionError("cut by the test")

        self.turn = True
        pool.connection_class = Connection
        pool.reset()


@pytest.fixture(params=[2, 3])
def losing(request: pytest.FixtureRequest, store_url: str, cell: AnyCell) -> Callable[..., tuple[RedisCell, Losing]]:
    """Another client of the same cell, with the retries of the client library, that loses replies."""

    def make(*commands: str) -> tuple[RedisCell, Losing]:
        client = connect(f"{store_url}?protocol={request.param}")
        other = RedisCell.open(client, cell.name)
        return other, Losing(client, *commands)

    return make


@pytest.mark.server
@pytest.mark.parametrize("make", ["resp3"], indirect=True)
def test_the_client_library_may_retry_every_read(losing: Any, cell: AnyCell, member: Member) -> None:
    reader, faults = losing("PIPELINE", "BLMOVE")
    found = []
    for count in (3, 1, 4):
        send(cell, member, count)
        for _ in range(3):
            found += placements(reader.executors.receive(1, most=2, wait_seconds=0.01))
    assert found == [1, 2, 3, 4, 5, 6, 7, 8]
    assert faults.lost >= 9


@pytest.mark.server
@pytest.mark.parametrize("make", ["resp3"], indirect=True)
def test_a_token_survives_lost_replies(losing: Any, cell: Any, member: Member) -> None:
    sleeper, faults = losing("BLMOVE", "DEL")
    cell.schedulers.members()
    cell.jobs.submit([job("a")], 0, "ada")
    assert sleeper.schedulers.wait_for_work("batch/0", 0.01)
    assert faults.lost == 2
    assert not sleeper.schedulers.wait_for_work("batch/0", 0.01)
