"""Rolling updates of jobs whose tasks end, after resizes, and of jobs that cannot be updated."""

from dataclasses import replace

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobState
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.schedulers.sizing import PLAN
from omega.updating import job_update
from tests.unit.schedulers.test_rolling import STEP_MS, Site


def finish(site: Site, group: int, tasks: int) -> None:
    for placement, machine, _ in site.job.groups[group].runs[:tasks]:
        (run,) = [run for run in site.cell.machines.runs([machine]) if run.placement == placement]
        first = run.tasks.partition("-")[0]
        site.cell.executors.end([TaskEnd(machine, placement, EndKind.FINISHED, first)], site.now, "e0")


def test_tasks_that_finish_count_as_available_and_are_not_run_again() -> None:
    site = Site(10, room=10, kind="batch", healthy_ms=2 * STEP_MS)
    for _ in range(3):
        finish(site, 0, 1)
    site.update("new", 10)
    for _ in range(60):
        site.step()
        site.tick()
        finish(site, -1, 1)  # before it has stayed up for long enough
        if site.job.state > JobState.HELD:
            break
    groups = site.job.groups
    assert site.job.state is JobState.DONE
    assert [group.finished for group in groups] == [3, 7]
    site.step()
    assert site.cell.jobs.updates() == {}


def test_a_second_update_runs_none_again_that_finished_before_the_first() -> None:
    site = Site(6, room=6, kind="batch")
    finish(site, 0, 1)
    site.update("new", 6)
    site.until_settled()
    finish(site, 1, 1)
    site.update("newest", 6)
    site.until_settled()
    assert [(group.finished, group.placed) for group in site.job.groups] == [(1, 0), (1, 0), (0, 4)]


def test_an_update_takes_back_a_resize() -> None:
    site = Site(3, room=9)
    site.update("old", 5)
    site.until_settled()
    site.cell.jobs.resize("a", {0: 2}, site.now, "ada")
    site.update("old", 5)
    site.until_settled()
    assert site.running() == {"old": 5}


@pytest.mark.parametrize(
    ("kind", "max_down", "how", "reason"),
    [
        ("service", 1, EndKind.FAILED, "of its 1 new tasks 1 failed: exit 3 (1)"),
        ("service", 3, EndKind.FAILED, "of its 3 new tasks 3 failed: exit 3 (3)"),
        ("service", 3, EndKind.FINISHED, "of its 3 new tasks 3 ended"),
        ("batch", 3, EndKind.FAILED, "of its 3 new tasks 3 failed: exit 3 (3)"),
        ("batch", 3, EndKind.FINISHED, ""),
    ],
)
def test_an_update_of_a_job_that_ended_with_its_new_tasks(kind: str, max_down: int, how: EndKind, reason: str) -> None:
    site = Site(max_down, room=3, max_down=max_down, kind=kind, healthy_ms=10 * STEP_MS)
    site.update("new", max_down)
    site.step()
    site.tick()
    why, runs = "exit 3" if how is EndKind.FAILED else "", site.job.groups[1].runs
    ends = [TaskEnd(machine, placement, how, "*", why) for placement, machine, leaving in runs if not leaving]
    site.cell.executors.end(ends, site.now, "e0")
    assert site.job.state is JobState.DONE
    site.step()
    assert site.cell.jobs.updates() == ({"a": f"stalled {reason}"} if reason else {})


def test_mapreduce_jobs_are_not_updated() -> None:
    site = Site(1, room=1)
    spec = replace(site.spec("new", 1), spec={PLAN: {}})
    with pytest.raises(BadInput, match="MapReduce job share their files"):
        job_update(replace(site.job, spec={PLAN: {}}), spec)
