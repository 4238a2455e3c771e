"""Replay of a workload on a live cell: adds machines, places residents, submits jobs on time.

Time runs `speed` times as fast as in the workload, for arrivals and task durations.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from omega.cellstate.cell import Cell
from omega.live.simulated.executor import SimulatedExecutor
from omega.workload import Arrival, Workload

SUBMIT_CHUNK = 500
PLACED_PER_SECOND, SECONDS_AROUND = 5_000, 3.0
"""For estimates: residents that two schedulers place per second, and the last placements."""
MOST_SECONDS_PLACING = 45.0
"""Maximum time after the last arrival before a demonstration ends with tasks unplaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayProgress:
    """State of a replay: submitted and total jobs and tasks, placed tasks, pending jobs."""

    phase: str
    jobs: int
    tasks: int
    all_tasks: int
    placed: int
    pending: int
    conflict_fraction: float
    seconds: float


@dataclass(slots=True)
class WorkloadReplay:
    """Submits a workload to a cell. `now` is the wall clock in seconds, `pause` sleeps."""

    cell: Cell
    workload: Workload
    now: Callable[[], float]
    pause: Callable[[float], None]
    speed: float = 1.0
    by: str = "demo"
    jobs: int = 0
    tasks: int = 0
    _started: float = 0.0

    def join(self, executor: str, progress: Callable[[int], None] | None = None) -> None:
        """Add the workload's machines under `executor`."""
        SimulatedExecutor(self.cell, executor, self.now).join(self.workload.machines, progress)

    @property
    def expected_seconds(self) -> float:
        """How long `run` takes when schedulers keep up: until the last arrival, after residents were placed."""
        arrivals, residents = self.workload.arrivals, self.workload.residents
        placing = sum(arrival.job.total for arrival in residents) / PLACED_PER_SECOND
        return placing + (arrivals[-1].at_seconds / self.speed if arrivals else 0.0) + SECONDS_AROUND

    def run(self) -> Iterator[ReplayProgress]:
        """Submit jobs when due, then wait until all are placed; yields the progress."""
        self._started = self.now()
        if self.workload.residents:
            yield from self._residents()
        begin = self.now()
        arrivals = self.workload.arrivals
        sent = 0
        while sent < len(arrivals):
            due = sent
            while due < len(arrivals) and arrivals[due].at_seconds / self.speed <= self.now() - begin:
                due += 1
            self._submit(arrivals[sent : min(due, sent + SUBMIT_CHUNK)])
            sent = min(due, sent + SUBMIT_CHUNK)
            yield self._progress("arriving")
            self.pause(0.1)
        yield from self._drain("placing")

    def _residents(self) -> Iterator[ReplayProgress]:
        residents = self.workload.residents
        for start in range(0, len(residents), SUBMIT_CHUNK):
            self._submit(residents[start : start + SUBMIT_CHUNK])
            yield self._progress("residents")
        yield from self._drain("residents")

    def _drain(self, phase: str) -> Iterator[ReplayProgress]:
        since = self.now()
        while self.now() - since < MOST_SECONDS_PLACING:
            progress = self._progress(phase)
            yield progress
            if not progress.pending:
                return
            self.pause(0.1)

    def _submit(self, arrivals: Sequence[Arrival]) -> None:
        if arrivals:
            jobs = [arrival.job for arrival in arrivals]
            self.cell.jobs.submit(jobs, int(self.now() * 1000), self.by)
            self.jobs += len(jobs)
            self.tasks += sum(job.total for job in jobs)

    def _progress(self, phase: str) -> ReplayProgress:
        figures = self.cell.schedulers.figures().values()
        names = ("tasks", "conflicts", "accepted")
        placed, conflicts, accepted = (sum(figure[name] for figure in figures) for name in names)
        residents = sum(arrival.job.total for arrival in self.workload.residents)
        return ReplayProgress(
            phase=phase,
            jobs=self.jobs,
            tasks=self.tasks,
            all_tasks=self.workload.tasks + residents,
            placed=placed,
            pending=sum(self.cell.schedulers.queue_depths().values()),
            conflict_fraction=conflicts / accepted if accepted else 0.0,
            seconds=self.now() - self._started,
        )
