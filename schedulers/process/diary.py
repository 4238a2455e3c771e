"""Log of a scheduler's events."""

from typing import Any

from omega.schedulers.instruments import Instrument
from omega.schedulers.process.log import log


class Diary(Instrument):
    """Writes the events of one scheduler to the log."""

    def __init__(self, member: str) -> None:
        """`member` is its name, ``batch/0``."""
        self._log = log.bind(member=member)

    def registered(self, incarnation: int, now: float) -> None:
        """See Instrument.registered."""
        self._log.info("joined", incarnation=incarnation)

    def deregistered(self, now: float) -> None:
        """See Instrument.deregistered."""
        self._log.info("left")

    def fenced(self, now: float) -> None:
        """See Instrument.fenced."""
        self._log.warning("fenced", why="its lease lapsed, or its name was taken")

    def store_away(self, error: str, now: float) -> None:
        """See Instrument.store_away."""
        self._log.warning("store away", error=error)

    def store_back(self, seconds: float, now: float) -> None:
        """See Instrument.store_back."""
        self._log.warning("store back", seconds=round(seconds, 3))

    def synced(self, seconds: float, machines: int, now: float, *, full: bool) -> None:
        """See Instrument.synced."""
        if full:
            self._log.info("resync", machines=machines, seconds=round(seconds, 4))

    def abandoned(self, work: Any, now: float) -> None:
        """See Instrument.abandoned."""
        self._log.warning("job abandoned", job=work.id, conflicts=work.conflicts)
