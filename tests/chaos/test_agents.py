"""Random faults while agents run commands: each task is run by one process at a time, and ends once.

A task takes a lock on a file of its own, which the kernel gives back when the last of its processes is
gone; a second copy that runs beside the first finds it taken and says so.
"""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from shutil import which
from uuid import uuid4

import pytest

from cellstate.model import JobSpec, TaskGroup
from tests.chaos.disorder import Disorder
from tests.conftest import absent
from tests.integration.stage import Ledger, all_facts, embedded_store, made_cell, made_crew

pytestmark = pytest.mark.server
SHORT_SECONDS, LONG_SECONDS = 4.0, 60.0
SHORT_SEED = "1977"
LEASE_MS = 500
"""A scheduler's; an agent's is four times as long."""
MEMBERS = ("batch/0", "batch/1", "agent/a", "agent/b", "agent/c")
SCRIPT = """
exec 9>>"$BOOK/$OMEGA_JOB.$OMEGA_TASK"
flock -n 9 || echo "doubled $$" >&9
echo "start $$" >&9
sleep "$LASTS"
echo "end $$" >&9
"""


def commands(books: Path, rng: Random, name: str) -> list[JobSpec]:
    """A job of a few tasks that write down when they run."""
    extra = {"command": ["sh", "-c", SCRIPT], "grace": 300}
    group = TaskGroup((100, 32), rng.randint(1, 4), 0, extra)
    seconds = rng.choice(("0.1", "0.3", "0.5", "3"))  # the last one outlives a lease
    return [JobSpec(name, name, "batch", (group,), extra={"environment": {"BOOK": str(books), "LASTS": seconds}})]


def check_books(books: Path, jobs: Sequence[JobSpec], ledger: Ledger) -> None:
    """Every task ran to its end, never twice at the same time, and no oftener than it was placed."""
    for job in jobs:
        for task in range(job.total):
            lines = [line.split()[0] for line in (books / f"{job.id}.{task}").read_text().splitlines()]
            assert "doubled" not in lines, (job.id, task, lines)
            assert "end" in lines, (job.id, task, lines)
            assert lines.count("start") <= ledger.placed[job.id, "0", task], (job.id, task, lines)


def run(seed: str, seconds: float, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disorder for so long; what was done is shown when something is wrong afterwards."""
    if which("flock") is None:
        absent("no flock program")
    sys.stdout.write(f"OMEGA_CHAOS_SEED={seed}\n")
    books, logs = place / "books", place / "logs"
    books.mkdir()
    monkeypatch.setenv("OMEGA_STATE", str(place / "state"))
    with (
        embedded_store() as store,
        made_cell(store.url, "chaos", keep_jobs=200_000) as cell,
        made_crew(cell, store.url, logs, *MEMBERS, lease_ms=LEASE_MS) as group,
    ):
        disorder = Disorder(
            store, cell, group, Random(f"{seed}/chaos/agents"), MEMBERS, partial(commands, books), wave_seconds=0.3,
            machines=0, executor_halt_seconds=3 * LEASE_MS / 1000 * 2,
        )  # fmt: skip
        try:
            disorder.run(seconds)
            check_books(books, disorder.jobs, Ledger.of(all_facts(cell)))
        finally:
            sys.stdout.write("\n".join([*disorder.done, f"{len(disorder.jobs)} jobs", ""]))
            for log in sorted(logs.glob("*.log")):
                sys.stdout.write(f"{log.name}: {log.read_text()[-2000:]}\n")
        assert any(act.startswith("kill -9 agent/") for act in disorder.done)


def test_commands_run_once_at_a_time_in_a_short_disorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(os.environ.get("OMEGA_CHAOS_SEED", SHORT_SEED), SHORT_SECONDS, tmp_path, monkeypatch)


@pytest.mark.chaos
def test_commands_run_once_at_a_time_in_a_long_disorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(os.environ.get("OMEGA_CHAOS_SEED", uuid4().hex[:8]), LONG_SECONDS, tmp_path, monkeypatch)
