"""Random faults while agents run commands: each task is run by one process at a time, and ends once (book.py)."""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from omega.cellstate.model import JobSpec
from omega.cellstate.redis import RedisCell
from tests.chaos.book import Book
from tests.chaos.disorder import Disorder
from tests.integration.ledger import Ledger
from tests.integration.stage import all_facts, embedded_store, made_cell, started_processes

pytestmark = pytest.mark.server
SHORT_SECONDS, LONG_SECONDS = 3.0, 60.0
SHORT_SEED = "1977"
LEASE_MS = 500
"""A scheduler's; an agent's is four times as long."""
MEMBERS = ("batch/0", "batch/1", "agent/a", "agent/b", "agent/c")


def commands(book: Book, rng: Random, name: str) -> list[JobSpec]:
    """A job of a few tasks that record when they run."""
    return [book.job(name, rng.randint(1, 4), rng.choice((0.1, 0.3, 0.5, 3)))]  # the last one outlives a lease


def check_book(book: Book, cell: RedisCell, jobs: Sequence[JobSpec]) -> None:
    """Every task ran to its end, never twice at the same time, and no oftener than it was placed."""
    facts = all_facts(cell)
    account, ledger = book.compare_facts(facts, jobs), Ledger.of(facts)
    assert account.clean, account
    for job in jobs:
        for task in range(job.total):
            assert len(book.page(job.id, task).starts) <= ledger.placed[job.id, "0", task], (job.id, task)


def run(seed: str, seconds: float, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disorder for so long; what was done is shown when something is wrong afterwards."""
    sys.stdout.write(f"OMEGA_CHAOS_SEED={seed}\n")
    book, logs = Book.new(place / "book"), place / "logs"
    monkeypatch.setenv("OMEGA_STATE", str(place / "state"))
    with (
        embedded_store() as store,
        made_cell(store.url, "chaos", keep_jobs=200_000) as cell,
        started_processes(cell, store.url, logs, *MEMBERS, lease_ms=LEASE_MS) as group,
    ):
        disorder = Disorder(
            store,
            cell,
            group,
            Random(f"{seed}/chaos/agents"),
            MEMBERS,
            partial(commands, book),
            wave_seconds=0.3,
            machines=0,
            executor_halt_seconds=3 * LEASE_MS / 1000 * 2,
        )
        try:
            disorder.run(seconds)
            check_book(book, cell, disorder.jobs)
        finally:
            sys.stdout.write("\n".join([*disorder.done, f"{len(disorder.jobs)} jobs", ""]))
            for log in sorted(logs.glob("*.log")):
                sys.stdout.write(f"{log.name}: {log.read_text()[-2000:]}\n")
        assert any(act.startswith("kill -9 agent/") for act in disorder.done)


@pytest.mark.chaos
def test_commands_run_once_at_a_time_in_a_short_disorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(os.environ.get("OMEGA_CHAOS_SEED", SHORT_SEED), SHORT_SECONDS, tmp_path, monkeypatch)


@pytest.mark.chaos
def test_commands_run_once_at_a_time_in_a_long_disorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(os.environ.get("OMEGA_CHAOS_SEED", uuid4().hex[:8]), LONG_SECONDS, tmp_path, monkeypatch)
