"""A executor as a process: it plays its machines until a signal, and waits out a store that is away."""

import os
import signal
import time
from contextlib import suppress
from uuid import uuid4

from cellstate.errors import Duplicate, Fenced, StoreError
from cellstate.redis import RedisCell
from omega.live.metrics import shown
from omega.live.simulated.executor import SimulatedExecutor
from schedulers.process.endpoint import METRICS
from schedulers.process.log import log

PACE_SECONDS = 0.03
"""It gathers messages and ends for so long: a call for each would cost the store more than the work."""
AWAY_SECONDS = 0.2
LEASE_MS = 20_000
NAME_LEASES = 4 / 3
"""How many leases to wait for a name: one that died with it lets go of it when its lease ends."""
LOOK_SECONDS = 1.0
"""How often it looks whether it still faces the same store: one that started anew may have gone back in time."""


class Stop:
    """Remembers that a signal asked to stop."""

    def __init__(self) -> None:
        """Listen for SIGTERM and SIGINT."""
        self.told = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._tell)

    def _tell(self, *_: object) -> None:
        self.told = True


def run_simulated_executor(cell: RedisCell, name: str, speed: float, still: Stop, lease_ms: int = LEASE_MS) -> None:
    """Simulate the machines of the executor `name` until `still` is told to stop.

    A cell that is gone is waited for, and so is the executor in it. Raises Refused when it was never there, Duplicate
    when another process lives under this name.
    """
    executor = SimulatedExecutor(cell, name, time.time, speed, lease_ms)
    numbers = {
        "omega_simulated_executor_runs": ("Placements that are played", lambda: executor.simulating),
        "omega_simulated_executor_held": (
            "Placements that wait until others have left their room",
            lambda: executor.held,
        ),
        "omega_simulated_executor_tasks_ended_total": ("Tasks played to their end", lambda: executor.ended),
    }
    with shown(os.environ.get(METRICS), cell.name, f"simulated/{name}", numbers):
        _play(executor, still, uuid4().hex)
        with suppress(StoreError):
            executor.leave()


def _serve(executor: SimulatedExecutor, still: Stop, nonce: str) -> None:
    """Take the name, once the lease of one that died with it is over."""
    until = time.monotonic() + NAME_LEASES * executor.lease_ms / 1000
    while not still.told:
        try:
            executor.serve(nonce)
        except Duplicate:
            if time.monotonic() > until:
                raise
            time.sleep(executor.lease_ms / 50_000)
        else:
            return


def _play(executor: SimulatedExecutor, still: Stop, nonce: str) -> None:
    told = log.bind(member=f"simulated/{executor.name}")
    serves, fresh, away, looked, faced = False, False, False, 0.0, ("", 0)
    while not still.told:
        try:
            if not serves:
                executor.cell.check_there()
                _serve(executor, still, nonce)
                serves, fresh = True, False
                continue
            executor.renew()
            if not fresh or time.monotonic() - looked > LOOK_SECONDS:
                looked, before = time.monotonic(), faced
                executor.cell.check_there()
                executor.cell.read_live_schedulers()
                faced = executor.cell.store_run(), executor.cell.executor_number(executor.name)
                fresh = fresh and faced == before
            if not fresh:
                executor.resume()
                fresh = True
                told.info("resync", runs=executor.simulating)
            executor.step(0.5)
        except Fenced as error:
            told.warning("fenced", why=str(error))
            serves = False
        except StoreError as error:
            if not away:
                told.warning("store away", error=str(error))
            fresh, away = False, True
            time.sleep(AWAY_SECONDS)
        else:
            if away:
                told.warning("store back")
                away = False
            time.sleep(PACE_SECONDS)
