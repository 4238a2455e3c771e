"""The files by which agent, guard and task supervisors agree: how long tasks may run, and which process lives.

Standard library only.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOM = 512
"""Bytes that a file takes which must be written again when the disk is full."""

KILLED = "killed"
"""A guard makes this file in a task's directory before it kills the task because its lease ended."""


def now() -> float:
    """Seconds since this computer started, its sleep included: a lease runs out while it sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Lease(NamedTuple):
    """When tasks of an incarnation of an agent are asked to end (`over`), and when they must be gone (`end`)."""

    over: float
    end: float
    incarnation: str

    @property
    def last(self) -> float:
        """When a task supervisor that still runs is taken for halted, and killed."""
        return self.end + (self.end - self.over) / 3


def read_lease(path: Path) -> Lease:
    """The lease that a file states; one that is over when there is none."""
    with suppress(OSError, ValueError):
        over, end, incarnation = path.read_text().split()
        return Lease(float(over), float(end), incarnation)
    return Lease(0.0, 0.0, "")


def write(path: Path, text: str, room: int = 0) -> None:
    """Write a file as a whole or not at all; on a disk that is full, into the `room` (bytes) it was given before."""
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
    """Whether a living process holds the lock of a file. Two that ask at once do not mistake each other for one."""
    if not path.exists():
        return False
    lock = take_lock(path, fcntl.LOCK_SH)
    if lock is not None:
        os.close(lock)
    return lock is None
