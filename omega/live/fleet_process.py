"""A fleet as a process: it plays its machines until a signal, and waits out a store that is away."""

import os
import signal
import time
from contextlib import suppress
from uuid import uuid4

from cellstate.errors import Duplicate, Fenced, StoreError
from cellstate.redis import RedisCell
from omega.live.fleet import Fleet
from omega.live.metrics import shown
from schedulers.process_endpoint import METRICS
from schedulers.process_log import log

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


def run_fleet(cell: RedisCell, name: str, speed: float, still: Stop, lease_ms: int = LEASE_MS) -> None:
    """Simulate the machines of the executor `name` until `still` is told to stop.

    A cell that is gone is waited for, and so is the executor in it. Raises Refused when it was never there, Duplicate
    when another process lives under this name.
    """
    fleet = Fleet(cell, name, time.time, speed, lease_ms)
    numbers = {
        "omega_fleet_runs": ("Placements that are played", lambda: fleet.playing),
        "omega_fleet_held": ("Placements that wait until others have left their room", lambda: fleet.held),
        "omega_fleet_tasks_ended_total": ("Tasks played to their end", lambda: fleet.ended),
    }
    with shown(os.environ.get(METRICS), cell.name, f"fleet/{name}", numbers):
        _play(fleet, still, uuid4().hex)
        with suppress(StoreError):
            fleet.leave()


def _serve(fleet: Fleet, still: Stop, nonce: str) -> None:
    """Take the name, once the lease of one that died with it is over."""
    until = time.monotonic() + NAME_LEASES * fleet.lease_ms / 1000
    while not still.told:
        try:
            fleet.serve(nonce)
        except Duplicate:
            if time.monotonic() > until:
                raise
            time.sleep(fleet.lease_ms / 50_000)
        else:
            return


def _play(fleet: Fleet, still: Stop, nonce: str) -> None:
    told = log.bind(member=f"fleet/{fleet.name}")
    serves, fresh, away, looked, faced = False, False, False, 0.0, ("", 0)
    while not still.told:
        try:
            if not serves:
                fleet.cell.check_there()
                _serve(fleet, still, nonce)
                serves, fresh = True, False
                continue
            fleet.renew()
            if not fresh or time.monotonic() - looked > LOOK_SECONDS:
                looked, before = time.monotonic(), faced
                fleet.cell.check_there()
                fleet.cell.look_for_schedulers()
                faced = fleet.cell.store_run(), fleet.cell.executor_number(fleet.name)
                fresh = fresh and faced == before
            if not fresh:
                fleet.resume()
                fresh = True
                told.info("resync", runs=fleet.playing)
            fleet.step(0.5)
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
