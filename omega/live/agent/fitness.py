"""Whether this computer can start tasks: after a start that failed, trials show when it can again.

A trial does what a start does: it makes the agent's directories, writes a file, starts a process with its pipes as the
tasks' user, and has the guard start one.
"""

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate.descriptors import refill_spare
from omega.cellstate.errors import OmegaError
from omega.live.agent.guard_line import GuardLine
from omega.live.agent.lease_file import now
from omega.live.agent.places import AgentPlaces
from omega.live.agent.run_as import admit
from omega.live.runners.runner import Runner
from omega.schedulers.foreign_errors import RAISED, said_at

TRIAL_BYTES = 1 << 18
"""Size of the file of a trial: more than the files of a start, so that there is room for several."""
TRIAL_SECONDS, TRIALS, STEADY_SECONDS = 10.0, 3, 30.0
"""Time between trials; so many in a row over at least so many seconds must be good."""
PROCESS_SECONDS = 5.0
ASK_SECONDS = 10.0
"""Time for which the answer of a runner holds."""


class StalledError(Exception):
    """No iteration of the agent came through for long."""


@dataclass(slots=True)
class Fitness:
    """What the agent knows of its computer."""

    places: AgentPlaces
    guard: GuardLine
    user: dict[str, Any] | None = None
    """The account that tasks run as; None for the agent's own."""
    runners: Mapping[str, Runner] = field(default_factory=dict)
    reason: str = ""
    """Why no task can be started; empty when it can."""
    reported: str = ""
    """What the store was told."""
    _good: int = 0
    _since: float = 0.0
    _tried: float = 0.0
    _answered: dict[str, float] = field(default_factory=dict)
    """When each runner last said that it works; 0 for one that did not answer then."""

    def failed(self, error: Exception) -> None:
        """Take note of a start or trial that failed."""
        self._tried = self._tried if self.reason else now()
        self.reason, self._good = str(error), 0
        if isinstance(error, OSError) and error.strerror:
            self.reason = error.strerror + (f": {error.filename}" if error.filename else "")

    def ask(self, name: str) -> None:
        """Ask a task's runner whether it works, unless it said so lately: an engine may sleep. Raises OSError."""
        runner = self.runners.get(name)
        if runner is None or now() - self._answered.get(name, 0.0) < ASK_SECONDS:
            return
        self._answered[name] = 0.0
        try:
            said, why = runner.available(), "does not answer"
        except RAISED as error:
            said, why = None, said_at(error)
        if not said:
            raise OSError(f"runner {name}: {why}")
        self._answered[name] = now()

    def look(self) -> None:
        """Make a trial if one is due."""
        refill_spare()
        if not self.reason or now() - self._tried < TRIAL_SECONDS:
            return
        self._tried = now()
        try:
            self._try()
        except (OmegaError, OSError, subprocess.SubprocessError) as error:
            self.failed(error)
            return
        self._since = self._since if self._good else self._tried
        self._good += 1
        if self._good >= TRIALS and self._tried - self._since >= STEADY_SECONDS:
            self.reason, self._good = "", 0

    def _try(self) -> None:
        self.places.make()
        if self.user is not None:  # a directory that is made is closed to others
            admit(self.places, self.user)
        place = self.places.top / "trial"
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            (place / "file").write_bytes(bytes(TRIAL_BYTES))
            user = self.user
            who = {} if user is None else {"user": user["uid"], "group": user["gid"], "extra_groups": user["groups"]}
            subprocess.run(["true"], check=True, capture_output=True, timeout=PROCESS_SECONDS, cwd="/", **who)
            self.guard.try_start()
            for name in [name for name, at in self._answered.items() if not at]:
                self.ask(name)
        finally:
            with suppress(OSError):
                shutil.rmtree(place)
