"""Log of a scheduler's events."""

from typing import Any

from omega.cellstate.override import override
from omega.schedulers.instruments import Instrument
from omega.schedulers.process.log import log


class Diary(Instrument):
    """Writes the events of one scheduler to the log."""

    def __init__(self, member: str) -> None:
        """`member` is its name, ``batch/0``."""
        self._log = log.bind(member=member)

    @override
    def registered(self, incarnation: int, now: float) -> None:
        self._log.info("joined", incarnation=incarnation)

    @override
    def deregistered(self, now: float) -> None:
        self._log.info("left")

    @override
    def fenced(self, now: float) -> None:
        self._log.warning("fenced", why="its lease lapsed, or its name was taken")

    @override
    def store_away(self, error: str, now: float) -> None:
        self._log.warning("store away", error=error)

    @override
    def store_back(self, seconds: float, now: float) -> None:
        self._log.warning("store back", seconds=round(seconds, 3))

    @override
    def synced(self, seconds: float, machines: int, now: float, *, full: bool) -> None:
        if full:
            self._log.info("resync", machines=machines, seconds=round(seconds, 4))

    @override
    def abandoned(self, work: Any, now: float) -> None:
        self._log.warning("job abandoned", job=work.id, conflicts=work.conflicts)
