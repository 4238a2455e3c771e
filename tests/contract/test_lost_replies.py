"""Connections that break around a commit: what was sent again has been done once (semantics 14)."""

from typing import Any

import pytest

from omega.cellstate.errors import Unreachable
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.contract.conftest import Make, Member, RedisStand, job

pytestmark = [pytest.mark.server, pytest.mark.parametrize("make", ["resp2", "resp3"], indirect=True)]
CLAIMS = [Transaction("a", (Claim(0, 0, 1),))]


@pytest.fixture
def stand(make: Make) -> RedisStand:
    made = make()
    assert isinstance(made, RedisStand)
    return made


def cut(stand: RedisStand, *connections: Any) -> None:
    """Close connections of the cell under test from the server's side."""
    killer = stand.connect()
    for connection in connections:
        connection.send_command("CLIENT", "ID")
        killer.client_kill_filter(_id=connection.read_response())
    killer.close()


def test_a_reply_that_never_came(stand: RedisStand, cell: Any, member: Member) -> None:
    cell.jobs.submit([job("a", count=9)], 0, "ada")
    member.place("a", (0, 1))
    other = stand.other()
    for number in (2, 3):
        cell.schedulers.begin(CommitRequest(member.membership, number, CLAIMS, Position(), 0, executors=[1]))
        while len(other.machines.runs([0])) < number:
            pass  # it is done; only its reply is lost
        cell.schedulers._link._connection.disconnect()
        cell.schedulers.resend()
        assert cell.schedulers.finish().outcomes[0].accepted
    assert [run.tasks for run in cell.machines.runs([0])] == ["0", "1", "2"]


def test_a_connection_that_broke_meanwhile(stand: RedisStand, cell: Any, member: Member) -> None:
    cell.jobs.submit([job("a", count=9)], 0, "ada")
    member.place("a", (0, 1))
    cut(stand, cell.schedulers._link._connection)
    with pytest.raises(Unreachable):
        cell.schedulers.commit(CommitRequest(member.membership, 2, CLAIMS, Position(), 0))
    cell.schedulers.resend()
    assert cell.schedulers.finish().outcomes[0].accepted
    assert [run.tasks for run in cell.machines.runs([0])] == ["0", "1"]
