"""Processes that end with the one that started them, however that ends: those of benchmarks, demos and tests.

Their standard input is a pipe that the starter keeps open and nobody writes to. Its end is read when the starter has
ended, also by SIGKILL: the process then ends as after SIGTERM, and is killed if that takes too long.
"""

import os
import signal
import threading
import time
from collections.abc import Mapping

BOUND = "OMEGA_BOUND"
LEAVING_SECONDS = 30.0
"""Time from SIGTERM until a process is killed, whoever ends it. An agent needs most: its tasks have 10 s by default, an
answer of the store that does not come takes up to 11.4 s; it kills what still runs 5 s after its time."""


def end_with_starter(environment: Mapping[str, str]) -> None:
    """Watch standard input in a thread if the environment says so."""
    if environment.get(BOUND):
        threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LEAVING_SECONDS)
    os.killpg(0, signal.SIGKILL)  # it leads a group of its own (supervisor.py)
