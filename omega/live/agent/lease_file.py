"""The files shared by agent, guard and task supervisors: above all the lease of the tasks.

Standard library only.
"""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from omega.cellstate.descriptors import NO_DESCRIPTOR, with_spare

OF_MACHINE = frozenset(
    (*NO_DESCRIPTOR, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE)
)
"""Errors of a start that are the machine's, whatever the task is."""

ROOM = 512
"""Bytes reserved for a file that must be rewritable when the disk is full."""

KILLED, NOTICE = "killed", "notice"
"""Files in a task's directory: made by a guard before it kills the task because its lease ended, and by the agent for
the time of a task that it asks to end."""


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
        over, end, incarnation = with_spare(path.read_text).split()
        return Lease(float(over), float(end), incarnation)
    return Lease(0.0, 0.0, "")


def ask_to_end(place: Path) -> None:
    """Mark the task of a directory as one that is to end: its order is read-only, which a full disk has room for."""
    (place / "order.json").chmod(0o400)


def is_asked_to_end(place: Path) -> bool:
    """Return whether the task of a directory is to end."""
    with suppress(OSError):
        return not (place / "order.json").stat().st_mode & 0o200
    return False


def write(path: Path, text: str, room: int = 0) -> None:
    """Write a file atomically; on a full disk, in place within its reserved `room` (bytes). Raises OSError."""
    new, data = path.with_name(f"{path.name}.new"), text.encode().ljust(room)
    try:
        with_spare(lambda: new.write_bytes(data))
        new.replace(path)
    except OSError as error:
        if not room:
            raise OSError(error.errno, error.strerror, str(path)) from None  # a full disk names no file
        write_within(path, data)


def write_within(path: Path, data: bytes) -> None:
    """Write the beginning of a file, in the room that it has; a file that does not exist is made. Raises OSError."""

    def act() -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)

    with_spare(act)
