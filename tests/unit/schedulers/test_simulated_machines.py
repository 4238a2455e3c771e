"""Schedulers leave machines out that could not take a job, instead of having their claims refused (semantics 31)."""

from dataclasses import replace

import pytest

from omega.cellstate.model import MachineSpec, TaskGroup
from omega.schedulers.loop import Commit
from omega.schedulers.presets import batch, service
from omega.schedulers.scheduler import Scheduler
from tests.unit.schedulers.rig import Rig, spec

COMMAND = {"command": ["true"]}


def rig_of(make: str) -> Rig:
    made: dict[str, Scheduler] = {"batch": batch("rig"), "service": replace(service("rig"), kind="batch")}
    rig = Rig(*[(1_000, 1_000)] * 9, scheduler=made[make])
    rig.other.executors.register_agent("real", "n", 600_000, 0)
    rig.other.machines.join("agent/real", [MachineSpec("real", (300, 300))], 0)
    return rig


def claimed(rig: Rig, job: str) -> set[int]:
    """The machines that a scheduler claimed for a job, refused claims included."""
    sent = [each for effect, _ in rig.answers if isinstance(effect, Commit) for each in effect.transactions]
    return {claim.machine for each in sent if each.job == job for claim in each.claims}


@pytest.mark.parametrize("make", ["batch", "service"])
def test_commands_go_to_agents_at_the_first_attempt(make: str) -> None:
    rig = rig_of(make)
    real = rig.other.machines.index_of("real")
    rig.submit(replace(spec("runs"), groups=(TaskGroup((100, 100), 4, 5, COMMAND),)))
    rig.until(lambda: rig.placed("runs") == 3)
    rig.rest()
    assert {run.machine for run in rig.other.machines.runs(range(10))} == {real}
    assert claimed(rig, "runs") == {real}
    rig.submit(replace(spec("passes"), groups=(TaskGroup((1_000, 1_000), 9, 5, COMMAND),), spec={"simulate": True}))
    rig.until_placed("passes")
    sleeps = rig.figures.times_blocked
    rig.end("passes")
    rig.submit(spec("another"))
    rig.until_placed("another")
    assert (rig.figures.times_blocked, rig.left("runs")) == (sleeps, 1), "room on simulated machines is of no use to it"
    rig.end("runs")
    rig.until_placed("runs")
    assert claimed(rig, "runs") == {real}
    rig.check()
