"""The files shared by agent, guard and task supervisors: the lease of the tasks, and locks of live processes.

Standard library only.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOM = 512
"""Bytes reserved for a file that must be rewritable when the disk is full."""

KILLED = "killed"
"""A guard makes this file in a task's directory before it kills the task because its lease ended."""


def now() -> float:
    """Return seconds since boot, suspend included: a lease expires during suspend."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Lease(NamedTuple):
    """When tasks of an agent's incarnation are asked to end (`over`), and when they must have ended (`end`)."""

    over: float
    end: float
    incarnation: str

    @property
    def last(self) -> float:
        """When a task supervisor that still runs is considered halted, and killed."""
        return self.end + (self.end - self.over) / 3


def read_lease(path: Path) -> Lease:
    """Return the lease in a file; an expired one without a file."""
    with suppress(OSError, ValueError):
        over, end, incarnation = path.read_text().split()
        return Lease(float(over), float(end), incarnation)
    return Lease(0.0, 0.0, "")


def write(path: Path, text: str, room: int = 0) -> None:
    """Write a file atomically; on a full disk, in place within its reserved `room` (bytes)."""
    new, data = path.with_name(f"{path.name}.new"), text.encode().ljust(room)
    try:
        new.write_bytes(data)
        new.replace(path)
    except OSError:
        if not room:
            raise
        with path.open("r+b", buffering=0) as file:
            file.write(data)


def take_lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """Return the locked file, open; None while another process holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def held(path: Path) -> bool:
    """Return whether a living process holds a file's lock. Concurrent calls do not affect each other."""
    if not path.exists():
        return False
    lock = take_lock(path, fcntl.LOCK_SH)
    if lock is not None:
        os.close(lock)
    return lock is None
