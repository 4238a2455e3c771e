"""Rolling updates of jobs with a readiness command."""

from omega.cellstate.health import HealthOf, HealthReport, HealthState
from tests.unit.schedulers.test_rolling import STEP_MS, Site


def test_a_task_with_a_readiness_command_counts_when_it_was_ready_for_long_enough() -> None:
    site = Site(2, room=2, healthy_ms=2 * STEP_MS)
    site.health["health"] = {"command": ["probe"], "healthy_after": 2 * STEP_MS}
    site.update("new", 2)

    def ready(*tasks: int) -> None:
        ((placement, machine, _),) = [run for run in site.job.groups[1].runs if not run[2]]
        states = [HealthOf(placement, task, HealthState.READY) for task in tasks]
        site.cell.report_health(HealthReport(job="a", machine=machine, tasks=states), site.now)

    for _ in range(5):
        site.step()
        site.tick()
    assert site.running() == {"old": 1, "new": 1}, "it is up, and never was ready"
    ready(0)
    site.step()
    ready()
    site.step()
    site.step()
    ready(0)
    site.step()
    site.step()
    assert site.running() == {"old": 1, "new": 1}, "it was not ready in between"
    site.step()
    site.tick()
    assert site.running() == {"old": 0, "new": 2}
