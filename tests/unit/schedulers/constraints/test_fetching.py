"""What is looked up beside the copy: only what jobs in hand ask for, from any cell."""

from random import Random

import fakeredis
import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.schedulers import registry
from omega.schedulers.constraints.fetching import Fetch, fetch, wanted
from omega.schedulers.loop import Effect
from omega.schedulers.ordering.without_pools import Fifo
from omega.schedulers.queue.blocked import Blocked
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from tests.contract.conftest import AnyCell, Member
from tests.contract.test_losses import START, Clock
from tests.unit.schedulers.constraints.site import asking, describe, site
from tests.unit.schedulers.drive import say, work
from tests.unit.schedulers.rig import Rig


@pytest.fixture(params=["memory", "fake"])
def cell(request: pytest.FixtureRequest) -> AnyCell:
    made = MemoryCell() if request.param == "memory" else RedisCell.create(fakeredis.FakeRedis(), "c")
    machines = [MachineSpec(f"m{i}", (1000, 1000), {"rack": f"r{i // 2}"}) for i in range(4)]
    made.executors.register("simulated", "n", 600_000, 0)
    made.machines.join("simulated", machines, 0)
    return made


def copy(cell: AnyCell) -> Snapshot:
    snapshot = ArraySnapshot(2)
    snapshot.apply(cell.schedulers.sync(Position()))
    return snapshot


def submitted(cell: AnyCell, name: str, count: int, **extra: object) -> Work:
    cell.jobs.submit([JobSpec(f"id-{name}", name, "service", (TaskGroup((1, 1), count, spec=extra),))], 0, "ada")
    return taken_up(cell, name)


def taken_up(cell: AnyCell, name: str) -> Work:
    job = cell.jobs.get(f"id-{name}")
    assert job is not None
    return Work.of(job)


# What is wanted


def test_jobs_that_demand_nothing_want_nothing() -> None:
    for found in (work("a"), asking({"name": "x"}), asking({"different_machines": True})):
        assert wanted([found], ArraySnapshot(2)) is None


def test_attributes_are_wanted_until_they_are_known() -> None:
    for extra in ({"constraints": ["has a"]}, {"constraints": [{"prefer": "has a"}]}, {"spread": ["rack"]},
                  {"near": {"job": "db", "domain": "rack"}}):  # fmt: skip
        asked = wanted([work("a"), asking(extra)], ArraySnapshot(2))
        assert asked is not None
        assert asked.attributes
    assert wanted([asking({"constraints": ["has a"]})], site({"a": "1"})) is None


def test_groups_with_nothing_left_want_nothing() -> None:
    found = asking({"constraints": ["has a"]})
    found.left = [0]
    assert wanted([found], ArraySnapshot(2)) is None


def test_other_jobs_are_wanted_each_time() -> None:
    snapshot = site({})
    found = asking({"near": "db", "apart_from": ["web", "db"]})
    assert wanted([found], snapshot) == Fetch(attributes=False, others=("db", "web"))
    snapshot.others = {"db": {}, "web": {}}
    assert wanted([found], snapshot) == Fetch(attributes=False, others=("db", "web"))


def test_where_a_job_runs_is_wanted_once_it_may_run_somewhere() -> None:
    snapshot, found = site({"rack": "a"}), asking({"spread": ["rack"]}, 2)
    assert wanted([found], snapshot) is None
    found.places = {0: 1}
    assert wanted([found], snapshot) == Fetch(attributes=False, placed=("j",))
    found.places = {}
    found.job.groups[0].placed = 1
    assert wanted([found], snapshot) == Fetch(attributes=False, placed=("j",))
    found.job.groups[0].runs = ()
    snapshot.placed = {"j": {0: 1}}
    assert wanted([found], snapshot) == Fetch(attributes=False, placed=("j",)), "what was known may be over"


# What is found


def test_attributes_of_all_machines(cell: AnyCell) -> None:
    snapshot = copy(cell)
    fetch(Fetch(attributes=True), cell, snapshot)
    assert [snapshot.attributes.get(i, "rack") for i in range(4)] == ["r0", "r0", "r1", "r1"]
    assert [snapshot.attributes.name(i) for i in range(4)] == ["m0", "m1", "m2", "m3"]


def test_a_machine_that_was_never_there_is_nothing(cell: AnyCell) -> None:
    assert cell.machines.described([2, 99]) == [("m2", (("rack", "r1"),)), ("", ())]
    assert cell.machines.described([]) == []


def test_where_jobs_run_in_tasks_by_machine(cell: AnyCell) -> None:
    submitted(cell, "db", 5)
    submitted(cell, "web", 4)
    member = Member(cell)
    member.transact(Transaction("id-db", (Claim(0, 0, 2), Claim(3, 0, 1), Claim(0, 0, 1))))
    member.transact(Transaction("id-web", (Claim(0, 0, 4),)))
    snapshot = copy(cell)
    fetch(Fetch(attributes=False, placed=("id-db",), others=("web", "nobody")), cell, snapshot)
    assert snapshot.placed == {"id-db": {0: 3, 3: 1}}
    assert {name: list(there) for name, there in snapshot.others.items()} == {"web": [0], "nobody": []}


def test_tasks_that_leave_are_not_there_any_more(cell: AnyCell) -> None:
    submitted(cell, "db", 2)
    Member(cell).transact(Transaction("id-db", (Claim(0, 0, 2),)))
    (run,) = cell.machines.runs([0])
    cell.executors.end([TaskEnd(0, run.placement, EndKind.EVICTED, "0")], 0, "ada")
    snapshot = copy(cell)
    fetch(Fetch(attributes=False, others=("db",)), cell, snapshot)
    assert snapshot.others == {"db": {0: 1}}


def test_claims_in_flight_count_as_tasks_of_other_jobs(cell: AnyCell) -> None:
    """The read may overtake the commit, and so may lack them."""
    snapshot, web, db = copy(cell), submitted(cell, "web", 2), submitted(cell, "db", 1)
    claims = Transaction(web.id, (Claim(1, 0, 1), Claim(2, 0, 1))), Transaction(db.id, (Claim(3, 0, 1),))
    flight = CommitRequest(Membership("batch/0", 1), 1, claims, Position(), 0)
    asked = Fetch(attributes=False, others=("web", "nobody"))
    fetch(asked, cell, snapshot, flight, {web.id: web, db.id: db})
    assert {name: dict(there) for name, there in snapshot.others.items()} == {"web": {1: 1, 2: 1}, "nobody": {}}


def test_a_job_that_is_gone_runs_nowhere(cell: AnyCell) -> None:
    snapshot = copy(cell)
    fetch(Fetch(attributes=False, placed=("id-x",)), cell, snapshot)
    assert snapshot.placed == {"id-x": {}}


def test_the_id_of_a_name(cell: AnyCell) -> None:
    submitted(cell, "db", 1)
    assert (cell.jobs.id_of("db"), cell.jobs.id_of("id-db"), cell.jobs.id_of("nobody")) == ("id-db", None, None)


# Who sleeps


def test_room_freed_wakes_only_who_may_use_it() -> None:
    snapshot, blocked = site({"rack": "a"}, {"rack": "b"}, free=(0, 0)), Blocked(Ranks(Fifo()))
    for rack in "abc":
        blocked.add(asking({"constraints": [f"rack == '{rack}'"]}, name=rack))
    blocked.add(asking({"spread": ["rack"]}, name="any"))
    say(snapshot, 1, 9, 9)
    describe(snapshot, {"rack": "b"}, start=1)  # it is larger now, so it may have joined anew
    assert [found.id for found in blocked.requeue(snapshot)] == ["b", "any"]


def test_a_machine_of_which_nothing_is_known_yet_wakes_whoever_fits() -> None:
    snapshot, blocked = site({"rack": "a"}, free=(0, 0)), Blocked(Ranks(Fifo()))
    blocked.add(asking({"constraints": ["rack == 'b'"]}))
    say(snapshot, 1, 9, 9)
    assert [found.id for found in blocked.requeue(snapshot)] == ["j"]


def test_while_no_machine_is_up_a_job_that_moved_requeues_nothing() -> None:
    snapshot, blocked = site({"rack": "a"}, {"rack": "b"}, free=(0, 0)), Blocked(Ranks(Fifo()))
    blocked.add(asking({"near": ["db"]}))
    snapshot.rows[2] = MachineState.DOWN
    assert blocked.requeue_near(snapshot, {"db"}) == []
    snapshot.rows[2] = MachineState.UP
    say(snapshot, 1, 9, 9)
    assert blocked.requeue_near(snapshot, {"other"}) == []
    assert [found.id for found in blocked.requeue_near(snapshot, {"db"})] == ["j"]


# In the attempt loop, live


def demanding(name: str, count: int, kind: str = "batch", **extra: object) -> JobSpec:
    return JobSpec(name, name, kind, (TaskGroup((100, 100), count, spec=extra),))


def looks(rig: Rig) -> list[Effect]:
    return [effect for effect, _ in rig.answers if isinstance(effect, Fetch)]


def live(*machines: dict[str, str], scheduler: Scheduler | None = None) -> Rig:
    kind = "batch" if scheduler is None else scheduler.kind
    rig = Rig(scheduler=scheduler, member=f"{kind}/0")
    join(rig, 0, *machines)
    return rig


def join(rig: Rig, start: int, *machines: dict[str, str]) -> None:
    specs = [MachineSpec(f"m{start + i}", (1000, 1000), has) for i, has in enumerate(machines)]
    rig.other.machines.join("simulated", specs, 0)


def machines_of(rig: Rig, name: str) -> set[int]:
    return {machine for group in rig.job(name).groups for _, machine, _ in group.runs}


def test_a_scheduler_of_plain_jobs_looks_nothing_up() -> None:
    rig = live({"rack": "a"}, {"rack": "b"})
    rig.submit(demanding("plain", 3), demanding("named", 3, time_limit=5))
    rig.until_placed("plain", "named")
    assert looks(rig) == []
    assert not rig.live.snapshot.attributes.used


@pytest.mark.parametrize("kind", ["batch", "service"])
def test_a_constrained_job_goes_where_it_may(kind: str) -> None:
    rig = live({"rack": "a"}, {"rack": "b"}, {"rack": "b"}, scheduler=registry.scheduler(kind, "s"))
    rig.submit(demanding("j", 12, kind, constraints=["rack == 'b'"]))
    rig.until_placed("j")
    assert machines_of(rig, "j") == {1, 2}
    assert looks(rig) == [Fetch(attributes=True)], "once"
    rig.check()


def test_a_sleeper_is_woken_by_the_machine_it_waits_for_and_by_no_other() -> None:
    rig = live({"rack": "a"})
    rig.submit(demanding("j", 1, constraints=["rack == 'b'"]))
    rig.until(lambda: len(rig.scheduler.queue.blocked) == 1)
    rig.rest()
    join(rig, 1, {"rack": "a"})
    for _ in range(20):
        rig.step()
    assert len(rig.scheduler.queue.blocked) == 1
    join(rig, 2, {"rack": "b"})
    rig.until_placed("j")
    assert machines_of(rig, "j") == {2}


def test_a_sleeper_is_woken_by_a_machine_that_becomes_what_it_waits_for() -> None:
    rig = live({"rack": "a"}, {"rack": "a"})
    rig.submit(demanding("j", 1, constraints=["rack == 'b'"]))
    rig.until(lambda: len(rig.scheduler.queue.blocked) == 1)
    rig.rest()
    join(rig, 1, {"rack": "b"})  # m1 joins anew, with the room it had
    rig.until_placed("j")
    assert machines_of(rig, "j") == {1}


def test_tasks_that_come_back_are_spread_against_those_that_stayed() -> None:
    rig = live(*({"rack": f"r{i // 2}"} for i in range(6)), scheduler=registry.scheduler("service", "s"))
    rig.submit(demanding("j", 3, "service", spread=[{"domain": "rack", "most": 1}]))
    rig.until_placed("j")
    for _ in range(5):
        run = Random(7).choice(rig.other.machines.runs(range(6)))
        endings = [TaskEnd(run.machine, run.placement, how, "*", "drain") for how in (EndKind.EVICTED, EndKind.LEFT)]
        rig.other.executors.end(endings, 0, "ada")
        rig.until_placed("j")
        assert sorted(machine // 2 for machine in machines_of(rig, "j")) == [0, 1, 2]


def test_a_job_keeps_apart_from_one_that_runs_and_near_another() -> None:
    rig = live(*({"rack": f"r{i // 2}"} for i in range(6)), scheduler=registry.scheduler("service", "s"))
    rig.submit(demanding("noisy", 1, "service", constraints=["machine == 'm2'"]),
               demanding("db", 1, "service", constraints=["machine == 'm4'"]))  # fmt: skip
    rig.until_placed("noisy", "db")
    rig.submit(demanding("j", 8, "service", apart_from={"job": "noisy", "domain": "rack"}),
               demanding("k", 2, "service", near={"job": "db", "domain": "rack"}))  # fmt: skip
    rig.until_placed("j", "k")
    assert machines_of(rig, "j") <= {0, 1, 4, 5}
    assert machines_of(rig, "k") == {4, 5}


def test_a_job_whose_constraint_cannot_be_read_sleeps_and_stops_nobody() -> None:
    rig = live({"rack": "a"})
    rig.submit(demanding("broken", 1, constraints=["rack = 'a'"]), demanding("fine", 1, constraints=["rack == 'a'"]))
    rig.until_placed("fine")
    assert rig.scheduler.queue.blocked.ids() == ["broken"]


def test_a_resident_has_the_user_and_the_pool_of_its_job_and_the_time_by_which_it_started(cell: AnyCell) -> None:
    member, clock = Member(cell), Clock(cell)
    for name, extra in (("a", {"user": "ada", "pool": "lab/x"}), ("b", {}), ("c", {"user": "bob"})):
        cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1, 1), 1),), spec=extra)], 0, "ada")
    member.place("a", (0, 1))
    clock.wait(0)
    member.place("b", (0, 1))
    clock.wait(60_000)
    member.place("c", (0, 1))
    snapshot = copy(cell)
    snapshot.now = clock.now / 1000 + 30
    fetch(Fetch(residents=(0,)), cell, snapshot)
    found = {each.job: (each.user, each.pool, each.started) for each in snapshot.residents.on(0)}
    assert found == {
        "a": ("ada", "lab/x", START / 1000), "b": ("", "", START / 1000 + 60), "c": ("bob", "", START / 1000 + 90),
    }  # fmt: skip


def test_a_kind_without_limits_and_running_tasks_uses_nothing(cell: AnyCell) -> None:
    snapshot = copy(cell)
    fetch(Fetch(use="batch"), cell, snapshot)
    assert snapshot.use is not None, "jobs that a pool's limit blocked are requeued by it"
    assert (snapshot.use.jobs, snapshot.use.used) == (0, (0, 0))
