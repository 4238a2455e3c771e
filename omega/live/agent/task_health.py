"""The health commands of a task, run repeatedly beside it. Standard library only.

The readiness command (`update.health`) reports whether the task may count as healthy in an update; it never ends the
task. The liveness command (`health` of the task group) reports whether the task still works. When it has failed often
enough, the agent asks the store, and only a grant lets the supervisor end the attempt. Supervisor and agent exchange
two files in the task's directory:

    health    what the commands found, and whether the task is down between two attempts: {"ready", "alive", "down"};
              written by the supervisor on every change
    grant     until when (`now`) the supervisor may end an unhealthy attempt; written by the agent
"""

import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from omega.live.agent import task_start
from omega.live.agent.lease_file import now, write
from omega.live.agent.process_tree import has_mark, kill_all, kill_trees, tree

NEVER = float("inf")
HEALTH, GRANT = "health", "grant"
STARTING, ALIVE, UNHEALTHY = "starting", "alive", "unhealthy"
"""States of the liveness of a task: no check has passed or failed often enough yet, passed, failed."""
POLL_SECONDS = 0.5
"""Interval at which the supervisor of an unhealthy task looks for a grant."""


MARK = "OMEGA_HEALTH_COMMAND"
"""Variable of the processes of a health command, by which they differ from those of the task: its directory, and which
of the two commands it is."""


class Checked(Protocol):
    """A task with health commands, as its supervisor has it."""

    directory: Path
    order: dict[str, Any]

    def waits_for(self, process: "subprocess.Popen[bytes]") -> None:
        """Set the return code of a process that was started for the task, and go on with it, when the process ends."""

    def wait(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for such a process that was killed."""

    def below(self) -> set[int]:
        """Return the processes of the task that are children of this one."""


class HealthCheck:
    """Runs one health command in the task's directory as its user; discards its output.

    What a check started ends with the check, in any process group and session. A process that clears its environment
    after it left its parent ends with the task.
    """

    def __init__(self, task: Checked, said: Mapping[str, Any] | None, name: str) -> None:
        """Take the settings `said`; without a command no check is due. `name` is no other check's on this computer."""
        self.task, self.order, self.said, self.name = task, task.order, said or {"command": []}, name
        self.process: subprocess.Popen[bytes] | None = None
        self.at = NEVER

    def begin(self) -> None:
        """Start the schedule at the task's start: the first check is due after the grace period."""
        self.at = now() + self.said["grace_ms"] / 1000 if self.said["command"] else NEVER

    def look(self, lease_end: float) -> str | None:
        """Start a due check and read a finished one.

        Returns None without a new result, "" when the check passed, else the reason why it failed.
        """
        code = None if self.process is None else self.process.returncode
        if code is not None:
            self.process = None
            self._kill_rest()
            return self._again(f"health command: exit {code}" if code else "")
        if self.at > now():
            return None
        if self.process is not None:
            self._kill()
            return self._again(f"health command: no answer in {self.said['timeout_ms'] / 1000:g} s")
        self.at = now() + self.said["timeout_ms"] / 1000
        command, environment = self.said["command"], self.order["environment"] | {MARK: self.name}
        try:
            self.process = task_start.start(self.order, command, environment, lease_end, output=subprocess.DEVNULL)
            self.task.waits_for(self.process)
        except (OSError, subprocess.SubprocessError) as error:
            return self._again(f"health command: {(getattr(error, 'strerror', None) or str(error)).lower()}")
        return None

    def _again(self, result: str) -> str:
        self.at = now() + self.said["every_ms"] / 1000
        return result

    def end(self) -> None:
        """Kill a running check at the task's end."""
        self.at = NEVER
        self._kill()

    def _kill(self) -> None:
        if self.process is not None:
            pid = self.process.pid
            kill_trees(lambda: [pid])
            self.task.wait(self.process)
            self.process = None
            self._kill_rest()

    def _kill_rest(self) -> None:
        """Kill what the check left behind: this process, the supervisor, adopts orphans."""
        mark = f"{MARK}={self.name}".encode()
        if any(has_mark(pid, mark) for pid in self.task.below()):
            kill_all(lambda table: {pid for pid in table if has_mark(pid, mark)}, lambda: tree(self.task.below()))


class TaskHealth:
    """Both health commands of a task, and the files that its supervisor and the agent exchange."""

    def __init__(self, task: Checked) -> None:
        """Read the order of a task."""
        said = task.order.get("checks") or {}
        self.directory = directory = task.directory
        self.ready = HealthCheck(task, said.get("ready"), f"{directory}/ready")
        self.alive = HealthCheck(task, said.get("alive"), f"{directory}/alive")
        self.failures_allowed = (said.get("alive") or {}).get("failures", 1)
        self.failures = 0
        self.proven_ms, self.proven_at = said.get("proven_ms", 0), NEVER
        """For how long an attempt after a failed one must last until the task is up again, and when it has."""
        self.state: dict[str, Any] = {}
        self.unhealthy = ""
        """Why the task is unhealthy; "" while it is not."""

    @property
    def checked(self) -> bool:
        """Whether the task has a health command."""
        return bool(self.ready.said["command"] or self.alive.said["command"])

    @property
    def at(self) -> float:
        """When to look again."""
        polled = now() + POLL_SECONDS if self.unhealthy else NEVER
        return min(self.ready.at, self.alive.at, self.proven_at, polled)

    def begin(self) -> None:
        """Start the schedules at the start of an attempt."""
        self.ready.begin()
        self.alive.begin()
        self.failures, self.unhealthy = 0, ""
        if self.state.get("down"):
            self.proven_at = now() + self.proven_ms / 1000
        self._write(ready=False, alive=STARTING)

    def end(self) -> None:
        """Kill running checks at the end of an attempt, which is not ready any more."""
        self.ready.end()
        self.alive.end()
        self._write(ready=False, alive=self.state.get("alive", STARTING))
        self.unhealthy, self.proven_at = "", NEVER

    def fail(self) -> None:
        """Say that the task is down: an attempt failed, and another one follows."""
        self._write(ready=False, alive=self.state.get("alive", STARTING), down=True)

    def look(self, lease_end: float) -> str:
        """Run due checks; return why the attempt is to be ended now: it is unhealthy, and its end is granted."""
        if self.proven_at <= now():
            self.proven_at = NEVER
            self._write(ready=self.state["ready"], alive=self.state["alive"], down=False)
        ready, alive = self.ready.look(lease_end), self.alive.look(lease_end)
        if ready is not None:
            self._write(ready=not ready, alive=self.state["alive"])
        if alive is not None:
            self.failures = self.failures + 1 if alive else 0
            if self.failures >= self.failures_allowed:
                self.unhealthy = alive if self.failures == 1 else f"{alive}, {self.failures} times in a row"
            elif not alive:
                self.unhealthy = ""
            now_alive = UNHEALTHY if self.unhealthy else self.state["alive"] if alive else ALIVE
            self._write(ready=self.state["ready"], alive=now_alive)
        return self.unhealthy if self.unhealthy and granted_until(self.directory) > now() else ""

    def _write(self, *, ready: bool, alive: str, down: bool | None = None) -> None:
        state = {"ready": ready, "alive": alive, "down": self.state.get("down", False) if down is None else down}
        if (self.checked or self.state or down) and state != self.state:
            self.state = state
            with suppress(OSError):  # a full disk: the agent reads the state before
                write(self.directory / HEALTH, json.dumps(state))


def granted_until(directory: Path) -> float:
    """Return until when (`now`) an unhealthy attempt of the task in a directory may be ended; 0 without a grant."""
    with suppress(OSError, ValueError):
        return float((directory / GRANT).read_text())
    return 0.0
