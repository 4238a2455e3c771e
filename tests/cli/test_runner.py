"""Jobs with a task runner: their fields, and the machines that take them."""

from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.live.agent import runners
from omega.schedulers import registry
from omega.schedulers.registry import RegistryEntry
from tests.cli.conftest import Omega, join

JOB = """
name: boxed
tasks:
  - runner: podman
    image: alpine:3
    command: [echo, hi]
"""


@pytest.fixture
def machines(cell: RedisCell) -> RedisCell:
    """Five machines without runners, and m5 with one."""
    join(cell, 5)
    cell.machines.join("here", [MachineSpec("m5", (4000, 4096), {"runner.podman": "5.2"})], 0)
    return cell


def test_only_machines_with_the_runner_take_the_job(omega: Omega, machines: RedisCell, tmp_path: Path) -> None:
    (tmp_path / "boxed.yaml").write_text(JOB + "simulate: true\n")
    (planned,) = omega.json("job", "plan", str(tmp_path / "boxed.yaml"))["jobs"]
    assert [each["machine"] for each in planned["placements"]] == ["m5"]
    group: Any = {"command": ["x"], "runner": "docker", "image": "y"}
    typed = JobSpec("t", "typed", "batch", (TaskGroup((1, 1), 1, 0, group),), spec={"simulate": True})
    machines.jobs.submit([typed], 0, "ada")
    why = omega.json("job", "why", "typed")
    assert why["reason"] == "CONSTRAINT"
    assert "constraint has runner.docker" in {step["what"] for step in why["groups"][0]["steps"]}
    (tmp_path / "other.yaml").write_text(JOB.replace("podman", "docker") + "simulate: true\n")
    said = omega.run("job", "submit", str(tmp_path / "other.yaml"), "--detach").stderr
    assert "runner.docker" in said


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("runner: podman", "runner: Pod man", "tasks[0].runner: runner 'Pod man' is no name; write for example podman"),
        ("runner: podman\n", "grace: 1s\n", "tasks[0]: image: is for a runner; write the runner too, such as podman"),
        ("command: [echo, hi]", "duration: 1s", "tasks[0]: runner: runs commands; write a command too"),
        ("alpine:3", "--privileged", "tasks[0].image: '--privileged' is no image; write for example alpine:3"),
    ],
)
def test_errors_of_the_fields(
    omega: Omega, machines: RedisCell, tmp_path: Path, before: str, after: str, error: str
) -> None:
    (tmp_path / "boxed.yaml").write_text(JOB.replace(before, after))
    assert error in omega.error("job", "submit", str(tmp_path / "boxed.yaml"))


def test_a_runner_of_another_package_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(name: str, target: str) -> RegistryEntry:
        return RegistryEntry(axis="runner", name=name, target=target, package="x", version="1")

    monkeypatch.setattr(
        registry,
        "offers",
        lambda _: {
            "good": entry("good", "tests.cli.test_runner:Good"),
            "absent": entry("absent", "tests.cli.test_runner:Absent"),
            "raises": entry("raises", "tests.cli.test_runner:Raises"),
            "nowhere": entry("nowhere", "no.such:thing"),
        },
    )
    found, attributes = runners.found()
    assert list(found) == ["good"]
    assert attributes == {"runner.good": "1.0"}


class Good:
    """Says a version with what must not be printed."""

    def available(self) -> str | None:
        return "1.\x1b0"


class Absent(Good):
    """Is not here."""

    def available(self) -> str | None:
        return None


class Raises(Good):
    """Raises."""

    def available(self) -> str | None:
        raise OSError("no luck")


def test_the_runners_of_omega_are_registered() -> None:
    assert {"bubblewrap", "docker", "podman", "virtual-environment"} <= set(registry.offers("runner"))
    found, attributes = runners.found()
    assert attributes["runner.virtual-environment"].startswith("3.")
    assert set(found) == {name.removeprefix("runner.") for name in attributes}


def test_job_run_takes_a_runner_and_its_image(omega: Omega, machines: RedisCell) -> None:
    answer = omega.json("job", "run", "--runner", "podman", "--image", "alpine:3", "--", "echo", "hi")
    job = machines.jobs.get(answer["jobs"][0]["id"])
    assert job is not None
    assert job.spec["groups"] == [{"command": ["echo", "hi"], "runner": "podman", "image": "alpine:3"}]
    for words in (("--image", "alpine:3", "--", "x"), ("--runner", "podman", "--name", "n")):
        assert "--image is for a --runner" in omega.error("job", "run", *words, code=2)
    assert "runner 'P' is no name" in omega.error("job", "run", "--runner", "P", "--", "x")
