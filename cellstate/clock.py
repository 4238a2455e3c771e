"""The clocks of this computer: the doors through which time comes in (ruff's banned-api keeps others shut).

A duration, a lease, a wait is measured by a clock that never steps. The wall clock is read for what a person reads or
changed; an administrator or NTP may move it by hours while a process runs.
"""

import time


def now_ms() -> int:
    """Return the wall clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000  # noqa: TID251 - this is the door


def steady() -> float:
    """Return seconds since boot, suspend included where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


_BEFORE_BOOT = now_ms() / 1000 - steady()


def since_1970() -> float:
    """Return seconds since 1970 by the wall clock of when this process started, and steadily from then on."""
    return _BEFORE_BOOT + steady()
