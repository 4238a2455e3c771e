"""The health command of a task, run repeatedly beside it. Standard library only."""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from omega.live.agent import task_start
from omega.live.agent.lease_file import now

NEVER = float("inf")


class HealthCheck:
    """Runs the health command in the task's directory as its user; discards its output."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        """Read the order; without a health command no check is due."""
        self.order, self.said = order, order.get("health") or {"command": []}
        self.process: subprocess.Popen[bytes] | None = None
        self.at = NEVER

    def begin(self) -> None:
        """Start the schedule at the task's start: the first check is due after the grace period."""
        self.at = now() + self.said["grace_ms"] / 1000 if self.said["command"] else NEVER

    def look(self, lease_end: float) -> str:
        """Start a due check and read a finished one; returns the reason if the task is unhealthy."""
        code = None if self.process is None else self.process.poll()
        if code is not None:
            self.process, self.at = None, now() + self.said["every_ms"] / 1000
            return f"health command: exit {code}" if code else ""
        if self.at > now():
            return ""
        if self.process is not None:
            self.end()
            return f"health command: no answer in {self.said['timeout_ms'] / 1000:g} s"
        self.at = now() + self.said["timeout_ms"] / 1000
        command, environment = self.said["command"], self.order["environment"]
        try:
            self.process = task_start.start(self.order, command, environment, lease_end, output=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError) as error:
            return f"health command: {(getattr(error, 'strerror', None) or str(error)).lower()}"
        return ""

    def end(self) -> None:
        """Kill a running check at the task's end."""
        self.at = NEVER
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
