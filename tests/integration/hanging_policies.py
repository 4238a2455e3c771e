"""Foreign code that does not return for the jobs that are named so: ``sleep-1``, ``loop-1``, ``lock-1``."""

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from omega.cellstate.model import JobSpec
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.live.runners.runner import Runner, RunnerCommand, RunnerTask
from omega.schedulers.gates import Gate
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Placement, PlacesAll, Preemption
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work


def loop() -> None:
    """Work for ever."""
    while True:
        pass


def lock() -> None:
    """Sleep in a call in C that holds the interpreter's lock."""
    ctypes.PyDLL(None).sleep(100_000)


HANGS: dict[str, Callable[[], None]] = {"sleep": lambda: time.sleep(100_000), "loop": loop, "lock": lock}


def hang(work: Work) -> None:
    """Do not return for some jobs."""
    hang_for(work.job.name)


def hang_for(name: str) -> str:
    """Do not return for some names."""
    does = HANGS.get(name.partition("-")[0])
    if does is not None:
        does()
    return name


class HangingRunner(Runner):
    """Runs the command as it is, except for the jobs that are named so."""

    def available(self) -> str | None:
        return "1"

    def start(self, task: RunnerTask) -> RunnerCommand:
        hang_for(task.environment["OMEGA_JOB"])
        return RunnerCommand(task.command, task.environment)


def admit(spec: JobSpec) -> None:
    """Do not return for the jobs that are named so."""
    hang_for(spec.name)


class Hanging(Placement):
    """First fit, except for the jobs that are named so."""

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        hang(work)
        return FirstFit().place(work, snapshot, rng)


class Together(Hanging, PlacesAll):
    """The same for several jobs in one call."""

    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        placed = [self.place(work, snapshot, rng) for work in works]
        return placed, len(placed)


class Evicting(Preemption):
    """Does not return when it is asked for victims."""

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int]:
        hang(work)
        return ()

    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        return ()


@dataclass
class Holding(Gate):
    """Does not return when it is asked for some jobs."""

    def hold(self, work: Work, now: float) -> str | None:
        hang(work)
        return None


def placement(seed: str) -> Scheduler:
    """A scheduler with this policy."""
    return Scheduler("batch", placement=Hanging(), rng=Random(seed))


def together(seed: str) -> Scheduler:
    """A scheduler with this policy."""
    return Scheduler("batch", placement=Together(), rng=Random(seed))


def preemption(seed: str) -> Scheduler:
    """A scheduler with this policy."""
    return Scheduler("batch", preemption=Evicting(), rng=Random(seed))


def gate(seed: str) -> Scheduler:
    """A scheduler with this policy."""
    return Scheduler("batch", gate=Holding(), rng=Random(seed))
