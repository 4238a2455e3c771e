"""Whatever happens to a cell, nothing that fits is left asleep: a scheduler that starts afresh finds nothing to place.

The scheduler's own poll is put off, so that whatever ends a sleep must be what woke it (semantics 19).
"""

from collections.abc import Callable
from random import Random
from typing import Any

import fakeredis
import pytest

from omega.cellstate.errors import OmegaError
from omega.cellstate.model import After, Gang, JobSpec, JobState, Limits, MachineState, TaskGroup
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.schedulers import live_driver
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.loop import attempts
from omega.schedulers.presets import batch
from tests.unit.schedulers.rig import LEASE_MS, PatientCell, Rig

POLL_SECONDS = 10_000.0
LATE_MS = 10**13
"""A time at which every lost task is due: its delay is not what is tested here."""
EXTRAS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"constraints": ["rack == 'a'"]},
    {"different_machines": True},
    {"spread": ["rack"]},
)
LIMITS = (
    Limits((None, None)),
    Limits((None, None)),
    Limits((300, None)),
    Limits((None, None), 1),
    Limits((None, None), None, (1, 3)),
)


class People:
    """What people and machines do to a cell, at random."""

    def __init__(self, rig: Rig, rng: Random) -> None:
        self.rig, self.cell, self.rng, self.jobs = rig, rig.other, rng, 0
        often = [self.submit] * 4 + [self.end] * 4
        self.deeds: list[Callable[[], object]] = [*often, self.machine, self.machine, self.job, self.job, self.limit]

    def job_id(self) -> str:
        return self.rng.choice([job.id for job in self.cell.jobs.all() if job.state <= JobState.HELD] or ["none"])

    def submit(self) -> None:
        self.jobs += 1
        rng, extra = self.rng, self.rng.choice(EXTRAS)
        groups = tuple(
            TaskGroup((rng.choice([50, 100, 200, 300]),) * 2, rng.randint(1, 3), 0, extra)
            for _ in range(rng.choice([1, 1, 2]))
        )
        after = (After(self.job_id(), any_end=True),) if rng.random() < 0.1 else ()
        gang, precedence = rng.choice([Gang.NO, Gang.NO, Gang.YES, Gang.STRICT]), rng.randint(0, 3)
        spec = JobSpec(f"j{self.jobs}", f"j{self.jobs}", "batch", groups, precedence, gang, after=after)
        self.cell.jobs.submit([spec], 0, "ada", held=rng.random() < 0.1)

    def end(self) -> None:
        runs = [run for run in self.cell.machines.runs(range(9)) if not run.leaving]
        if runs:
            run, how = (
                self.rng.choice(runs),
                self.rng.choice([EndKind.FINISHED, EndKind.FAILED, EndKind.LOST, EndKind.EVICTED]),
            )
            reason = "drain" if how is EndKind.EVICTED else ""
            tasks = self.rng.choice(["*", run.tasks[0]])
            self.cell.executors.end([TaskEnd(run.machine, run.placement, how, tasks, reason)], 0, "simulated")
            self.cell.jobs.housekeep(LATE_MS, "ada")

    def machine(self) -> None:
        rng, there = self.rng, len(self.cell.machines.all())
        what, index = rng.randrange(5), rng.randrange(there)
        if what == 0 and there < 8:
            self.rig.join((300, 300))
        elif what == 1:
            self.cell.machines.set_capacity(index, (rng.choice([100, 300, 600]),) * 2, 0, "ada")
        elif what == 2:
            self.cell.machines.set_attributes(index, {"rack": rng.choice(["a", "b", None])}, 0, "ada")
        else:
            states = (MachineState.UP, MachineState.UP, MachineState.DRAINED, MachineState.DOWN)
            self.cell.machines.set_state(index, rng.choice(states), 0, "ada")
            self.cell.jobs.housekeep(LATE_MS, "ada")

    def job(self) -> None:
        job_id, what = self.job_id(), self.rng.randrange(5)
        if what == 0:
            self.cell.jobs.hold(job_id, 0, "ada")
        elif what == 1:
            self.cell.jobs.stop(job_id, 0, "ada")
        elif what == 2:
            self.cell.jobs.resize(job_id, {0: self.rng.randint(0, 4)}, 0, "ada")
        else:
            self.cell.jobs.release(job_id, 0, "ada")

    def limit(self) -> None:
        self.cell.pools.set_limits("batch", self.rng.choice(LIMITS), 0, "ada")


def waiting(rig: Rig) -> dict[str, int]:
    """Unplaced tasks by job."""
    return {job_id: unplaced for job_id, (unplaced, _) in rig.counts().items()}


@pytest.mark.parametrize("seed", [3, 27, 30, 40, 59, 68])
def test_nothing_that_fits_is_left_asleep(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_driver, "IDLE_SECONDS", POLL_SECONDS)
    rng = Random(f"{seed}/sleepers")
    rig = Rig(*[(size, size) for size in rng.choices([200, 300, 500], k=rng.randint(1, 4))])
    people = People(rig, rng)

    polled: list[dict[str, int]] = []
    pause = rig.clock.pause

    def watched(seconds: float) -> None:
        pause(seconds)
        if seconds >= POLL_SECONDS:
            polled.append(waiting(rig))

    def idle() -> None:
        """Until the scheduler has slept all through its poll, and that found nothing."""
        now = rig.clock.seconds
        rig.until(lambda: rig.clock.seconds >= now + POLL_SECONDS)
        rig.rest()
        assert waiting(rig) == polled[0], "nobody woke it"

    monkeypatch.setattr(rig.clock, "pause", watched)
    for _ in range(rng.randint(10, 40)):
        if polled:
            rig.rest()
            assert waiting(rig) == polled[0], "nobody woke it"
        polled.clear()
        rig.other.schedulers.members()  # whom to wake
        try:
            rng.choice(people.deeds)()
        except OmegaError:
            continue  # what cannot be done is not done
        for _ in range(rng.choice([0, 1, 3, 8])):
            rig.step()
        if rng.random() < 0.2:
            idle()
    idle()
    left = waiting(rig)
    own = PatientCell(fakeredis.FakeRedis(server=rig.server), rig.clock)
    fresh = LiveDriver(own, batch("fresh"), "batch/1", rig.clock.now, rig.clock.pause, lease_ms=LEASE_MS)
    loop, now = attempts(fresh.scheduler), rig.clock.seconds
    effect = next(loop)
    while rig.clock.seconds < now + POLL_SECONDS:
        effect = loop.send(fresh.answer(effect))
    assert waiting(rig) == left
    rig.check()
