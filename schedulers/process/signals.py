"""Signals on which a process completes its current work and exits, and waiting for a store that is away."""

import signal
import time
from collections.abc import Callable
from typing import TypeVar

from omega.cellstate.errors import NotReplicated, ReadOnly, StoreFull, Unreachable
from omega.cellstate.server import check_suitable, server_info
from omega.schedulers.process.log import log

AWAY_SECONDS = 0.5
PASSING = (Unreachable, ReadOnly, StoreFull, NotReplicated)
"""What a store may be for a while: without an answer, or refusing writes."""
T = TypeVar("T")


def leave_signals() -> tuple[signal.Signals, ...]:
    """Return SIGINT, SIGTERM, and SIGHUP unless that is ignored (nohup)."""
    asked = (signal.SIGINT, signal.SIGTERM)
    return asked if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*asked, signal.SIGHUP)


class StopRequest:
    """Whether a signal requested the end of this process; the signals are handled from its creation on."""

    def __init__(self) -> None:
        """Handle the signals of `leave_signals`."""
        self.received = False
        for number in leave_signals():
            signal.signal(number, self._receive)

    def _receive(self, *_: object) -> None:
        self.received = True


def await_store(url: str, member: str) -> None:
    """Return once the store answers. Raises Unsuitable for one that is no server for a cell, other StoreErrors."""
    once_there(lambda: check_suitable(server_info(url)), member)


def once_there(call: Callable[[], T], member: str, stopped: Callable[[], bool] = bool) -> T | None:
    """Return what `call` returns, tried again while the store is away or refuses writes; None once stopped."""
    away = False
    while True:
        try:
            found = call()
        except PASSING as error:
            if not away:
                log.warning("store away", member=member, error=str(error))
            away = True
            if stopped():
                return None
            time.sleep(AWAY_SECONDS)
        else:
            if away:
                log.warning("goes on", member=member)
            return found
