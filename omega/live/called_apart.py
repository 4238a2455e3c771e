"""Calls of foreign code in a process of their own, with a bound of time: a thread in which one hangs cannot be ended.

One process answers calls one after another. It is killed when one does not return, and the next call starts another.
Policies, of which there are too many calls for this, are watched instead (omega/live/processes/watch.py).
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from omega.cellstate.errors import OmegaError, Refused
from omega.live.agent.process_control import signal_at_parents_death
from omega.live.secrets import without_store

STARTING_SECONDS = 30.0
"""Time of the process until its first call."""
CALL_SECONDS, FIRST_SECONDS = 5.0, 10.0
"""Time of a call, and more of the first one to a process, which imports foreign modules."""


class HangError(OmegaError):
    """A call did not return in its time."""


class Apart:
    """A process for calls, started with the first one."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._thread = ThreadPoolExecutor(1, "apart")  # the process ends with the thread that started it
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None

    def call(self, function: Callable[..., Any], *given: object, seconds: float | None = None) -> Any:
        """Return what a function of a module returns there. Raises HangError, and Refused for its errors."""
        return self._thread.submit(self._ask, function, given, seconds or CALL_SECONDS).result()

    def close(self) -> None:
        """End the process."""
        self._thread.submit(self._end).result()
        self._thread.shutdown()

    def _ask(self, function: Callable[..., Any], given: tuple[object, ...], seconds: float) -> Any:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        try:
            seconds += 0.0 if self._line is not None else FIRST_SECONDS
            line = self._line or self._started()
            line.send((function.__module__, function.__qualname__, given))
            if not line.poll(seconds):
                self._end()
                raise HangError(f"did not return within {seconds:g} s")
            returned, value = line.recv()
        except (EOFError, OSError):
            self._end()
            raise Refused("ended its process") from None
        if not returned:
            raise Refused(value)
        return value

    def _started(self) -> Connection:
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=there.fileno(),
                env=without_store(os.environ),
                start_new_session=True,
            )
        self._line = Connection(here.detach())
        if not self._line.poll(STARTING_SECONDS):
            raise EOFError
        self._line.recv()
        return self._line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._line is not None:
            self._line.close()
        self._process = self._line = None


_made: list[Apart] = []
_making = threading.Lock()


def shared() -> Apart:
    """Return the one of this process."""
    with _making:
        if not _made:
            _made.append(Apart())
        return _made[0]


def answer(line: Connection) -> None:
    """Answer calls until the other end is closed."""
    line.send(None)
    while True:
        module, name, given = line.recv()
        try:
            value = True, getattr(import_module(module), name)(*given)
            line.send(value)
        except OmegaError as error:
            line.send((False, str(error)))
        except Exception as error:  # noqa: BLE001 - also of what cannot be sent
            line.send((False, f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    signal_at_parents_death(signal.SIGKILL)
    connection = Connection(os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - foreign code may read it
        os.dup2(nothing.fileno(), 0)
    with suppress(EOFError, OSError):
        answer(connection)
