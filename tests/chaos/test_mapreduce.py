"""Word count over 100 MB while workers are evicted, killed and left running as zombies: the counts of one process.

A failure names its seed; set OMEGA_CHAOS_SEED to it to repeat the same acts.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.tasks import EndKind
from tests.mapreduce.crowd import TIMEOUT_SECONDS, Crowd, kill
from tests.mapreduce.words import COUNTED, answer, counted, write_text

pytestmark = [pytest.mark.server, pytest.mark.chaos]
SIZE = 100_000_000
ACTS = 12
LONGEST_SECONDS = 600.0


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 MB of words."""
    path = tmp_path_factory.mktemp("text") / "text"
    write_text(path, SIZE)
    return path


@pytest.fixture(scope="module")
def expected(text: Path) -> Counter[bytes]:
    """What one process counts."""
    return counted([text])


def disturb(job: Crowd, rng: Random, zombies: "list[subprocess.Popen[bytes]]") -> str:
    """Take the task from one worker that works and place it anew; the worker may not hear of it for long."""
    working = [task for task, process in job.processes.items() if process.poll() is None]
    if not working:
        return ""
    task, act = rng.choice(working), rng.choice(["evict", "kill", "stop", "zombie"])
    process = job.processes.pop(task)
    if act == "kill":
        kill(process)
    elif act == "stop":
        os.killpg(process.pid, signal.SIGSTOP)
    job.end(task, EndKind.LOST if act in ("kill", "stop") else EndKind.EVICTED)
    if act == "evict":
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(TIMEOUT_SECONDS)
    elif act in ("stop", "zombie"):
        zombies.append(process)
    job.place()
    job.start(task)
    return f"{act} {task}"


def done(job: Crowd) -> bool:
    return all(process.poll() is not None for process in job.processes.values())


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_words_of_100_mb(store_url: str, tmp_path: Path, text: Path, expected: Counter[bytes], workers: int) -> None:
    seed = os.environ.get("OMEGA_CHAOS_SEED", str(int(time.time())))
    rng = Random(f"{seed}/mapreduce/{workers}")
    job = Crowd(store_url, tmp_path, files=[text], map=COUNTED, shard=4_000_000, reduces=4, workers=workers)
    acts, zombies = list[str](), list[subprocess.Popen[bytes]]()
    try:
        began = time.monotonic()
        for task in range(workers):
            job.start(task)
        while not done(job) and time.monotonic() < began + LONGEST_SECONDS:
            time.sleep(rng.uniform(0.1, 0.7))  # the whole job takes three seconds on a fast computer
            if len(acts) < ACTS and (act := disturb(job, rng, zombies)):
                acts.append(act)
            if zombies and rng.random() < 0.5:
                os.killpg(zombies[0].pid, signal.SIGCONT)
                zombies.pop(0).wait(TIMEOUT_SECONDS)
        seconds = time.monotonic() - began
        sys.stdout.write(f"OMEGA_CHAOS_SEED={seed} workers={workers} {seconds:.0f} s: {', '.join(acts)}\n")
        job.finish()
        for zombie in zombies:
            os.killpg(zombie.pid, signal.SIGCONT)
            assert zombie.wait(TIMEOUT_SECONDS) in (0, 1)
        assert answer(job.output) == expected
        assert len(acts) >= 3
    finally:
        for zombie in zombies:
            kill(zombie)
        job.close()
