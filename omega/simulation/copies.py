"""Simulated jobs with slow tasks, with and without copies (semantics 41): completion times, and machine time.

The cell is in memory; placements, rules and budgets are those of live schedulers. Each task has a duration
of its own on each machine, drawn by seed: a straggler there takes `slower` times as long.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import floor
from random import Random

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.ranges import indices
from omega.cellstate.replies import Budget, CommitRequest, Original
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Transaction
from omega.schedulers.placement.arranging import elsewhere
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Placement
from omega.schedulers.speculation import STEP, Running, Speculation, cell_budget
from omega.schedulers.work import Work

BY = "batch/0"


def gamma(variation: float) -> Callable[[Random], float]:
    """Return a distribution of mean 1 with a coefficient of variation; 1 is the exponential distribution."""
    shape = 1 / variation**2
    return lambda rng: rng.gammavariate(shape, 1 / shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowTasks:
    """A workload: jobs of equal size that arrive one after the other, on machines with a slot for each task."""

    jobs: int = 100
    tasks: int = 20
    machines: int = 100
    slots: int = 4
    seconds: float = 60.0
    """Mean duration of a task that is no straggler."""
    every: float = 20.0
    """Seconds between two jobs."""
    variation: float = 0.3
    """Coefficient of variation of durations."""
    stragglers: float = 0.02
    slower: float = 10.0
    reports: bool = False
    """Whether tasks report their progress."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class CopiesResult:
    """Completion times of jobs in ascending order, machine time of all runs and of those outrun (seconds), copies."""

    completions: list[float]
    machine_seconds: float
    outrun_seconds: float
    copies: int

    @property
    def cost(self) -> float:
        """The part of the machine time that outrun tasks and copies took."""
        return self.outrun_seconds / self.machine_seconds

    def quantile(self, part: float) -> float:
        """Return a quantile of the completion times."""
        return self.completions[min(len(self.completions) - 1, int(part * len(self.completions)))]


@dataclass(slots=True)
class _Group:
    """What is known of a job: start, end and place of its running tasks; how long the finished ones ran."""

    arrived: float
    running: dict[int, tuple[float, float, int, int]] = field(default_factory=dict)
    finished: list[float] = field(default_factory=list)


class CopiesSimulation:
    """One run of a workload, in virtual time."""

    def __init__(self, load: SlowTasks, rules: Speculation | None, placement: Placement | None = None) -> None:
        """Create the cell; without rules no task gets a copy."""
        self.load, self.rules, self.placement = load, rules, placement or FirstFit()
        self.cell = MemoryCell("copies", Dimensions(("slots",)), keep_jobs=load.jobs + 1)
        self.cell.executors.register("e", "n", 1, 0)
        self.cell.machines.join("e", [MachineSpec(f"m{i}", (load.slots,)) for i in range(load.machines)], 0)
        self.member = self.cell.schedulers.register(BY, "n", 1, 0)
        self.snapshot, self.rng, self.number = ArraySnapshot(1), Random(load.seed), 0
        self.now, self.order, self.events = 0.0, 0, list[tuple[float, int, tuple[int, int, int]]]()
        self.runs: dict[tuple[int, int], tuple[str, float]] = {}
        """Job and start of running tasks, by placement and task."""
        self.known: dict[str, _Group] = {}
        self.completions: list[float] = []
        self.seconds, self.outrun, self.copies = 0.0, 0.0, 0
        self.draw = gamma(load.variation)
        self.waits = False

    def run(self) -> CopiesResult:
        """Run to the end of the last job."""
        load, submitted, look = self.load, 0, 1.0
        while len(self.completions) < load.jobs:
            arrival = submitted * load.every if submitted < load.jobs else float("inf")
            end = self.events[0][0] if self.events else float("inf")
            self.now = min(arrival, end, look)
            if self.now == arrival:
                self._submit(submitted)
                submitted += 1
            elif self.now == end:
                self._finish(*heappop(self.events)[2])
            else:
                self._look()
                look += max(1.0, load.seconds / 60)
            self._place()
        return CopiesResult(sorted(self.completions), self.seconds, self.outrun, self.copies)

    def _submit(self, number: int) -> None:
        groups = [TaskGroup((1,), self.load.tasks), *([TaskGroup((1,), 0, copies=True)] if self.rules else [])]
        self.cell.jobs.submit(
            [JobSpec(f"j{number}", f"j{number}", "batch", tuple(groups))], int(self.now * 1000), "ada"
        )
        self.known[f"j{number}"], self.waits = _Group(self.now), True

    def _place(self) -> None:
        """Place the pending jobs in order; then start what was placed and end what was stopped."""
        if self.waits:
            self.snapshot.apply(self.cell.schedulers.sync(self.snapshot.position))
            mark = self.snapshot.mark()
            for job_id in self.cell.schedulers.pending().get("batch", []):
                job = self.cell.jobs.get(job_id)
                claims = elsewhere(self.placement, Work.of(job), self.snapshot, self.rng) if job else ()
                if claims:
                    self.number += 1
                    self.cell.schedulers.commit(
                        CommitRequest(
                            self.member, self.number, [Transaction(job_id, tuple(claims))], self.snapshot.position,
                            int(self.now * 1000),
                        )
                    )  # fmt: skip
            self.snapshot.undo(mark)  # the next reply of the cell has what was placed
            self.waits = bool(self.cell.schedulers.pending())
        for line in self.cell.executors.receive(self.cell.executors.number("e")):
            words = line.split(" ")
            if words[0] == "+":
                _, placement, machine, job_id, group, tasks, *_ = words
                self._start(int(placement), int(machine), job_id, copies=group == "1", tasks=indices(tasks))
            else:
                self._stop(int(words[1]), int(words[2]), words[3])

    def _start(self, placement: int, machine: int, job_id: str, *, copies: bool, tasks: list[int]) -> None:
        for task in tasks:
            drawn = Random(f"{self.load.seed} {job_id} {task} {machine} {copies}")
            slow = self.load.slower if drawn.random() < self.load.stragglers else 1.0
            self.order += 1
            due = self.now + self.draw(drawn) * self.load.seconds * slow
            heappush(self.events, (due, self.order, (placement, machine, task)))
            self.runs[placement, task] = job_id, self.now
            if not copies:
                self.known[job_id].running[task] = self.now, due, placement, machine

    def _stop(self, placement: int, machine: int, tasks: str) -> None:
        for task in indices(tasks):
            ran = self.now - self.runs.pop((placement, task))[1]
            self.seconds, self.outrun = self.seconds + ran, self.outrun + ran
        self.cell.executors.end([TaskEnd(machine, placement, EndKind.LEFT, tasks)], int(self.now * 1000), "e")

    def _finish(self, placement: int, machine: int, task: int) -> None:
        if (placement, task) not in self.runs:
            return  # it was outrun
        job_id, start = self.runs.pop((placement, task))
        self.seconds += self.now - start
        self.cell.executors.end([TaskEnd(machine, placement, EndKind.FINISHED, str(task))], int(self.now * 1000), "e")
        known = self.known[job_id]
        known.running.pop(task, None)
        known.finished.append(self.now - start)
        if len(known.finished) == self.load.tasks:
            self.completions.append(self.now - known.arrived)
            del self.known[job_id]
        self.waits = self.waits or bool(self.cell.schedulers.pending())

    def _progress(self, start: float, due: float) -> float | None:
        """Return what a task reports, in steps as agents do; its work advances evenly."""
        return floor((self.now - start) / (due - start) / STEP) * STEP if self.load.reports else None

    def _look(self) -> None:
        """Request copies of the slow tasks, as a live scheduler does."""
        if self.rules is None:
            return
        total, asked = self.load.tasks, defaultdict[str, list[Original]](list)
        for job_id, known in self.known.items():
            running = [
                Running(self.now - start, Original(machine, placement, task), self._progress(start, due))
                for task, (start, due, placement, machine) in known.running.items()
            ]
            asked[job_id] += (each.task for each in self.rules.slow(running, known.finished, total))
        budget = Budget(self.rules.budget(total), cell_budget(self.load.machines))
        for job_id, originals in asked.items():
            self.copies += len(self.cell.jobs.speculate(job_id, originals, budget, int(self.now * 1000), BY))
            self.waits = True
