"""Runners without images: a sandbox by bubblewrap, and virtual environments of Python."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.cellstate.override import override
from omega.live.runners.runner import Runner, RunnerCommand, RunnerTask

ANSWER_SECONDS = 5.0
SANDBOX = (
    "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/", "--dev", "/dev",
    "--proc", "/proc", "--tmpfs", "/tmp",  # noqa: S108 - the sandbox's own
)  # options # fmt: skip


@dataclass(frozen=True)
class Bubblewrap(Runner):
    """A sandbox by bubblewrap: the files of the machine, which only the task's working directory lets it change.

    The task has an own /tmp and sees no other process. Network, cores and memory are those of a task without a runner.
    """

    program: str = "bwrap"

    @override
    def available(self) -> str | None:
        try:
            subprocess.run([self.program, *SANDBOX, "true"], check=True, capture_output=True, timeout=ANSWER_SECONDS)
            said = subprocess.run([self.program, "--version"], check=True, capture_output=True, text=True)
        except (OSError, subprocess.SubprocessError):  # not there, or the system permits no namespaces
            return None
        return said.stdout.split()[-1] if said.stdout.split() else "yes"

    @override
    def start(self, task: RunnerTask) -> RunnerCommand:
        if task.image:
            raise BadInput(f"image {task.image!r}: a sandbox has the files of its machine; leave image out")
        program = shutil.which(self.program)
        if program is None:
            raise BadInput(f"{self.program}: not found on this machine; install it")
        wrap = [program, *SANDBOX, "--bind", task.directory, task.directory, "--chdir", task.directory, "--"]
        environment = {**task.inherited, **task.environment}
        health, liveness = ([*wrap, *command] if command else [] for command in (task.health, task.liveness))
        return RunnerCommand([*wrap, *task.command], environment, health=health, liveness=liveness, warns_below=True)


@dataclass(frozen=True)
class VirtualEnvironment(Runner):
    """A virtual environment of Python: `image` is its directory on the machine."""

    @override
    def available(self) -> str | None:
        return ".".join(map(str, sys.version_info[:3]))

    @override
    def start(self, task: RunnerTask) -> RunnerCommand:
        place = Path(task.image)
        if not place.is_absolute() or not (place / "bin" / "python").exists():
            raise BadInput(f"image {task.image!r}: no virtual environment on this machine; write its whole path")
        environment = {**task.inherited, **task.environment}
        environment.pop("PYTHONHOME", None)
        path = environment.get("PATH", os.defpath)
        environment |= {"VIRTUAL_ENV": str(place), "PATH": f"{place / 'bin'}{os.pathsep}{path}"}
        return RunnerCommand(task.command, environment, health=task.health, liveness=task.liveness)
