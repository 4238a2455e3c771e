"""``omega bench blocked`` in small: the shape of its document, and that blocked jobs are blocked."""

import pytest

from benchmarks.blocked import LEAST, BusyCell, Settings, blocked_jobs, measure_waking
from benchmarks.store import Store
from tests.benchmarks.test_command import run


def test_one_freed_machine_costs_one_attempt_however_many_sleep() -> None:
    for sleepers in (10, 500):
        found = measure_waking(sleepers, 50)
        assert (found["sleepers"], found["attempts"], found["placed"]) == (sleepers, 1, 1)


def test_blocked_jobs_are_of_so_many_shapes() -> None:
    jobs = list(blocked_jobs(10, 4))
    assert len({job.groups[0].need for job in jobs}) == 4
    assert min(job.groups[0].need[0] for job in jobs) == LEAST


@pytest.mark.server
@pytest.mark.chaos
def test_a_busy_cell_is_watched_once_the_blocked_jobs_sleep(store: Store) -> None:
    settings = Settings(machines=60, schedulers=1, blocked=30, seconds=1.0)
    run = BusyCell(store, settings).hold(30)
    assert isinstance(run["tasks_placed"], int)
    assert run["tasks_placed"] > 0
    cell = store.open_cell()
    left = [job for job in cell.jobs.all() if job.name.startswith("blocked")]
    cell.close()
    assert [job.unplaced for job in left] == [1] * 30


def test_wrong_usage_is_told() -> None:
    assert run("blocked", "--blocked", "0").exit_code == 2
