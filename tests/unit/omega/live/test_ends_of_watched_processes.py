"""How a process that watches a scheduler ends: as the scheduler did."""

import signal
import subprocess
import sys

import pytest

WATCHES = """
import os, sys
from omega.live.member import _as_it_ended
from omega.live.processes.watch import Watch
ends = (lambda _: os.kill(os.getpid(), int(sys.argv[2]))) if sys.argv[1] == "signal" else (lambda _: int(sys.argv[2]))
raise SystemExit(_as_it_ended(Watch("batch/0").run(ends)))
"""


@pytest.mark.parametrize(("how", "number"), [("code", 0), ("code", 1), ("signal", 15), ("signal", 9)])
def test_the_watching_process_ends_as_the_watched_one(how: str, number: int) -> None:
    done = subprocess.run([sys.executable, "-c", WATCHES, how, str(number)], check=False)
    assert done.returncode == (number if how == "code" else -signal.Signals(number))
