"""Repeating the calls to a group of servers until one of them is the primary."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from omega.cellstate.primaries import refuses_tls

T = TypeVar("T")
WAIT_SECONDS = 15.0
"""A command waits for so long until a server of a group is the primary. A running process repeats the command."""
QUIET_SECONDS = 1.0
"""Waits are reported from then on: most failovers of a Cluster's slot are shorter."""


class Patience(Retry):
    """Repeats a call for a time, whatever one try takes; an error that no waiting changes is raised at once."""

    told: Callable[[str], object] = staticmethod(bool)
    """Called once for a wait, with the error: by commands of people."""

    def __init__(self) -> None:
        """Also repeat calls after a time-out: another server may take over from one that is silent."""
        backoff = ExponentialWithJitterBackoff(cap=0.5, base=0.01)
        super().__init__(backoff, -1, (redis.ConnectionError, redis.TimeoutError))

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,  # noqa: FBT001, FBT002 - the signature of redis-py
    ) -> T:
        """Return what `do` returns, repeated for WAIT_SECONDS; `fail` is called after each failure."""
        began, told = time.monotonic(), False

        def failed(error: Exception, *count: int) -> None:
            nonlocal told
            fail(error, *count)
            waited = time.monotonic() - began
            if waited >= WAIT_SECONDS or _lasts(error):
                raise error
            if waited >= QUIET_SECONDS and not told:
                told = True
                self.told(str(error))

        return super().call_with_retry(do, failed, is_retryable, with_failure_count)


def _lasts(error: Exception) -> bool:
    """Return whether an error is one of the address: a login or certificate that is refused."""
    return isinstance(error, redis.AuthenticationError) or refuses_tls(error)
