"""Health and clean-up commands that do not end: each is bounded, with all that it started, and the task goes on.

A task that stops its supervisor, and an agent that is asked to leave meanwhile.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omega.live.agent.process import AgentLoop, WakeUp
from omega.live.agent.process_tree import marked
from omega.live.runners.runner import Runner, RunnerCommand, RunnerTask
from tests.integration.agent_ground import Ground, alive, grounded, look_until
from tests.integration.stage import until

pytestmark = pytest.mark.server
PYTHON = f"exec {sys.executable} -c"
COMMANDS = {
    "sleep": f"{PYTHON} 'import time; time.sleep(1000)'",
    "loop": f"{PYTHON} 'while True: pass'",
    "lock": f"{PYTHON} 'import ctypes; ctypes.PyDLL(None).sleep(1000)'",
    "ignores SIGTERM": f"{PYTHON} 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(1000)'",
    "leaves a child": "setsid sh -c 'sleep 1000 & sleep 1000 & wait' & exec sleep 1000",
    "ends and leaves a child": "setsid sh -c 'setsid sleep 1000 &' & exit 1",
}
OFTEN = ("lock", "leaves a child")
HANGS = [pytest.param(how, marks=() if how in OFTEN else pytest.mark.chaos) for how in COMMANDS]
WHOSE = "OF_THIS_TEST"


@pytest.fixture
def ground(store_url: str, tmp_path: Path) -> Iterator[Ground]:
    with grounded(store_url, tmp_path) as made:
        yield made


def left(word: str) -> set[int]:
    """Processes of a test that live, by a variable of the environment."""
    return {pid for pid in marked(f"{WHOSE}={word}".encode()) if alive(pid)}


@pytest.mark.parametrize("how", HANGS)
def test_a_health_command_that_does_not_end(ground: Ground, how: str) -> None:
    agent, word = ground.agent(), f"health-{os.getpid()}-{how.replace(' ', '-')}"
    command = ["env", f"{WHOSE}={word}", "sh", "-c", COMMANDS[how]]
    health = {"command": command, "interval": 200, "timeout": 700, "failures": 1, "grace": 0}
    name = ground.run("sh", "-c", "echo $$; exec sleep 600", health=health, restart={"attempts": 0})
    other = ground.run("sh", "-c", "sleep 1")
    if not how.startswith("ends"):
        look_until(agent, lambda: left(word), "the health command runs")
    look_until(agent, lambda: ground.group(other).finished, "another task ends and is reported")
    look_until(agent, lambda: ground.group(name).failed, "the task is unhealthy and ends")
    (why,) = ground.told("failed")
    assert "health command: " in why
    until(lambda: not left(word), "nothing is left of it", 10.0)


class Cleans(Runner):
    """Runs the command as it is; its clean-up does not end."""

    def __init__(self, how: str, word: str) -> None:
        self.how, self.word = how, word

    def available(self) -> str | None:
        return "1"

    def start(self, task: RunnerTask) -> RunnerCommand:
        clean_up = ["env", f"{WHOSE}={self.word}", "sh", "-c", COMMANDS[self.how]]
        return RunnerCommand(task.command, dict(task.environment), clean_up=clean_up)


@pytest.mark.parametrize("by", [pytest.param("supervisor", marks=pytest.mark.chaos), "guard"])
@pytest.mark.parametrize("how", HANGS)
def test_a_clean_up_that_does_not_end(ground: Ground, how: str, by: str) -> None:
    """The supervisor cleans up after a failure; the guard, and the agent, where the supervisor was killed."""
    word = f"clean-{os.getpid()}-{by}-{how.replace(' ', '-')}"
    agent = ground.agent(runners={"r": Cleans(how, word)})
    name = ground.run("sh", "-c", "echo $$; exec sleep 600", runner="r")
    other = ground.run("sh", "-c", "sleep 3")
    agent.look()
    pid = ground.pid(name)
    if by == "supervisor":
        os.kill(pid, signal.SIGKILL)
    else:
        (place,) = ground.state.glob(f"agents/*/*/tasks/{name}.*")
        os.kill(int((place / "supervisor").read_text()), signal.SIGKILL)
    group = ground.group
    look_until(agent, lambda: group(name).failed or group(name).unplaced or group(name).finished, "its end is reported")
    look_until(agent, lambda: group(other).finished or group(other).unplaced, "another task is reported")
    until(lambda: not left(word), "nothing is left of the clean-up", 15.0)


FOR_EVER = "while :; do kill -STOP $PPID; sleep 0.1; done"


@pytest.mark.parametrize("script", ["kill -STOP $PPID", pytest.param(FOR_EVER, marks=pytest.mark.chaos)])
def test_a_task_that_stops_its_supervisor(ground: Ground, script: str) -> None:
    agent = ground.agent()
    beside = ground.run("sh", "-c", "echo $$; sleep 1")
    name = ground.run("sh", "-c", f"echo $$; sleep 0.3; {script}")
    look_until(agent, lambda: ground.group(beside).finished or ground.group(beside).unplaced, "its neighbour ends")
    look_until(agent, lambda: ground.group(name).finished or ground.group(name).unplaced, "it ends, or is lost")
    assert ground.group(name).unplaced == int(script == FOR_EVER)
    other = ground.run("true")
    look_until(agent, lambda: ground.group(other).finished, "further tasks run")


@pytest.mark.parametrize("guard_too", [False, True])
def test_an_agent_leaves_although_a_supervisor_stands_still(ground: Ground, guard_too: bool) -> None:
    agent = ground.agent()
    name = ground.run("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done")
    agent.look()
    pid, wake_up = ground.pid(name), WakeUp()
    (place,) = ground.state.glob(f"agents/*/*/tasks/{name}.*")
    halted = [int((place / "supervisor").read_text()), *([agent.guard.pid] if guard_too else [])]
    for each in halted[::-1]:
        os.kill(each, signal.SIGSTOP)
    with wake_up.opened():
        wake_up.stop()
        began = time.monotonic()
        watch = AgentLoop(agent, wake_up)
        watch.come = True
        watch.run()
    assert time.monotonic() - began < 30
    assert not alive(pid)
    assert ground.group(name).unplaced == 1
    assert not ground.cell.executors.agents()
    if guard_too:
        os.kill(halted[1], signal.SIGCONT)
