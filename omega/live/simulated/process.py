"""A simulated executor as a process: it runs until a signal, and waits while the store is unavailable."""

import os
import time
from contextlib import suppress
from uuid import uuid4

from omega.cellstate.cell import Cell
from omega.cellstate.clock import since_1970
from omega.cellstate.errors import Duplicate, Fenced, StoreError
from omega.live.metrics import shown
from omega.live.simulated.executor import SimulatedExecutor
from omega.schedulers.process.endpoint import METRICS
from omega.schedulers.process.log import log
from omega.schedulers.process.signals import StopRequest

PACE_SECONDS = 0.03
"""Interval in which it collects messages and endings: a call for each would cost the store more than the work."""
AWAY_SECONDS = 0.2
LEASE_MS = 20_000
NAME_LEASES = 4 / 3
"""Number of lease lengths to wait for a name: the name of a killed process is free when its lease expires."""
LOOK_SECONDS = 1.0
"""Interval of checks for a replaced or restored store."""


def run_simulated_executor(cell: Cell, name: str, speed: float, stop: StopRequest, lease_ms: int = LEASE_MS) -> None:
    """Simulate the machines of the executor `name` until `stop` is received.

    Waits for a cell that is gone, and for the executor in it. Raises Refused when the executor never existed, Duplicate
    when another process has its name.
    """
    executor = SimulatedExecutor(cell, name, since_1970, speed=speed, lease_ms=lease_ms)
    numbers = {
        "omega_simulated_executor_runs": ("Simulated placements", lambda: executor.simulating),
        "omega_simulated_executor_held": (
            "Placements that wait until others have left their room",
            lambda: executor.held,
        ),
        "omega_simulated_executor_tasks_ended_total": ("Simulated tasks that ended", lambda: executor.ended),
    }
    with shown(os.environ.get(METRICS), cell.name, f"simulated/{name}", numbers):
        _play(executor, stop, uuid4().hex)
        with suppress(StoreError):
            executor.leave()


def _serve(executor: SimulatedExecutor, stop: StopRequest, nonce: str) -> None:
    """Register once the lease of a killed predecessor has expired."""
    until = time.monotonic() + NAME_LEASES * executor.lease_ms / 1000
    while not stop.received:
        try:
            executor.serve(nonce)
        except Duplicate:
            if time.monotonic() > until:
                raise
            time.sleep(executor.lease_ms / 50_000)
        else:
            return


def _play(executor: SimulatedExecutor, stop: StopRequest, nonce: str) -> None:
    logger = log.bind(member=f"simulated/{executor.name}")
    serves, fresh, away, looked, faced = False, False, False, 0.0, ("", 0)
    while not stop.received:
        try:
            if not serves:
                executor.cell.check_there()
                _serve(executor, stop, nonce)
                serves, fresh = True, False
                continue
            executor.renew()
            if not fresh or time.monotonic() - looked > LOOK_SECONDS:
                looked, before = time.monotonic(), faced
                executor.cell.check_there()
                executor.cell.schedulers.read_live()
                faced = executor.cell.store_run(), executor.cell.executors.number(executor.name)
                fresh = fresh and faced == before
            if not fresh:
                executor.resume()
                fresh = True
                logger.info("resync", runs=executor.simulating)
            executor.step(0.5)
        except Fenced as error:
            logger.warning("fenced", why=str(error))
            serves = False
        except StoreError as error:
            if not away:
                logger.warning("store away", error=str(error))
            fresh, away = False, True
            time.sleep(AWAY_SECONDS)
        else:
            if away:
                logger.warning("store back")
                away = False
            time.sleep(PACE_SECONDS)
