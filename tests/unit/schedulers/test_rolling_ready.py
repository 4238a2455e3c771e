"""Rolling updates of jobs with a readiness command, and of services whose new tasks use up their restarts."""

from omega.cellstate.tasks import EndKind, HealthOf, HealthReport, HealthState, TaskEnd
from tests.unit.schedulers.test_rolling import STEP_MS, Site


def test_a_task_with_a_readiness_command_counts_when_it_was_ready_for_long_enough() -> None:
    site = Site(2, room=2, healthy_ms=2 * STEP_MS)
    site.health["health"] = {"command": ["probe"], "healthy_after": 2 * STEP_MS}
    site.update("new", 2)

    def ready(*tasks: int) -> None:
        ((placement, machine, _),) = [run for run in site.job.groups[1].runs if not run[2]]
        states = [HealthOf(placement, task, HealthState.READY) for task in tasks]
        site.cell.tasks.report_health(HealthReport(job="a", machine=machine, tasks=states), site.now)

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


def test_a_new_task_between_two_attempts_does_not_count() -> None:
    site = Site(2, room=3, healthy_ms=2 * STEP_MS)
    site.update("new", 2)
    site.step()
    site.tick()

    def report(*states: HealthState) -> None:
        (placement, machine, _) = site.job.groups[1].runs[0]
        tasks = [HealthOf(placement, 0, state) for state in states]
        site.cell.tasks.report_health(HealthReport(job="a", machine=machine, tasks=tasks), site.now)

    report(HealthState.DOWN)
    for _ in range(5):
        site.step()
        site.tick()
    assert site.running() == {"old": 1, "new": 1}, "its command fails and waits to be started again"
    report()
    assert site.until_settled() >= 1
    assert site.running() == {"old": 0, "new": 2}


def test_a_new_task_that_used_up_its_restarts_fails_the_version() -> None:
    site = Site(2, room=3, healthy_ms=2 * STEP_MS)
    site.update("new", 2)
    site.step()
    site.tick()
    (placement, machine, _) = site.job.groups[1].runs[0]
    site.cell.executors.end([TaskEnd(machine, placement, EndKind.RETRIED)], site.now, "e0")
    site.step()
    assert site.cell.jobs.updates() == {"a": "stalled of its 1 new tasks 1 failed"}
    site.update("old", 2, again=True)
    assert site.until_settled() >= 1
    assert site.running() == {"old": 2, "new": 0}
