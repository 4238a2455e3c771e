"""Who may commit: incarnations, leases, fencing (semantics 15 and 17)."""

import pytest

from omega.cellstate.errors import BadInput, Duplicate, Fenced
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.contract.conftest import AnyCell, Member, Stand, job


def commit(cell: AnyCell, membership: Membership, number: int) -> int:
    transaction = Transaction("a", (Claim(0, 0, 1),))
    return cell.schedulers.commit(CommitRequest(membership, number, [transaction], Position(), 0)).outcomes[0].placed


@pytest.fixture
def busy(cell: AnyCell) -> AnyCell:
    cell.jobs.submit([job("a", (0, 0), 99)], 0, "ada")
    return cell


def test_a_name_belongs_to_one_live_scheduler(stand: Stand, busy: AnyCell) -> None:
    first = busy.schedulers.register("batch/0", "n1", 60_000, 0)
    assert busy.schedulers.register("batch/0", "n1", 60_000, 1) == first, "sent again with its nonce"
    with pytest.raises(Duplicate, match="batch/0"):
        busy.schedulers.register("batch/0", "n2", 60_000, 1)
    stand.expire_lease("batch/0")
    second = busy.schedulers.register("batch/0", "n2", 60_000, 2)
    assert second.incarnation > first.incarnation
    with pytest.raises(BadInput, match="kind/instance"):
        busy.schedulers.register("batch", "n1", 60_000, 0)


@pytest.mark.parametrize("nonce", ["", "a b", "a\n", "é", "n" * 65])
def test_a_nonce_that_its_record_could_not_hold_is_refused(cell: AnyCell, nonce: str) -> None:
    for take in (cell.schedulers.register, cell.executors.register_agent):
        with pytest.raises(BadInput, match="1 to 64 letters, digits"):
            take("batch/0" if take == cell.schedulers.register else "h1", nonce, 60_000, 0)
    assert cell.schedulers.members() == {}
    assert cell.executors.agents() == {}


def test_numbers_only_have_to_rise(busy: AnyCell) -> None:
    me = busy.schedulers.register("batch/0", "n", 60_000, 0)
    assert [commit(busy, me, number) for number in (1, 5, 7)] == [1, 1, 1]
    with pytest.raises(Fenced):
        commit(busy, me, 6)
    assert len(busy.machines.runs([0])) == 3


def test_an_older_incarnation_is_fenced(stand: Stand, busy: AnyCell) -> None:
    old = busy.schedulers.register("batch/0", "n1", 60_000, 0)
    commit(busy, old, 7)
    stand.expire_lease("batch/0")
    new = busy.schedulers.register("batch/0", "n2", 60_000, 1)
    for stranger in (old, Membership("batch/0", new.incarnation + 1), Membership("batch/9", new.incarnation)):
        with pytest.raises(Fenced, match=f"{stranger.member}.*register again"):
            commit(busy, stranger, 8)
        with pytest.raises(Fenced):
            busy.schedulers.renew(stranger, 60_000, {})
    assert commit(busy, new, 1) == 1, "its numbers begin anew"
    assert len(busy.machines.runs([0])) == 2


def test_a_lapsed_lease_fences(stand: Stand, busy: AnyCell) -> None:
    me = busy.schedulers.register("batch/0", "n", 60_000, 0)
    stand.expire_lease("batch/0")
    with pytest.raises(Fenced):
        commit(busy, me, 1)
    with pytest.raises(Fenced):
        busy.schedulers.renew(me, 60_000, {})
    assert not busy.schedulers.members()["batch/0"][1]


def test_renewing_tells_who_lives_and_leaves_figures(stand: Stand, busy: AnyCell) -> None:
    members = [Member(busy, name).membership for name in ("batch/0", "batch/1", "service/0")]
    figures = {"waits": [1, 2.5], "deep": {"a": None}}
    assert busy.schedulers.renew(members[0], 60_000, figures) == ["batch/0", "batch/1", "service/0"]
    stand.expire_lease("batch/1")
    assert busy.schedulers.renew(members[2], 60_000, {}) == ["batch/0", "service/0"]
    known = busy.schedulers.members()
    assert known["batch/0"] == (members[0].incarnation, True, figures)
    assert known["batch/1"] == (members[1].incarnation, False, {})
    busy.schedulers.deregister(members[0], 1)
    assert busy.schedulers.figures() == {"batch/0": figures, "service/0": {}}


def test_withdrawing(busy: AnyCell) -> None:
    me = busy.schedulers.register("batch/0", "n", 60_000, 0)
    assert not busy.schedulers.deregister(Membership("batch/0", me.incarnation + 1), 1)
    assert busy.schedulers.deregister(me, 1)
    assert not busy.schedulers.deregister(me, 1)
    assert busy.schedulers.members() == {}
    with pytest.raises(Fenced):
        commit(busy, me, 1)
    assert busy.schedulers.register("batch/0", "n", 60_000, 2).incarnation > me.incarnation


def test_reaping_does_nothing_while_the_lease_holds(stand: Stand, busy: AnyCell) -> None:
    me = busy.schedulers.register("batch/0", "n", 60_000, 0)
    assert not busy.schedulers.deregister(me, 1, reaped=True)
    assert commit(busy, me, 1) == 1
    stand.expire_lease("batch/0")
    assert busy.schedulers.deregister(me, 1, reaped=True)
    assert [fact.event for fact in busy.log.facts()][-1] == ("lapse", "batch/0", str(me.incarnation))


def test_reaping_spares_the_next_incarnation(stand: Stand, busy: AnyCell) -> None:
    old = busy.schedulers.register("batch/0", "n1", 60_000, 0)
    stand.expire_lease("batch/0")
    new = busy.schedulers.register("batch/0", "n2", 60_000, 1)
    assert not busy.schedulers.deregister(old, 2, reaped=True)
    assert commit(busy, new, 1) == 1
