"""Numbers, times and amounts as text with their units."""

from typing import TYPE_CHECKING

from omega.queries.wording import amounts, count, listing

if TYPE_CHECKING:
    from omega.queries.recent import Recently

__all__ = ["amounts", "count", "listing"]  # read as names of this module too

MINUTE, HOUR, DAY = 60, 3600, 86400


def fraction(value: float) -> str:
    """Return a share or a conflict fraction, with three digits after the point."""
    return f"{value:.3f}"


def percent(part: float, whole: float) -> str:
    """Return ``37 %``; a dash when `whole` is 0."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def seconds(value: float) -> str:
    """Return a duration in seconds as text: ``4 ms``, ``0.12 s``, ``9.4 s``, ``2m05s``, ``3h12m``, ``2d04h``."""
    if value < 0.1:
        return f"{1000 * value:.0f} ms"
    if value < 1:
        return f"{value:.2f} s"
    if value < MINUTE:
        return f"{value:.1f} s"
    return age(value)


def age(value: float) -> str:
    """Return an age in seconds as text, in whole units: ``4s``, ``2m05s``, ``3h12m``, ``2d04h``."""
    whole = max(0, int(value))
    if whole < MINUTE:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // MINUTE}m{whole % MINUTE:02d}s"
    if whole < DAY:
        return f"{whole // HOUR}h{whole % HOUR // MINUTE:02d}m"
    return f"{whole // DAY}d{whole % DAY // HOUR:02d}h"


def memory(mebibytes: float) -> str:
    """Return MiB as text in the largest unit of at least 1: ``4.7 TiB``."""
    for unit, size in (("TiB", 1024**2), ("GiB", 1024)):
        if mebibytes >= size:
            return f"{mebibytes / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{mebibytes:,.0f} MiB"


def amount(name: str, value: int) -> str:
    """Return a sum of a resource over many machines, rounded: ``5,320``, ``4.7 TiB``."""
    if name == "memory":
        return memory(value)
    if name == "cpu":
        cores = value / 1000
        return f"{cores:,.0f}" if cores >= 100 or cores == int(cores) else _short(cores)
    return f"{value:,}"


def in_use(name: str, used: int, capacity: int) -> str:
    """Return use and capacity: ``3.5/16`` cores, ``12/64Gi``."""
    if name == "cpu":
        return f"{_short(used / 1000)}/{_short(capacity / 1000)}"
    if name == "memory" and capacity >= 1024:
        return f"{_short(used / 1024)}/{_short(capacity / 1024)}Gi"
    from omega.cellstate.resources import format_amount

    return f"{used:,}/{format_amount(name, capacity)}"


def _short(value: float) -> str:
    """Return a number with a digit after the point, below one with three: 20m cores are 0.02, not 0.0."""
    return f"{value:.1f}".removesuffix(".0") if value >= 1 else f"{value:.3f}".rstrip("0").removesuffix(".")


def recently(past: "Recently") -> str:
    """Return ``3 failed, 12 evicted in the last 15m00s``; empty when there were none."""
    one = {"conflicts": "conflict"}
    said = [f"{n:,} {one.get(name, name) if n == 1 else name}" for name, n in past.as_json().items() if n]
    return f"{', '.join(said)} in the last {age(past.seconds)}" if said else ""
