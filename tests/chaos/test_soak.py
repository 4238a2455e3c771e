"""Twenty-two minutes of steady load: the memory of each process stays as it is once the bounded records are full."""

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median

import pytest

from benchmarks.computer import resident_bytes
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    check,
    embedded_store,
    made_cell,
    mixed_jobs,
    started_processes,
    unfinished,
    until,
)

pytestmark = [pytest.mark.server, pytest.mark.chaos]
MEMBERS = ("batch/0", "batch/1", "service/0", f"simulated/{DEFAULT_EXECUTOR}")
MACHINES = 500
MINUTES = float(os.environ.get("OMEGA_SOAK_MINUTES", "22"))
TURN_SECONDS = 0.1
"""So short that the log is full after nine minutes."""
TASKS_PER_TURN = 300
KEEP_JOBS = 2_000
"""Finished jobs that the cell keeps: few, so that it keeps as many as it may after a minute."""
SAMPLE_SECONDS = 5.0
GROWTH = 0.03
"""Growth of a process from the third quarter to the last that is taken for chance, as a share; at least 1 MiB."""
MIB = 1 << 20
PRINTED = 15
"""Instants at which the report shows the memory."""
SCHEDULER_LIMIT = 400 * MIB


def submit_some(cell: RedisCell, rng: Random, turn: int) -> int:
    """Submit mixed jobs, some into pools, stop one; returns how many were submitted."""
    mixed = mixed_jobs(rng, TASKS_PER_TURN, f"soak-{turn}")
    jobs = [replace(job, spec={"pool": rng.choice(("a", "b", "c"))}) for job in mixed]
    now_ms = int(time.time() * 1000)
    answers = cell.jobs.submit(jobs, now_ms, "ada")
    assert {answer.status for answer in answers} == {"new"}
    if turn % 10 == 0:
        cell.jobs.stop(jobs[0].id, now_ms, "ada")
    return len(jobs)


def test_memory_is_flat_under_steady_load(tmp_path: Path) -> None:
    """OMEGA_SOAK_MINUTES sets another length; growth is compared between the last two quarters of the time."""
    rng, used, submitted = Random("soak"), dict[str, list[int]](), 0
    with (
        embedded_store() as store,
        made_cell(store.url, "soak", MACHINES, keep_jobs=KEEP_JOBS) as cell,
        started_processes(cell, store.url, tmp_path, *MEMBERS, lease_ms=10_000) as group,
        connect(store.url) as client,
    ):
        cell.pools.set(Pools((Pool("a"), Pool("b", weight=2), Pool("c", weight=3))), 0, 0, "ada")
        processes = {"store": store.pid} | {name: process.pid for name, process in group.members.items()}
        start = time.monotonic()
        sampled, turn = start, 0
        while time.monotonic() < start + MINUTES * 60:
            submitted += submit_some(cell, rng, turn)
            turn += 1
            if time.monotonic() - sampled >= SAMPLE_SECONDS:
                sampled = time.monotonic()
                for name, pid in processes.items():
                    used.setdefault(name, []).append(resident_bytes(pid))
                used.setdefault("epochs", []).append(sum(map(resident_bytes, workers(processes.values()))))
                used.setdefault("store's data", []).append(client.info("memory")["used_memory"])
            time.sleep(max(0.0, start + turn * TURN_SECONDS - time.monotonic()))
        assert group.dead() == {}
        until(lambda: unfinished(cell) == 0, "everything submitted has ended")
        check(cell)
    report(used, submitted)


def workers(pids: Iterable[int]) -> list[int]:
    """Return the processes that these started: schedulers compute epochs in one."""
    files = [Path(f"/proc/{pid}/task/{pid}/children") for pid in pids]
    return [int(child) for file in files if file.exists() for child in file.read_text("utf-8").split()]


def report(used: dict[str, list[int]], submitted: int) -> None:
    """Print the memory of each process over time, and fail when one grew in the last quarter."""
    sys.stdout.write(
        f"{submitted:,} jobs in {MINUTES:g} minutes; MiB at {PRINTED} instants; medians of the last quarters\n"
    )
    grown = []
    for name, values in used.items():
        quarter = len(values) // 4  # on a busy computer the log and the kept jobs fill up in the first half
        assert quarter > 1, "too short to compare"
        before, last = (median(values[i * quarter : (i + 1) * quarter]) for i in (2, 3))
        course = " ".join(f"{values[i * len(values) // PRINTED] / MIB:.1f}" for i in range(PRINTED))
        sys.stdout.write(f"{name:15} {course}; {before / MIB:.1f} {last / MIB:.1f}\n")
        if last - before > max(MIB, GROWTH * before):
            grown.append(name)
        if name.startswith(("batch", "service")):
            assert max(values) <= SCHEDULER_LIMIT
    assert grown == []
