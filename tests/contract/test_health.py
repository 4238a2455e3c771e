"""Reports of the health of tasks: readiness is kept, the end of unhealthy tasks is granted a few at a time."""

import pytest

from omega.cellstate.tasks import EndKind, HealthAnswer, HealthOf, HealthReport, HealthState, TaskEnd
from omega.cellstate.verify import verify
from omega.queries.job_status import JobStatus
from tests.contract.conftest import AnyCell, Member, job

READY, ENDING, ASKS, DOWN = HealthState
SPAN = 1_000


@pytest.fixture
def placements(cell: AnyCell, member: Member) -> list[int]:
    """A job with two tasks on machine 0 and one on machine 1; the ids of both placements."""
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    member.place("a", (0, 2), (1, 1))
    return [placement for group in kept(cell) for placement, _, _ in group]


def kept(cell: AnyCell) -> list[tuple[tuple[int, int, bool], ...]]:
    found = cell.jobs.get("a")
    assert found is not None
    return [group.runs for group in found.groups]


def report(cell: AnyCell, machine: int, *tasks: HealthOf, max_down: int = 1, at: int = 0) -> frozenset[tuple[int, int]]:
    said = HealthReport(job="a", machine=machine, tasks=tasks, max_down=max_down, span_ms=SPAN)
    answer = cell.tasks.report_health(said, at)
    assert isinstance(answer, HealthAnswer)
    return answer.granted


def test_ready_tasks_are_those_of_the_last_report_of_each_machine(cell: AnyCell, placements: list[int]) -> None:
    first, second = placements
    report(cell, 0, HealthOf(first, 0, READY), HealthOf(first, 1, READY))
    report(cell, 1, HealthOf(second, 2, READY))
    assert cell.tasks.ready("a") == {(first, 0), (first, 1), (second, 2)}
    report(cell, 0, HealthOf(first, 1, READY))
    assert cell.tasks.ready("a") == {(first, 1), (second, 2)}
    report(cell, 0)
    report(cell, 1)
    assert cell.tasks.ready("a") == frozenset()
    assert verify(cell).ok


@pytest.mark.parametrize(("command", "ready"), [([], 2), (["check"], 1)], ids=["no command", "command"])
def test_a_service_shows_how_many_of_its_running_tasks_are_ready(
    cell: AnyCell, member: Member, command: list[str], ready: int
) -> None:
    """Of three that run one passed its readiness command, and one is down; a fourth waits."""
    update = {"health": {"command": command}} if command else {}
    cell.jobs.submit([job("a", count=4, kind="service", spec={"update": update}), job("b")], 0, "ada")
    member.place("a", (0, 2), (1, 1))
    (first, _, _), (second, _, _) = kept(cell)[0]
    report(cell, 0, HealthOf(first, 0, READY))
    report(cell, 1, HealthOf(second, 2, DOWN))
    found = {each.id: JobStatus(cell, each) for each in cell.jobs.all()}
    assert (found["a"].summary["running"], found["a"].ready, found["b"].ready) == (3, ready, None)
    assert found["a"].as_json(0)["ready"] == ready


def test_tasks_that_are_down_are_unsteady_until_their_agent_says_otherwise(
    cell: AnyCell, placements: list[int]
) -> None:
    first, second = placements
    report(cell, 0, HealthOf(first, 0, DOWN), HealthOf(first, 1, READY))
    report(cell, 1, HealthOf(second, 2, ASKS))
    assert cell.tasks.unsteady("a") == {(first, 0), (second, 2)}, "a granted one too"
    assert cell.tasks.ready("a") == {(first, 1)}
    assert report(cell, 0, HealthOf(first, 0, ASKS), HealthOf(first, 1, ASKS), max_down=3) == {(first, 0), (first, 1)}
    report(cell, 0)
    report(cell, 1)
    assert cell.tasks.unsteady("a") == frozenset()
    assert verify(cell).ok


@pytest.mark.parametrize("max_down", [0, 1, 2, 3])
def test_no_more_tasks_than_max_down_are_ended_at_once(cell: AnyCell, placements: list[int], max_down: int) -> None:
    first, second = placements
    own = report(cell, 0, HealthOf(first, 0, ASKS), HealthOf(first, 1, ASKS), max_down=max_down)
    other = report(cell, 1, HealthOf(second, 2, ASKS), max_down=max_down)
    assert len(own) + len(other) == max_down


def test_a_grant_holds_until_the_task_is_healthy_or_the_grant_expires(cell: AnyCell, placements: list[int]) -> None:
    first, second = placements
    assert report(cell, 0, HealthOf(first, 0, ASKS)) == {(first, 0)}
    assert report(cell, 0, HealthOf(first, 0, ASKS)) == {(first, 0)}, "asked again after a lost reply"
    assert report(cell, 0, HealthOf(first, 0, ENDING), at=1) == frozenset()
    assert report(cell, 1, HealthOf(second, 2, ASKS), at=SPAN - 1) == frozenset()
    assert report(cell, 1, HealthOf(second, 2, ASKS), at=SPAN) == {(second, 2)}, "the other one expired"
    report(cell, 1, HealthOf(second, 2, READY), at=SPAN)
    assert report(cell, 0, HealthOf(first, 1, ASKS), at=SPAN) == {(first, 1)}, "the other task is healthy"


def test_only_live_placements_are_granted_anything(cell: AnyCell, placements: list[int]) -> None:
    first, second = placements
    assert report(cell, 1, HealthOf(first, 0, ASKS)) == frozenset(), "it is on another machine"
    assert report(cell, 0, HealthOf(first, 2, ASKS)) == frozenset(), "the placement has other tasks"
    cell.executors.end([TaskEnd(1, second, EndKind.FAILED)], 1, "e0")
    assert report(cell, 1, HealthOf(second, 2, ASKS), HealthOf(second, 2, READY)) == frozenset()
    assert cell.tasks.ready("a") == frozenset()


def test_tasks_that_are_delayed_after_a_loss_are_down_as_well(cell: AnyCell, placements: list[int]) -> None:
    first, second = placements
    cell.executors.end([TaskEnd(1, second, EndKind.LOST)], 1, "e0")
    assert report(cell, 0, HealthOf(first, 0, ASKS)) == frozenset()
    assert report(cell, 0, HealthOf(first, 0, ASKS), max_down=2) == {(first, 0)}


def test_a_job_that_ended_leaves_nothing(cell: AnyCell, placements: list[int]) -> None:
    first, _ = placements
    report(cell, 0, HealthOf(first, 0, READY))
    cell.jobs.stop("a", 1, "ada")
    assert report(cell, 0, HealthOf(first, 0, ASKS)) == frozenset()
    assert cell.tasks.ready("a") == frozenset()


def test_a_job_that_ended_has_no_reports_of_any_machine(cell: AnyCell, placements: list[int]) -> None:
    first, second = placements
    report(cell, 0, HealthOf(first, 0, READY))
    report(cell, 1, HealthOf(second, 2, READY))
    cell.executors.end([TaskEnd(machine, each, EndKind.FINISHED) for machine, each in enumerate(placements)], 1, "e0")
    report(cell, 0)
    assert cell.tasks.ready("a") == frozenset()
