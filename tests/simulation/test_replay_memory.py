"""What a replay needs for each task: the columns of its records, and little beside them."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from random import Random

import numpy as np
import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.tasks import EndKind
from omega.replay.columns import BLOCK, columns_of
from omega.replay.fairness import fairness_of
from omega.replay.fragmentation import fragmentation
from omega.replay.utilisation import over_commit, utilisation_of
from omega.replay.waits import by_kind, times_of
from omega.simulation.records import Recorder, TaskRecords
from omega.workload.workload import Arrival, Workload

SECOND = 1_000_000
OF_JOB = 256
RECORD = 37
"""Bytes of a row while it is recorded: those of `TaskRecords`, and one number of a placement."""


def _workload(jobs: int) -> Workload:
    group = TaskGroup((1000, 100), OF_JOB, 60_000)
    arrivals = [
        Arrival(float(i), JobSpec(f"j{i}", f"j{i}", "batch", (group,), spec={"user": f"u{i % 9}"})) for i in range(jobs)
    ]
    return Workload([MachineSpec(f"m{i}", (OF_JOB * 1000, 64_000)) for i in range(64)], [], arrivals, "made")


def _records(workload: Workload) -> TaskRecords:
    """A second after its submission each job starts all its tasks, one after the other ends."""
    jobs = np.arange(len(workload.arrivals))
    job, task = np.repeat(jobs, OF_JOB), np.tile(np.arange(OF_JOB), len(jobs))
    none = np.full(len(jobs), -1)
    started = (job + 1) * SECOND
    return TaskRecords(
        jobs=workload.arrivals, first_attempt=none, abandoned=none, job=job.astype(np.int32),
        group=np.zeros(len(job), np.int32), task=task.astype(np.int32), machine=(task % 64).astype(np.int32),
        started=started, ended=started + (1 + task % 60) * SECOND, how=np.full(len(job), EndKind.FINISHED, np.int8),
    )  # fmt: skip


def _peak(jobs: int) -> int:
    """Bytes that the metrics of a run of so many jobs need at most, beside its records."""
    workload = _workload(jobs)
    records = _records(workload)
    tracemalloc.start()
    try:
        columns = columns_of(workload, records, (jobs + 120) * SECOND)
        times = times_of(columns)
        by_kind(columns, times)
        utilisation_of(columns).mean()
        fragmentation(columns)
        fairness_of(columns, times)
        over_commit(columns)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_metrics_need_few_bytes_a_task_beside_the_records() -> None:
    small, large = 4 * BLOCK // OF_JOB, 16 * BLOCK // OF_JOB
    of_task = (_peak(large) - _peak(small)) / ((large - small) * OF_JOB)
    assert of_task <= 80 - 2 * RECORD, f"{of_task:.1f} bytes a task"


def test_a_row_of_the_recorder_is_37_bytes() -> None:
    columns = [each for each in vars(Recorder)["__slots__"] if each.startswith("_") and each != "_numbers"]
    recorder = Recorder()
    widths = {name: getattr(recorder, name).itemsize for name in columns}
    assert sum(widths.values()) == RECORD, widths


def _log(path: Path, tasks: int) -> None:
    """Write a log as LLNL-Atlas: 1,152 machines of 8 processors, jobs of some 190 tasks."""
    rng, done, number, at, processors = Random(1), 0, 0, 0.0, 9_216
    rows = [f"; MaxNodes: 1152\n; MaxProcs: {processors}\n"]
    while done < tasks:
        number += 1
        count, seconds = (
            min(processors // 2, max(1, int(rng.lognormvariate(3.6, 1.9)))),
            int(rng.lognormvariate(6, 1.2)),
        )
        done, at = done + count, at + count * seconds / processors / 0.75
        user = rng.randrange(130)
        rows.append(f"{number} {at:.0f} 0 {seconds} {count} -1 -1 {count} {2 * seconds} -1 1 {user} 1 1 1 1 -1 -1\n")
    path.write_text("".join(rows))


@pytest.mark.chaos
def test_a_replay_needs_at_most_80_bytes_a_task(tmp_path: Path) -> None:
    needed = []
    for tasks in (500_000, 1_500_000):
        log = tmp_path / f"{tasks}.swf"
        _log(log, tasks)
        words = [sys.executable, "-m", "omega.cli.main", "--json", "sim", "replay", str(log), "--no-cache"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        needed.append(usage.ru_maxrss * 1024)  # Linux counts KiB
    assert (needed[1] - needed[0]) / 1_000_000 <= 80
