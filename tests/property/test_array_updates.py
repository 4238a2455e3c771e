"""Arrays that are updated while their tasks end: each index finishes exactly once, and never runs twice at a time.

The oracle follows indices by the records of runs, whatever their group: it knows nothing of how an update counts.
"""

from collections import Counter
from random import Random

import pytest

from omega.arrays import array_index
from omega.cellstate import ranges
from omega.cellstate.digest.step import digest
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Job, JobSpec, JobState, MachineSpec, Run, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cellstate.verify import verify
from omega.queries.task_results import job_tasks
from omega.schedulers.rolling import Rollouts, count_of, targets
from omega.updating import job_update
from tests.property.seeded import play

EVERY = "1" * 256
STEP_MS = 1_000
WORLDS, MANY = 20, 300
EVICTIONS = 5
"""The invariant that each eviction has a cause; these worlds give none."""


class World:
    """An array that is updated again and again."""

    def __init__(self, seed: int, kind: str = "batch") -> None:
        self.rng, self.kind = Random(f"{seed}/array updates"), kind
        self.cell = MemoryCell("c", Dimensions(("cpu", "memory")))
        self.cell.executors.register_agent("m0", "n", 10**9, 0)
        self.cell.machines.join("agent/m0", [MachineSpec(f"m{i}", (self.rng.randint(1, 4), 1000)) for i in range(3)], 0)
        self.membership = self.cell.schedulers.register(f"{kind}/0", "n", 10**9, 0)
        self.rollouts = Rollouts(kind, f"{kind}/0")
        self.now = self.number = self.version = 0
        self.count, self.step_of_index = self.rng.randint(1, 12), self.rng.randint(1, 3)
        self.first = self.rng.randint(0, 3)
        self.policy = {"max_down": self.rng.randint(1, 4), "health": {"healthy_after": self.rng.choice((0, 2_500))}}
        self.finished, self.failed = Counter[int](), Counter[int]()
        self.cell.jobs.submit([self.spec()], 0, "ada")

    def spec(self) -> JobSpec:
        array = {"first": self.first, "step": self.step_of_index}
        groups = (
            TaskGroup((1, 1), self.count, 0, {"name": "a", "array": array, "command": [str(self.version)]}, budget=99),
        )
        return JobSpec("a", "a", self.kind, groups, spec={"update": self.policy | {"progress_deadline": 30_000}})

    @property
    def job(self) -> Job:
        found = self.cell.jobs.get("a")
        assert found is not None
        return found

    @property
    def over(self) -> bool:
        return self.job.state > JobState.HELD

    def runs(self, *, leaving: bool = False) -> list[Run]:
        return [run for run in self.cell.machines.runs(range(3)) if run.leaving == leaving]

    def index(self, run: Run, task: int) -> int:
        found = array_index(self.job.spec["groups"][run.group], task)
        assert found is not None
        return found

    # What may happen

    def update(self) -> None:
        self.version += 1
        again = self.cell.jobs.update_state("a").startswith("stalled")
        wanted = job_update(self.job, self.spec(), again=again)
        self.cell.jobs.update("a", wanted.groups, wanted.spec, self.now, "ada")

    def place(self, chance: float = 0.7) -> None:
        for number, group in enumerate(self.job.groups):
            for machine in self.cell.machines.all():
                left = min(self.job.groups[number].ready, machine.capacity[0] - machine.allocated[0], group.unplaced)
                if left > 0 and self.rng.random() < chance:
                    self.number += 1
                    wanted = Transaction("a", (Claim(machine.index, number, self.rng.randint(1, left)),))
                    self.cell.schedulers.commit(
                        CommitRequest(self.membership, self.number, [wanted], Position(), self.now)
                    )

    def leave(self) -> None:
        ends = [TaskEnd(run.machine, run.placement, EndKind.LEFT) for run in self.runs(leaving=True)]
        self.cell.executors.end(ends, self.now, "e0")

    def end_one(self) -> None:
        how = self.rng.choice((EndKind.FINISHED, EndKind.FINISHED, EndKind.FAILED, EndKind.EVICTED, EndKind.LOST))
        self.end(how)

    def end(self, how: EndKind) -> None:
        if live := self.runs():
            run = self.rng.choice(live)
            task = self.rng.choice(ranges.indices(run.tasks))
            index = self.index(run, task)
            self.cell.executors.end([TaskEnd(run.machine, run.placement, how, str(task))], self.now, "e0")
            self.finished[index] += how is EndKind.FINISHED
            self.failed[index] += how is EndKind.FAILED

    def step(self) -> None:
        self.now += STEP_MS
        self.cell.jobs.housekeep(self.now, "ada")
        if self.rng.random() < 0.6:  # the digest may be behind
            digest(self.cell, self.now)
        self.rollouts.step(self.cell, EVERY, self.now)
        self.check()

    def check(self) -> None:
        live = Counter(self.index(run, task) for run in self.runs() for task in ranges.indices(run.tasks))
        assert not [index for index, times in live.items() if times > 1], "an index runs twice at a time"
        assert not [index for index, times in self.finished.items() if times > 1], "an index finished twice"
        if self.kind == "batch":
            assert not [index for index in live if self.finished[index]], "a finished index runs again"

    def play(self) -> None:
        acts = (self.update, self.place, self.leave, self.end_one)
        for _ in range(self.rng.randint(5, 40)):
            if not self.over:
                self.rng.choices(acts, (1, 5, 4, 3))[0]()
                self.step()
        if not self.over:
            self.finish()

    def finish(self) -> None:
        """The last version has room, and nothing fails any more: each index that has not finished runs once."""
        for machine in range(3):
            self.cell.machines.set_capacity(machine, (100, 1000), self.now, "ada")
        for _ in range(2):  # the same once more when a new task had failed before: then the update stops at once
            self.update()
            for _ in range(80):
                if self.over or self.cell.jobs.update_state("a") != "rolling":
                    break
                self.place(1.0)
                self.leave()
                self.step()
        if not self.over:
            (target,) = targets(self.job)
            assert (self.cell.jobs.update_state("a"), count_of(self.job, target)) == ("", self.count)
            self.same_rows()
        for _ in range(200):
            if self.over:
                break
            self.place(1.0)
            self.end(EndKind.FINISHED)
            self.leave()
            self.step()
        every = {self.first + self.step_of_index * task for task in range(self.count)}
        assert (self.job.state, {index for index, times in self.finished.items() if times}) == (JobState.DONE, every)
        found = verify(self.cell).violations
        assert [each for each in found if each.invariant != EVICTIONS] == []

    def same_rows(self) -> None:
        """Its tasks as `omega job tasks` lists them: each index once that finished, runs or waits; none unknown."""
        digest(self.cell, self.now)
        tasks = job_tasks(self.cell, self.job)
        assert [row for row in tasks.rows if row.state == "unknown"] == []
        rows = [row for row in tasks.rows if row.state in ("finished", "running", "pending")]
        assert sorted(task for row in rows for task in ranges.indices(row.tasks)) == list(range(self.count))


def test_each_index_of_an_array_finishes_once() -> None:
    play(World, range(WORLDS))


@pytest.mark.chaos
def test_each_index_of_many_arrays_finishes_once() -> None:
    play(World, range(WORLDS, MANY))
