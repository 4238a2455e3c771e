"""An agent on a real store: what tasks used, and how long evicted ones have after their warning."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from omega.cellstate.model import Job, JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.queries.job_status import JobStatus
from tests.integration.agent_ground import Ground, alive, grounded, look_until

pytestmark = pytest.mark.server


@pytest.fixture
def ground(store_url: str, tmp_path: Path) -> Iterator[Ground]:
    with grounded(store_url, tmp_path) as made:
        yield made


def test_what_tasks_used_is_measured_and_summed_by_job(ground: Ground) -> None:
    agent, other = ground.agent(), ground.agent("h2", ground.state / "h2")
    loop = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    name = ground.run("sh", "-c", loop, count=2, job="busy")
    again = JobSpec("two", "two", "batch", (TaskGroup((100, 64), 1, 0, {"command": ["true"]}),))
    ground.cell.jobs.submit([again], 0, "ada")
    ground.place("two", 1, "h2")
    look_until(agent, lambda: ground.group(name).finished == 2, "both tasks ended")
    look_until(other, lambda: ground.group("two").finished, "it ended")
    used = JobStatus(ground.cell, job_of(ground, name)).measured
    assert used.tasks == 2
    assert 20 < used.cpu_ms <= used.run_ms + 500
    assert used.peak_bytes > 1 << 19
    assert JobStatus(ground.cell, job_of(ground, "two")).measured.tasks == 1
    assert JobStatus(ground.cell, job_of(ground, "two")).as_json(0)["measured"]["tasks"] == 1
    ground.cell.tasks.keep_tails({(name, 1, 7, "usage"): b"3 1000 2000 9", (name, 0, 8, "usage"): b"no record"})
    more = JobStatus(ground.cell, job_of(ground, name)).measured
    assert (more.tasks, more.cpu_ms, more.peak_bytes) == (5, used.cpu_ms + 1000, used.peak_bytes)


def job_of(ground: Ground, name: str) -> Job:
    job = ground.cell.jobs.get(name)
    assert job is not None
    return job


def test_a_pool_states_how_long_its_tasks_have_after_the_warning_of_an_eviction(ground: Ground) -> None:
    """An evicted task has the time of its pool, as the pools are then; one of a stopped job its own grace."""
    agent = ground.agent()
    deaf = ("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done")
    evicted, stopped = ground.run(*deaf, pool="p", grace=60_000), ground.run(*deaf, pool="p", grace=60_000)
    agent.look()
    pids = ground.pid(evicted), ground.pid(stopped)
    quick = PreemptionSettings(allocation_timeout=0.1)
    ground.cell.pools.set(Pools((Pool("p"),), (PoolTree(preemption=quick),)), 0, 0, "ada")
    index = ground.cell.machines.index_of("h1") or 0
    for run in ground.cell.machines.runs([index]):
        if run.job == evicted:
            ground.cell.executors.end([TaskEnd(index, run.placement, EndKind.EVICTED, "*", "over")], 0, "ada")
    ground.cell.jobs.stop(stopped, 0, "ada")
    ground.cell.jobs.housekeep(0, "ada")
    look_until(
        agent, lambda: [run.job for run in ground.cell.machines.runs([index])] == [stopped], "the evicted task is gone"
    )
    assert [alive(pid) for pid in pids] == [False, True]
    os.kill(pids[1], signal.SIGKILL)
