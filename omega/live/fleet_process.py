"""A fleet as a process: it plays its machines until a signal, and waits out a store that is away."""

import os
import signal
import time

from cellstate.errors import StoreError
from cellstate.redis import RedisCell
from omega.live.fleet import Fleet
from omega.live.metrics import shown
from schedulers.process_endpoint import METRICS
from schedulers.process_log import log

PACE_SECONDS = 0.03
"""It gathers messages and ends for so long: a call for each would cost the store more than the work."""
AWAY_SECONDS = 0.2
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


def run_fleet(cell: RedisCell, name: str, speed: float, still: Stop) -> None:
    """Play the machines of the executor `name` until `still` is told to stop.

    A cell that is gone is waited for, and so is the executor in it. Raises Refused when it was never there.
    """
    fleet = Fleet(cell, name, time.time, speed)
    numbers = {
        "omega_fleet_runs": ("Placements that are played", lambda: fleet.playing),
        "omega_fleet_held": ("Placements that wait until others have left their room", lambda: fleet.held),
        "omega_fleet_tasks_ended_total": ("Tasks played to their end", lambda: fleet.ended),
    }
    with shown(os.environ.get(METRICS), cell.name, f"fleet/{name}", numbers):
        _play(fleet, still)


def _play(fleet: Fleet, still: Stop) -> None:
    told = log.bind(member=f"fleet/{fleet.name}")
    fresh, away, looked, faced = False, False, 0.0, ("", 0)
    while not still.told:
        try:
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
