"""Containers by docker or podman: each task is a container of its own, with the task's working directory in it."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.cellstate.override import override
from omega.live.runners.runner import STARTED, Runner, RunnerCommand, RunnerTask

ANSWER_SECONDS = 5.0
"""Time for the engine to return its version."""
OF_ENGINE = ("DOCKER_", "BUILDKIT_", "CONTAINER_", "CONTAINERS_", "PODMAN_", "REGISTRY_", "LD_", "XDG_", "GO")
"""Prefixes of variables that the engine's client reads itself."""
INITS = ("/usr/libexec/podman/catatonit", "/usr/local/libexec/podman/catatonit", "/usr/bin/catatonit")


@dataclass(frozen=True)
class Docker(Runner):
    """Docker. Its daemon starts the container, so the container ends by the clean-up where its client was killed."""

    program: str = "docker"
    options: Sequence[str] = ()
    """Further options of ``run``, for runners of one's own: ``("--gpus", "all")``."""

    @override
    def available(self) -> str | None:
        return _said(self.program, "version", "--format", "{{.Server.Version}}")

    @override
    def start(self, task: RunnerTask) -> RunnerCommand:
        if not task.image or task.image.startswith("-"):
            raise BadInput(f"image {task.image!r}: write the name of a container image, such as image: alpine:3")
        if "," in task.directory or '"' in task.directory:
            raise BadInput(f"directory {task.directory!r}: has a comma or a quote, which a mount cannot have")
        program, (entry, *words) = self._program(), task.command
        client = {name: value for name, value in task.environment.items() if not _reserved(name, task)}
        return RunnerCommand(
            [
                *(program, "run", "--rm", "--name", task.name, "--log-driver", "none"),
                *("--mount", f"type=bind,source={task.directory},target={task.directory}"),
                *("--workdir", task.directory, "--entrypoint", entry),
                *self._account(task),
                *_limits(task),
                *_variables(task),
                *self.options,
                task.image,
                *words,
            ],
            {**task.inherited, **client},
            health=[program, "exec", task.name, *task.health] if task.health else [],
            clean_up=self._clean_up(program, task.name),
            limits=True,
            liveness=[program, "exec", task.name, *task.liveness] if task.liveness else [],
        )

    def _program(self) -> str:
        """Return the path of the engine's client: variables of a job do not choose another one."""
        found = shutil.which(self.program)
        if found is None:
            raise BadInput(f"{self.program}: not found on this machine; install it")
        return found

    def _account(self, task: RunnerTask) -> list[str]:
        return ["--init", "--user", f"{task.uid}:{task.gid}"]

    def _clean_up(self, program: str, name: str) -> list[str]:
        return [program, "rm", "--force", name]


@dataclass(frozen=True)
class Podman(Docker):
    """Podman, with or without root. Without root, root in the container is the account that runs the task."""

    program: str = "podman"

    @override
    def available(self) -> str | None:
        return _said(self.program, "version", "--format", "{{.Client.Version}}")

    @override
    def _account(self, task: RunnerTask) -> list[str]:
        return ["--init"] if any(Path(place).exists() for place in INITS) else []

    @override
    def _clean_up(self, program: str, name: str) -> list[str]:
        return [program, "rm", "--force", "--ignore", "--time", "0", name]


def _limits(task: RunnerTask) -> Iterator[str]:
    if task.cpu_millicores:
        yield from ("--cpus", f"{task.cpu_millicores / 1000:g}")
    if task.memory_bytes:  # swap would be memory beyond the request
        yield from ("--memory", f"{task.memory_bytes}b", "--memory-swap", f"{task.memory_bytes}b")


def _variables(task: RunnerTask) -> Iterator[str]:
    """Yield the options for the task's variables; values come from the client's environment, which ps does not show."""
    for name in (*task.environment, *STARTED):
        yield "--env"
        yield f"{name}={task.environment[name]}" if _reserved(name, task) else name


def _reserved(name: str, task: RunnerTask) -> bool:
    """Return whether a variable of the task has a meaning for the engine's client too."""
    return name in task.inherited or name.upper().startswith(OF_ENGINE) or name in ("PATH", "HOME")


def _said(program: str, *words: str) -> str | None:
    """Return the first line that a program prints; None when it does not exist, fails or does not answer in time."""
    try:
        done = subprocess.run(
            [program, *words], check=True, capture_output=True, text=True, timeout=ANSWER_SECONDS, env=dict(os.environ)
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().partition("\n")[0] or None
