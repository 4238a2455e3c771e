"""Work resumes within the lease of those who died, as the cell's own log tells.

A name is its holder's for a lease after the last renewal, and who lives looks once in a third of a lease who else
does. So no job waits longer than 4/3 of a lease for a scheduler that died or stands still, and then for an attempt.
When nobody is left, those who are started again wait for their names by themselves, and once the log tells that the
last of them has its name, all work goes on. The tasks of an agent go back within its lease, and a scheduler's, as
every scheduler looks after agents once in one.

Every stamp is a member's, of one clock. What this computer is busy with otherwise is no fault of the cell: what a
thread overslept that does nothing but sleep is allowed for.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.events import Fact
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.live.member import AGENT_LEASES
from omega.live.processes.supervisor import ProcessSupervisor
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    all_facts,
    check,
    check_all_ended,
    halt,
    made_cell,
    resume,
    seen,
    simple_job,
    started_processes,
    submit,
    unfinished,
    until,
)

pytestmark = pytest.mark.server
SCHEDULERS = ("batch/0", "batch/1", "batch/2")
LEASE_MS = 1_000
NOTICED = 4 / 3
"""In leases: the last renewal ends after one, and somebody looks within a third of one."""
ATTEMPT_MS = 500
"""For an attempt, and for what stands between two stamps otherwise."""
WAVE_SECONDS, WAVE = 0.05, 12
NAP_SECONDS = 0.01


@dataclass(slots=True)
class Sleeper:
    """What a thread overslept that does nothing but sleep (ms)."""

    late_ms: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Sleep until told to stop."""
        while not self._done.is_set():
            began = time.monotonic()
            self._done.wait(NAP_SECONDS)
            self.late_ms += max(0.0, (time.monotonic() - began - NAP_SECONDS) * 1000)

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Sleep for as long as the block runs."""
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()


def now_ms() -> int:
    return int(time.time() * 1000)


def waits(facts: list[Fact]) -> dict[str, int]:
    """How long each job that was placed had waited (ms)."""
    submitted = {fact.event[1]: fact.at_ms for fact in facts if fact.event[0] == "submit"}
    placed: dict[str, int] = {}
    for fact in facts:
        if fact.event[0] == "place":
            placed.setdefault(fact.event[3], fact.at_ms)
    return {job: at - submitted[job] for job, at in placed.items() if job in submitted}


@dataclass(slots=True)
class Rounds:
    """A cell under a steady load, whose schedulers are killed or halted, round after round."""

    cell: RedisCell
    supervisor: ProcessSupervisor
    rng: Random
    jobs: list[JobSpec] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def work(self, done: Callable[[], object]) -> None:
        """Submit small jobs all the time until something is so."""

        def wave() -> object:
            jobs = [simple_job(f"j{len(self.jobs) + number}") for number in range(WAVE)]
            self.jobs += jobs
            submit(self.cell, jobs)
            time.sleep(WAVE_SECONDS)
            return done()

        until(wave, "the round is over")

    def passed(self, leases: float) -> Callable[[], bool]:
        """Whether so many leases have gone by."""
        end = time.monotonic() + leases * LEASE_MS / 1000
        return lambda: time.monotonic() > end

    def round(self, name: str, break_it: Callable[[], None], mend: Callable[[], None], most_ms: float = 0.0) -> None:
        """Break something, mend it when its lease is long over, and see how long jobs waited meanwhile."""
        began, sleeper = self.cell.counters()["version"], Sleeper()
        with sleeper.asleep():
            broken = now_ms()
            break_it()
            self.work(self.passed(1.5))
            mend()
            self.work(lambda: all(self.cell.schedulers.members().get(each, (0, False))[1] for each in SCHEDULERS))
            until(lambda: not self.cell.schedulers.queue_depths(), "all is placed")
        facts = all_facts(self.cell, began)
        worst = max(waits(facts).values())
        back = max((fact.at_ms - broken for fact in facts if fact.event[0] == "enlist"), default=0)
        most = (most_ms or back) + ATTEMPT_MS + sleeper.late_ms
        self.told.append(
            f"{name}: no job waited longer than {worst} ms (at most {most:.0f}: {sleeper.late_ms:.0f} late)"
        )
        assert worst <= most, self.told[-1]

    def one(self) -> None:
        """One scheduler dies, or stands still: the others have its jobs when its lease is over."""
        victim = self.rng.choice(SCHEDULERS)
        if self.rng.random() < 0.5:
            self.round(
                f"kill -9 {victim}", lambda: self.supervisor.kill(victim), lambda: self._start(victim), self._noticed
            )
        else:
            self.round(
                f"halt {victim}",
                lambda: halt(self.supervisor, victim),
                lambda: resume(self.supervisor, victim),
                self._noticed,
            )

    @property
    def _noticed(self) -> float:
        return NOTICED * LEASE_MS

    def all(self) -> None:
        """All schedulers die at once and are started again at once, under their names."""

        def fall() -> None:
            for victim in SCHEDULERS:
                self.supervisor.kill(victim)
            for victim in SCHEDULERS:
                self._start(victim)

        self.round("kill -9 all", fall, lambda: None)

    def _start(self, member: str) -> None:
        self.supervisor.start(member)


def run(seed: str, seconds: float, logs: Path, url: str) -> None:
    """Rounds for so long, one of each sort at least."""
    sys.stdout.write(f"OMEGA_CHAOS_SEED={seed}\n")
    with (
        made_cell(url, "takeover", 12, keep_jobs=200_000) as cell,
        started_processes(cell, url, logs, *SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}", lease_ms=LEASE_MS) as group,
    ):
        rounds = Rounds(cell, group, Random(f"{seed}/takeover"))
        try:
            end = time.monotonic() + seconds
            while not rounds.told or time.monotonic() < end:
                rounds.one()
                rounds.all()
            until(lambda: not unfinished(cell), "every task runs to its end")
            check_all_ended(cell, rounds.jobs)
        finally:
            sys.stdout.write("\n".join([*rounds.told, f"{len(rounds.jobs)} jobs", ""]))
        assert group.dead() == {}, "nobody had to be started twice"


@pytest.mark.chaos
def test_no_job_waits_longer_than_a_lease_for_one_who_died(store_url: str, tmp_path: Path) -> None:
    run(os.environ.get("OMEGA_CHAOS_SEED", "1971"), 0.0, tmp_path, store_url)


@pytest.mark.chaos
def test_no_job_ever_waits_longer_than_a_lease_for_one_who_died(store_url: str, tmp_path: Path) -> None:
    run(os.environ.get("OMEGA_CHAOS_SEED", str(now_ms())), 60.0, tmp_path, store_url)


@pytest.mark.chaos
def test_the_tasks_of_an_agent_that_died_run_elsewhere_within_its_lease(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    lease_ms = 500
    job = JobSpec("a", "a", "batch", (TaskGroup((1, 1), 4, 0, {"command": ["sleep", "60"], "grace": 100}),))
    sleeper = Sleeper()
    with (
        made_cell(store_url, "dead-agent") as cell,
        started_processes(cell, store_url, tmp_path, "agent/a", "agent/b", "batch/0", lease_ms=lease_ms) as group,
    ):
        submit(cell, [job])
        until(lambda: not cell.schedulers.queue_depths(), "all tasks are placed")
        machine = int(seen(cell, "place")[0].event[1])
        with sleeper.asleep():
            killed = now_ms()
            group.kill(f"agent/{cell.machines.all()[machine].name}")
            until(lambda: seen(cell, "lost") and not cell.schedulers.queue_depths(), "its tasks are placed elsewhere")
        lost = min(fact.at_ms for fact in seen(cell, "lost"))
        again = max(fact.at_ms for fact in seen(cell, "place"))
        most = (AGENT_LEASES + NOTICED) * lease_ms + ATTEMPT_MS + sleeper.late_ms
        sys.stdout.write(f"lost after {lost - killed} ms, placed after {again - killed} ms, at most {most:.0f}\n")
        assert lost - killed <= most
        assert again - lost <= ATTEMPT_MS + sleeper.late_ms
        check(cell)
