"""Changes of jobs by people, at random: held, released, resized, updated, and waiting for one another."""

from abc import abstractmethod
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import After, TaskGroup
from omega.cellstate.resources import Resources
from tests.property.worlds import Worlds

amounts = st.sampled_from(
    [(1, 1, 2, 0), (2, 1, 1, 1), (1, 2, 3, 1), (3, 3, 1, 2), (0, 2, 0, 3), (4, 0, 1, 0), (0, 0, 0, 0)]
)
"""What a task needs in four resources; a cell with fewer takes the first of them."""


class JobChanges(RuleBasedStateMachine):
    """What `Twins` do to jobs that are there."""

    worlds: Worlds
    twin: MemoryCell
    jobs: int

    @abstractmethod
    def some_job(self, data: st.DataObject) -> str:
        """The id of a job, or one that is not there."""

    @abstractmethod
    def tick(self, most: int = 3) -> int:
        """The time goes on."""

    @abstractmethod
    def scaled(self, vector: Resources) -> Resources:
        """Amounts in the scale of this history."""

    def waits(self, data: st.DataObject) -> tuple[After, ...]:
        """Mostly none; else for jobs that may have ended, may come in the same call, or were never there."""
        if data.draw(st.integers(0, 5), "waits at 3") != 3:
            return ()
        there = [*self.twin.J, f"j{self.jobs - 1}", f"j{self.jobs}"] * 5 + ["absent"]
        wait = st.builds(After, st.sampled_from(there), st.booleans())
        return tuple(data.draw(st.lists(wait, min_size=1, max_size=3)))

    def alter(self, data: st.DataObject, what: str) -> None:
        job_id, at = self.some_job(data), self.tick()
        index = self.twin.J[job_id].modified if job_id in self.twin.J else 0
        check = data.draw(st.sampled_from([None, None, index, index + 1]), "modify index")
        if what == "resize":
            totals = data.draw(st.dictionaries(st.sampled_from([0, 0, 0, 1, 2]), st.integers(0, 7), min_size=1))
            seen = data.draw(st.sampled_from([None, None, {}, totals, self.totals(job_id)]), "totals seen")
            groups = self.twin.J[job_id].groups if job_id in self.twin.J else []
            numbers = data.draw(st.sampled_from([None, None, [g.number for g in groups], [0, 1]]), "groups compared")
            placed = None if numbers is None else {n: groups[n].placed if n < len(groups) else 0 for n in numbers}
            self.worlds.do(lambda world: world.cell.jobs.resize(job_id, totals, at, "ada", check, seen, placed))
        elif what == "update":
            self.update(data, job_id, at, check)
        elif data.draw(st.integers(0, 3), "attempt at 3") == 3:
            tried = [job_id, self.some_job(data), job_id]
            self.worlds.do(lambda world: world.cell.jobs.note_attempts(tried, at, "batch/0"))
        elif data.draw(st.integers(0, 2), "gate at 2") == 2:
            gate = data.draw(st.sampled_from(["", "no budget", "no budget", "no <more>  budget"]))
            self.worlds.do(lambda world: world.cell.jobs.gate(job_id, gate, at, "batch/0"))
        elif data.draw(st.booleans(), "hold"):
            self.worlds.do(lambda world: world.cell.jobs.hold(job_id, at, "ada", check))
        else:
            for held in [j.id for j in self.twin.J.values() if {"*", "!"} & {wait[0] for wait in j.waits}]:
                self.release(held, at)
            self.release(job_id, at)

    def totals(self, job_id: str) -> dict[int, int]:
        """What groups a job has, and their totals."""
        return {g.number: g.total for g in self.twin.J[job_id].groups} if job_id in self.twin.J else {}

    def update(self, data: st.DataObject, job_id: str, at: int, check: int | None) -> None:
        if data.draw(st.booleans(), "settle"):
            reason = data.draw(st.sampled_from(["", "of its 2 new tasks 1 failed"]))
            self.worlds.do(lambda world: world.cell.jobs.settle(job_id, reason, at, "batch/0"))
            return
        needs = data.draw(st.lists(amounts, max_size=2), "new groups")
        groups = [TaskGroup(self.scaled(need), 1, 7) for need in needs]
        most = len(groups) + (len(self.twin.J[job_id].groups) if job_id in self.twin.J else 0)
        extra: dict[str, Any] = {"groups": [{}] * min(data.draw(st.integers(0, 2)), most), "targets": []}
        if data.draw(st.integers(0, 5), "of another user at 5") != 5:
            spec = self.twin.J[job_id].spec if job_id in self.twin.J else {}
            extra |= {name: spec[name] for name in ("user", "pool") if name in spec}
        self.worlds.do(lambda world: world.cell.jobs.update(job_id, groups, extra, at, "ada", check))

    def release(self, job_id: str, at: int) -> None:
        self.worlds.do(lambda world: world.cell.jobs.release(job_id, at, "ada"))
