"""Whether this computer can start tasks: after a start that failed, trials show when it can again.

A trial does what a start does: it makes the agent's directories, writes a file, and starts a process with its pipes.
"""

import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass

from omega.live.agent.lease_file import now
from omega.live.agent.places import AgentPlaces

TRIAL_BYTES = 1 << 18
"""Size of the file of a trial: more than the files of a start, so that there is room for several."""
TRIAL_SECONDS, TRIALS, STEADY_SECONDS = 10.0, 3, 30.0
"""Time between trials; so many in a row over at least so many seconds must be good."""
PROCESS_SECONDS = 5.0


class StalledError(Exception):
    """No iteration of the agent came through for long."""


@dataclass(slots=True)
class Fitness:
    """What the agent knows of its computer."""

    places: AgentPlaces
    reason: str = ""
    """Why no task can be started; empty when it can."""
    reported: str = ""
    """What the store was told."""
    _good: int = 0
    _since: float = 0.0
    _tried: float = 0.0

    def failed(self, error: Exception) -> None:
        """Take note of a start or trial that failed."""
        self._tried = self._tried if self.reason else now()
        self.reason, self._good = str(error), 0
        if isinstance(error, OSError) and error.strerror:
            self.reason = error.strerror + (f": {error.filename}" if error.filename else "")

    def look(self) -> None:
        """Make a trial if one is due."""
        if not self.reason or now() - self._tried < TRIAL_SECONDS:
            return
        self._tried = now()
        try:
            self._try()
        except (OSError, subprocess.SubprocessError) as error:
            self.failed(error)
            return
        self._since = self._since if self._good else self._tried
        self._good += 1
        if self._good >= TRIALS and self._tried - self._since >= STEADY_SECONDS:
            self.reason, self._good = "", 0

    def _try(self) -> None:
        self.places.make()
        place = self.places.top / "trial"
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            (place / "file").write_bytes(bytes(TRIAL_BYTES))
            subprocess.run(["true"], check=True, capture_output=True, timeout=PROCESS_SECONDS)
        finally:
            with suppress(OSError):
                shutil.rmtree(place)
