"""What a MapReduce job leaves in its directories when it is stopped, when its workers are killed, on a full disk."""

import os
import resource
import signal
from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.live.mapreduce import JobFailed
from omega.mapreduce.output import MARKER
from tests.mapreduce.conftest import Make
from tests.mapreduce.crowd import Crowd, until
from tests.mapreduce.words import script

pytestmark = pytest.mark.server
FIRST_ONLY = script("import os,time\nprint('a\\t1',flush=True)\nwhile os.environ['OMEGA_SHARD']!='0': time.sleep(1)")
"""A mapper that ends on the first shard alone."""


def at_work(crowd: Make, scratch: Path) -> Crowd:
    """Return a job with a finished map, and a worker at the next one."""
    job = crowd(numbers="0-3", shard=1, reduces=1, map=FIRST_ONLY, scratch=scratch)
    job.start(0)
    until(lambda: (found := job.cell.shards.progress(job.job)) and found.map.done and found.working, "a map is done")
    return job


@pytest.fixture
def within(tmp_path: Path) -> Path:
    """The scratch directory of a job that names none."""
    return tmp_path / "out" / ".scratch"


def stop(job: Crowd) -> None:
    """Stop a job; its tasks are to leave."""
    job.cell.jobs.stop(job.job, 1, "ada")
    job.end(0, EndKind.STOPPED)


def acknowledge(job: Crowd) -> None:
    """Tell the store that the tasks of a job have left."""
    ends = [
        TaskEnd(run.machine, run.placement, EndKind.LEFT)
        for run in job.cell.machines.runs([0, 1])
        if run.job == job.job
    ]
    job.cell.executors.end(ends, 2, "agent/m0")


def names(folder: Path) -> list[str]:
    """Return what is in a directory and below it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_stopped_job_leaves_nothing(crowd: Make, within: Path) -> None:
    job = at_work(crowd, within)
    assert names(job.output)[:2] == [".omega-job", ".scratch"]
    stop(job)
    os.killpg(job.processes[0].pid, signal.SIGTERM)
    assert job.processes[0].wait() == -signal.SIGTERM
    assert names(job.output) == []


def test_a_worker_that_meets_the_stop_between_two_shards_leaves_nothing(
    crowd: Make, within: Path, tmp_path: Path
) -> None:
    """Nobody asks it to end: the store refuses its next shard."""
    go = tmp_path / "go"
    waits = script(
        f"import os,time\nwhile os.environ['OMEGA_SHARD']!='0' and not os.path.exists({str(go)!r}): time.sleep(0.01)"
    )
    job = crowd(numbers="0-3", shard=1, reduces=1, map=waits, scratch=within)
    job.start(0)
    until(lambda: (found := job.cell.shards.progress(job.job)) and found.map.done and found.working, "a map is done")
    stop(job)
    go.touch()
    assert job.processes[0].wait() > 0
    assert names(job.output) == []


def test_a_worker_that_is_evicted_leaves_the_files_of_its_job(crowd: Make, within: Path) -> None:
    job = at_work(crowd, within)
    before = names(job.output)
    job.end(0)
    os.killpg(job.processes[0].pid, signal.SIGTERM)
    assert job.processes[0].wait() == -signal.SIGTERM
    assert names(job.output) == before


def test_the_next_job_removes_what_killed_workers_left(crowd: Make, within: Path) -> None:
    first = at_work(crowd, within)
    stop(first)
    os.killpg(first.processes[0].pid, signal.SIGKILL)
    first.processes[0].wait()
    assert f".scratch/{first.job}" in names(first.output)
    acknowledge(first)
    second = crowd(numbers="0-3", reduces=1, beside=first, scratch=within)
    second.here().run()
    assert names(second.output) == ["part-00000"]


def test_files_of_a_job_that_is_not_over_stay(crowd: Make, tmp_path: Path) -> None:
    """A job that runs, one whose worker has not left yet, and directories that are none of a MapReduce job."""
    shared = tmp_path / "shared"
    running = at_work(crowd, shared)
    leaving = crowd(numbers="0-3", reduces=1, beside=running, scratch=shared)
    leaving.end(0, EndKind.STOPPED)
    leaving.cell.jobs.stop(leaving.job, 1, "ada")
    running.cell.jobs.submit([JobSpec("mine", "mine", "batch", (TaskGroup((1, 1), 1),))], 0, "ada")
    running.cell.jobs.stop("mine", 1, "ada")
    for name in (leaving.job, "mine", "unknown"):
        (shared / name).mkdir()
    last = crowd(numbers="0-3", reduces=1, beside=running, scratch=shared, folder=tmp_path / "other")
    last.here().run()
    assert sorted(each.name for each in shared.iterdir()) == sorted([running.job, leaving.job, "mine", "unknown"])
    acknowledge(leaving)
    again = crowd(numbers="0-3", reduces=1, beside=running, scratch=shared, folder=tmp_path / "another")
    again.here().run()
    assert sorted(each.name for each in shared.iterdir()) == sorted([running.job, "mine", "unknown"])


def test_of_a_marker_that_cannot_be_written_nothing_stays(crowd: Make) -> None:
    job = crowd(numbers="0", reduces=1)
    worker, limits = job.here(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # as a disk without room
    try:
        with pytest.raises(JobFailed, match="File too large"):
            worker.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(job.output) == []
    (job.output / f"{MARKER}.0123456789ab").touch()  # of a worker that was killed there
    job.here().run()
    assert names(job.output) == ["part-00000"]
