"""Task runners: what a task is promised without one holds with each of them, also for containers of a daemon."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.live.agent.agent import Agent
from omega.live.agent.runners import name_of
from omega.live.runners.containers import Docker, Podman
from omega.live.runners.local import Bubblewrap, VirtualEnvironment
from omega.live.runners.runner import Runner, RunnerCommand, RunnerTask
from tests.integration import fake_engine
from tests.integration.agent_ground import Ground, alive, grounded, look_until
from tests.integration.stage import until

pytestmark = pytest.mark.server


@dataclass
class Engine:
    """The fake engine of a test: a daemon, and a client program."""

    socket: str
    program: str

    @property
    def running(self) -> Mapping[str, int]:
        """The containers, with the process of each."""
        found: Mapping[str, int] = fake_engine.ask(self.socket, do="look")["running"]
        return found

    @property
    def asked(self) -> Mapping[str, Any]:
        """The options and words of each container, by option."""
        found: Mapping[str, Any] = fake_engine.ask(self.socket, do="look")["asked"]
        return found


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("e")
    made = Engine(str(folder / "s"), str(folder / "docker"))
    Path(made.program).write_text(f'#!/bin/sh\nexec {sys.executable} {fake_engine.__file__} {made.socket} "$@"\n')
    Path(made.program).chmod(0o755)
    before = signal.getsignal(signal.SIGTERM)
    with subprocess.Popen([sys.executable, fake_engine.__file__, made.socket, "serve"]) as daemon:
        until(Path(made.socket).exists, "the daemon listens")
        yield made
        for pid in made.running.values():
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        daemon.kill()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def ground(store_url: str, tmp_path: Path) -> Iterator[Ground]:
    with grounded(store_url, tmp_path) as made:
        yield made


def installed(runner: Runner) -> Runner:
    if not runner.available():
        pytest.skip(f"{type(runner).__name__}: not installed here, or its daemon or the kernel refuses")
    return runner


@pytest.fixture(params=["fake", "bubblewrap", "venv", "docker", "podman"])
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Runner, dict[str, str]]:
    """Each runner, with the fields that a task group of it needs."""
    match request.param:
        case "fake":
            return Docker(request.getfixturevalue("engine").program), {"image": "any"}
        case "bubblewrap":
            return installed(Bubblewrap()), {}
        case "venv":
            (tmp_path / "env" / "bin").mkdir(parents=True)
            (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
            return VirtualEnvironment(), {"image": str(tmp_path / "env")}
        case "docker":
            return installed(Docker()), {"image": "alpine:3"}
    return installed(Podman()), {"image": "docker.io/library/alpine:3"}


@dataclass
class Stage:
    """An agent with one runner, and jobs for it."""

    ground: Ground
    agent: Agent
    fields: dict[str, str]

    def run(self, script: str, **more: Any) -> str:
        fields: dict[str, Any] = {"runner": "r", **self.fields, **more}
        return self.ground.run("sh", "-c", script, **fields)

    def output(self, job: str) -> str:
        return b"".join(path.read_bytes() for path in self.place(job).glob("stdout.*")).decode()

    def place(self, job: str) -> Path:
        (found,) = self.ground.state.glob(f"agents/*/*/tasks/{job}.*")
        return found

    def said(self, job: str, text: str) -> None:
        look_until(self.agent, lambda: text in self.output(job) if self.agent.kept else False, f"{job} prints {text}")


@pytest.fixture
def stage(ground: Ground, runner: tuple[Runner, dict[str, str]]) -> Stage:
    return Stage(ground, ground.agent(runners={"r": runner[0]}), runner[1])


LOOP = "while :; do sleep 0.05; done"


def test_a_task_has_output_variables_directory_and_exit_status(stage: Stage) -> None:
    good = stage.run("echo $A $OMEGA_TASK $OMEGA_ATTEMPT; pwd; echo made > file")
    bad = stage.run("exit 7")
    again = stage.run("[ $OMEGA_ATTEMPT = 3 ] || exit 1", restart={"attempts": 5, "delay": 10, "factor": 1})
    look_until(stage.agent, lambda: stage.ground.group(good).finished, "it finishes")
    look_until(stage.agent, lambda: stage.ground.group(bad).failed, "it fails")
    look_until(stage.agent, lambda: stage.ground.group(again).finished, "it finishes at the third attempt")
    place = stage.place(good)
    assert stage.output(good) == f"b 0 1\n{place / 'work'}\n"
    assert (place / "work" / "file").read_text() == "made\n"
    assert stage.ground.told("failed") == ["exit 7"]


def test_a_stopped_task_gets_its_warning_and_its_time(stage: Stage) -> None:
    job = stage.run(f"trap 'echo bye; exit 0' TERM; echo on; {LOOP}", grace=30_000)
    stage.said(job, "on")
    stop(stage, job)
    assert stage.output(job) == "on\nbye\n"


def test_a_task_that_ignores_the_warning_is_killed_with_all_that_it_started(stage: Stage) -> None:
    job = stage.run(f"trap '' TERM; sleep 998 & setsid sleep 999 & echo on; {LOOP}", grace=200)
    stage.said(job, "on")
    stop(stage, job)
    until(lambda: not left(stage, job), "nothing is left")


def test_a_time_limit_holds(stage: Stage) -> None:
    slow = stage.run(LOOP, time_limit=300, grace=100)
    look_until(stage.agent, lambda: stage.ground.group(slow).failed, "it fails")
    assert stage.ground.told("failed") == ["time limit of 0.3 s"]
    until(lambda: not left(stage, slow), "nothing is left")


@pytest.mark.parametrize("killed", ["supervisor", "guard and supervisor"])
def test_nothing_is_left_after_a_kill(stage: Stage, killed: str) -> None:
    job = stage.run(f"echo on; {LOOP}")
    stage.said(job, "on")
    pid = int((stage.place(job) / "supervisor").read_text())
    if "guard" in killed:
        os.kill(stage.agent.guard.pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    look_until(stage.agent, lambda: stage.ground.group(job).losses, "it is lost")
    until(lambda: not left(stage, job), "nothing is left")


@pytest.mark.chaos
def test_a_task_ends_with_its_lease_though_agent_and_supervisor_stand_still(
    ground: Ground, runner: tuple[Runner, dict[str, str]]
) -> None:
    stage = Stage(ground, ground.agent(runners={"r": runner[0]}, lease_ms=3_000), runner[1])
    job = stage.run(f"trap '' TERM; echo on; {LOOP}")
    stage.said(job, "on")
    pid = int((stage.place(job) / "supervisor").read_text())
    os.kill(pid, signal.SIGSTOP)  # and nobody renews the lease from here on
    until(lambda: not left(stage, job), "the guard ended it")


def stop(stage: Stage, job: str) -> None:
    stage.ground.cell.jobs.stop(job, 0, "ada")
    stage.ground.cell.jobs.housekeep(0, "ada")
    index = stage.ground.cell.machines.index_of("h1") or 0
    look_until(stage.agent, lambda: not stage.ground.cell.machines.runs([index]), "it is gone")


def left(stage: Stage, job: str) -> list[int]:
    """The processes of a job's task, wherever they are."""
    place = stage.place(job)
    marks = {f"OMEGA_TASK_DIRECTORY={place}".encode(), f"CONTAINER={name_of(place)}".encode()}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marks & set((entry / "environ").read_bytes().split(b"\0")) and alive(int(entry.name)):
                found.append(int(entry.name))
    return found


# What concerns one runner


@pytest.mark.chaos
def test_a_container_has_its_limits_its_account_and_no_secret_in_its_words(ground: Ground, engine: Engine) -> None:
    agent = ground.agent(runners={"r": Docker(engine.program)})
    name = ground.run("sh", "-c", LOOP, "$HOME", runner="r", image="alpine:3")
    look_until(agent, lambda: engine.running, "it runs")
    ((container, asked),) = engine.asked.items()
    options, (place,) = asked["options"], ground.state.glob(f"agents/*/*/tasks/{name}.*/work")
    assert asked["words"] == ["alpine:3", "-c", LOOP, "$HOME"]
    assert options["--entrypoint"] == ["sh"]
    assert options["--cpus"] == ["0.1"]
    assert options["--memory"] == options["--memory-swap"] == [f"{64 << 20}b"]
    assert options["--user"] == [f"{os.getuid()}:{os.getgid()}"]
    assert options["--mount"] == [f"type=bind,source={place},target={place}"]
    assert "A=b" in options["--env"]
    assert f"OMEGA_JOB={name}" in options["--env"]
    assert not [each for each in options["--env"] if each.startswith(("HOME=", "PYTEST_"))], "none of the agent's"
    command = (Path("/proc") / str(client_of(place.parent)) / "cmdline").read_bytes()
    assert b"A=b" not in command
    assert container.startswith("omega-")


def client_of(place: Path) -> int:
    group, *_ = (place / "running").read_text().split()
    return int(group)


def test_variables_of_a_job_change_neither_the_engine_nor_the_clean_up(engine: Engine, tmp_path: Path) -> None:
    task = RunnerTask(
        name="omega-1", command=["a", "b"], health=["h"], inherited={"PATH": "/bin", "TERM": "x"}, directory="/d",
        environment={"DOCKER_HOST": "tcp://far", "TERM": "y", "LD_PRELOAD": "z", "PATH": "/evil", "A": "secret"},
        image="i", uid=1, gid=2, cpu_millicores=0, memory_bytes=0,
    )  # fmt: skip
    made = Docker(engine.program).start(task)
    assert made.environment == {"PATH": "/bin", "TERM": "x", "A": "secret"}
    assert made.command[0] == made.health[0] == made.clean_up[0] == engine.program
    values = [value for option, value in zip(made.command, made.command[1:], strict=False) if option == "--env"]
    assert values == [
        "DOCKER_HOST=tcp://far", "TERM=y", "LD_PRELOAD=z", "PATH=/evil", "A", "OMEGA_ATTEMPT",
    ]  # fmt: skip
    assert made.command[-2:] == ["i", "b"]
    assert "--gpus" in Docker(engine.program, options=("--gpus", "all")).start(task).command


def test_a_health_command_runs_in_the_container(ground: Ground, engine: Engine) -> None:
    agent = ground.agent(runners={"r": Docker(engine.program)})
    command = ["sh", "-c", "echo $CONTAINER > seen; exit 9"]
    health = {"command": command, "grace": 2_000, "failures": 1, "timeout": 10_000}  # the container starts meanwhile
    spec = {"command": ["sh", "-c", LOOP], "runner": "r", "image": "i", "grace": 100, "health": health}
    ground.cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((100, 64), 1, 0, spec),))], 0, "ada")
    ground.place("a")
    look_until(agent, lambda: ground.group("a").failed, "it is unhealthy")
    assert ground.told("failed") == ["health command: exit 9"]
    (place,) = ground.state.glob("agents/*/*/tasks/a.*")
    assert (place / "work" / "seen").read_text().startswith("omega-")


class Strange(Runner):
    """Does what a test says."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def available(self) -> str:
        return "1"

    def start(self, task: RunnerTask) -> RunnerCommand:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ZeroDivisionError("x"), r"runner r: .*test_runners.py:\d+: ZeroDivisionError: x"),
        (SystemExit(3), r"runner r: .*test_runners.py:\d+: SystemExit: 3"),
        (None, "runner r: start returned a NoneType; return an omega.RunnerCommand"),
        (
            RunnerCommand("sh -c x", {}),
            "runner r: command is no list of words; return a list of texts, without a shell",
        ),
        (RunnerCommand([], {}), "runner r: command is empty; return the program and its arguments"),
        (RunnerCommand(["no-such-program"], {}), "command not found: no-such-program"),
    ],
)
def test_a_runner_that_fails_fails_its_task_with_the_reason(ground: Ground, answer: Any, reason: str) -> None:
    agent = ground.agent(runners={"r": Strange(answer)})
    name = ground.run("true", runner="r", image="x")
    look_until(agent, lambda: ground.group(name).failed, "it fails")
    (said,) = ground.told("failed")
    assert re.fullmatch(reason, said)


def test_a_task_whose_runner_the_machine_lacks_fails_with_the_names_of_those_it_has(ground: Ground) -> None:
    agent = ground.agent(runners={"venv": VirtualEnvironment()})
    name = ground.run("true", runner="podman", image="x")
    look_until(agent, lambda: ground.group(name).failed, "it fails")
    assert ground.told("failed") == ["runner podman: this machine has none of that name; it has venv"]


def test_an_agent_drops_attributes_of_runners_that_its_computer_lost(ground: Ground) -> None:
    ground.agent(attributes={"runner.podman": "5.0", "rack": "r1"})
    ground.agents.pop().leave()
    ground.agent(attributes={"runner.docker": "28.0"})
    (described,) = ground.cell.machines.described([ground.cell.machines.index_of("h1") or 0])
    assert dict(described[1]) == {"rack": "r1", "runner.docker": "28.0"}
