"""Updates of jobs in random worlds: no step leaves fewer tasks than it may, and every update that can end ends.

A world has everything that a page says of a job that is updated: copies, holds, resizes, reverts, losses.

The oracle counts by itself what serves (tasks that run in older groups, new ones that have stayed up long enough, and
finished ones of jobs whose tasks end), immediately before and after each resize that an update makes (semantics 29).
"""

from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from omega.cellstate import ranges
from omega.cellstate.errors import Refused
from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.cell import MemoryJobs
from omega.cellstate.memory.jobs import resize as resized
from omega.cellstate.model import Job, JobSpec, JobState, MachineSpec, TakeOver, TaskGroup
from omega.cellstate.replies import Budget, CommitRequest, Membership, Original
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cellstate.verify import verify
from omega.changes import resize
from omega.schedulers.rolling import Rollouts, targets
from omega.schedulers.speculation import FIELD, with_copies
from omega.updating import job_update
from omega.versions import differences, earlier, present
from tests.property.seeded import play

EVERY = "1" * 256
STEP_MS = 1_000
MACHINES = 3
WORLDS, MANY = 20, 300
EVICTIONS = 5
"""The invariant that each eviction has a cause; these worlds give none."""


class World:
    """One job that is updated, reverted, resized and held while its tasks are placed, copied, evicted, lost and end."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"{seed}/rolling worlds")
        self.kind = self.rng.choice(("service", "batch"))
        self.cell = Racing(self)
        machines = [MachineSpec(f"m{i}", (self.rng.randint(1, 6), 1000)) for i in range(MACHINES)]
        self.cell.executors.register_agent("m0", "n", 600_000, 0)
        self.cell.machines.join("agent/m0", machines, 0)
        self.membership: Membership = self.cell.schedulers.register(f"{self.kind}/0", "n", 10**9, 0)
        self.rollouts = Rollouts(self.kind, f"{self.kind}/0")
        self.now = self.number = self.version = 0
        self.policy: dict[str, Any] = {}
        self.seen_up: dict[int, int] = {}
        self.count = self.rng.randint(1, 10)
        self.failing, self.copied = True, self.kind == "batch" and self.rng.random() < 0.7
        self.new_policy()
        self.cell.jobs.submit([self.spec()], 0, "ada")

    def new_policy(self) -> None:
        self.max_down, self.healthy_ms = self.rng.randint(1, 4), self.rng.choice((0, 0, 2_500))
        health = {"healthy_after": self.healthy_ms}
        self.policy = {"max_down": self.max_down, "health": health, "progress_deadline": 20 * STEP_MS}

    def spec(self) -> JobSpec:
        groups = (TaskGroup((1, 1), self.count, 0, {"name": "web", "command": [str(self.version)]}),)
        fields = {"update": self.policy} | ({FIELD: {}} if self.copied else {})
        return JobSpec("a", "a", self.kind, with_copies(groups) if self.copied else groups, spec=fields)

    @property
    def job(self) -> Job:
        found = self.cell.jobs.get("a")
        assert found is not None
        return found

    @property
    def over(self) -> bool:
        return self.job.state > JobState.HELD

    # What may happen

    def update(self) -> None:
        self.new_policy()
        self.version += self.rng.random() < 0.8
        self.count = self.rng.choice((self.count, self.count, self.rng.randint(1, 10)))
        self.copied = self.kind == "batch" and self.rng.random() < 0.7
        self.begin(self.spec())

    def begin(self, spec: JobSpec) -> None:
        again = self.cell.jobs.updates().get("a", "").startswith("stalled")
        wanted = job_update(self.job, spec, again=again)
        self.cell.jobs.update("a", wanted.groups, wanted.spec, self.now, "ada")

    def revert(self) -> None:
        """A person goes back to the version before; from then on its values are those that count."""
        if kept := earlier(self.job):
            before = kept[-1]
            self.begin(before.spec(self.job))
            assert differences(before, present(self.job), ("cpu", "memory")) == []
            self.policy, self.copied = dict(before.fields["update"]), FIELD in before.fields
            self.max_down, self.healthy_ms = self.policy["max_down"], self.policy["health"]["healthy_after"]
            self.count, self.version = before.groups[0].count, int(before.groups[0].spec["command"][0])

    def hold(self) -> None:
        self.cell.jobs.hold("a", self.now, "ada")

    def release(self) -> None:
        self.cell.jobs.release("a", self.now, "ada")

    def copy(self) -> None:
        """A scheduler requests a copy of a running task."""
        live = [run for run in self.cell.machines.runs(range(MACHINES)) if not run.leaving]
        groups = self.job.groups
        copied = [run for run in live if run.group + 1 < len(groups) and groups[run.group + 1].copies]
        if copied:
            run = self.rng.choice(copied)
            task = self.rng.choice(ranges.indices(run.tasks))
            original = Original(run.machine, run.placement, task)
            self.cell.jobs.speculate("a", [original], Budget(3, 10), self.now, "batch/0")

    def place(self, chance: float = 1.0) -> None:
        for number, group in enumerate(self.job.groups):
            for machine in self.cell.machines.all():
                left = self.job.groups[number].ready
                count = min(left, machine.capacity[0] - machine.allocated[0], group.unplaced)
                if count > 0 and self.rng.random() < chance:
                    self.number += 1
                    wanted = Transaction("a", (Claim(machine.index, number, self.rng.randint(1, count)),))
                    self.cell.schedulers.commit(
                        CommitRequest(self.membership, self.number, [wanted], Position(), self.now)
                    )

    def leave(self) -> None:
        gone = [run for run in self.cell.machines.runs(range(MACHINES)) if run.leaving]
        self.cell.executors.end([TaskEnd(run.machine, run.placement, EndKind.LEFT) for run in gone], self.now, "e0")

    def end_one(self) -> None:
        live = [run for run in self.cell.machines.runs(range(MACHINES)) if not run.leaving]
        if not live:
            return
        run = self.rng.choice(live)
        ways = [EndKind.EVICTED, EndKind.LOST]
        ways += [EndKind.FINISHED] if self.kind == "batch" else []
        ways += [EndKind.FAILED] if self.failing else []
        task = str(self.rng.choice(list(ranges.indices(run.tasks))))
        self.cell.executors.end([TaskEnd(run.machine, run.placement, self.rng.choice(ways), task)], self.now, "e0")

    def resize(self) -> None:
        """A person resizes, as the command allows: only while no update is rolling."""
        if self.cell.jobs.updates().get("a") == "rolling":
            return
        count = self.rng.randint(1, 10)
        with suppress(Refused):  # more tasks have ended
            resize(self.cell, self.job, None, count, self.now, "ada", None)
            assert present(self.job).groups[0].count == count, "history and revert have the count of the resize"

    # The oracle

    def serving(self) -> int:
        """Tasks that serve, counted from the records of runs and not as the update does it."""
        (target,) = targets(self.job)
        found = 0
        for run in self.cell.machines.runs(range(MACHINES)):
            up = self.seen_up.get(run.placement, self.now + 1)
            # A group that stays as it is has no new tasks: fewer of them is what a person asked for.
            proven = not target.older or up + self.healthy_ms <= self.now
            if not run.leaving and (run.group in target.older or (run.group == target.group and proven)):
                found += ranges.count(run.tasks)
        return found + self.finished()

    def finished(self) -> int:
        """Tasks that finished and do not run again."""
        return sum(group.finished for group in self.job.groups if not group.copies) if self.kind == "batch" else 0

    def look(self) -> None:
        """Note which runs have started by now."""
        runs = [run for run in self.cell.machines.runs(range(MACHINES)) if not run.leaving]
        asked = [(run.machine, run.placement) for run in runs]
        for (_, placement), answer in zip(asked, self.cell.executors.may_start(asked) if asked else (), strict=True):
            if answer == "go":
                self.seen_up.setdefault(placement, self.now)

    # Playing

    def step(self) -> None:
        self.now += STEP_MS
        self.cell.jobs.housekeep(self.now, "ada")  # lost tasks that are due are queued again
        self.look()
        self.rollouts.step(self.cell, EVERY, self.now)

    def play(self) -> None:
        acts = (
            self.update, self.place, self.leave, self.end_one, self.resize, self.revert, self.hold, self.release,
            self.copy,
        )  # fmt: skip
        for _ in range(self.rng.randint(5, 40)):
            if self.over:
                return
            self.rng.choices(acts, (2, 9, 9, 2, 1, 1, 1, 2, 8))[0]()
            self.step()
        if self.over:
            return
        self.finish()

    def finish(self) -> None:
        """With room for all, and nothing that fails any more, the next update comes to its end."""
        self.failing = False
        self.release()
        for index in range(MACHINES):
            self.cell.machines.set_capacity(index, (100, 1000), self.now, "ada")
        for _ in range(2):  # the same once more when a new task had failed before: then the update stops at once
            self.update()
            for _ in range(60):
                if self.over:
                    return
                if self.cell.jobs.updates().get("a") != "rolling":
                    break
                self.place()
                self.leave()
                self.step()
            if not self.cell.jobs.updates().get("a", "").endswith("failed"):
                break
        assert self.cell.jobs.updates().get("a") is None, self.cell.jobs.updates()
        (target,) = targets(self.job)
        assert not any(self.job.groups[number].placed for number in target.older)
        new = self.job.groups[target.group]
        finished = self.finished()
        # Failed tasks are run anew by an update that replaces their group, and by no other.
        there = finished + new.placed + new.unplaced
        assert there <= max(self.count, finished) <= there + new.failed, "as many tasks as asked for"
        copies = [group for number, group in enumerate(self.job.groups) if group.copies and number != target.group + 1]
        assert not any(group.placed or group.unplaced for group in copies), "no copies of tasks that were replaced"
        assert [each for each in verify(self.cell).violations if each.invariant != EVICTIONS] == []


class Racing(MemoryCell):
    """A cell in which something may happen between what an update read and the step that it takes."""

    def __init__(self, world: World) -> None:
        super().__init__("c", Dimensions(("cpu", "memory")))
        self.jobs = RacingJobs(self, world)


class RacingJobs(MemoryJobs):
    def __init__(self, cell: Racing, world: World) -> None:
        super().__init__(cell)
        self.world = world

    def resize(  # noqa: PLR0917 - the store's
        self,
        job_id: str,
        totals: Mapping[int, int],
        at_ms: int,
        by: str,
        check: int | None = None,
        seen: Mapping[int, int] | None = None,
        placed: Mapping[int, int] | None = None,
        spec: Mapping[str, Any] | None = None,
        takes: Mapping[int, TakeOver] | None = None,
    ) -> Job:
        """Resize; a step of an update is raced by one event and checked by the oracle."""
        world = self.world
        if seen is None:
            return resized(self._cell, job_id, totals, at_ms, by, check, spec=spec, takes=takes)
        if world.rng.random() < 0.3:
            world.rng.choice((world.end_one, lambda: world.place(0.3)))()
        before, floor = world.serving(), world.count - world.max_down
        try:
            return resized(self._cell, job_id, totals, at_ms, by, check, seen, placed, takes=takes)
        finally:
            after = world.serving()
            assert after >= min(before, floor), f"{before} tasks served, {after} do now, {floor} is the least"


def test_no_step_of_an_update_takes_more_than_it_may() -> None:
    play(World, range(WORLDS))


@pytest.mark.chaos
def test_no_step_of_many_updates_takes_more_than_it_may() -> None:
    play(World, range(WORLDS, MANY))
