"""A task in the hands of an agent: the keeper that runs it, started or found again, and what became of it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellstate.transaction import How
from omega.live.agent import keeper
from omega.live.agent.keeper import started
from omega.live.agent.places import Key, take_lock

LONGEST_REASON = 200
"""Letters of a reason that the store keeps; commands may be long."""
GONE = {"how": "lost", "reason": "its keeper was killed"}


@dataclass(slots=True)
class Kept:
    """One task. `leaving`: the store wants its end acknowledged; `unlisted`: the store knows nothing of it any more."""

    key: Key
    place: Path
    process: "subprocess.Popen[bytes] | None" = None
    leaving: bool = False
    unlisted: bool = False

    @classmethod
    def start(cls, key: Key, place: Path, order: dict[str, Any]) -> "Kept":
        """Start a keeper with an order, in a new directory. Raises OSError."""
        if place.exists():
            shutil.rmtree(place)  # a store that went back in time gives its ids out again
        place.mkdir(mode=0o700)
        (place / "work").mkdir()
        (place / "order.json").write_text(json.dumps(order))
        lock = take_lock(place / "lock")
        if lock is None:
            raise BlockingIOError(f"{place} is locked")
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, str(place)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=(lock,), start_new_session=True, env={"PATH": os.environ.get("PATH", os.defpath)},
            )  # fmt: skip
        finally:
            os.close(lock)
        return cls(key, place, process)

    @property
    def lives(self) -> bool:
        """Whether its keeper does: by its lock, which the kernel gives back."""
        if self.process is not None:
            return self.process.poll() is None
        lock = take_lock(self.place / "lock")
        if lock is not None:
            os.close(lock)
        return lock is None

    def stop(self) -> None:
        """Ask the keeper to end its task; once more does no harm."""
        if self.lives:
            with suppress(OSError, ValueError):
                os.kill(int((self.place / "keeper").read_text()), signal.SIGTERM)

    def result(self) -> dict[str, Any]:
        """How it ended; for one whose keeper no longer lives. What a killed keeper left behind is ended."""
        try:
            found: dict[str, Any] = json.loads((self.place / "result").read_text())
        except (OSError, ValueError):
            self._sweep()
            return GONE
        return found

    def _sweep(self) -> None:
        """Kill the process group of a keeper that was killed, unless its number belongs to somebody else now.

        And whoever left that group: the task's environment tells, where the system tells that.
        """
        with suppress(OSError, ValueError):
            group, began, _ = (self.place / "running").read_text().split()
            if started(int(group)) in ("", began):
                os.killpg(int(group), signal.SIGKILL)
        names = ("OMEGA_JOB", "OMEGA_GROUP_NUMBER", "OMEGA_TASK", "OMEGA_PLACEMENT")
        marks = {f"{name}={value}".encode() for name, value in zip(names, self.key, strict=True)}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if marks <= set((process / "environ").read_bytes().split(b"\0")):
                    os.kill(int(process.name), signal.SIGKILL)

    def ending(self) -> tuple[How, str]:
        """What the store is told of its end."""
        found = self.result()
        if self.leaving:
            return How.LEFT, ""
        if found["how"] == "finished":
            return How.FINISHED, ""
        if found["how"] == "failed":
            reason = " ".join(found["reason"].split())
            reason = reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + "…"
            return How.FAILED, reason if found["attempts"] == 1 else f"{reason} after {found['attempts']} attempts"
        return How.LOST, "agent"
