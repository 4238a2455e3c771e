"""The order for a task: the job's words, what every task gets, nothing of the agent's own."""

from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.model import GroupStatus, Job
from omega.cellstate.resources import Dimensions
from omega.jobfile.reader import JobFile, load
from omega.live.agent.orders import GRACE_MS, KEEP_OUTPUT, Site, order
from omega.live.agent.places import PlacementKey
from omega.live.runners.runner import Runner, RunnerCommand, RunnerTask
from omega.upkeep import OF_SERVICES

PLACE = Path("/state/tasks/j.1.7.3")


def job(kind: str = "batch", **spec: Any) -> Job:
    groups = [GroupStatus(need=(500, 64), total=9, unplaced=0, placed=9, waiting="-") for _ in range(2)]
    return Job(id="j", name="crunch", kind=kind, order=1, groups=groups, spec=spec)


def ordered(spec: dict[str, Any], *there: str, own: dict[str, str] | None = None, **around: str) -> dict[str, Any]:
    site = Site("h1", 5, Path("/state/lease"), Dimensions(), around, lambda path: path in there)
    return order(job(**spec), PlacementKey("j", 1, 7, 3), PLACE, site, own or {})


def test_a_job_that_says_little() -> None:
    found = ordered(
        {"groups": [{}, {"command": ["true"]}]},
        PATH="/bin",
        OMEGA_STORE="redis://secret",
        PWD="/a",  # noqa: S106 - a directory
        OLDPWD="/b",
    )
    assert found == {
        "command": ["true"],
        "environment": {
            "PATH": "/bin",
            "OMEGA_JOB": "j",
            "OMEGA_JOB_NAME": "crunch",
            "OMEGA_GROUP": "1",
            "OMEGA_GROUP_NUMBER": "1",
            "OMEGA_GENERATION": "1",
            "OMEGA_TASK": "7",
            "OMEGA_MACHINE": "h1",
            "OMEGA_PLACEMENT": "3",
            "OMEGA_TASK_DIRECTORY": "/state/tasks/j.1.7.3",
        },
        "directory": "/state/tasks/j.1.7.3/work",
        "restart": {"attempts": 0, "delay_ms": 1000, "factor": 2.0, "interval_ms": 0, "elsewhere": False},
        "final": None,
        "time_limit_ms": 0,
        "grace_ms": GRACE_MS,
        "log_bytes": KEEP_OUTPUT // 2,
        "cpu_millicores": 500,
        "memory_bytes": 64 << 20,
        "cgroup": "",
        "user": None,
        "lease": "/state/lease",
        "incarnation": 5,
        "checks": {
            "ready": {"command": [], "grace_ms": 0, "every_ms": 5_000, "timeout_ms": 10_000},
            "alive": {"command": [], "grace_ms": 0, "every_ms": 10_000, "timeout_ms": 1_000, "failures": 3},
            "max_down": 1,
            "proven_ms": 10_000,
        },
    }


def test_a_copy_has_the_identity_of_its_original_and_a_directory_of_its_own() -> None:
    copied = job(groups=[{"command": ["true"]}] * 2, directory="/data")
    copied.groups[1].copies = True
    site = Site("h1", 5, Path("/state/lease"), Dimensions(), {}, bool)
    original, copy = (order(copied, PlacementKey("j", number, 7, 3), PLACE, site, {}) for number in (0, 1))
    assert (original["directory"], copy["directory"]) == ("/data", "/state/tasks/j.1.7.3/work")
    assert copy["environment"] == {**original["environment"], "OMEGA_COPY": "1"}
    assert original["environment"]["OMEGA_PROGRESS"] == original["progress"] == str(PLACE / "work" / ".omega-progress")


class Box(Runner):
    """Starts the command in a container that has the task's directory alone."""

    def available(self) -> str:
        return "1"

    def start(self, task: RunnerTask) -> RunnerCommand:
        return RunnerCommand(list(task.command), task.environment)


@pytest.mark.parametrize(("about", "has"), [({}, True), ({"directory": "/data"}, False)])
def test_a_container_has_the_file_for_progress_in_a_directory_of_its_own_alone(
    about: dict[str, Any], *, has: bool
) -> None:
    copied = job(groups=[{"command": ["true"], "runner": "box"}] * 2, **about)
    copied.groups[1].copies = True
    site = Site("h1", 5, Path("/state/lease"), Dimensions(), {}, bool, runners={"box": Box()})
    found = order(copied, PlacementKey("j", 0, 7, 3), PLACE, site, {})
    assert ("progress" in found, "OMEGA_PROGRESS" in found["environment"]) == (has, has)


def test_a_job_that_says_all() -> None:
    said = {
        "name": "work",
        "command": ["a", "b"],
        "restart": {"attempts": 3, "delay": 5, "factor": 1.5},
        "time_limit": 9,
        "grace": 0,
        "keep_output": 4096,
    }
    found = ordered({"groups": [{}, said], "environment": {"A": "1", "PATH": "/mine"}}, PATH="/bin")
    assert found["command"] == ["a", "b"]
    restart = {"attempts": 3, "delay_ms": 5, "factor": 1.5, "interval_ms": 0, "elsewhere": False}
    assert found["restart"] == restart
    assert (found["time_limit_ms"], found["grace_ms"], found["log_bytes"]) == (9, 0, 2048)
    surroundings = found["environment"]
    assert (surroundings["A"], surroundings["PATH"], surroundings["OMEGA_GROUP"]) == ("1", "/mine", "work")


def test_where_it_runs() -> None:
    assert ordered({"directory": "/data", "submitted_in": "/home/ada"}, "/home/ada")["directory"] == "/data"
    assert ordered({"submitted_in": "/home/ada"}, "/home/ada")["directory"] == "/home/ada"
    assert ordered({"submitted_in": "/home/ada"})["directory"] == str(PLACE / "work"), "not on this machine"


def test_only_omegas_own_commands_are_told_of_the_store() -> None:
    found = ordered({}, own={"OMEGA_STORE": "redis://x"})
    assert (found["environment"]["OMEGA_STORE"], found["final"]) == ("redis://x", 65)


def test_tasks_of_an_array_know_their_index() -> None:
    found = ordered({"groups": [{}, {"array": {"first": 10, "step": 5}}]})
    assert found["environment"]["OMEGA_ARRAY_INDEX"] == "45"


def test_the_tasks_of_a_service_restart() -> None:
    assert ordered({"kind": "service"})["restart"] == OF_SERVICES._asdict()
    refused = {"restart": {"attempts": 0, "elsewhere": False}}
    found = ordered({"kind": "service", "groups": [{}, refused]})["restart"]
    assert (found["attempts"], found["elsewhere"]) == (0, False)


def test_the_liveness_command_is_that_of_the_group() -> None:
    said = "health: {command: [probe], interval: 2s, timeout: 3s, failures: 4, grace: 5s}"
    (read,) = load([JobFile("a.yaml", f"name: a\ntasks: [{{{said}}}]")], Dimensions(), lambda: "a")
    alive = ordered({"groups": [{}, read.groups[0].spec]})["checks"]["alive"]
    assert alive == {"command": ["probe"], "every_ms": 2_000, "timeout_ms": 3_000, "failures": 4, "grace_ms": 5_000}


def test_the_second_groups_of_a_name_are_its_second_generation() -> None:
    names: dict[str, Any] = {"groups": [{"name": "web"}, {"name": "web"}], "targets": [{"group": 1}, {"group": 0}]}
    environment = ordered(names)["environment"]
    assert (environment["OMEGA_GENERATION"], environment["OMEGA_GROUP"]) == ("2", "web")


def test_the_health_command_is_the_one_of_the_jobs_updates() -> None:
    found = ordered({"update": {"max_down": 1, "health": {"command": ["probe"], "grace": 700, "healthy_after": 9}}})
    ready = found["checks"]["ready"]
    assert (ready["command"], ready["grace_ms"], found["checks"]["alive"]["command"]) == (["probe"], 700, [])


def test_what_is_meant_to_be_played_sleeps() -> None:
    site = Site("h1", 5, Path("/state/lease"), Dimensions(), {}, lambda _: False)
    played = job(groups=[{}, {}])
    played.groups[1].duration_ms = 1_500
    assert order(played, PlacementKey("j", 1, 0, 3), PLACE, site, {})["command"] == ["sleep", "1.5"]
    assert ordered({})["command"] == []


def test_memory_is_limited_to_the_amount_as_written() -> None:
    """Placed by 317 MiB, which is 332,398,592 bytes."""
    text = '{"name": "n", "tasks": [{"command": ["true"], "resources": {"memory": "333MB"}}]}'
    (spec,) = load([JobFile("f", text)], Dimensions(), lambda: "j")
    assert spec.groups[0].need == (0, 317)
    group = {"groups": [{}, dict(spec.groups[0].spec)]}
    assert ordered(group)["memory_bytes"] == 333_000_000
