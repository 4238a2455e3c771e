"""Rolling updates: what the next step is, and that a whole update keeps enough tasks up and comes to its end."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Job, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.schedulers.rolling import LOOK_MS, Move, Policy, Rollouts, move, targets
from omega.updating import job_update

EVERY = "1" * 256
STEP_MS = 1_000


class Site:
    """A service of some tasks on a cell; tasks are placed, started and ended at once when `tick` is called."""

    def __init__(
        self, count: int, room: int, max_down: int = 1, healthy_ms: int = 0, kind: str = "service", **policy: int
    ) -> None:
        self.kind = kind
        self.cell = MemoryCell("c", Dimensions(("cpu", "memory")))
        self.cell.executors.register_agent("m0", "n", 600_000, 0)
        self.cell.machines.join("agent/m0", [MachineSpec("m", (room, 1000))], 0)
        self.membership = self.cell.schedulers.register(f"{kind}/0", "n", 60_000, 0)
        self.rollouts = Rollouts(kind, f"{kind}/0")
        self.now = self.number = 0
        self.health = {"max_down": max_down, "health": {"healthy_after": healthy_ms}, **policy}
        self.cell.jobs.submit([self.spec("old", count)], 0, "ada")
        self.tick()

    def spec(self, command: str, count: int, **words: Any) -> JobSpec:
        groups = (TaskGroup((1, 1), count, 0, {"name": "web", "command": [command]}),)
        return JobSpec("a", "a", self.kind, groups, spec={"update": self.health}, **words)

    @property
    def job(self) -> Job:
        found = self.cell.jobs.get("a")
        assert found is not None
        return found

    def update(self, command: str, count: int, *, again: bool = False) -> int:
        wanted = job_update(self.job, self.spec(command, count), again=again)
        self.cell.jobs.update("a", wanted.groups, wanted.spec, self.now, "ada")
        return wanted.replaced

    def tick(self) -> None:
        """Place what fits, and acknowledge what leaves."""
        for number, group in enumerate(self.job.groups):
            machine = self.cell.machines.all()[0]
            count = min(group.unplaced, machine.capacity[0] - machine.allocated[0])
            if count:
                self.number += 1
                claims = (Claim(0, number, count),)
                self.cell.schedulers.commit(
                    CommitRequest(self.membership, self.number, [Transaction("a", claims)], Position(), self.now)
                )
        leaving = [run for run in self.cell.machines.runs([0]) if run.leaving]
        self.cell.executors.end([TaskEnd(0, run.placement, EndKind.LEFT) for run in leaving], self.now, "e0")

    def step(self, ms: int = STEP_MS) -> int | None:
        self.now += ms
        return self.rollouts.step(self.cell, EVERY, self.now)

    def running(self) -> dict[str, int]:
        """Tasks that run, by command."""
        extras = self.job.spec["groups"]
        found: dict[str, int] = {}
        for number, group in enumerate(self.job.groups):
            command = extras[number]["command"][0]
            found[command] = found.get(command, 0) + group.placed
        return found

    def until_settled(self, most: int = 200) -> int:
        """Go on until the update is settled; returns the fewest tasks that were up on the way."""
        fewest = sum(self.running().values())
        for _ in range(most):
            self.step()
            fewest = min(fewest, sum(self.running().values()))
            self.tick()
            if self.cell.jobs.updates().get("a") != "rolling":
                return fewest
        raise AssertionError("the update comes to no end")


def test_all_tasks_are_replaced_one_after_the_other() -> None:
    site = Site(4, room=4)
    assert site.update("new", 4) == 4
    assert site.until_settled() == 3
    assert site.running() == {"old": 0, "new": 4}
    assert site.cell.jobs.updates() == {}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    before=st.integers(1, 9),
    after=st.integers(1, 9),
    spare=st.integers(0, 3),
    max_down=st.integers(1, 4),
    healthy=st.sampled_from([0, 2_500]),
)
def test_enough_tasks_stay_up_whatever_the_numbers(
    before: int, after: int, spare: int, max_down: int, healthy: int
) -> None:
    site = Site(before, room=max(before, after) + spare, max_down=max_down, healthy_ms=healthy)
    site.update("new", after)
    assert site.until_settled() >= min(before, after) - max_down
    assert site.running() == {"old": 0, "new": after}


def test_a_new_task_counts_after_it_has_stayed_up() -> None:
    site = Site(2, room=2, healthy_ms=5 * STEP_MS)
    site.update("new", 2)
    site.step()
    site.tick()
    for _ in range(5):
        site.step()
        site.tick()
        assert site.running() == {"old": 1, "new": 1}
    site.step()
    site.tick()
    assert site.running() == {"old": 0, "new": 2}


def test_who_takes_over_waits_anew_and_then_goes_on() -> None:
    site = Site(2, room=2, healthy_ms=2 * STEP_MS)
    site.update("new", 2)
    site.step()
    site.tick()
    site.rollouts = Rollouts("service", "service/1")
    site.until_settled()
    assert site.running() == {"old": 0, "new": 2}


def fail_one(site: Site, how: EndKind = EndKind.FAILED) -> None:
    placement, machine, _ = site.job.groups[-1].runs[0]
    site.cell.executors.end([TaskEnd(machine, placement, how, "0")], site.now, "e0")


@pytest.mark.parametrize(("how", "said"), [(EndKind.FAILED, "1 failed"), (EndKind.FINISHED, "1 ended")])
def test_it_stops_when_new_tasks_fail(how: EndKind, said: str) -> None:
    site = Site(3, room=3, healthy_ms=STEP_MS)
    site.update("new", 3)
    site.step()
    site.tick()
    fail_one(site, how)
    site.step()
    assert site.cell.jobs.updates() == {"a": f"stalled of its 1 new tasks {said}"}
    assert site.running() == {"old": 2, "new": 0}
    before = site.job
    site.step()
    assert site.job == before


def test_the_way_back_replaces_what_was_new() -> None:
    site = Site(3, room=3)
    site.update("new", 3)
    site.step()
    site.tick()
    fail_one(site)
    site.step()
    assert site.update("old", 3, again=True) == 2
    site.until_settled()
    assert site.running() == {"old": 3, "new": 0}


def test_an_update_that_found_no_machine_and_the_way_back_keep_the_old_tasks() -> None:
    site = Site(10, room=10, healthy_ms=STEP_MS, progress_deadline=3 * STEP_MS)
    site.update("new", 10)
    for _ in range(8):
        site.step()  # no tick: the new task finds no machine
    assert site.cell.jobs.updates()["a"].startswith("stalled no progress")
    site.update("old", 10, again=True)
    for _ in range(8):
        site.step()
        assert site.running() == {"old": 9, "new": 0}, "none of the new tasks is proven"
    site.tick()
    site.update("old", 10, again=True)
    assert site.until_settled() >= 9
    assert site.running() == {"old": 10, "new": 0}


@pytest.mark.parametrize(("healthy_ms", "patience"), [(0, 5), (2 * STEP_MS, 7)])
def test_an_update_that_gets_no_further_stops_where_it_is(healthy_ms: int, patience: int) -> None:
    site = Site(3, room=3, healthy_ms=healthy_ms, progress_deadline=5 * STEP_MS)
    site.update("new", 3)
    for _ in range(patience + 2):  # one to begin, one to see how far that is, and then the deadline
        site.step()
        assert site.cell.jobs.updates() == {"a": "rolling"}
    site.step()
    why = f"no progress for {patience + 1} s: of its 1 new tasks 1 found no machine"
    assert site.cell.jobs.updates() == {"a": f"stalled {why}"}
    assert site.running() == {"old": 2, "new": 0}


def test_each_new_task_that_works_gives_an_update_its_time_again() -> None:
    site = Site(3, room=3, progress_deadline=3 * STEP_MS)
    site.update("new", 3)
    for _ in range(3):
        for _ in range(3):
            site.step()
        site.tick()
    assert site.until_settled() == 3
    assert site.cell.jobs.updates() == {}


def test_a_task_that_does_not_start_holds_an_update_up_too() -> None:
    site = Site(2, room=2, progress_deadline=STEP_MS)
    site.update("new", 2)
    site.step()
    site.number += 1
    site.cell.schedulers.commit(
        CommitRequest(site.membership, 1 + site.number, [Transaction("a", (Claim(0, 1, 1),))], Position(), site.now)
    )
    assert site.running() == {"old": 1, "new": 1}, "what left its place was not acknowledged"
    for _ in range(4):
        site.step()
    assert site.cell.jobs.updates()["a"].endswith(
        "of its 1 new tasks 1 have a machine, and wait there for stopped tasks to end"
    )


def test_an_update_whose_new_tasks_run_and_are_never_ready_says_so() -> None:
    site = Site(3, room=3, max_down=2, progress_deadline=5 * STEP_MS)
    site.health["health"]["command"] = ["check"]  # type: ignore[index]
    site.update("new", 3)
    site.step()
    site.tick()
    for _ in range(9):
        site.step()
    assert site.cell.jobs.updates()["a"].endswith(" s: of its 2 new tasks 2 run, and are not ready")


def test_a_held_job_has_time() -> None:
    site = Site(2, room=2, progress_deadline=2 * STEP_MS)
    site.update("new", 2)
    site.step()
    site.cell.jobs.hold("a", site.now, "ada")
    for _ in range(9):
        site.step()
    site.cell.jobs.release("a", site.now, "ada")
    site.step()
    site.tick()
    site.until_settled()
    assert site.cell.jobs.updates() == {}


def test_the_next_look_is_soon_and_when_a_task_has_proven_itself() -> None:
    site = Site(1, room=1, healthy_ms=700)
    assert site.step() is None, "nothing is updated"
    site.update("new", 1)
    assert site.step() == LOOK_MS, "a step was taken"
    site.tick()
    assert site.step(LOOK_MS) == LOOK_MS, "the new task is seen to run"
    assert site.step(600) == LOOK_MS
    assert site.step(100) == LOOK_MS, "it has proven itself"
    assert site.cell.jobs.updates() == {}


def test_an_update_where_nothing_happens_is_looked_at_ever_more_rarely() -> None:
    site = Site(1, room=1)
    site.update("new", 1)
    looks = [site.step(60_000) for _ in range(4)]
    assert looks == [LOOK_MS, LOOK_MS, 15_000, 30_000]


def test_steps_leave_the_modify_index_to_people() -> None:
    site = Site(4, room=4)
    site.update("new", 4)
    index = site.job.modified
    site.until_settled()
    assert site.job.modified == index


def test_a_step_that_was_decided_on_old_totals_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(4, room=4)
    site.update("new", 4)
    late = site.job
    site.step()
    site.tick()
    for _ in range(3):
        site.step()
        site.tick()
    before = site.job
    with monkeypatch.context() as patched:
        patched.setattr(site.cell.jobs, "get", lambda _: late)
        Rollouts("service", "service/1").step(site.cell, EVERY, site.now)
    assert site.job == before


def test_old_tasks_that_wait_go_at_once() -> None:
    site = Site(5, room=2)
    site.update("new", 2)
    site.step()
    assert [group.total for group in site.job.groups] == [1, 1]


def test_only_the_number_changes() -> None:
    site = Site(2, room=9)
    assert site.update("old", 5) == 0
    site.until_settled()
    assert (len(site.job.groups), site.running()) == (1, {"old": 5})


def test_an_update_during_an_update() -> None:
    site = Site(4, room=4)
    site.update("new", 4)
    site.step()
    site.tick()
    site.update("newest", 3)
    assert site.until_settled() >= 3 - 1
    assert site.running() == {"old": 0, "new": 0, "newest": 3}


@pytest.mark.parametrize(
    ("stop", "left"),
    [
        (True, {"a": "stalled stopped"}),
        (False, {"a": "stalled the job ended before its new tasks proved themselves"}),
    ],
)
def test_the_update_of_a_job_that_ended_is_settled(stop: bool, left: Mapping[str, str]) -> None:
    site = Site(1, room=1)
    site.update("new", 1)
    if stop:
        site.cell.jobs.stop("a", 1, "ada")
    else:
        fail_one_of_old = site.job.groups[0].runs[0]
        site.cell.executors.end([TaskEnd(0, fail_one_of_old[0], EndKind.FINISHED)], 1, "e0")
    site.step()
    assert site.cell.jobs.updates() == left


def test_a_stalled_update_is_forgotten_when_its_job_is_no_longer_kept() -> None:
    site = Site(1, room=1)
    site.update("new", 1)
    site.cell.jobs.settle("a", "fails", 1, "service/0")
    site.step()
    assert site.cell.jobs.updates() == {"a": "stalled fails"}
    site.cell.keep_jobs = 0
    site.cell.jobs.stop("a", 1, "ada")
    site.cell.executors.end(
        [TaskEnd(0, run.placement, EndKind.FAILED) for run in site.cell.machines.runs([0])], 1, "m0"
    )
    site.step()
    assert site.cell.jobs.updates() == {}


def test_others_look_after_other_buckets_and_kinds() -> None:
    site = Site(1, room=1)
    site.update("new", 1)
    before = site.job
    Rollouts("service", "service/1").step(site.cell, "0" * 256, 1)
    Rollouts("batch", "batch/0").step(site.cell, EVERY, 1)
    assert site.job == before


def test_a_job_that_was_never_updated_is_what_it_is() -> None:
    site = Site(2, room=2)
    assert [(target.group, target.count, target.older) for target in targets(site.job)] == [(0, 2, ())]
    assert move(site.job, {}) == Move({}, done=True)


def test_the_last_new_task_must_be_healthy_when_the_old_ones_are_gone() -> None:
    site = Site(1, room=1, healthy_ms=5_000)
    site.update("new", 1)
    site.step()
    site.tick()
    site.tick()
    assert site.running() == {"old": 0, "new": 1}
    assert not move(site.job, {}).done
    assert move(site.job, {1: 1}).done


def test_a_command_makes_a_task_wait_for_its_grace_as_well() -> None:
    said = {"health": {"command": ["probe"], "grace": 3_000, "healthy_after": 2_000}, "max_down": 2}
    assert Policy.of({"update": {"health": {"command": ["probe"]}}}).grace_ms == 0
    assert Policy.of({"update": said}) == Policy(max_down=2, healthy_after_ms=2_000, grace_ms=3_000, command=("probe",))
    assert Policy.of({"update": {"progress_deadline": 5}}).progress_deadline_ms == 5
    assert Policy.of({"update": said}).proven_ms == 5_000
    assert Policy.of({}) == Policy()
