"""Locks on files: held by one process at a time, released by the kernel when it ends. Standard library only."""

import fcntl
import os
from pathlib import Path


def take_lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """Return the locked file, open; None while another process holds the lock. Raises OSError."""
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
