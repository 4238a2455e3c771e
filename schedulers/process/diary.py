"""Log of a scheduler's events."""

from typing import Any

from omega.cellstate.override import override
from omega.schedulers.instruments import Instrument
from omega.schedulers.process.log import log

REPEAT_SECONDS = 60.0
"""Time in seconds for which an error of a policy is not logged again."""


class Diary(Instrument):
    """Writes the events of one scheduler to the log."""

    def __init__(self, member: str) -> None:
        """`member` is its name, ``batch/0``."""
        self._log = log.bind(member=member)
        self._raised: dict[str, float] = {}
        """When each error of a policy was logged."""

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
    def raised(self, work: Any, error: str, now: float) -> None:
        if now - self._raised.get(error, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._raised = {text: at for text, at in self._raised.items() if now - at < REPEAT_SECONDS} | {error: now}
            self._log.warning(f"{error}; the job is tried again later, other jobs are placed", job=work.job.name)

    @override
    def abandoned(self, work: Any, now: float) -> None:
        self._log.warning("job abandoned", job=work.id, conflicts=work.conflicts)
