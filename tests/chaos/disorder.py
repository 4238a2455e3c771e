"""A cell under load, and somebody who kills, halts and restarts its processes and its store at random."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, MachineState
from omega.cellstate.redis import RedisCell
from omega.live.processes.supervisor import ProcessSupervisor
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    LEASE_MS,
    Embedded,
    check_all_ended,
    ended,
    halt,
    mixed_jobs,
    resume,
    seen,
    submit_again,
    unfinished,
    until,
)

SCHEDULERS = ("batch/0", "batch/1", "batch/2", "service/0")
MEMBERS = (*SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}")
MACHINES = 12
ACT_SECONDS = 0.4
"""Between two acts of disorder, on average."""
Wave = Callable[[Random, str], list[JobSpec]]
"""Makes the jobs that are submitted together, their names beginning so."""
REFUSALS = ("another one runs under this name; ", "no answer from the store at ", "is still reading its data; ")
"""Why one that was just started may end at once: its name is not free yet, or the store is away."""


def played(rng: Random, name: str) -> list[JobSpec]:
    """Mixed jobs for simulated machines."""
    return mixed_jobs(rng, 150, name, longest_ms=500)


@dataclass(slots=True)
class Disorder:
    """Injects faults. `rng` decides what and when; `done` lists the injected faults.

    Members are schedulers, and executors: a simulated one, or agents. `machines` are those that go down and come back.
    """

    store: Embedded
    cell: RedisCell
    supervisor: ProcessSupervisor
    rng: Random
    members: Sequence[str] = MEMBERS
    wave: Wave = played
    wave_seconds: float = 0.1
    machines: int = MACHINES
    executor_halt_seconds: float = 1.0
    jobs: list[JobSpec] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    _acts: int = 0
    _halted: dict[str, float] = field(default_factory=dict)
    _down: set[int] = field(default_factory=set)
    _started: dict[str, float] = field(default_factory=dict)

    def run(self, seconds: float) -> None:
        """Submit jobs and inject faults, repair everything, and check that no task was lost or run twice."""
        end = time.monotonic() + seconds
        next_act = next_wave = time.monotonic()
        while (now := time.monotonic()) < end:
            self._mend(now)
            if now >= next_wave:
                next_wave = now + self.wave_seconds
                self._submit()
            if now >= next_act:
                next_act = now + self.rng.uniform(0, 2 * ACT_SECONDS)
                self._act()
            self._pass(0.01)
        self._end()

    def _act(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (30, self._kill_scheduler),
            (20, self._halt_scheduler),
            (10, self._stop),
            (12, self._kill_executor),
            (8, self._halt_executor),
            (6, self._kill_all),
            (10, self._kill_store),
            (8, self._halt_store),
            (6 if self.machines else 0, self._machine),
        ]
        weights, functions = zip(*acts, strict=True)
        # The first faults, however short the run is: an executor is killed, then all members at once.
        first = (self._kill_executor, self._kill_all)[self._acts : self._acts + 1]
        self._acts += 1
        (first or self.rng.choices(functions, weights))[0]()

    def _tell(self, what: str) -> None:
        self.done.append(what)

    def _pass(self, seconds: float) -> None:
        """Let time go by."""
        end = time.monotonic() + seconds
        until(lambda: time.monotonic() >= end, "time goes by")

    def _submit(self) -> None:
        wave = self.wave(self.rng, f"wave-{len(self.jobs)}")
        self.jobs += wave
        try:
            self.cell.jobs.submit(wave, int(time.time() * 1000), "ada")
        except StoreError:
            self._tell("the store was away for a wave")  # it is submitted again in the end

    # Processes

    def _some(self, *, executors: bool) -> Iterator[str]:
        """One of those that are awake, if there is one."""
        awake = [
            member
            for member in self.members
            if (member in SCHEDULERS) is not executors and member not in self._halted and self._works(member)
        ]
        if awake:
            yield self.rng.choice(awake)

    def _works(self, member: str) -> bool:
        return member in self.supervisor.members and self.supervisor.members[member].poll() is None

    def _kill_scheduler(self) -> None:
        for member in self._some(executors=False):
            self._kill(member)

    def _kill_executor(self) -> None:
        for member in self._some(executors=True):
            self._kill(member)

    def _kill_all(self) -> None:
        """Kill all members at once, halted ones too."""
        for member in [member for member in self.members if self._works(member)]:
            self._kill(member)

    def _kill(self, member: str) -> None:
        self._tell(f"kill -9 {member}")
        self._halted.pop(member, None)
        self.supervisor.kill(member)

    def _stop(self) -> None:
        """In order: it must leave with exit code 0, unless it was just starting and had no name yet."""
        for member in self._some(executors=False):
            self._tell(f"stop {member}")
            self.supervisor.members[member].send_signal(signal.SIGTERM)
            code = ended(self.supervisor, member)
            assert code in (0, -signal.SIGTERM), (member, code, self.supervisor.last_words(member))
            del self.supervisor.members[member]

    def _halt_scheduler(self) -> None:
        for member in self._some(executors=False):
            self._halt(member, self.rng.uniform(0, 3 * LEASE_MS / 1000))

    def _halt_executor(self) -> None:
        for member in self._some(executors=True):
            self._halt(member, self.rng.uniform(0, self.executor_halt_seconds))

    def _halt(self, member: str, seconds: float) -> None:
        self._tell(f"halt {member} for {seconds:.1f} s")
        halt(self.supervisor, member)
        self._halted[member] = time.monotonic() + seconds

    def _mend(self, now: float) -> None:
        """Continue members that were halted for long enough, start those that ended."""
        for member in [member for member, end in self._halted.items() if end <= now]:
            del self._halted[member]
            resume(self.supervisor, member)
        for member, code in self.supervisor.dead().items():
            words = self.supervisor.last_words(member)
            assert not self._began(member), (member, code, words)
            assert code == 1, (member, code, words)
            assert any(refusal in words for refusal in REFUSALS), (member, words)
            del self.supervisor.members[member]
        for member in self.members:
            # A name is free when its lease has expired; an earlier attempt is refused and repeated.
            if member not in self.supervisor.members and self.rng.random() < 0.05:
                self._started[member] = time.time() * 1000
                self.supervisor.start(member)

    def _began(self, member: str) -> bool:
        """Whether a member was at work since it was started last: such a one never ends by itself."""
        since = self._started.get(member, 0.0)
        work = seen(self.cell, "finished") if member.startswith("simulated/") else seen(self.cell, "enlist", member)
        return any(fact.at_ms >= since for fact in work)

    # The store and the machines

    def _kill_store(self) -> None:
        seconds = self.rng.choice((0.0, self.rng.uniform(0, 2 * LEASE_MS / 1000)))
        self._tell(f"kill -9 the store for {seconds:.1f} s")
        self.store.kill()
        self._pass(seconds)
        self.store.start()

    def _halt_store(self) -> None:
        seconds = self.rng.uniform(0, 1.5 * LEASE_MS / 1000)
        self._tell(f"halt the store for {seconds:.1f} s")
        self.store.halt()
        self._pass(seconds)
        self.store.resume()

    def _machine(self) -> None:
        """Set a machine down with its running tasks, or up again."""
        index = self.rng.randrange(self.machines)
        state = MachineState.UP if index in self._down else MachineState.DOWN
        try:
            self.cell.machines.set_state(index, state, int(time.time() * 1000), "ada")
        except StoreError:
            return
        self._tell(f"machine {index} {state.name.lower()}")
        self._down ^= {index}

    def _end(self) -> None:
        """Repair everything and wait until every task has ended."""
        for index in range(self.machines):
            until(lambda: self._up(index), "every machine is up")  # noqa: B023 - called at once
        submit_again(self.cell, self.jobs)

        def rested() -> bool:
            self._mend(time.monotonic())
            return not self._halted and not self.cell.schedulers.queue_depths() and not unfinished(self.cell)

        until(rested, "every task runs to its end")
        check_all_ended(self.cell, self.jobs)

    def _up(self, index: int) -> bool:
        self.cell.machines.set_state(index, MachineState.UP, int(time.time() * 1000), "ada")
        return True
