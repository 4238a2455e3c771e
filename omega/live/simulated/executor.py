"""A simulated executor: one executor with any number of machines.

It accepts the tasks placed on its machines, ends them after their duration (divided by `speed`), and acknowledges
evicted and stopped ones. It receives work through its mailbox, never from the log (semantics 19); after a restart or a
dropped mailbox it reads its machines completely.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from heapq import heappop, heappush
from itertools import islice

from omega.cellstate.cell import Cell
from omega.cellstate.errors import Fenced, StoreError
from omega.cellstate.model import MachineSpec
from omega.cellstate.ranges import EMPTY, split
from omega.cellstate.replies import Membership
from omega.cellstate.tasks import EndKind, FinishedRuns, TaskEnd
from omega.upkeep import over_limit, time_limits

MOST_ENDINGS = 6_000
"""Number of endings per step, in several calls. With 2,000 between two readings of the mailbox, which wait for calls
of schedulers, ends fall behind at 250,000 tasks/s, and the cell fills up."""
JOIN_CHUNK = 1_000
MOST_LIMITS = 20_000
"""Jobs whose time limits are known."""
MOST_ASKED = 1_000
"""Number of held runs per query."""
Run = tuple[str, str, str, float]
"""A run that is simulated or held: its machine, job and tasks, and when it ends; for a held one how long it takes."""


def _group_of(line: str) -> tuple[str, int]:
    """Return the job of a line of starts, and the position of its group."""
    _, job, group, _ = line.split(" ", 3)
    return job, int(group)


@dataclass(slots=True)
class SimulatedExecutor:
    """Simulates the machines of one executor. `now` returns seconds of the wall clock."""

    cell: Cell
    name: str
    now: Callable[[], float]
    _: KW_ONLY
    speed: float = 1.0
    lease_ms: int = 20_000
    number: int = 0
    ended: int = 0
    _membership: Membership | None = None
    _renew_at: float = 0.0
    _due: list[tuple[float, int, list[str]]] = field(default_factory=list)
    """Placements that end together, by their time: those of one call with the same duration."""
    _batches: int = 0
    _partings: int = 0
    """How often versions of the cell were found lost when all runs were read last."""
    _runs: dict[str, Run] = field(default_factory=dict)
    """The simulated runs by placement id, which is text here as in messages."""
    _held: dict[str, Run] = field(default_factory=dict)
    _leaving: list[TaskEnd] = field(default_factory=list)
    _limits: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The time limit of each task group (simulated seconds, 0 for none) of the jobs seen last; empty without limits."""
    _over: dict[str, float] = field(default_factory=dict)
    """Placements that their time limit ends before their duration, and the limit."""

    def join(self, machines: Sequence[MachineSpec], progress: Callable[[int], None] | None = None) -> None:
        """Add machines to the cell; `progress` is called with the number of each chunk."""
        for start in range(0, len(machines), JOIN_CHUNK):
            chunk = machines[start : start + JOIN_CHUNK]
            self.cell.machines.join(self.name, chunk, self._ms())
            if progress is not None:
                progress(len(chunk))
        self.number = self.cell.executors.number(self.name)

    # Registration

    def serve(self, nonce: str) -> None:
        """Register the executor and bring its machines up. Raises Duplicate while another lives."""
        self._membership = self.cell.executors.register(self.name, nonce, self.lease_ms, self._ms())
        self._renew_at = self.now()

    def renew(self) -> None:
        """Renew the lease when a third of it has passed. Raises Fenced when it expired: register again."""
        if self._membership is None:
            raise Fenced(f"executor {self.name}: is not registered yet")
        if self.now() >= self._renew_at:
            self._renew_at = self.now() + self.lease_ms / 3000
            self.cell.executors.renew(self._membership, self.lease_ms, None)

    def leave(self) -> None:
        """Deregister: the machines become offline, and their tasks are pending again."""
        if self._membership is not None:
            self.cell.executors.deregister(self._membership, self._ms(), self.name, reaped=False)

    def resume(self) -> None:
        """Read all runs of this executor's machines; known tasks keep their end.

        A run may have been placed in room that other tasks are still leaving: it is held until the cell lets it start.
        Jobs are read after the runs, so that every run's job is among them. Runs that the cell does not list are
        dropped: a restored store assigns the same placement ids to other tasks (semantics 16). After the store lost
        versions all tasks begin anew: a placement may be another one of the same id, of another job of the same id.
        """
        self.number = self.cell.executors.number(self.name)
        while self.cell.executors.receive_lines(self.number):
            pass
        mine = [
            index for index, _ in self.cell.executors.machines_of(self.name)
        ]  # tasks may be leaving from gone machines too
        runs = self.cell.machines.runs(mine)
        jobs = self.cell.jobs.by_id(list({run.job for run in runs}))  # a queue may have a million others
        self._leaving = [TaskEnd(run.machine, run.placement, EndKind.LEFT) for run in runs if run.leaving]
        left = {ending.machine for ending in self._leaving}
        listed = {str(run.placement): (str(run.machine), run.job) for run in runs if not run.leaving}
        lost, self._partings = self.cell.sightings.partings != self._partings, self.cell.sightings.partings
        self._runs, self._held = (
            ({}, {})
            if lost
            else (
                {placement: run for placement, run in known.items() if listed.get(placement) == run[:2]}
                for known in (self._runs, self._held)
            )
        )
        self._over = {each: limit for each, limit in self._over.items() if each in self._runs or each in self._held}
        self._learn_limits((run.job, run.group) for run in runs)
        starting = _Starting(self.now())
        for run in runs:
            placement = str(run.placement)
            if not run.leaving and run.job in jobs and placement not in self._runs and placement not in self._held:
                group = jobs[run.job].groups[run.group]
                seconds, limit = self._limited(run.job, run.group, group.duration_ms / 1000 / self.speed)
                if limit:
                    self._over[placement] = limit
                if run.machine in left or any(leaving for _, _, leaving in group.runs):
                    self._held[placement] = str(run.machine), run.job, run.tasks, seconds
                else:
                    due = starting.add(placement, seconds)
                    self._runs[placement] = str(run.machine), run.job, run.tasks, due
        self._begin(starting)

    @property
    def simulating(self) -> int:
        """Number of simulated placements."""
        return len(self._runs)

    @property
    def held(self) -> int:
        """Number of placements that wait for others to leave their room."""
        return len(self._held)

    def step(self, wait_seconds: float) -> int:
        """Process messages, waiting up to `wait_seconds` for them, and end due tasks. Returns their number."""
        self._hear(self.cell.executors.receive_lines(self.number, wait_seconds=self._patience(wait_seconds)))
        self._ask_held()
        return self._end_due()

    def _patience(self, wait_seconds: float) -> float:
        if self._leaving or self._held:
            return 0.0
        if self._due:
            wait_seconds = min(wait_seconds, max(0.0, self._due[0][0] - self.now()))
        return wait_seconds if wait_seconds >= 0.01 else 0.0

    def _hear(self, lines: Sequence[str]) -> None:
        """Process messages, each placement in a few steps: there are thousands in a call."""
        runs, held, starting = self._runs, self._held, _Starting(self.now())
        self._learn_limits(_group_of(line) for line in lines if line.startswith("+ "))
        for line in lines:
            fields = line.split(" ")
            if fields[0] == "-":
                self._leave(fields[2], fields[1], fields[3])
                continue
            if fields[0] != "+":
                self._begin(starting)
                self.resume()
                runs, held, starting = self._runs, self._held, _Starting(self.now())
                continue
            job, hold, first = fields[1], fields[4] == "1", int(fields[5])
            seconds, limit = self._limited(job, int(fields[2]), int(fields[3]) / 1000 / self.speed)
            for i in range(6, len(fields), 2):
                placement = str(first + (i - 6) // 2)
                if placement in runs or placement in held:
                    continue  # it was in the mailbox and in the full read
                if limit:
                    self._over[placement] = limit
                if hold:
                    held[placement] = fields[i], job, fields[i + 1], seconds
                else:
                    runs[placement] = fields[i], job, fields[i + 1], starting.add(placement, seconds)
        self._begin(starting)

    def _learn_limits(self, groups: Iterable[tuple[str, int]]) -> None:
        """Read the time limits of jobs, given with groups, that are new here or have new groups by an update."""
        most: dict[str, int] = {}
        for job, group in groups:
            most[job] = max(most.get(job, 0), group + 1)
        if len(self._limits) > MOST_LIMITS:
            self._limits = {job: limits for job, limits in self._limits.items() if job in most}
        new = sorted(job for job, groups in most.items() if groups > len(self._limits.get(job, ())))
        for job, spec in self.cell.jobs.specs(new).items() if new else ():
            limits = [ms / 1000 for ms in time_limits(spec)]
            self._limits[job] = (*limits, *[0.0] * (most[job] - len(limits)))

    def _limited(self, job: str, group: int, seconds: float) -> tuple[float, float]:
        """Return how long placements of a duration run, and their time limit if that ends them as failed, else 0."""
        limit = self._limits[job][group]
        return (limit / self.speed, limit) if 0.0 < limit < seconds * self.speed else (seconds, 0.0)

    def _begin(self, starting: "_Starting") -> None:
        for due, placements in starting.batches.items():
            self._batches += 1
            heappush(self._due, (due, self._batches, placements))

    def _leave(self, machine: str, placement: str, tasks: str) -> None:
        """End simulated tasks on request, at once."""
        self._leaving.append(TaskEnd(int(machine), int(placement), EndKind.LEFT, tasks))
        for known in (self._runs, self._held):
            if placement in known:
                on, job, had, time = known[placement]
                known[placement] = on, job, split(had, tasks)[1], time

    def _ask_held(self) -> None:
        if not self._held:
            return
        asked = list(islice(self._held, MOST_ASKED))
        answers = self.cell.executors.may_start(
            [(int(self._held[placement][0]), int(placement)) for placement in asked]
        )
        starting = _Starting(self.now())
        for placement, answer in zip(asked, answers, strict=True):
            run = machine, job, tasks, seconds = self._held.pop(placement)
            if answer == "go":
                self._runs[placement] = machine, job, tasks, starting.add(placement, seconds)
            elif answer == "wait":
                # Move it behind the others, which are queried next time.
                self._held[placement] = run
        self._begin(starting)

    def _end_due(self) -> int:
        """Acknowledge tasks that left, then end due tasks; those that a failing call did not send are due again."""
        if self._leaving:
            self.cell.executors.end(self._leaving, self._ms(), self.name)
            self._leaving = []
        ripe, machines, placements = self._ripe()
        try:
            ended = self._end_over(machines, placements) if self._over else 0
            if machines:
                ended += sum(self.cell.executors.end(FinishedRuns(machines, placements), self._ms(), self.name))
        except (StoreError, Fenced):
            for entry in ripe:
                heappush(self._due, entry)
            raise
        for _, _, batch in ripe:
            for placement in batch:
                self._runs.pop(placement, None)
        self.ended += ended
        return ended

    def _end_over(self, machines: list[str], placements: list[str]) -> int:
        """End those of due placements that are over their time limit as failed, and remove them from the lists."""
        over = [i for i, placement in enumerate(placements) if placement in self._over]
        ends = [
            TaskEnd(int(machines[i]), int(placements[i]), EndKind.FAILED, "*", over_limit(1_000 * limit))
            for i in over
            for limit in (self._over[placements[i]],)
        ]
        ended = sum(self.cell.executors.end(ends, self._ms(), self.name)) if ends else 0
        for i in reversed(over):
            del machines[i], self._over[placements.pop(i)]
        return ended

    def _ripe(self) -> tuple[list[tuple[float, int, list[str]]], list[str], list[str]]:
        """Remove the due entries; return them with the machines and placements of their tasks."""
        now, due, runs, ripe = self.now(), self._due, self._runs, list[tuple[float, int, list[str]]]()
        machines: list[str] = []
        placements: list[str] = []
        while due and due[0][0] <= now and len(placements) < MOST_ENDINGS:
            seconds, number, batch = heappop(due)
            most = MOST_ENDINGS - len(placements)
            if len(batch) > most:
                heappush(due, (seconds, number, batch[most:]))
                batch = batch[:most]
            known = []
            for placement in batch:
                run = runs.get(placement)
                if run is not None and run[3] == seconds:  # otherwise it was dropped
                    known.append(placement)
                    if run[2] != EMPTY:
                        machines.append(run[0])
                        placements.append(placement)
            ripe.append((seconds, number, known))
        return ripe, machines, placements

    def _ms(self) -> int:
        return int(self.now() * 1000)


class _Starting:
    """Placements that start at one time (seconds), by the time at which they end."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.batches: dict[float, list[str]] = {}

    def add(self, placement: str, seconds: float) -> float:
        """Add one that takes so long; return when it ends."""
        due = self.now + seconds
        batch = self.batches.get(due)
        if batch is None:
            self.batches[due] = [placement]
        else:
            batch.append(placement)
        return due
