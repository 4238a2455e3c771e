"""The runners of a machine: which it has, and the order of a task that one of them starts."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omega.cellstate.errors import BadInput, OmegaError
from omega.cellstate.plain_text import cleaned
from omega.live.agent.lease_file import now
from omega.live.agent.task_start import MARK
from omega.live.called_apart import Apart, HangError, shared
from omega.live.runners.runner import Runner, RunnerCommand, RunnerTask
from omega.schedulers import registry
from omega.schedulers.constraints.demands import runner_attribute
from omega.schedulers.foreign_errors import RAISED, said_at
from omega.schedulers.process.log import log
from omega.schedulers.registry import RegistryEntry

AXIS = "runner"
MOST_TEXT = 64
"""Maximum length of a runner's attribute in characters."""
FIRST_DELAY, LONGEST_DELAY = 10.0, 3600.0
"""Seconds for which a runner is not asked about a job: after the first call that did not return, and at most."""
MOST_HUNG = 256
"""Maximum number of these jobs."""


@dataclass(slots=True)
class ForeignRunner(Runner):
    """A runner of another package, called in a process of its own: it may not return."""

    entry: RegistryEntry
    apart: Apart
    _hung: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Jobs for which it did not return: how often, and until when it is not asked (clock of the agent)."""

    def available(self) -> str | None:
        """Ask it. Raises HangError."""
        said = self.apart.call(available, self.entry)
        return None if said is None else str(said)

    def start(self, task: RunnerTask) -> RunnerCommand:
        """Ask it. For a job for which it did not return it is not asked for a while, and the task fails at once."""
        job = task.environment.get("OMEGA_JOB", "")
        count, until = self._hung.get(job, (0, 0.0))
        if now() < until:
            raise BadInput("did not return for another task of the job, and is not asked again yet")
        try:
            made: RunnerCommand = self.apart.call(start, self.entry, task)
        except HangError:
            if len(self._hung) >= MOST_HUNG:
                del self._hung[next(iter(self._hung))]
            self._hung[job] = count + 1, now() + min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(count, 16))
            raise
        return made


_runners: dict[RegistryEntry, Runner] = {}
"""Those of the process that runs foreign ones."""


def available(entry: RegistryEntry) -> str | None:
    """Return what a runner says, in the process for foreign ones."""
    try:
        _runners[entry] = entry.load()()
        return _runners[entry].available()
    except RAISED as error:
        raise BadInput(said_at(error)) from None


def start(entry: RegistryEntry, task: RunnerTask) -> RunnerCommand:
    """Return a runner's command, in the process for foreign ones."""
    try:
        if entry not in _runners:
            _runners[entry] = entry.load()()
        made: object = _runners[entry].start(task)
    except BadInput:
        raise
    except RAISED as error:
        raise BadInput(said_at(error)) from None
    if not isinstance(made, RunnerCommand):
        raise BadInput(f"start returned a {type(made).__name__}; return an omega.RunnerCommand")
    return made


def found() -> tuple[dict[str, Runner], dict[str, str]]:
    """Return the runners that work on this computer, by name, and the machine's attributes for them."""
    runners, attributes, apart = dict[str, Runner](), dict[str, str](), shared()
    for name, entry in registry.offers(AXIS).items():
        try:
            runner = entry.load()() if entry.package == registry.OWN else ForeignRunner(entry, apart)
            said = runner.available()
        except RAISED as error:
            log.warning("runner failed", runner=name, error=said_at(error))
            continue
        if said:
            runners[name], attributes[runner_attribute(name)] = runner, cleaned(str(said))[:MOST_TEXT]
    return runners, attributes


def run_by(
    runners: Mapping[str, Runner],
    name: str,
    image: str,
    order: dict[str, Any],
    variables: tuple[Mapping[str, str], Mapping[str, str]],
) -> dict[str, Any]:
    """Return the order of a task as a runner starts it; `variables` are the agent's and the task's own.

    Raises BadInput with the reason when this machine has no such runner, or the runner refuses or fails.
    """
    if name not in runners:
        raise BadInput(f"runner {name}: this machine has none of that name; it has {', '.join(runners) or 'none'}")
    user = order["user"] or {"uid": os.getuid(), "gid": os.getgid()}
    task = RunnerTask(
        name=name_of(Path(variables[1][MARK])),
        command=list(order["command"]),
        health=list(order["checks"]["ready"]["command"]),
        liveness=list(order["checks"]["alive"]["command"]),
        environment=dict(variables[1]),
        inherited=dict(variables[0]),
        directory=order["directory"],
        image=image,
        uid=user["uid"],
        gid=user["gid"],
        cpu_millicores=order["cpu_millicores"],
        memory_bytes=order["memory_bytes"],
    )
    try:
        made = runners[name].start(task)
    except OmegaError as error:
        raise BadInput(f"runner {name}: {error}") from None
    except RAISED as error:
        raise BadInput(f"runner {name}: {said_at(error)}") from None
    return order | _checked(name, made, order)


def name_of(place: Path) -> str:
    """Return the name of the task of a directory for its runner."""
    return f"omega-{hashlib.sha256(str(place).encode()).hexdigest()[:24]}"


def _checked(name: str, made: Any, order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the order that a runner sets; BadInput for what no process can be started with."""
    if not isinstance(made, RunnerCommand):
        raise BadInput(f"runner {name}: start returned a {type(made).__name__}; return an omega.RunnerCommand")
    given: dict[str, Any] = {"command": made.command, "health": made.health, "clean_up": made.clean_up}
    given["liveness"] = made.liveness
    for what, words in given.items():
        if isinstance(words, str) or not all(isinstance(word, str) and "\0" not in word for word in words):
            raise BadInput(f"runner {name}: {what} is no list of words; return a list of texts, without a shell")
    if not made.command:
        raise BadInput(f"runner {name}: command is empty; return the program and its arguments")
    checks = order["checks"]
    ready, alive = checks["ready"], checks["alive"]
    if (ready["command"] and not made.health) or (alive["command"] and not made.liveness):
        raise BadInput(f"runner {name}: runs no health commands; leave health out, or use another runner")
    limits = {"cpu_millicores": 0, "memory_bytes": 0} if made.limits else {}
    return {
        "command": list(made.command),
        "environment": {str(key): str(value) for key, value in made.environment.items()},
        "checks": {
            **checks,
            "ready": {**ready, "command": list(made.health)},
            "alive": {**alive, "command": list(made.liveness)},
        },
        "clean_up": list(made.clean_up),
        "warns_below": made.warns_below,
        **limits,
    }
