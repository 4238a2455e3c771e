"""The heartbeat: when it renews, what it learns, whom it removes."""

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace

import pytest

from omega.cellstate.model import MachineSpec, MachineState, TaskGroup
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.queries.explanations import explain_job
from omega.queries.room import Room
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Ordering, Placement
from omega.schedulers.process import scheduler as process
from omega.schedulers.process.log import log
from omega.schedulers.process.scheduler import HUNG_LEASES, SupervisedScheduler
from omega.schedulers.resizing import REST_SECONDS, Resized
from omega.schedulers.sharing import Ownership, alone
from omega.schedulers.work import Work
from tests.unit.schedulers.rig import FIRST, LEASE_MS, Rig, spec

LONG_UP = 10 * LEASE_MS // 1000


class Beating:
    """A rig whose heartbeat the test beats; `now` is the monotonic clock, `uptime` the store's, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.uptime = 0.0, LONG_UP
        self.rig = Rig((1_000, 1_000))
        self.process = SupervisedScheduler(
            "fake://", "c", member="batch/0", scheduler=self.rig.scheduler, lease_ms=LEASE_MS, figures=self.rig.figures
        )
        self.process._live = self.rig.live
        clock = SimpleNamespace(monotonic=lambda: self.now, time=self.rig.clock.now)
        monkeypatch.setattr(process, "time", clock)
        monkeypatch.setattr(process, "server_info", lambda _: SimpleNamespace(uptime_seconds=self.uptime))

    def beat(self, after: float = 0.0) -> None:
        self.now += after
        self.process.renew_lease(self.rig.other)
        self.process.keep_house(self.rig.other)

    def renewed(self) -> bool:
        """Whether a beat that left figures came since this was last asked."""
        left = self.rig.other.schedulers.figures()
        self.rig.other.client.delete("omega:1:{c}:stats")
        return "batch/0" in left


@pytest.fixture
def beating(monkeypatch: pytest.MonkeyPatch) -> Beating:
    return Beating(monkeypatch)


def test_it_renews_and_leaves_figures(beating: Beating) -> None:
    rig = beating.rig
    rig.submit(spec("a"), spec("b", need=(5_000, 5_000)))
    rig.until_placed("a")
    before = rig.other.client.pttl("omega:1:{c}:lease:batch/0")
    beating.process.lease_ms = 3 * LEASE_MS
    beating.beat()
    assert int(str(rig.other.client.pttl("omega:1:{c}:lease:batch/0"))) > int(str(before))
    found = rig.other.schedulers.figures()["batch/0"]
    assert (found["tasks"], found["queued"], found["blocked"]) == (1, 0, 1)


def test_figures_list_the_jobs_that_a_policy_delays_and_the_reason_is_locality(beating: Beating) -> None:
    class Later(Placement):
        """Waits until a time, then places as the default does."""

        def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
            if snapshot.now >= 1_005.0:
                return FirstFit().place(work, snapshot, rng)
            work.until = 1_005.0
            return []

    rig = beating.rig
    rig.scheduler.placement = Later()
    rig.submit(spec("a"), spec("b"))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == 2)
    beating.beat()
    assert rig.other.schedulers.figures()["batch/0"]["delayed"] == {"a": [1_005_000, ""], "b": [1_005_000, ""]}
    assert rig.scheduler.queue.delayed(1) == {"a": (1_005.0, "")}
    assert explain_job(rig.other, rig.job("a"))["reason"] == "LOCALITY"
    assert Room(rig.other).reason(rig.job("b")) == "LOCALITY"
    rig.until_placed("a", "b")
    assert rig.clock.seconds >= 1_005.0
    beating.beat()
    assert rig.other.schedulers.figures()["batch/0"]["delayed"] == {}


def test_before_the_scheduler_is_enlisted_there_is_nothing_to_renew(beating: Beating) -> None:
    beating.process._live = None
    beating.beat()
    assert not beating.renewed()


def test_a_loop_without_progress_loses_its_lease(beating: Beating) -> None:
    lease = LEASE_MS / 1000
    beating.beat()
    assert beating.renewed()
    beating.beat(after=HUNG_LEASES * lease)
    assert beating.renewed(), "a long decision is no hang"
    beating.beat(after=1.0)
    assert not beating.renewed()
    beating.rig.step()
    beating.rig.step()
    beating.rig.live.steps += 1
    beating.beat(after=1.0)
    assert beating.renewed(), "it went on after all"


def test_waiting_for_work_is_no_hang(beating: Beating) -> None:
    beating.rig.live.waiting = True
    for _ in range(3):
        beating.beat(after=10 * LEASE_MS)
        assert beating.renewed()


def test_a_lapsed_lease_is_reported_with_the_membership_it_was_of(beating: Beating) -> None:
    rig = beating.rig
    rig.expire()
    beating.beat()
    assert rig.live.lapsed == rig.live.membership
    rig.submit(spec("a"))
    rig.until_placed("a")
    assert rig.live.membership.incarnation == FIRST + 1
    beating.beat()
    assert rig.live.lapsed != rig.live.membership
    rig.check()
    assert rig.live.membership.incarnation == FIRST + 1


def test_a_lapse_noted_while_the_loop_enlists_by_itself_is_of_the_old_membership(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, renew = beating.rig, beating.rig.other.schedulers.renew
    rig.expire()

    def slow(*arguments: object) -> list[str]:
        try:
            return renew(*arguments)  # type: ignore[arg-type]
        finally:
            if rig.live.membership.incarnation == FIRST:
                rig.live.register()

    monkeypatch.setattr(rig.other.schedulers, "renew", slow)
    beating.beat()
    assert rig.live.lapsed is not None
    assert rig.live.lapsed != rig.live.membership
    rig.submit(spec("a"))
    rig.until_placed("a")
    assert rig.live.membership.incarnation == FIRST + 1, "enlisted once"


def test_it_learns_who_lives_and_takes_its_share(beating: Beating) -> None:
    rig = beating.rig
    rig.other.schedulers.register("batch/1", "n", LEASE_MS, 0)
    rig.other.schedulers.register("service/0", "n", LEASE_MS, 0)
    beating.beat()
    assert rig.live.ownership == Ownership("batch/0", ("batch/0", "batch/1"))
    rig.expire("batch/1")
    beating.beat()
    assert rig.live.ownership == alone("batch/0")


def test_a_member_without_a_lease_is_removed(beating: Beating) -> None:
    rig = beating.rig
    rig.other.schedulers.register("batch/1", "n", LEASE_MS, 0)
    rig.other.schedulers.register("batch/2", "n", LEASE_MS, 0)
    rig.expire("batch/1")
    beating.beat()
    assert sorted(rig.other.schedulers.members()) == ["batch/0", "batch/2"]
    assert rig.facts("lapse") == [("batch/1", "3")]


def test_nobody_is_removed_within_one_lease_of_a_start_of_the_store(beating: Beating) -> None:
    """After an outage longer than a lease every lease is gone; their holders must have time to come back."""
    rig = beating.rig
    rig.other.schedulers.register("batch/1", "n", LEASE_MS, 0)
    rig.expire("batch/1")
    beating.uptime = LEASE_MS // 1000
    beating.beat()
    assert "batch/1" in rig.other.schedulers.members()
    beating.uptime += 1
    beating.beat()
    assert "batch/1" not in rig.other.schedulers.members()


def agent(beating: Beating, monkeypatch: pytest.MonkeyPatch, *, uptime: int) -> Rig:
    """A rig with an agent's machine that runs a task; its store knows its uptime in seconds."""
    rig = beating.rig
    rig.other.machines.set_state(0, MachineState.DOWN, 0, "ada")
    me = rig.other.executors.register_agent("h1", "n", LEASE_MS, 0)
    rig.other.machines.join(me.member, [MachineSpec("h1", (1_000, 1_000))], 0)
    rig.submit(spec("a", 2))
    rig.until_placed("a")
    monkeypatch.setattr(rig.other, "store_older_than", lambda milliseconds: uptime * 1000 > milliseconds)
    return rig


def look(beating: Beating) -> None:
    """A beat so late that the scheduler looks after agents again; its loop goes on meanwhile."""
    beating.rig.live.steps += 1
    beating.beat(after=LEASE_MS / 1000 + 1)


def test_the_tasks_of_an_agent_that_is_gone_go_back(beating: Beating, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = agent(beating, monkeypatch, uptime=LONG_UP)
    look(beating)
    assert rig.placed("a") == 2, "its lease holds"
    rig.expire("agent/h1")
    look(beating)
    assert rig.counts()["a"] == (2, 0)
    assert rig.facts("lapse") == [("agent/h1", "3")]
    look(beating)
    assert len(rig.facts("lost")) == 1


def test_no_agent_is_given_up_within_one_lease_of_a_start_of_the_store(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = agent(beating, monkeypatch, uptime=LEASE_MS // 1000)
    rig.expire("agent/h1")
    look(beating)
    assert rig.placed("a") == 2


def test_a_drained_machine_is_emptied_when_its_time_is_over(beating: Beating, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = agent(beating, monkeypatch, uptime=LONG_UP)
    rig.other.machines.set_state(1, MachineState.DRAINED, 0, "ada")
    rig.other.machines.set_deadline(1, 60_000)
    look(beating)
    assert rig.placed("a") == 2
    rig.other.machines.set_deadline(1, 0)
    look(beating)
    assert rig.counts()["a"] == (2, 0)
    assert [fact[-1] for fact in rig.facts("evicted")] == ["drain"]
    rig.other.machines.set_state(1, MachineState.UP, 0, "ada")
    look(beating)
    assert rig.other.machines.deadlines() == {}, "a machine that is up again has none"


def test_updates_of_its_jobs_are_looked_after(beating: Beating) -> None:
    rig = beating.rig
    rig.submit(spec("a"))
    rig.until_placed("a")
    rig.other.jobs.update("a", [TaskGroup((1, 1), 1)], {"groups": [{}, {}], "targets": [[1, 1, [0], 0, 0]]}, 1, "ada")
    beating.beat()
    found = rig.other.jobs.get("a")
    assert found is not None
    assert [group.total for group in found.groups] == [0, 1]


def test_jobs_that_ended_long_ago_are_forgotten_by_the_clock_of_the_store(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose clock is days ahead deletes nothing, nor does a scheduler whose clock is (semantics 30)."""
    rig, day = beating.rig, 86_400_000
    shown = [50 * day]
    monkeypatch.setattr(rig.other, "store_ms", lambda: shown[0])
    rig.submit(spec("a"), spec("b"))
    rig.other.jobs.stop("a", 90 * day, "ada")
    rig.clock.pause(3 * day / 1000)
    look(beating)
    look(beating)
    assert rig.other.jobs.get("a") is not None
    shown[0] += day
    look(beating)
    assert rig.other.jobs.get("a") is None
    assert rig.other.jobs.get("b") is not None


def test_what_the_ordering_warns_of_is_logged_once_while_it_lasts(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged, said = list[str](), ["scaled"]
    monkeypatch.setattr(log, "warning", lambda text, **_: logged.append(text))
    monkeypatch.setattr(Ordering, "warnings", property(lambda _: tuple(said)))
    beating.beat()
    beating.beat()
    assert logged == ["scaled"]
    said.clear()
    beating.beat()
    said.append("scaled")
    beating.beat()
    assert logged == ["scaled", "scaled"]


def test_sizes_that_the_store_refuses_are_logged_and_shown(beating: Beating, monkeypatch: pytest.MonkeyPatch) -> None:
    logged, elastic = list[str](), beating.rig.scheduler.elastic
    monkeypatch.setattr(log, "warning", lambda text, **_: logged.append(text))
    elastic.jobs["a"] = {}
    elastic.answered(Resized([], {"a": "job a: too many"}), 5.0)
    beating.beat()
    beating.beat()
    assert logged == ["job a: too many"]
    shown = beating.rig.other.schedulers.figures()["batch/0"]["failing"]
    assert shown == {"job a: too many": {"a": int((5 + REST_SECONDS) * 1000)}}
