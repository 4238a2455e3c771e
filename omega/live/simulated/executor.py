"""A simulated executor: one executor with any number of machines.

It accepts the tasks placed on its machines, ends them after their duration (divided by `speed`), and acknowledges
evicted and stopped ones. It receives work through its mailbox, never from the log (semantics 19); after a restart or a
dropped mailbox it reads its machines completely.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice

from cellstate.cell import Membership
from cellstate.errors import Fenced, StoreError
from cellstate.model import MachineSpec
from cellstate.ports import ExecutorStore
from cellstate.ranges import EMPTY, split
from cellstate.transaction import Ending, How

MOST_ENDINGS = 2_500
"""Number of endings per call: with 400 the store spends its time on calls."""
JOIN_CHUNK = 1_000
MOST_ASKED = 1_000
"""Number of held runs per query."""
_new = tuple.__new__
"""Makes endings without a call of their class, which takes twice as long."""


@dataclass(slots=True)
class _SimulatedRun:
    """Tasks that are simulated or held; `due` is when they end, known once they started."""

    machine: int
    job: str
    tasks: str
    seconds: float
    due: float = 0.0


@dataclass(slots=True)
class SimulatedExecutor:
    """Simulates the machines of one executor. `now` returns seconds of the wall clock."""

    cell: ExecutorStore
    name: str
    now: Callable[[], float]
    speed: float = 1.0
    lease_ms: int = 20_000
    number: int = 0
    ended: int = 0
    _membership: Membership | None = None
    _renew_at: float = 0.0
    _due: list[tuple[float, int]] = field(default_factory=list)
    _runs: dict[int, "_SimulatedRun"] = field(default_factory=dict)
    _held: dict[int, "_SimulatedRun"] = field(default_factory=dict)
    _leaving: list[Ending] = field(default_factory=list)

    def join(self, machines: Sequence[MachineSpec], progress: Callable[[int], None] | None = None) -> None:
        """Add machines to the cell; `progress` is called with the number of each chunk."""
        for start in range(0, len(machines), JOIN_CHUNK):
            chunk = machines[start : start + JOIN_CHUNK]
            self.cell.join(self.name, chunk, self._ms())
            if progress is not None:
                progress(len(chunk))
        self.number = self.cell.executor_number(self.name)

    # Registration

    def serve(self, nonce: str) -> None:
        """Register the executor and bring its machines up. Raises Duplicate while another lives."""
        self._membership = self.cell.register_executor(self.name, nonce, self.lease_ms, self._ms())
        self._renew_at = self.now()

    def renew(self) -> None:
        """Renew the lease when a third of it has passed. Raises Fenced when it expired: register again."""
        if self._membership is None:
            raise Fenced(f"executor {self.name}: has not begun yet")
        if self.now() >= self._renew_at:
            self._renew_at = self.now() + self.lease_ms / 3000
            self.cell.renew_executor(self._membership, self.lease_ms, None)

    def leave(self) -> None:
        """Deregister: the machines become offline, and their tasks are pending again."""
        if self._membership is not None:
            self.cell.deregister_executor(self._membership, self._ms(), self.name, reaped=False)

    def resume(self) -> None:
        """Read all runs of this executor's machines; known tasks keep their end.

        A run may have been placed in room that other tasks are still leaving: it is held until the cell lets it start.
        Jobs are read after the runs, so that every run's job is among them. Runs that the cell does not list are
        dropped: a restored store assigns the same placement ids to other tasks (semantics 16).
        """
        self.number = self.cell.executor_number(self.name)
        while self.cell.receive(self.number):
            pass
        mine = [index for index, _ in self.cell.machines_of(self.name)]  # tasks may be leaving from gone machines too
        runs = self.cell.runs(mine)
        jobs = self.cell.jobs_by_id(list({run.job for run in runs}))  # a queue may have a million others
        self._leaving = [Ending(run.machine, run.placement, How.LEFT) for run in runs if run.leaving]
        left = {ending.machine for ending in self._leaving}
        listed = {run.placement: (run.machine, run.job) for run in runs if not run.leaving}
        self._runs, self._held = (
            {placement: run for placement, run in known.items() if listed.get(placement) == (run.machine, run.job)}
            for known in (self._runs, self._held)
        )
        for run in runs:
            if not run.leaving and run.job in jobs:
                group = jobs[run.job].groups[run.group]
                hold = run.machine in left or any(leaving for _, _, leaving in group.runs)
                self._begin(run.placement, run.machine, run.job, run.tasks, group.duration_ms, hold=hold)

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
        for message in self.cell.receive(self.number, wait_seconds=self._patience(wait_seconds)):
            self._hear(message)
        self._ask_held()
        return self._end_due()

    def _patience(self, wait_seconds: float) -> float:
        if self._leaving or self._held:
            return 0.0
        if self._due:
            wait_seconds = min(wait_seconds, max(0.0, self._due[0][0] - self.now()))
        return wait_seconds if wait_seconds >= 0.01 else 0.0

    def _hear(self, message: str) -> None:
        words = message.split(" ")
        if words[0] == "+":
            _, placement, machine, job, _, tasks, duration, hold = words
            self._begin(int(placement), int(machine), job, tasks, int(duration), hold=hold == "1")
        elif words[0] == "-":
            self._leave(int(words[1]), int(words[2]), words[3])
        else:
            self.resume()

    def _begin(self, placement: int, machine: int, job: str, tasks: str, duration_ms: int, *, hold: bool) -> None:
        if placement in self._runs or placement in self._held:
            return  # it was in the mailbox and in the full read
        run = _SimulatedRun(machine, job, tasks, duration_ms / 1000 / self.speed)
        if hold:
            self._held[placement] = run
        else:
            self._start(placement, run)

    def _start(self, placement: int, run: _SimulatedRun) -> None:
        run.due = self.now() + run.seconds
        self._runs[placement] = run
        heappush(self._due, (run.due, placement))

    def _leave(self, placement: int, machine: int, tasks: str) -> None:
        """End simulated tasks on request, at once."""
        self._leaving.append(Ending(machine, placement, How.LEFT, tasks))
        run = self._runs.get(placement) or self._held.get(placement)
        if run is not None:
            run.tasks = split(run.tasks, tasks)[1]

    def _ask_held(self) -> None:
        if not self._held:
            return
        asked = list(islice(self._held, MOST_ASKED))
        answers = self.cell.may_start([(self._held[placement].machine, placement) for placement in asked])
        for placement, answer in zip(asked, answers, strict=True):
            run = self._held.pop(placement)
            if answer == "go":
                self._start(placement, run)
            elif answer == "wait":
                # Move it behind the others, which are queried next time.
                self._held[placement] = run

    def _end_due(self) -> int:
        now, due, runs = self.now(), self._due, self._runs
        endings, leaving = [*self._leaving], len(self._leaving)
        ripe: list[tuple[float, int]] = []
        while due and due[0][0] <= now and leaving + len(ripe) < MOST_ENDINGS:
            seconds, placement = entry = heappop(due)
            run = runs.get(placement)
            if run is not None and run.due == seconds:  # otherwise it was dropped
                ripe.append(entry)
                if run.tasks != EMPTY:
                    endings.append(_new(Ending, (run.machine, placement, How.FINISHED, "*", "", "")))
        try:
            counts = self.cell.end(endings, self._ms(), self.name) if endings else []
        except StoreError:
            # Endings that were not sent are due again.
            for entry in ripe:
                heappush(due, entry)
            raise
        self._leaving = []
        for _, placement in ripe:
            runs.pop(placement, None)
        ended = sum(counts[leaving:])
        self.ended += ended
        return ended

    def _ms(self) -> int:
        return int(self.now() * 1000)
