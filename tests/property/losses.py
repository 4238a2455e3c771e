"""Random losses of tasks, ends that are reported late, and copies."""

from abc import abstractmethod

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from omega.cellstate.memory import MemoryCell
from omega.cellstate.ranges import indices
from omega.cellstate.replies import Budget, Original
from omega.cellstate.tasks import EndKind, HealthOf, HealthReport, HealthState, TaskEnd
from tests.property.books import Books
from tests.property.worlds import Worlds, endings_of

states = st.sampled_from(HealthState)
often = st.integers(0, 9).map(lambda n: n != 5)


class Losses(RuleBasedStateMachine):
    """What `Twins` do to tasks whose executor is gone."""

    worlds: Worlds
    twin: MemoryCell
    books: Books

    @abstractmethod
    def some_job(self, data: st.DataObject) -> str:
        """The id of a job, or one that is not there."""

    @abstractmethod
    def tick(self, most: int = 3) -> int:
        """The time goes on."""

    def lose(self, data: st.DataObject) -> None:
        """Lose runs; some of them had ended, which is reported late; the delay of the others may end."""
        there = endings_of(self.twin, leaving=False) or [TaskEnd(0, 1, EndKind.LOST)]
        runs: list[TaskEnd] = data.draw(st.lists(st.sampled_from(there), max_size=5))
        jobs = {run.placement: run.job for run in self.twin.machines.runs(list(self.twin.M))}
        how = data.draw(st.sampled_from([EndKind.LOST, EndKind.LOST, EndKind.RETRIED]))
        lost = [ending._replace(how=how, reason="x") for ending in runs]
        told = data.draw(st.sampled_from([EndKind.FINISHED, EndKind.FAILED]))
        late = [each._replace(how=told, job=jobs[each.placement]) for each in runs[:2] if each.placement in jobs]
        for endings, wait in ((lost, 0), (late, 999), (late, 1), (late, 4_000)):
            if endings and bool(data.draw(often)):
                self.end_all(endings, jobs, self.tick(wait))
            if data.draw(often):
                self.housekeep(self.tick(0))

    def end_all(self, endings: list[TaskEnd], jobs: dict[int, str], at: int) -> None:
        _, counts = self.worlds.do(lambda world: world.cell.executors.end(endings, at, "e0"))
        self.books.saw_end(endings, jobs, counts)
        self.books.look()

    def housekeep(self, at: int, most: int = 1_000) -> None:
        self.worlds.do(lambda world: world.cell.jobs.housekeep(at, "batch/0", most))
        self.books.look()

    def report_health(self, data: st.DataObject) -> None:
        """An agent reports tasks of a job, also of one that ended, and what it kept is the same everywhere."""
        job, machine = self.some_job(data), data.draw(st.sampled_from([0, 1, 2]), "machine")
        runs = [run for run in self.twin.machines.runs([machine]) if not run.leaving and run.job == job]
        tasks = [HealthOf(run.placement, task, data.draw(states)) for run in runs for task in indices(run.tasks)]
        said = HealthReport(job=job, machine=machine, tasks=tasks, max_down=data.draw(st.integers(0, 2)), span_ms=5)
        at = self.tick()
        self.worlds.do(lambda world: world.cell.tasks.report_health(said, at))
        self.worlds.do(lambda world: sorted(world.cell.tasks.ready(job)))

    def speculate(self, data: st.DataObject) -> None:
        """Request copies of running tasks, some of which have one."""
        runs = [run for run in self.twin.machines.runs(list(self.twin.M)) if not run.leaving]
        chosen = data.draw(st.lists(st.sampled_from(runs), min_size=1, max_size=4), "originals") if runs else []
        at, job = self.tick(), chosen[0].job if chosen else "j1"
        budget = Budget(data.draw(st.integers(1, 4)), data.draw(st.integers(2, 6)))
        first = data.draw(st.integers(0, 1))
        asked = [Original(run.machine, run.placement, indices(run.tasks)[0] + first) for run in chosen]
        self.worlds.do(lambda world: world.cell.jobs.speculate(job, asked, budget, at, "batch/0"))
