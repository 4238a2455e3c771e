"""Streams and long polls in progress, by token: their number is bounded, and they end when the token is revoked."""

from collections import Counter
from typing import Protocol

import anyio

from omega.schedulers.process.log import log
from omega.web.access.visitors import Admission

MOST_STREAMS = 256
SWEEP_SECONDS = 1.0


class Open(Protocol):
    """A request in progress."""

    admission: Admission | None

    async def revoke(self, why: str) -> None:
        """End it."""


class OpenByToken:
    """The streams and long polls of a process; at most `most` of one token, or of one user of a proxy."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self.most = most
        self._open: dict[Open, str] = {}
        self._numbers: Counter[str] = Counter()

    def begin(self, request: Open) -> bool:
        """Count a request until `end`; returns False when its token has as many as it may have."""
        if request in self._open:
            return True
        key = "" if request.admission is None else request.admission.key
        if self._numbers[key] >= self.most:
            return False
        self._open[request] = key
        self._numbers[key] += 1
        return True

    def end(self, request: Open) -> None:
        """Count a request no longer, if it is counted."""
        key = self._open.pop(request, None)
        if key is not None:
            self._numbers[key] -= 1
            if not self._numbers[key]:
                del self._numbers[key]

    async def sweep(self) -> None:
        """End those whose visitor may no longer read them, every second until cancelled."""
        while True:
            await anyio.sleep(SWEEP_SECONDS)
            for each in list(self._open):
                why = "" if each.admission is None else each.admission.revoked()
                if why and each in self._open:
                    try:
                        await each.revoke(why)
                    except Exception as error:  # noqa: BLE001 - one connection must not keep the others open
                        log.warning("stream not ended", reason=str(error))
