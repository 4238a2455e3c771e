"""The wall clock of a computer is moved by an hour while Omega's processes run: nothing waits for it, nothing ends."""

import time
from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, JobState, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.live.processes.supervisor import ProcessSupervisor
from tests.integration.stage import DEFAULT_EXECUTOR, check, made_cell, simple_job, submit, until
from tests.tiers import first

pytestmark = pytest.mark.server
HOUR = 3_600.0
LEASE_MS = 1_500
MOVED = """
import os, time
wall, wall_ns = time.time, time.time_ns
def ahead():
    with open(os.environ["AHEAD"]) as file:
        return float(file.read() or 0)
time.time = lambda: wall() + ahead()
time.time_ns = lambda: wall_ns() + int(ahead() * 1e9)
"""
"""As sitecustomize: the wall clock of every Python process that is started with it."""
GATED = """
import os
import omega
class Waits:
    def hold(self, work, now):
        return None if os.path.exists(os.environ["GO"]) else "not yet"
mine = omega.Scheduler("batch", gate=Waits())
"""


def state(cell: RedisCell, job_id: str) -> JobState | None:
    job = cell.jobs.get(job_id)
    return None if job is None else job.state


@pytest.mark.parametrize("step", first(1, [-HOUR, HOUR]))
def test_a_step_of_the_wall_clock_delays_and_ends_nothing(store_url: str, tmp_path: Path, step: float) -> None:
    (tmp_path / "sitecustomize.py").write_text(MOVED)
    (tmp_path / "gated.py").write_text(GATED)
    ahead, go = tmp_path / "ahead", tmp_path / "go"
    ahead.write_text("0")
    settings = {"PYTHONPATH": str(tmp_path), "AHEAD": str(ahead), "GO": str(go)}
    group = ProcessSupervisor(
        store_url, f"steps{step:.0f}", tmp_path / "logs", lease_ms=LEASE_MS, bound=True, settings=settings,
        choices={"service": {}, "batch": {"OMEGA_SCHEDULER": "gated:mine"}},
    )  # fmt: skip
    with made_cell(store_url, group.cell, 4) as cell, group:
        for member in ("batch/0", "service/0", f"simulated/{DEFAULT_EXECUTOR}"):
            group.start(member)
        group.wait_ready(cell)
        submit(cell, [simple_job("held", ms=100), simple_job("runs", kind="service", ms=4_000)])
        until(lambda: state(cell, "runs") is JobState.ACTIVE and cell.jobs.get("held"), "one runs, one is held")
        ahead.write_text(str(step))
        time.sleep(4 * LEASE_MS / 1000)  # each renews its lease, or has lost it
        go.touch()
        until(lambda: state(cell, "held") is JobState.DONE, "the gate is asked again")
        submit(cell, [simple_job("later", ms=100)])
        until(lambda: state(cell, "later") is JobState.DONE, "a new job is placed and ends")
        until(lambda: state(cell, "runs") is JobState.DONE, "the task ends when its time is over")
        assert not any(fact.event[0] == "end" and "lost" in fact.event for fact in cell.log.facts(0, 10_000))
        assert group.dead() == {}
        check(cell)


@pytest.mark.parametrize("off", [-600.0, pytest.param(600.0, marks=pytest.mark.chaos)])
def test_a_machine_whose_clock_is_ten_minutes_off_runs_tasks(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: float
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    (tmp_path / "sitecustomize.py").write_text(MOVED)
    ahead = tmp_path / "ahead"
    ahead.write_text(str(off))
    settings = {"PYTHONPATH": str(tmp_path), "AHEAD": str(ahead)}
    group = ProcessSupervisor(
        store_url, f"off{off:.0f}", tmp_path / "logs", lease_ms=LEASE_MS, bound=True, settings=settings
    )
    with made_cell(store_url, group.cell) as cell, group:
        for member in ("batch/0", "agent/h1"):
            group.start(member)
        group.wait_ready(cell)
        extra = {"command": ["sleep", "2"], "time_limit": 60_000}
        submit(cell, [JobSpec("runs", "runs", "batch", (TaskGroup((100, 64), 2, 0, extra),))])
        until(lambda: state(cell, "runs") is JobState.DONE, "its tasks run and end")
        (machine,) = cell.machines.all()
        assert (machine.state, cell.executors.agents()["h1"].unfit) == (MachineState.UP, "")
        facts = cell.log.facts(0, 10_000)
        assert not [fact for fact in facts if fact.event[0] in ("lost", "failed", "evicted", "lapse", "unfit")]
        ends = [fact.at_ms for fact in facts if fact.event[0] == "finished"]
        assert all(abs(at - cell.store_ms()) < 300_000 for at in ends), "ends have the time of the store"
        check(cell)
