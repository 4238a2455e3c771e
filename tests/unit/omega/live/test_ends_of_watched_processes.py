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


IMPORTS = """
import time
from omega.live.processes import watch
from omega.schedulers.process.beat import HEARTBEAT
watch.LOCK_SECONDS = 0.3
def begins(watched):
    print("begins", flush=True)
    with watched.beat.calling(HEARTBEAT):
        time.sleep(1.2)  # imports the scheduler; no event loop turns yet
    return 0
raise SystemExit(watch.Watch("batch/0").run(begins))
"""


def test_a_scheduler_whose_import_takes_long_is_not_started_again() -> None:
    """Before its event loop turns nothing holds a lease that a busy interpreter could lose."""
    with subprocess.Popen([sys.executable, "-c", IMPORTS], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline(), process.stdout.readline()] == ["begins\n", ""]
            assert process.wait() == 0
        finally:
            process.terminate()
