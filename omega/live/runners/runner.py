"""The interface of task runners. A package registers its own under ``omega.runner`` in its ``pyproject.toml``."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerTask:
    """A task as its runner sees it."""

    name: str
    """A name that no other task on this computer has: lower-case letters, digits and hyphens."""
    command: Sequence[str]
    health: Sequence[str]
    """The readiness command of the job's updates, which runs beside the task; empty without one."""
    environment: Mapping[str, str]
    """The variables of the task: those of its job, then ``OMEGA_JOB`` and so on. Each start adds `STARTED`."""
    inherited: Mapping[str, str]
    """The environment of the agent, without its ``OMEGA_`` settings."""
    directory: str
    """The working directory, which the task may write."""
    image: str
    """The field `image` of the task group; empty without one."""
    uid: int
    gid: int
    """The account that runs the command, and owns the task's files."""
    cpu_millicores: int
    memory_bytes: int
    """The requested amounts; 0 for none."""
    liveness: Sequence[str] = ()
    """The liveness command of the task group, which runs beside the task; empty without one."""


STARTED = ("OMEGA_ATTEMPT",)
"""Variables of a task that its supervisor sets at each start."""


@dataclass(frozen=True, slots=True)
class RunnerCommand:
    """What the agent starts for a task: words without a shell, and the whole environment.

    The supervisor starts the command as the task's user in the task's directory and collects its output. The task ends
    with it, with its exit status. To stop the task, the supervisor sends SIGTERM to its process group, later SIGKILL to
    all processes below it.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    _: KW_ONLY
    health: Sequence[str] = ()
    """The readiness command of the task, as it is started beside it."""
    clean_up: Sequence[str] = ()
    """Ends and removes what is no child process of the command. Run after each end with another status than 0, also
    when agent or supervisor were killed: it may run at any time, several times, and exits with 0 when nothing is left.
    """
    limits: bool = False
    """Whether the command itself limits cores and memory; otherwise the agent limits the command with all below it."""
    warns_below: bool = False
    """Whether SIGTERM is for the processes of the command's group without the command, which would end at once."""
    liveness: Sequence[str] = ()
    """The liveness command of the task, as it is started beside it."""


class Runner(Protocol):
    """Starts the commands of tasks in its own way. An agent makes one object without arguments."""

    @abstractmethod
    def available(self) -> str | None:
        """Return what a machine shows as its attribute ``runner.NAME``, such as a version; None if it cannot run here.

        Called once when the agent starts; takes at most a few seconds.
        """

    @abstractmethod
    def start(self, task: RunnerTask) -> RunnerCommand:
        """Return the command for a task; returns at once. An error fails the task with the error's text as reason.

        Runners of other packages run in a process beside the agent. It is ended when a call takes more than 5 s: the
        task fails, and tasks of the job for a growing time, without another call.
        """
