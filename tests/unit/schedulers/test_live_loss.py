"""The live scheduler when replies, connections, the store or its lease are lost: nothing twice, nothing lost."""

import copy
from collections.abc import Callable
from typing import Any

import fakeredis
import pytest

from omega.cellstate.errors import Duplicate, Fenced, StoreError
from omega.cellstate.model import Gang
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect
from omega.cellstate.transaction import Claim, Detection, Position, Transaction
from omega.schedulers.live_driver import AWAY_SECONDS, LiveDriver
from omega.schedulers.loop import Committed
from omega.schedulers.presets import batch
from tests.unit.schedulers.rig import FIRST, LEASE_MS, Rig, spec

ROOMY = [(1_000, 1_000)] * 10


def busy(pipelined: bool = True, jobs: int = 12) -> tuple[Rig, list[str]]:
    """A rig with a commit of some jobs decided and about to be sent."""
    found = batch("loss")
    found.jobs_per_call = 4
    rig = Rig(*ROOMY, scheduler=found, pipelined=pipelined)
    names = rig.submit(*(spec(f"j{i}", 2) for i in range(jobs)))
    rig.until_commit()
    return rig, names


def finish(rig: Rig, names: list[str]) -> None:
    """Everything is placed in the end, once."""
    rig.until_placed(*names)
    assert {rig.placed(name) for name in names} == {2}
    rig.check()
    assert rig.scheduler.working == {}


# Connections


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize(
    "faults", [["reply"], ["send"], ["send", "reply"], ["reply", "send", "send", "reply", "reply"]]
)
def test_what_was_cut_off_is_sent_again_and_has_no_second_effect(faults: list[str], pipelined: bool) -> None:
    rig, names = busy(pipelined)
    rig.cell.link.faults = list(faults)
    before = rig.cell.link.sent
    rig.until(lambda: not rig.cell.link.faults)
    rig.rest()
    assert rig.cell.link.sent > before
    finish(rig, names)
    assert rig.figures.tasks == 24, "every outcome is heard, once"
    assert rig.live.membership.incarnation == FIRST, "a lost connection is no lost lease"
    assert len(rig.facts("place")) == 12


def test_the_outcome_that_was_asked_for_again_is_the_first_one() -> None:
    """Validated again, it would be a conflict: what it placed itself stands there."""
    rig = Rig((200, 200))
    rig.submit(spec("a", 2))
    rig.until_commit()
    rig.cell.link.faults = ["reply"]
    rig.until(lambda: rig.figures.transactions == 1)
    assert (rig.figures.tasks, rig.figures.conflicts, rig.figures.finished_jobs) == (2, 0, 1)
    rig.check()


def test_it_tries_again_after_random_ever_longer_pauses_of_less_than_a_second() -> None:
    rig, names = busy()
    rig.server.connected = False
    rig.clock.after(60.0, lambda: setattr(rig.server, "connected", True))
    rig.until(lambda: rig.figures.tasks > 0)
    pauses = rig.clock.pauses
    assert 80 < len(pauses) < 240
    assert pauses[0] < 0.1
    assert max(pauses) <= 1.5 * AWAY_SECONDS
    assert AWAY_SECONDS / 2 <= min(pauses[10:]) < max(pauses[10:]), "of two that lost it at once, one comes first"
    finish(rig, names)


def test_two_schedulers_do_not_try_again_in_step() -> None:
    pauses = []
    for member in ("batch/0", "batch/1"):
        rig = Rig(member=member)
        rig.server.connected = False
        rig.clock.after(10.0, lambda rig=rig: setattr(rig.server, "connected", True))  # type: ignore[misc]
        rig.step()
        pauses.append(rig.clock.pauses[:5])
    assert not set(pauses[0]) & set(pauses[1])


@pytest.mark.parametrize("effects", range(12))
def test_a_store_that_vanishes_at_any_effect_and_comes_back_loses_nothing(effects: int) -> None:
    found = batch("vanish")
    found.jobs_per_call = 4
    rig = Rig(*ROOMY, scheduler=found)
    names = rig.submit(*(spec(f"j{i}", 2) for i in range(12)))
    for _ in range(effects):
        rig.step()
    rig.server.connected = False
    rig.clock.after(1.0, lambda: setattr(rig.server, "connected", True))
    steps = rig.live.steps
    while not rig.server.connected:
        rig.step()
    assert rig.live.steps > steps, "trying is progress: the heartbeat must not take it for hung"
    finish(rig, names)
    assert rig.live.membership.incarnation == FIRST


def test_told_to_stop_while_the_store_is_away_it_ends_with_the_reason() -> None:
    rig, _ = busy()
    rig.step()
    rig.server.connected = False
    rig.clock.after(0.5, lambda: setattr(rig.live, "stopping", True))
    with pytest.raises(StoreError):
        rig.until(lambda: False, most=20)


@pytest.mark.server
@pytest.mark.parametrize("moment", ["decided", "sent"])
def test_a_real_server_that_cuts_every_connection(store_url: str, moment: str) -> None:
    name = f"cut-{moment}"
    cell = RedisCell.create(connect(store_url), name, url=store_url)
    rig = object.__new__(Rig)
    killer = connect(store_url)
    try:
        rig.other = cell
        rig.join(*ROOMY)
        cell.jobs.submit([spec(f"j{i}", 2) for i in range(8)], 0, "ada")
        mine = RedisCell.connect(store_url, name)
        live = LiveDriver(mine, batch("cut"), "batch/0", lambda: 1000.0, lambda _: None, lease_ms=LEASE_MS)
        rig.live, rig.scheduler, rig.cell = live, live.scheduler, mine  # type: ignore[assignment]
        rig.begin()
        rig.until_commit()
        if moment == "sent":
            rig.step()
        others: Any = killer.client_list()
        myself = killer.client_id()
        for other in others:
            if int(other["id"]) != myself:
                killer.client_kill_filter(_id=other["id"])
        rig.until(lambda: all(left == 0 for left, _ in rig.counts().values()))
        assert {placed for _, placed in rig.counts().values()} == {2}
        assert len(rig.facts("place")) == 8
        assert live.membership.incarnation == FIRST
        mine.close()
    finally:
        cell.delete()
        cell.close()
        killer.close()


# The lease


@pytest.mark.parametrize("pipelined", [True, False])
def test_a_lease_that_lapsed_before_the_commit_means_a_new_incarnation_and_a_fresh_start(pipelined: bool) -> None:
    rig, names = busy(pipelined)
    rig.expire()
    finish(rig, names)
    assert rig.live.membership.incarnation == FIRST + 1
    assert len(rig.facts("enlist")) == 2, "enlisted again once"
    assert [answer.renewed for answer in rig.arrived()].count(True) == 2
    assert len(rig.facts("place")) == 12
    assert rig.figures.wait.count == 12, "no wait is measured twice"


def test_a_scheduler_that_saw_another_server_takes_its_name_back() -> None:
    """The heartbeat asked a server without the cell; on the one with the cell its lease still holds."""
    rig, names = busy()
    rig.live._begin_anew(Membership("batch/0", 99))  # registered on a server with older data
    rig.live.lapsed = rig.live.membership
    finish(rig, names)
    assert rig.live.membership.incarnation == FIRST + 1
    assert len(rig.facts("place")) == 12


def test_a_lease_that_lapsed_with_a_commit_in_flight() -> None:
    rig, names = busy()
    rig.expire()
    rig.step()  # sent, and refused: which is heard only when it lands
    rig.until_commit()
    fenced = rig.step()
    assert isinstance(fenced, Committed)
    assert (list(fenced.results), fenced.in_flight) == ([], False), "the next was decided for the old incarnation too"
    assert rig.live.membership.incarnation == FIRST + 1
    finish(rig, names)
    assert len(rig.facts("place")) == 12


def test_a_lease_that_lapsed_after_a_commit_was_validated() -> None:
    rig, names = busy()
    rig.step()
    rig.expire()
    finish(rig, names)
    assert len(rig.facts("place")) == 12
    assert rig.live.membership.incarnation == FIRST + 1
    assert rig.figures.tasks == 24


def test_a_lost_reply_and_a_lapsed_lease_at_once() -> None:
    rig, names = busy()
    rig.step()  # validated: four jobs are placed
    rig.expire()
    rig.cell.link.faults = ["reply"]
    rig.until(lambda: rig.live.membership.incarnation == FIRST + 1)
    finish(rig, names)
    assert len(rig.facts("place")) == 12, "what the old incarnation placed stands and is not placed again"


@pytest.mark.parametrize("in_flight", [True, False])
def test_when_the_heartbeat_finds_the_lease_gone_it_enlists_once_before_the_next_attempt(in_flight: bool) -> None:
    rig, names = busy()
    if in_flight:
        rig.expire()  # the commit sent now is fenced, and that is found out only when it lands
        rig.step()
    else:
        rig.rest()
        rig.expire()
    rig.live.lapsed = rig.live.membership
    rig.step()
    assert rig.live.membership.incarnation == FIRST + 1
    rig.until(lambda: bool(rig.arrived()[-1].renewed))
    finish(rig, names)
    assert len(rig.facts("enlist")) == 2


def test_a_heartbeat_that_comes_late_with_the_news_does_no_harm() -> None:
    rig, names = busy()
    old = rig.live.membership
    rig.expire()
    rig.until(lambda: rig.live.membership.incarnation == FIRST + 1)
    rig.live.lapsed = old
    finish(rig, names)
    assert rig.live.membership.incarnation == FIRST + 1


def test_sleeping_and_waiting_jobs_survive_a_new_incarnation() -> None:
    rig = Rig((200, 200))
    rig.submit(spec("runs", 2), spec("sleeps", 2), spec("gang", 2, gang=Gang.YES))
    rig.until(lambda: len(rig.scheduler.queue.blocked) == 2)
    rig.rest()
    rig.expire()
    rig.live.lapsed = rig.live.membership
    for _ in range(20):
        rig.step()
    assert sorted(rig.scheduler.queue.blocked.ids()) == ["gang", "sleeps"], "tried again, asleep again, none twice"
    rig.end("runs")
    rig.until(lambda: rig.left("sleeps") + rig.left("gang") == 2)
    rig.end("sleeps", "gang")
    rig.until_placed("sleeps", "gang")
    rig.check()


def test_a_zombie_can_commit_nothing() -> None:
    """Halted like a process under SIGSTOP until its lease is gone and another has its name."""
    rig, names = busy()
    rig.expire()
    rig.other.schedulers.register("batch/0", "another", LEASE_MS, 0)
    with pytest.raises(Duplicate):
        rig.until(lambda: False, most=50)
    assert {rig.placed(name) for name in names} == {0}
    assert rig.facts("place") == []


def test_a_zombie_between_two_commits_of_its_successor() -> None:
    rig, names = busy()
    old = rig.live.membership
    rig.expire()
    new = rig.other.schedulers.register("batch/0", "another", LEASE_MS, 0)
    zombie = RedisCell(fakeredis.FakeRedis(server=rig.server), "c", Dimensions())
    commits = [Transaction(name, (Claim(0, 0, 2),)) for name in names]
    rig.other.schedulers.commit(CommitRequest(new, 1, commits[:1], Position(), 0))
    for number in (1, 2, 99):
        with pytest.raises(Fenced):
            zombie.schedulers.commit(CommitRequest(old, number, commits[1:2], Position(), 0))
    rig.other.schedulers.commit(CommitRequest(new, 2, commits[2:3], Position(), 0))
    assert [rig.placed(name) for name in names[:3]] == [2, 0, 2]


# A store that went back in time


def rewind(rig: Rig) -> Callable[[], None]:
    """Remember the store; what is returned puts it back."""
    kept = copy.deepcopy(dict(rig.server.dbs[0]))

    def back() -> None:
        database = rig.server.dbs[0]
        with rig.server.lock:
            database.clear()
            database.update(copy.deepcopy(kept))

    return back


def test_after_a_store_went_back_everything_is_placed_again_and_new_jobs_arrive() -> None:
    rig = Rig(*ROOMY)
    rig.rest()
    first = rig.submit(spec("a", 2), spec("b", 2))
    back = rewind(rig)
    rig.until_placed(*first)
    more = rig.submit(*(spec(f"lost{i}", 2) for i in range(20)))
    rig.until_placed(*more)
    back()
    assert [rig.placed(name) for name in first] == [0, 0]
    new = rig.submit(spec("new", 2))  # its number of arrival is one that was given out before
    finish(rig, [*first, *new])
    assert sorted(rig.counts()) == ["a", "b", "new"]


def test_machines_that_joined_after_the_point_it_went_back_to_are_forgotten() -> None:
    rig = Rig((200, 200))
    rig.rest()
    back = rewind(rig)
    rig.join((900, 900))
    rig.submit(spec("large", 1, need=(800, 800)))
    rig.until_placed("large")
    back()
    names = rig.submit(spec("small", 2))
    rig.submit(spec("again", 1, need=(800, 800)))
    finish(rig, names)
    assert rig.scheduler.queue.blocked.ids() == ["again"]


@pytest.mark.parametrize("detection", list(Detection))
def test_a_commit_decided_before_it_went_back_is_validated_against_what_is_there(detection: Detection) -> None:
    found = batch("back")
    found.detection = detection
    rig = Rig(*ROOMY, scheduler=found)
    rig.rest()
    names = rig.submit(spec("a", 2))
    back = rewind(rig)
    rig.until_placed(*names)
    rig.submit(spec("lost", 2))
    rig.until_commit()
    back()
    finish(rig, names)
    assert "lost" not in rig.counts()
    assert len(rig.scheduler.queue.ready) == 0
