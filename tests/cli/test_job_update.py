"""`omega job update`: tasks of a running job are replaced by the schedulers, as their heartbeat would have it."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.schedulers.rolling import Rollouts
from tests.cli.conftest import Omega, eventually, executor, join, repeating, scheduler

JOB = """
name: web
kind: service
simulate: true
update: {{max_down: {down}, health: {{healthy_after: {healthy}}}}}
tasks:
  - {{name: front, count: {count}, resources: {{cpu: {cpu}}}, duration: 1h, command: [serve, "{version}"]}}
"""


def job(version: int, count: int = 3, *, cpu: int = 1, down: int = 1, healthy: str = "0s") -> str:
    return JOB.format(version=version, count=count, cpu=cpu, down=down, healthy=healthy)


def looked_after(cell: RedisCell, kind: str = "service") -> AbstractContextManager[None]:
    """What the heartbeat of a scheduler does for updates, more often."""

    def look(own: RedisCell) -> Callable[[], object]:
        rollouts = Rollouts(kind, f"{kind}/0")

        def step() -> None:
            rollouts.step(own, "1" * 256, time.time_ns() // 1_000_000)
            time.sleep(0.01)

        return step

    return repeating(cell, look)


@pytest.fixture
def running(omega: Omega, cell: RedisCell) -> Iterator[Callable[[], dict[str, int]]]:
    """A service of three tasks that run; call it for its tasks that are placed, by version."""
    join(cell, 3)

    def placed() -> dict[str, int]:
        found: dict[str, int] = {}
        for group in omega.json("job", "status", "web")["groups"]:
            version = group["spec"]["command"][1]
            found[version] = found.get(version, 0) + group["counts"]["placed"]
        return {version: count for version, count in found.items() if count}

    omega.json("job", "submit", "-", given=job(1))
    with scheduler(cell, "service/0"), executor(cell), looked_after(cell):
        eventually(lambda: placed() == {"1": 3})
        yield placed


def test_all_tasks_are_replaced(omega: Omega, running: Callable[[], dict[str, int]]) -> None:
    told = omega.run("job", "update", "-", "--follow", given=job(2, cpu=2)).stdout
    assert told.splitlines()[-1].endswith("updated")
    assert running() == {"2": 3}
    found = omega.json("job", "status", "web")
    assert [(group["need"]["cpu"], group["superseded"]) for group in found["groups"]] == [(1000, True), (2000, False)]
    assert omega.text("job", "status", "web").count("  front ") == 3, "only in the table of runs"
    assert found["update"] == {"update": "finished", "reason": None, "to_replace": 0, "tasks": 3}
    said = omega.text("events")
    assert "began to update web (" in said
    assert "  updated web (" in said
    assert omega.json("cell", "verify")["ok"]


def test_it_says_what_it_will_do_and_how_far_it_is(omega: Omega, running: Callable[[], dict[str, int]]) -> None:
    said = omega.run("job", "update", "-", given=job(2, healthy="1h")).stdout
    assert "  web  3 tasks to be replaced · modify index " in said
    eventually(lambda: running() == {"1": 2, "2": 1})
    assert "update        rolling: 1 of 3 tasks replaced" in omega.text("job", "status", "web")
    assert omega.error("job", "resize", "web", "5").startswith("job web: an update of it is in progress")


def test_the_same_again_replaces_nothing(omega: Omega, running: Callable[[], dict[str, int]]) -> None:
    found = omega.json("job", "update", "-", "--follow", given=job(1))["jobs"][0]
    assert (found["replaces"], found["update"]) == (0, "finished")
    assert omega.json("job", "update", "-", "--follow", given=job(1, 4))["jobs"][0]["replaces"] == 0
    eventually(lambda: running() == {"1": 4})


@pytest.mark.chaos
def test_it_stops_and_says_so_when_new_tasks_fail(
    omega: Omega, cell: RedisCell, running: Callable[[], dict[str, int]]
) -> None:
    omega.json("job", "update", "-", given=job(2, healthy="1h"))
    eventually(lambda: running() == {"1": 2, "2": 1})
    found = cell.jobs.get(cell.jobs.id_of("web") or "")
    assert found is not None
    placement, machine, _ = found.groups[1].runs[0]
    cell.executors.end([TaskEnd(machine, placement, EndKind.FAILED, "*", "exit 3")], 1, "here")
    eventually(lambda: cell.jobs.updates()[found.id].startswith("stalled"))
    assert "update        stalled: of its 1 new tasks 1 failed: exit 3 (1)" in omega.text("job", "status", "web")
    assert "stopped the update of web (" in omega.text("events")
    assert running() == {"1": 2}
    omega.json("job", "update", "-", "--follow", given=job(1))
    assert running() == {"1": 3}


def test_new_tasks_that_fit_nowhere_stop_it_after_a_while(omega: Omega, running: Callable[[], dict[str, int]]) -> None:
    wide = job(2, cpu=1_000).replace("max_down: 1", "max_down: 1, progress_deadline: 100ms")
    told = omega.run("job", "update", "-", "--follow", given=wide, code=1).stdout.splitlines()
    assert "  stalled: no progress for " in told[-1]
    assert told[-1].endswith(" s: of its 1 new tasks 1 found no machine")
    assert running() == {"1": 2}


@pytest.mark.chaos
def test_steps_of_an_update_do_not_stand_in_the_way_of_people(
    omega: Omega, running: Callable[[], dict[str, int]]
) -> None:
    index = omega.json("job", "update", "-", "--follow", given=job(2))["jobs"][0]["modify_index"]
    assert running() == {"2": 3}
    omega.json("job", "stop", "web", "--check-index", str(index))


def test_a_job_is_updated_under_the_index_that_was_read(omega: Omega, running: Callable[[], dict[str, int]]) -> None:
    index = omega.json("job", "status", "web")["modify_index"]
    omega.text("job", "resize", "web", "2")
    said = omega.error("job", "update", "-", "--check-index", str(index), given=job(2))
    assert "modified concurrently, its modify index is" in said
    now = omega.json("job", "status", "web")["modify_index"]
    assert omega.json("job", "submit", "-", "--check-index", str(now), given=job(2))["jobs"][0]["replaces"] == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            job(2).replace("kind: service", "kind: batch"),
            "job web: an update keeps its kind (service); to change it, submit",
        ),
        (job(2) + "precedence: 5", "job web: an update keeps its precedence (0); to change it, submit a new job"),
        (job(2) + "gang: true", "job web: an update keeps its gang (no); to change it, submit a new job"),
        (job(2).replace("front", "back"), "job web: an update keeps its groups, front; submit others as a new job"),
        (job(2).replace("web", "db"), "job db: no live job of that name in cell "),
        ("[]", "stdin: no job in it"),
        ("[{name: a, tasks: [{}]}, {name: b, tasks: [{}]}]", "stdin: 2 jobs; update one at a time"),
        (job(2, down=0), "stdin:5: update.max_down: 0 is not allowed; want at least 1"),
    ],
)
def test_what_no_update_can_do(omega: Omega, given: str, said: str) -> None:
    omega.json("job", "submit", "-", given=job(1))
    assert omega.error("job", "update", "-", given=given).startswith(said)


@pytest.mark.parametrize(("count", "down"), [(1, 1), (3, 3)])
@pytest.mark.chaos
def test_a_version_whose_tasks_all_fail_is_not_called_updated_and_the_way_back_restarts_the_service(
    omega: Omega, cell: RedisCell, count: int, down: int
) -> None:
    join(cell, 3)
    first = omega.json("job", "submit", "-", given=job(1, count, down=down))["jobs"][0]["id"]
    with scheduler(cell, "service/0"), executor(cell), looked_after(cell):
        eventually(lambda: omega.json("job", "status", "web")["summary"]["running"] == count)
        failing = job(2, count, down=down, healthy="5s").replace("duration: 1h", "duration: 50ms")
        told = omega.run("job", "update", "-", "--follow", given=failing, code=1).stdout
        assert f"stalled: of its {count} new tasks" in told.splitlines()[-1]
        assert "  updated web" not in omega.text("events")
        eventually(lambda: omega.json("job", "status", "web")["state"] in ("finished", "failed"))
        assert omega.json("job", "update", "-", "--follow", given=job(1, count))["jobs"][0]["restarts"]
        found = omega.json("job", "status", "web")
        assert (found["state"], found["version"], found["counts"]["failed"]) == ("running", 3, 0)
        assert found["id"] != first
    assert omega.json("cell", "verify")["ok"]


def test_only_services_restart_by_an_update(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.json("job", "submit", "-", given=job(1).replace("kind: service", "kind: batch"))
    omega.json("job", "stop", "web")
    message = omega.error("job", "update", "-", given=job(2).replace("kind: service", "kind: batch"))
    assert message.startswith("job web: no live job of that name")
