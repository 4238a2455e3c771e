"""Descriptors that a process keeps for what must be possible when no further file may be opened (RLIMIT_NOFILE).

Standard library only: guards and supervisors of tasks keep some, too.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class _Spare:
    """Descriptors of the null device, closed to make room for others (`with_spare`)."""

    wanted = 0
    handles: list[int]

    def __init__(self) -> None:
        self.handles = []


_spare = _Spare()


def keep_spare(count: int = 1) -> None:
    """Keep so many descriptors; also again after a fork."""
    _spare.wanted = count
    _spare.handles.clear()
    refill_spare()


def refill_spare() -> None:
    """Keep descriptors in place of those that were used and stayed open, as far as there are any."""
    with suppress(OSError):
        while len(_spare.handles) < _spare.wanted:
            _spare.handles.append(_open())


def _open() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def is_room() -> bool:
    """Return whether a further file may be opened."""
    try:
        os.close(_open())
    except OSError as error:
        return error.errno not in NO_DESCRIPTOR
    return True


def with_spare(act: Callable[[], T]) -> T:
    """Return what `act` returns, which opens one file at a time. Raises its OSError."""
    try:
        return act()
    except OSError as error:
        if error.errno not in NO_DESCRIPTOR or not _spare.handles:
            raise
    with suppress(IndexError):  # another thread may have taken the last one
        os.close(_spare.handles.pop())
    try:
        return act()
    finally:
        refill_spare()
