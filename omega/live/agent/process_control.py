"""prctl(2) of this process: adoption of orphans, the signal at the parent's death, and protection from inspection.

Standard library only: the guard and the task supervisors run without site-packages. Every call does nothing where
the system has no prctl (macOS).
"""

import ctypes
import sys
from contextlib import suppress
from signal import Signals

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 4, 15, 36
"""<linux/prctl.h>"""
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None


def _prctl(option: int, argument: int | bytes) -> None:
    if _LIBRARY is not None:
        with suppress(OSError, AttributeError):
            _LIBRARY.prctl(option, argument, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its parent process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Keep other processes of this user from reading the memory and the environment of this process.

    The process loses its own /proc/self/environ, /proc/self/io and /proc/self/fd by this, unless it is root's.
    A child inherits the setting until it executes another program.
    """
    _prctl(PR_SET_DUMPABLE, 0)


def signal_at_parents_death(number: Signals) -> None:
    """Have the kernel send a signal to this process when the thread that forked it ends.

    A change of user or the execution of a set-user-id program cancels it; no child inherits it.
    """
    _prctl(PR_SET_PDEATHSIG, int(number))


def name_process(name: str) -> None:
    """Set the name that ps and top show; 15 bytes at most."""
    _prctl(PR_SET_NAME, name.encode()[:15])
