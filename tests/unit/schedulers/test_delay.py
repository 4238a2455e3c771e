"""Delay scheduling: waits for machines with a job's data, at several levels, live and simulated."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

import omega
import omega.testing
from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang, JobSpec, MachineState, TaskGroup
from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim
from omega.schedulers.placement.delay import Delay, DelayReset, DelayRule, Waiting, within_locality
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.policies import Placement
from omega.schedulers.presets import batch, service
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from tests.unit.schedulers.rig import Rig

SLOT = (1_000, 1_024)
WAITS = {"wait_ms": [5_000, 10_000]}


class TestDelay(omega.testing.PlacementContract):
    policies = (Delay(), Delay(reset=DelayReset.JOB), Delay(inner=ServicePlacement()), Delay(skips=(2, 3)))


def near(*machines: str, **more: Any) -> dict[str, Any]:
    return {"locality": {"machines": list(machines), **WAITS, **more}}


def job(
    name: str, fields: Mapping[str, Any], count: int = 1, ms: int = 0, gang: Gang = Gang.NO, **spec: Any
) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup(SLOT, count, ms, fields),), gang=gang, **spec)


def racks(machines: int, scheduler: Scheduler | None = None, slots: int = 1) -> Rig:
    """A cell of machines, two to a rack: m0 and m1 are in r0."""
    rig = Rig(*[(1_000 * slots, 1_024 * slots)] * machines, scheduler=scheduler)
    for i in range(machines):
        rig.other.machines.set_attributes(i, {"rack": f"r{i // 2}"}, 0, "ada")
    rig.submit(JobSpec("busy", "busy", "other", (TaskGroup(SLOT, 100),)))
    return rig


def fill(rig: Rig, *machines: int) -> None:
    for machine in machines:
        rig.foreign("busy", machine, 1)


def free(rig: Rig, machine: int) -> None:
    (run,) = [run for run in rig.other.machines.runs([machine]) if run.job == "busy"]
    rig.other.schedulers.members()  # the schedulers to notify
    rig.other.executors.end([TaskEnd(machine, run.placement, EndKind.FINISHED)], 0, "simulated")


def where(rig: Rig, job_id: str) -> list[int]:
    return [run.machine for run in rig.other.machines.runs(range(len(rig.other.machines.all()))) if run.job == job_id]


# The rule


@pytest.mark.parametrize(
    ("seconds", "level", "until"), [(0, 0, 105), (4.9, 0, 105), (5, 1, 115), (14, 1, 115), (15, 2, 115)]
)
def test_a_level_is_passed_after_its_time(seconds: float, level: int, until: float) -> None:
    rule, waiting = DelayRule(), Waiting()
    assert rule.reached(waiting, (5, 10), 100.0)[0] == 0
    assert rule.reached(waiting, (5, 10), 1e9)[0] == 0, "no offer was refused: it has not begun to wait"
    rule.refused(waiting, 100.0)
    rule.refused(waiting, 103.0)
    assert rule.reached(waiting, (5, 10), 100.0 + seconds) == (level, until)


def test_a_level_is_passed_after_its_skips() -> None:
    rule, waiting = DelayRule(skips=(3, 2)), Waiting()
    levels = []
    for _ in range(6):
        levels.append(rule.reached(waiting, (5, 10), 0.0)[0])
        rule.refused(waiting, 0.0)
    assert levels == [0, 0, 0, 1, 1, 2]


def test_under_reset_job_a_launch_at_a_better_level_lowers_the_level_again() -> None:
    rule, waiting = DelayRule(reset=DelayReset.JOB), Waiting()
    rule.refused(waiting, 100.0)
    assert rule.reached(waiting, (5, 10), 200.0)[0] == 2
    rule.launched(waiting, 1)
    assert rule.reached(waiting, (5, 10), 200.0)[0] == 1
    rule.refused(waiting, 200.0)
    assert rule.reached(waiting, (5, 10), 209.0)[0] == 1
    assert rule.reached(waiting, (5, 10), 210.0)[0] == 2
    rule.launched(waiting, 0)
    rule.refused(waiting, 300.0)
    assert [rule.reached(waiting, (5, 10), 300.0 + t)[0] for t in (0, 5, 15)] == [0, 1, 2]


def test_under_reset_task_a_launch_changes_nothing() -> None:
    rule, waiting = DelayRule(), Waiting()
    rule.refused(waiting, 100.0)
    rule.launched(waiting, 0)
    assert rule.reached(waiting, (5, 10), 115.0)[0] == 2


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(BadInput, match=r"skips: .* at least 0"):
        Delay(skips=(3, -1))
    with pytest.raises(BadInput, match="again"):
        Delay(again=0.0)


# Live


def test_a_job_takes_a_machine_with_its_data_at_once() -> None:
    rig = racks(6)
    rig.submit(job("a", near("m3")))
    began = rig.clock.seconds
    rig.until_placed("a")
    assert (where(rig, "a"), rig.clock.seconds - began < 1) == ([3], True)


@pytest.mark.parametrize(
    ("busy", "machine", "seconds"), [((0,), {1}, 5.0), ((0, 1), {2, 3, 4, 5}, 15.0)], ids=["rack", "anywhere"]
)
@pytest.mark.parametrize("preset", [batch, service])
def test_it_waits_for_its_machine_then_its_rack_then_takes_any(
    preset: Any, busy: Sequence[int], machine: set[int], seconds: float
) -> None:
    scheduler = preset("1")
    scheduler.kind = "batch"
    rig = racks(6, scheduler)
    fill(rig, *busy)
    rig.submit(job("a", near("m0")))
    began = rig.clock.seconds
    rig.until_placed("a")
    assert set(where(rig, "a")) <= machine
    assert seconds <= rig.clock.seconds - began < seconds + 1
    rig.check()


def test_a_delayed_job_leaves_its_room_to_others_at_once() -> None:
    rig = racks(2)
    fill(rig, 0)
    rig.submit(job("a", near("m0", wait_ms=[60_000, 0])), job("b", {}))
    began = rig.clock.seconds
    rig.until_placed("b")
    assert (where(rig, "b"), rig.left("a"), rig.clock.seconds - began < 1) == ([1], 1, True)


def test_only_a_machine_of_its_level_or_the_end_of_its_wait_makes_it_ready() -> None:
    rig = racks(6)
    fill(rig, *range(5))
    rig.submit(job("a", near("m0")))
    rig.until(lambda: rig.scheduler.queue.blocked.get("a") is not None)
    rig.rest()
    work = rig.scheduler.queue.blocked.get("a")
    assert work is not None
    assert (work.level, round(work.until)) == ("machine", 1_005)
    attempts = work.attempts

    for machine in (2, 3, 4):
        free(rig, machine)
        rig.step()  # it was notified
        rig.rest()
        assert rig.clock.seconds < 1_004
    assert work.attempts == attempts, "room on other machines"
    rig.until(lambda: work.level == "rack")
    assert work.attempts == attempts + 1, "the end of its wait"
    free(rig, 1)
    rig.until_placed("a")
    assert where(rig, "a") == [1]
    assert rig.clock.seconds < 1_014, "a machine of its rack was freed"


def test_no_slot_idles_while_a_job_may_take_it_at_its_level() -> None:
    """Jobs with equal data that wait at different levels: room of the rack goes to the one that may take it."""
    rig = racks(6)
    fill(rig, *range(5))
    rig.submit(job("early", near("m0")))
    rig.until(lambda: rig.scheduler.queue.blocked.get("early") is not None)
    work = rig.scheduler.queue.blocked.get("early")
    assert work is not None
    rig.until(lambda: work.level == "rack")
    rig.submit(job("late", near("m0")))
    rig.until(lambda: (late := rig.scheduler.queue.blocked.get("late")) is not None and late.level == "machine")
    free(rig, 1)
    rig.until_placed("early")
    assert (where(rig, "early"), rig.left("late")) == ([1], 1)


def test_constraints_hold_round_it() -> None:
    rig = racks(6)
    rig.submit(job("a", near("m0", "m3") | {"constraints": ["rack == 'r1'"]}))
    rig.submit(job("b", near("m0") | {"constraints": ["rack == 'r2'"]}))
    rig.submit(job("c", near("m0", "m1", "m4", wait_ms=[1_000, 0]) | {"different_machines": True}, 3))
    rig.until_placed("a", "b", "c")
    assert where(rig, "a") == [3]
    assert set(where(rig, "b")) <= {4, 5}
    assert len(set(where(rig, "c"))) == 3


def test_a_gang_waits_as_a_whole() -> None:
    rig = racks(6)
    fill(rig, 0)
    rig.submit(job("a", near("m0", "m1"), 2, gang=Gang.YES))
    began = rig.clock.seconds
    rig.until_placed("a")
    assert rig.clock.seconds - began >= 15.0, "its rack has one free machine only"
    assert where(rig, "a")[0] == 1, "the machine with the data is one of its two"


def test_a_gang_with_a_minimum_waits_for_the_minimum() -> None:
    rig = racks(6)
    fill(rig, 0)
    rig.submit(job("a", near("m0", "m1"), 3, gang=Gang.YES, gang_min=2))
    began = rig.clock.seconds
    rig.until_placed("a")
    assert 15.0 <= rig.clock.seconds - began < 17


def test_groups_wait_each_for_its_own_machines() -> None:
    rig = racks(6)
    fill(rig, 0)
    groups = (TaskGroup(SLOT, 1, 0, near("m0")), TaskGroup(SLOT, 1, 0, near("m3")), TaskGroup(SLOT, 1))
    rig.submit(JobSpec("a", "a", "batch", groups))
    rig.until(lambda: rig.placed("a") == 2)
    assert rig.clock.seconds < 1_001
    rig.until_placed("a")
    assert {1, 3} <= set(where(rig, "a"))


def test_replicas_that_are_not_there_are_ignored() -> None:
    rig = racks(6)
    fill(rig, 5)
    rig.other.machines.set_state(2, MachineState.DRAINED, 0, "ada")
    rig.submit(job("a", near("m99", "m2", "m4")))
    rig.until_placed("a")
    assert where(rig, "a") == [4]
    began = rig.clock.seconds
    rig.submit(job("b", near("m99", "m2")))
    rig.until_placed("b")
    assert 15.0 <= rig.clock.seconds - began < 16.0, "after both waits it takes any machine"


def test_a_machine_without_a_rack_is_near_no_other() -> None:
    rig = racks(6)
    for machine in (4, 5):
        rig.other.machines.set_attributes(machine, {"rack": None}, 0, "ada")
    fill(rig, 5)
    began = rig.clock.seconds
    rig.submit(job("a", near("m5")))
    rig.until_placed("a")
    assert 15.0 <= rig.clock.seconds - began < 16.0, "m4 has no rack either, and is not taken before any other"


def test_a_constraint_may_name_the_machines() -> None:
    rig = racks(6)
    rig.other.machines.set_attributes(4, {"rack": "r2", "data.logs": "1"}, 0, "ada")
    rig.submit(job("a", {"locality": {"where": "has data.logs", "wait_ms": [60_000]}}))
    rig.until_placed("a")
    assert where(rig, "a") == [4]


def test_a_machine_that_joins_with_the_data_ends_the_wait() -> None:
    rig = racks(2)
    fill(rig, 0)
    rig.submit(job("a", near("m2", wait_ms=[600_000])))
    rig.until(lambda: rig.scheduler.queue.blocked.get("a") is not None)
    rig.rest()
    rig.join(SLOT)
    rig.until_placed("a")
    assert (where(rig, "a"), rig.clock.seconds < 1_100) == ([2], True)


def test_a_job_that_waits_for_locality_evicts_nobody() -> None:
    scheduler = service("1")
    scheduler.kind = "batch"
    rig = racks(4, scheduler)
    fill(rig, 0, 1)
    rig.submit(job("a", near("m0"), precedence=9))
    rig.until_placed("a")
    assert not rig.facts("evicted")
    assert set(where(rig, "a")) <= {2, 3}


def test_in_a_full_cell_it_evicts_on_a_machine_with_its_data() -> None:
    scheduler = service("1")
    scheduler.kind = "batch"
    rig = racks(4, scheduler)
    fill(rig, 0, 1, 2, 3)
    rig.submit(job("a", near("m2"), precedence=9))
    rig.until_placed("a")
    assert where(rig, "a") == [2]


def test_a_wait_is_no_attempt_of_a_retry_policy() -> None:
    scheduler = Scheduler("batch", retry_policy=omega.RetryPolicy(seconds=0.1, attempts=5))
    rig = racks(4, scheduler)
    fill(rig, 0, 1)
    rig.submit(job("a", near("m0")))
    rig.until_placed("a")
    assert set(where(rig, "a")) <= {2, 3}


# Policies of others


class Last(Placement):
    """A stranger's placement: the last machine with room."""

    @override
    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        machines = snapshot.holding(work.need(0))[-work.left[0] :] if work.left[0] else []
        for machine in machines:
            snapshot.take(machine, work.need(0), 1)
        return [Claim(machine, 0, 1) for machine in machines]


def test_the_placement_of_a_stranger_gets_the_same_wait() -> None:
    rig = racks(6, Scheduler("batch", placement=Last()))
    fill(rig, 0)
    rig.submit(job("a", near("m0")))
    began = rig.clock.seconds
    rig.until_placed("a")
    assert (where(rig, "a"), 5.0 <= rig.clock.seconds - began < 6.0) == ([1], True)


def test_a_placement_that_reads_locality_gets_none() -> None:
    class Own(Last):
        reads = ("locality",)

        @override
        def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
            return super().place(work, snapshot, rng)

    rig = racks(6, Scheduler("batch", placement=Own()))
    rig.submit(job("a", near("m0")))
    rig.until_placed("a")
    assert where(rig, "a") == [5]
    assert not isinstance(within_locality(Own()), Delay)


def test_skips_count_machines_with_room_that_were_refused() -> None:
    scheduler = Scheduler("batch", placement=Delay(inner=FirstFit(), skips=(7, 0), again=3.0))
    rig = racks(6, scheduler)
    fill(rig, 0)
    rig.submit(job("a", near("m0", domains=[], wait_ms=[5_000])))
    began = rig.clock.seconds
    rig.until_placed("a")
    assert 3.0 <= rig.clock.seconds - began < 4.0, "each of five machines offers its room twice"
