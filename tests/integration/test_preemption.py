"""Precedence among real processes: who is more important is placed, who had to go comes back, gangs never deadlock."""

from pathlib import Path

import pytest

from omega.cellstate.model import Gang, JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    check_all_ended,
    made_cell,
    seen,
    started_processes,
    submit,
    unfinished,
    until,
    words_of,
)

pytestmark = pytest.mark.server
MACHINES = 3
"""Of 8 cpu each."""


def job(name: str, count: int, cpu: int, precedence: int = 0, *, ms: int, kind: str, gang: Gang = Gang.NO) -> JobSpec:
    return JobSpec(name, name, kind, (TaskGroup((cpu, 64), count, ms),), precedence, gang)


def running(cell: RedisCell, job_id: str) -> int:
    found = cell.jobs.get(job_id)
    return sum(group.placed for group in found.groups) if found else 0


def test_a_more_important_job_takes_a_full_cell_and_the_victims_come_back(store_url: str, tmp_path: Path) -> None:
    low, high = job("low", 24, 1_000, ms=700, kind="batch"), job("high", 2, 6_000, 100, ms=100, kind="service")
    with (
        made_cell(store_url, "precedence", MACHINES) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0", "service/0", f"simulated/{DEFAULT_EXECUTOR}") as group,
    ):
        submit(cell, [low])
        until(lambda: running(cell, "low") == 24, "the cell is full")
        submit(cell, [high])
        until(lambda: running(cell, "high") == 2 or not unfinished(cell), "the important job is placed")
        until(lambda: not unfinished(cell), "every task runs to its end")
        ledger = check_all_ended(cell, [low, high])
        evicted = seen(cell, "evicted")
        assert {(fact.event[3], fact.event[-1], fact.by) for fact in evicted} == {
            ("low", "precedence:high", "service/0"),
        }
        assert sum(ledger.returned.values()) == 12, "as many as were in the way and no more"
        assert all(words_of(group, member) == [] for member in group.members)


@pytest.mark.parametrize("kind", ["batch", "service"])
@pytest.mark.chaos
def test_gangs_that_each_need_more_than_half_of_the_cell_take_turns(store_url: str, tmp_path: Path, kind: str) -> None:
    """Two schedulers; service schedulers evict one another's gangs by precedence, and still all come to their end."""
    gangs = [job(f"g{i}", 14, 1_000, i % 3, ms=20, kind=kind, gang=Gang.YES) for i in range(12)]
    with (
        made_cell(store_url, f"gangs-{kind}", MACHINES) as cell,
        started_processes(cell, store_url, tmp_path, f"{kind}/0", f"{kind}/1", f"simulated/{DEFAULT_EXECUTOR}"),
    ):
        submit(cell, gangs)
        until(lambda: not unfinished(cell), "every gang runs to its end")
        ledger = check_all_ended(cell, gangs)
        assert set(ledger.by) <= {f"{kind}/0", f"{kind}/1"}
        assert {cell.jobs.get(gang.id).state for gang in gangs} == {4}  # type: ignore[union-attr]
